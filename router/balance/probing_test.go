package balance_test

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

func drain(d time.Duration) signals.Counters { return signals.Counters{Work: d, Cores: 1} }

func probing(budget float64) balance.Probing {
	return balance.Probing{Budget: budget, Look: 4, Relax: 100 * time.Millisecond, Rounds: 4, Counter: signals.ByWork}
}

// TestProbingBelievesWhatItHeard: a host that said that it is busy is avoided, and some time
// later no more than others.
func TestProbingBelievesWhatItHeard(t *testing.T) {
	c := probing(0.001)
	k, random := knows(c, 4)
	for range 50 {
		for i := range 4 {
			k.Hear(i, drain(time.Duration(1+random.IntN(40))*time.Millisecond), balance.WithAnswer, 0)
		}
	}
	share := func(now time.Duration) float64 {
		k.Hear(0, drain(200*time.Millisecond), balance.WithAnswer, 0)
		for i := 1; i < 4; i++ {
			k.Hear(i, drain(20*time.Millisecond), balance.WithAnswer, 0)
		}
		n := 0
		for range 40 { // each choice adds to what is expected of the chosen
			if c.Choose(k, nil, now, random) == 0 {
				n++
			}
		}
		return float64(n) / 40
	}
	if s := share(10 * time.Millisecond); s > 0.15 {
		t.Errorf("a host that has just said that it is busy gets %.2f of the requests", s)
	}
	if s := share(2 * time.Second); s < 0.1 {
		t.Errorf("a host that was busy two seconds ago gets %.2f of the requests", s)
	}
}

// TestProbingAsksWhereItIsWorthIt: nothing is asked where one host is known to have much less;
// one is asked where nothing is known; and after an answer that is far below the mean of all no
// other is.
func TestProbingAsksWhereItIsWorthIt(t *testing.T) {
	c := probing(2)
	c.Look = 2
	k, random := knows(c, 2)
	for range 100 {
		k.Hear(0, drain(time.Duration(20+random.IntN(40))*time.Millisecond), balance.WithAnswer, 0)
	}
	asked := func(now time.Duration, answer time.Duration) (polled []int) {
		for {
			more := c.Polled(k, now, random, polled)
			if len(more) == len(polled) {
				c.Choose(k, polled, now, random)
				return polled
			}
			polled = more
			k.Hear(polled[len(polled)-1], drain(answer), balance.Polled, now)
		}
	}
	once := asked(time.Minute, 0)
	if len(once) != 1 {
		t.Errorf("replicas %v are asked, of which the first has nothing to do; want one", once)
	}
	if p := asked(2*time.Minute, 40*time.Millisecond); len(p) != 2 {
		t.Errorf("replicas %v are asked, of which the first has as much to do as most; want both", p)
	}
	k.Hear(0, drain(0), balance.WithAnswer, 3*time.Minute)
	k.Hear(1, drain(time.Second), balance.WithAnswer, 3*time.Minute)
	if p := asked(3*time.Minute+time.Microsecond, 0); len(p) > 0 {
		t.Errorf("replicas %v are asked though it is known which has less", p)
	}
}

// TestProbingKeepsItsBudget: the questions for each request are what is allowed, for a client
// with many requests and for many clients with few.
func TestProbingKeepsItsBudget(t *testing.T) {
	random := rand.New(rand.NewPCG(8, 9))
	for _, budget := range []float64{1, 0.4, 0.1} {
		for clients, requests := range map[int]int{1: 20_000, 2000: 10} {
			c := probing(budget)
			asked := 0
			for range clients {
				k, _ := knows(c, 8)
				for n := range requests {
					now := time.Duration(n) * 20 * time.Millisecond
					var polled []int
					for {
						more := c.Polled(k, now, random, polled)
						if len(more) == len(polled) {
							break
						}
						polled = more
						k.Hear(polled[len(polled)-1], drain(time.Duration(random.ExpFloat64()*2e7)), balance.Polled, now)
					}
					k.Hear(c.Choose(k, polled, now, random), drain(time.Duration(random.ExpFloat64()*2e7)), balance.WithAnswer, now)
					asked += len(polled)
				}
			}
			each := float64(asked) / float64(clients*requests)
			if each > budget*1.01 || each < budget*0.6 {
				t.Errorf("%d clients with %d requests: %.3f questions a request, allowed are %v", clients, requests, each, budget)
			}
		}
	}
}

// TestProbingSpendsOnWork: of two models the one whose requests are more work gets most of the
// questions.
func TestProbingSpendsOnWork(t *testing.T) {
	c := probing(0.2)
	random := rand.New(rand.NewPCG(5, 6))
	client := balance.NewClient(c, 8)
	hosts := []int{0, 1, 2, 3, 4, 5, 6, 7}
	models := [2]*balance.Knowledge{
		client.Knowledge(&balance.Replicas{Hosts: hosts, Mean: 5 * time.Millisecond}),
		client.Knowledge(&balance.Replicas{Hosts: hosts, Mean: 40 * time.Millisecond}),
	}
	var asked [2]int
	for n := range 20_000 {
		now := time.Duration(n) * 50 * time.Millisecond
		k := models[n%2]
		var polled []int
		for {
			more := c.Polled(k, now, random, polled)
			if len(more) == len(polled) {
				break
			}
			polled = more
			k.Hear(polled[len(polled)-1], drain(time.Duration(random.ExpFloat64()*2e7)), balance.Polled, now)
		}
		asked[n%2] += len(polled)
		c.Choose(k, polled, now, random)
	}
	if asked[1] < 10*asked[0] {
		t.Errorf("%d questions for the requests of 5 ms, %d for those of 40", asked[0], asked[1])
	}
}

// TestProbingBreaksTiesByPower: where nothing is known, a host with three times the power is
// chosen about three times as often.
func TestProbingBreaksTiesByPower(t *testing.T) {
	c := probing(0.001)
	of := &balance.Replicas{Hosts: []int{0, 1, 2}, Power: []float64{1, 3, 1}, Mean: time.Millisecond}
	random := rand.New(rand.NewPCG(3, 4))
	n := 0
	const requests = 10_000
	for range requests {
		if k := balance.NewClient(c, 3).Knowledge(of); c.Choose(k, nil, 0, random) == 1 {
			n++
		}
	}
	if share := float64(n) / requests; math.Abs(share-0.6) > 0.02 {
		t.Errorf("%.3f of the requests, want .6", share)
	}
}

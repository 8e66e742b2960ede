package conformance

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// Choosing says what the kit expects of a [balance.Chooser] beyond its contract.
type Choosing struct {
	// Ignorant rules do not choose by load.
	Ignorant bool
	// Clumps is how often in a row a rule may choose by the same piece of knowledge; zero is
	// once.
	Clumps int
}

// Chooser holds c to the contract of [balance.Chooser].
func Chooser(t *testing.T, c balance.Chooser, expected Choosing) {
	t.Helper()
	for _, check := range []struct {
		name string
		run  func(balance.Chooser, Choosing) error
	}{
		{"chooses what it may", chooserRange},
		{"allocates nothing", chooserAllocations},
		{"reaches all alike", chooserDistribution},
		{"avoids the loaded", chooserLearning},
		{"repeats under a seed", chooserRepeats},
	} {
		t.Run(check.name, func(t *testing.T) {
			if err := check.run(c, expected); err != nil {
				t.Error(err)
			}
		})
	}
}

// client is a client that chooses among replicas, one request a millisecond.
type client struct {
	c      balance.Chooser
	k      *balance.Knowledge
	random *rand.Rand
	now    time.Duration
	// says is what a replica says of itself, and takes how long it needs for a request.
	says  func(replica int) signals.Counters
	takes func(replica int) time.Duration
	sent  []sent
	buf   []int
}

// sent is a request under way.
type sent struct {
	replica  int
	at, done time.Duration
}

func newClient(c balance.Chooser, replicas int, seed uint64) *client {
	of := &balance.Replicas{Mean: 2 * time.Millisecond}
	for i := range replicas {
		of.Hosts = append(of.Hosts, i)
	}
	x := &client{c: c, random: rand.New(rand.NewPCG(seed, 1)), sent: make([]sent, 0, 64), buf: make([]int, 0, 64)}
	x.k = balance.NewClient(c, replicas).Knowledge(of)
	x.says = func(replica int) signals.Counters {
		own := int(x.k.Own[replica])
		return signals.Counters{Model: 2 + own, Host: 2 + own, Work: time.Duration(2+own) * 2 * time.Millisecond, Cores: 1, Took: 5 * time.Millisecond, Use: 0.5, Rate: 100}
	}
	x.takes = func(int) time.Duration { return 5 * time.Millisecond }
	return x
}

// step sends a request and takes in the answers to earlier ones.
func (x *client) step() (replica int, err error) {
	x.now += time.Millisecond
	x.sent = slices.DeleteFunc(x.sent, func(s sent) bool {
		if s.done > x.now {
			return false
		}
		x.k.Own[s.replica]--
		x.k.Hear(s.replica, x.says(s.replica), balance.WithAnswer, x.now)
		x.k.Answered(s.replica, s.done-s.at, x.now)
		return true
	})
	polled := x.buf[:0]
	for {
		asked := len(polled)
		polled = x.c.Polled(x.k, x.now, x.random, polled)
		if len(polled) == asked {
			break
		}
		for n, i := range polled[asked:] {
			if err := x.valid(i, polled[:asked+n]); err != nil {
				return 0, fmt.Errorf("polled %v: %w", polled, err)
			}
			x.k.Hear(i, x.says(i), balance.Polled, x.now)
		}
	}
	replica = x.c.Choose(x.k, polled, x.now, x.random)
	if err := x.valid(replica, nil); err != nil {
		return 0, fmt.Errorf("chose %d: %w", replica, err)
	}
	x.k.Own[replica]++
	x.sent = append(x.sent, sent{replica, x.now, x.now + x.takes(replica)})
	return replica, x.probe()
}

// probe asks what the rule wants to know beside the request.
func (x *client) probe() error {
	p, ok := x.c.(balance.Prober)
	if !ok {
		return nil
	}
	probed := p.Probed(x.k, x.now, x.random, x.buf[:0])
	for n, i := range probed {
		if err := x.valid(i, probed[:n]); err != nil {
			return fmt.Errorf("probed %v: %w", probed, err)
		}
		x.k.Hear(i, x.says(i), balance.Probed, x.now)
	}
	return nil
}

func (x *client) valid(replica int, others []int) error {
	switch {
	case replica < 0 || replica >= len(x.k.Own):
		return fmt.Errorf("replica %d of %d", replica, len(x.k.Own))
	case !x.k.Allowed(replica):
		return fmt.Errorf("replica %d may not be chosen", replica)
	case slices.Contains(others, replica):
		return fmt.Errorf("replica %d twice", replica)
	}
	return nil
}

// chooserRange has tiers of 1 to 40 replicas of random loads, of which any may be chosen at one
// time and few at another.
func chooserRange(c balance.Chooser, _ Choosing) error {
	for seed := range uint64(60) {
		x := newClient(c, 1+int(seed*seed)%40, seed)
		x.says = func(int) signals.Counters {
			return signals.Counters{
				Model: x.random.IntN(9), Host: x.random.IntN(30), Work: time.Duration(x.random.Int64N(1e9)), Cores: float64(x.random.IntN(5)),
				Took: time.Duration(x.random.Int64N(1e9)), Use: x.random.Float64(), Rate: 1000 * x.random.Float64(), Errors: x.random.Float64(),
			}
		}
		x.takes = func(int) time.Duration { return time.Duration(x.random.Int64N(2e7)) }
		for n := range 200 {
			if n%50 == 25 {
				x.k.Restrict()
				x.k.Allow(x.random.IntN(len(x.k.Own)))
				for i := range x.k.Own {
					if !x.k.Allowed(i) && x.random.IntN(3) == 0 {
						x.k.Allow(i)
					}
				}
			}
			if _, err := x.step(); err != nil {
				return fmt.Errorf("seed %d, request %d: %w", seed, n, err)
			}
		}
	}
	return nil
}

func chooserAllocations(c balance.Chooser, _ Choosing) error {
	x := newClient(c, 12, 1)
	var err error
	step := func() {
		if _, failed := x.step(); failed != nil {
			err = failed
		}
	}
	for range 300 {
		step()
	}
	if n := testing.AllocsPerRun(500, step); n != 0 {
		return fmt.Errorf("a request allocates %v times", n)
	}
	return err
}

// chooserDistribution: replicas that are alike get alike many requests, by a chi-square test.
func chooserDistribution(c balance.Chooser, expected Choosing) error {
	const replicas, requests = 9, 18_000
	x := newClient(c, replicas, 7)
	var counts [replicas]int
	for range requests {
		replica, err := x.step()
		if err != nil {
			return err
		}
		counts[replica]++
	}
	off := 0.0
	for _, n := range counts {
		off += math.Pow(float64(n)-requests/replicas, 2) / (requests / replicas)
	}
	// The quantile of four deviations, by Wilson and Hilferty.
	const free = replicas - 1
	if most := free * math.Pow(1-2.0/(9*free)+4*math.Sqrt(2.0/(9*free)), 3) * float64(max(1, expected.Clumps)); off > most {
		return fmt.Errorf("replicas that are alike get %v of %d requests: a chi-square of %.1f, at most %.1f expected", counts, requests, off, most)
	}
	return nil
}

// chooserLearning: a replica that is slow, and says that it has much, gets less than its part.
func chooserLearning(c balance.Chooser, expected Choosing) error {
	if expected.Ignorant {
		return nil
	}
	x := newClient(c, 6, 3)
	alike := x.says
	x.says = func(replica int) signals.Counters {
		if replica != 2 {
			return alike(replica)
		}
		return signals.Counters{Model: 50, Host: 50, Work: time.Second, Cores: 1, Took: 200 * time.Millisecond, Use: 1, Rate: 20}
	}
	x.takes = func(replica int) time.Duration {
		if replica == 2 {
			return 30 * time.Millisecond
		}
		return 5 * time.Millisecond
	}
	const requests = 4000
	slow := 0
	for range requests {
		replica, err := x.step()
		if err != nil {
			return err
		}
		if replica == 2 {
			slow++
		}
	}
	if part := float64(slow) / requests; part > 0.75/6 {
		return fmt.Errorf("a loaded replica of six gets %.3f of the requests, want three quarters of its part at most", part)
	}
	return nil
}

func chooserRepeats(c balance.Chooser, _ Choosing) error {
	a, b := newClient(c, 10, 5), newClient(c, 10, 5)
	for n := range 2000 {
		one, err := a.step()
		if err != nil {
			return err
		}
		if other, _ := b.step(); one != other {
			return fmt.Errorf("request %d went to %d and, with the same seed, to %d", n, one, other)
		}
	}
	return nil
}

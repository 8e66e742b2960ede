package balance_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
)

// knows is what a client knows of so many replicas on hosts of their own, when it chooses by c.
func knows(c balance.Chooser, replicas int) (*balance.Knowledge, *rand.Rand) {
	of := &balance.Replicas{Mean: 10 * time.Millisecond}
	for i := range replicas {
		of.Hosts = append(of.Hosts, i)
	}
	return balance.NewClient(c, replicas).Knowledge(of), rand.New(rand.NewPCG(1, 2))
}

// counts is how often each replica is chosen.
func counts(c balance.Chooser, k *balance.Knowledge, now time.Duration, random *rand.Rand, requests int) []int {
	n := make([]int, len(k.Own))
	for range requests {
		n[c.Choose(k, nil, now, random)]++
	}
	return n
}

// TestPeakEWMA: a long answer counts at once, a short one after it hardly, and once the decay has
// passed the replica is tried again.
func TestPeakEWMA(t *testing.T) {
	c := balance.PeakEWMA{K: 2, Decay: 10 * time.Second, Start: 30 * time.Millisecond}
	k, random := knows(c, 2)
	k.Answered(0, 20*time.Millisecond, 0)
	k.Answered(1, 20*time.Millisecond, 0)
	k.Answered(0, 500*time.Millisecond, 0)
	k.Answered(0, 10*time.Millisecond, time.Millisecond)
	if n := counts(c, k, time.Second, random, 100); n[0] > 0 {
		t.Errorf("%v: replica 0 is chosen a second after an answer that took half of one", n)
	}
	// The estimate of 0 falls from 500 ms to below the 20 of the other, which answers on, in
	// ln(25) = 3.2 decays.
	for at, want := range map[time.Duration]int{30 * time.Second: 1, 34 * time.Second: 0} {
		k.Answered(1, 20*time.Millisecond, at)
		k.Answered(1, 20*time.Millisecond, at)
		if i := c.Choose(k, nil, at, random); i != want {
			t.Errorf("after %v replica %d is chosen, want %d", at, i, want)
		}
	}
	k.Own[0] = 1000
	if i := c.Choose(k, nil, 34*time.Second, random); i != 1 {
		t.Error("a replica with 1000 requests of the client's own is chosen")
	}
}

func says(rate, use float64) signals.Counters {
	return signals.Counters{Rate: rate, Use: use, Cores: 1}
}

// TestWeightedByA58: no weight counts within the blackout or after the expiry, weights are
// rate/use, errors lower them, and who has none gets the mean.
func TestWeightedByA58(t *testing.T) {
	c := balance.Weighted{Blackout: 10 * time.Second, Expiry: 3 * time.Minute, Update: time.Second, Penalty: 1}
	k, random := knows(c, 3)
	hear := func(now time.Duration) {
		k.Hear(0, says(100, 0.5), balance.WithAnswer, now) // 200 requests/s at full use
		k.Hear(1, says(50, 0.5), balance.WithAnswer, now)  // 100
	}
	within := func(what string, n []int, want ...int) {
		t.Helper()
		for i := range want {
			if d := n[i] - want[i]; d < -9 || d > 9 {
				t.Errorf("%s: chosen %v, want about %v", what, n, want)
				return
			}
		}
	}
	hear(0)
	within("in the blackout", counts(c, k, 9*time.Second, random, 900), 300, 300, 300)
	hear(9 * time.Second)
	// The third has no weight and gets the mean of 200 and 100.
	within("after the blackout", counts(c, k, 11*time.Second, random, 900), 400, 200, 300)
	within("before the expiry", counts(c, k, 188*time.Second, random, 900), 400, 200, 300)
	within("after the expiry", counts(c, k, 190*time.Second, random, 900), 300, 300, 300)
	hear(200 * time.Second)
	within("in the blackout after the expiry", counts(c, k, 205*time.Second, random, 900), 300, 300, 300)
	failing := says(100, 0.5)
	failing.Errors = 50 // half of the requests: the weight is 100/(0.5 + 0.5)
	k.Hear(0, failing, balance.WithAnswer, 212*time.Second)
	k.Hear(1, says(50, 0.5), balance.WithAnswer, 212*time.Second)
	within("with errors", counts(c, k, 213*time.Second, random, 900), 300, 300, 300)
	k.Hear(0, says(0, 0.1), balance.WithAnswer, 214*time.Second)
	within("a rate of zero says nothing", counts(c, k, 215*time.Second, random, 900), 300, 300, 300)
}

// TestPrequalPrefersTheColdAndFast: of cold replicas the fastest is chosen, a hot one only if all
// are hot, and then the one with the fewest requests.
func TestPrequalPrefersTheColdAndFast(t *testing.T) {
	c := balance.Prequal{Probes: 3, Pool: 16, Least: 1, Age: time.Second, Reuse: 100, Quantile: 0.5}
	said := func(requests int, took time.Duration) signals.Counters {
		return signals.Counters{Model: requests, Host: requests, Took: took}
	}
	k, random := knows(c, 4)
	k.Hear(0, said(1, 30*time.Millisecond), balance.Probed, 0)
	k.Hear(1, said(2, 20*time.Millisecond), balance.Probed, 0)
	k.Hear(2, said(90, time.Millisecond), balance.Probed, 0) // fast, but with more requests than most
	k.Hear(3, said(91, time.Millisecond), balance.Probed, 0)
	if i := c.Choose(k, nil, 0, random); i != 1 {
		t.Errorf("replica %d is chosen, want the faster of the cold ones", i)
	}
	k.Restrict()
	k.Allow(2)
	k.Allow(3)
	if i := c.Choose(k, nil, 0, random); i != 2 {
		t.Errorf("replica %d is chosen, want the hot one with fewer requests", i)
	}
}

// TestPrequalsPool: an answer is used so often and no longer, it is thrown away when it is old,
// the pool keeps so many, and what comes with answers is not in it.
func TestPrequalsPool(t *testing.T) {
	fast := signals.Counters{Took: time.Millisecond}
	slow := signals.Counters{Model: 9, Took: time.Second}
	rule := balance.Prequal{Pool: 4, Least: 1, Age: time.Second, Reuse: 3, Quantile: 1}
	// chosen reports whether the replica is chosen so often in a row: by chance it is not.
	chosen := func(c balance.Prequal, k *balance.Knowledge, random *rand.Rand, want, times int, now time.Duration) bool {
		for range times {
			if c.Choose(k, nil, now, random) != want {
				return false
			}
		}
		return true
	}
	k, random := knows(rule, 500)
	k.Hear(7, fast, balance.Probed, 0)
	if !chosen(rule, k, random, 7, 3, 0) || chosen(rule, k, random, 7, 1, 0) {
		t.Error("an answer is not used three times, or once more")
	}
	k.Hear(7, fast, balance.Probed, 0)
	if chosen(rule, k, random, 7, 1, time.Second) {
		t.Error("an answer of a second ago is used")
	}
	for i := range 5 { // the first does not fit any more
		k.Hear(i, fast, balance.Probed, 2*time.Second+time.Duration(i))
	}
	k.Restrict()
	k.Allow(0)
	k.Allow(400)
	if counts(rule, k, 2*time.Second, random, 100)[400] < 20 {
		t.Error("the oldest of five answers is in a pool of four")
	}
	k, random = knows(rule, 500)
	k.Hear(7, fast, balance.WithAnswer, 0)
	if chosen(rule, k, random, 7, 1, 0) {
		t.Error("what came with an answer is in the pool")
	}
	// The worst goes first, then the oldest: of three, one is left for the second request.
	rule.Remove, rule.Reuse = 1, 100
	k, random = knows(rule, 500)
	k.Hear(1, fast, balance.Probed, 0)
	k.Hear(2, slow, balance.Probed, 1)
	k.Hear(3, fast, balance.Probed, 2)
	k.Hear(4, slow, balance.Probed, 3)
	first, second := rule.Choose(k, nil, 3, random), rule.Choose(k, nil, 3, random)
	if first != 3 || second != 3 {
		t.Errorf("chosen were %d and %d; want 3, the newest of the fast", first, second)
	}
	k.Restrict() // a worst and the oldest, 1, are gone
	k.Allow(1)
	k.Allow(400)
	if counts(rule, k, 3, random, 100)[400] < 20 {
		t.Error("the oldest answer has not been thrown away")
	}
}

// TestHedgesLearnWhenToCopy: the copy is sent once the quantile of answers has passed, to
// another replica, and for so many requests at most.
func TestHedgesLearnWhenToCopy(t *testing.T) {
	c := balance.Hedged{Chooser: balance.Sampled{K: 1}, Quantile: 0.9, Start: time.Second, Most: 0.1}
	k, random := knows(c, 3)
	for range 5000 { // exponential: nine tenths take less than ln(10) times the mean
		k.Answered(0, time.Duration(random.ExpFloat64()*1e7), 0)
	}
	after, ok := c.Hedge(k, 0)
	if !ok || after < 18*time.Millisecond || after > 29*time.Millisecond {
		t.Errorf("a copy is sent after %v, want about 23 ms", after)
	}
	copies := 0
	for range 1000 {
		c.Hedge(k, 0)
		if second := c.Second(k, 1, 0, random); second == 1 {
			t.Fatal("the copy goes where the request is")
		} else if second >= 0 {
			copies++
		}
	}
	if copies < 99 || copies > 101 {
		t.Errorf("%d of 1000 requests have copies, want a tenth", copies)
	}
	k.Restrict()
	k.Allow(1)
	if second := c.Second(k, 1, 0, random); second != -1 {
		t.Errorf("a copy goes to replica %d, which is down", second)
	}
}

// TestHardwareDrawsByPower: a replica on hardware three times as fast is drawn three times as
// often.
func TestHardwareDrawsByPower(t *testing.T) {
	c := balance.Hardware{Sampled: balance.Sampled{K: 1}}
	of := &balance.Replicas{Hosts: []int{0, 1, 2}, Power: []float64{1, 3, 1}}
	k := balance.NewClient(c, 3).Knowledge(of)
	n := counts(c, k, 0, rand.New(rand.NewPCG(3, 4)), 10_000)
	if n[1] < 5800 || n[1] > 6200 || n[0] < 1850 || n[0] > 2150 {
		t.Errorf("chosen %v, want 2000, 6000 and 2000", n)
	}
	k.Restrict()
	k.Allow(0)
	if n := counts(c, k, 0, rand.New(rand.NewPCG(3, 4)), 100); n[0] != 100 {
		t.Errorf("chosen %v; only the first may be", n)
	}
}

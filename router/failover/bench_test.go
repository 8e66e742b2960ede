package failover_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

// large is the paper's large setting: so many applications on so many hosts, half used.
func large(applications, hosts int) *failover.Problem {
	s := drawnProblem(rand.New(rand.NewPCG(5, 5)), applications, hosts, 2, 0.5)
	s.Shared = false
	for i := range s.Hosts {
		s.Hosts[i].Site = fmt.Sprintf("site%d", i*10/hosts)
	}
	return s
}

// instant is an actuator whose actions end at the next wake.
type instant struct{ done []failover.Order }

func (a *instant) Act(o failover.Order) error {
	if o.Verb <= control.Unload {
		a.done = append(a.done, o)
	}
	return nil
}

// settle wakes the controller until nothing more is to be done, and returns the longest wake.
func (a *instant) settle(c *failover.Controller, now time.Duration) (longest time.Duration) {
	for {
		done := a.done
		a.done = nil
		for _, o := range done {
			c.Ended(o, o.Verb.Done(), "")
		}
		began := time.Now()
		c.Wake(now)
		longest = max(longest, time.Since(began))
		if len(a.done) == 0 {
			return longest
		}
		now += time.Millisecond
	}
}

// BenchmarkLoss measures the Wake in which a host, or a site, is lost: everything is
// activated that is warm, and the plan for the rest is made.
//
//	go test ./router/failover -bench Loss -run none
func BenchmarkLoss(b *testing.B) {
	for _, policy := range []failover.Policy{failover.Gearshift, failover.FailLite} {
		for _, lost := range []int{1, 10} {
			b.Run(fmt.Sprintf("%s/640x100/%d", policy, lost), func(b *testing.B) {
				var took []time.Duration
				for b.Loop() {
					b.StopTimer()
					a := &instant{}
					c, err := failover.New(large(640, 100), failover.Options{Policy: policy, Alpha: 0.1}, a)
					if err != nil {
						b.Fatal(err)
					}
					a.settle(c, 0)
					for i := range lost {
						c.Observe(control.Event{At: time.Minute, Kind: control.Refused, Host: i, Replica: -1})
					}
					b.StartTimer()
					began := time.Now()
					c.Wake(time.Minute)
					took = append(took, time.Since(began))
				}
				slices.Sort(took)
				b.ReportMetric(float64(took[len(took)-1].Microseconds())/1e3, "ms-longest")
			})
		}
	}
}

// BenchmarkHeartbeat measures the Wake after a heartbeat, with 100 hosts.
func BenchmarkHeartbeat(b *testing.B) {
	a := &instant{}
	c, err := failover.New(large(640, 100), failover.Options{}, a)
	if err != nil {
		b.Fatal(err)
	}
	a.settle(c, 0)
	now := time.Duration(0)
	b.ReportAllocs()
	for b.Loop() {
		now += 200 * time.Microsecond
		c.Observe(control.Event{At: now, Kind: control.Heartbeat, Host: int(now/(200*time.Microsecond)) % 100, Replica: -1})
		c.Wake(now)
	}
}

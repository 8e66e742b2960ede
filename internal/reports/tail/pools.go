package tail

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/fluid"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/replicas"
	"gearshift/workloads"
)

// pools are groups of replicas of one model that answer a series, in one simulator. They are its [env.Follower].
type pools struct {
	list    []*fluid.Pool
	sim     *env.Simulator
	minutes [][]fluid.Total // of each pool, at the ends of minutes
	note    func()          // called at each of them; may be nil
}

// group describes a pool: replicas that answer so much each, of which some are up at first.
type group struct {
	replicas, up int
	capacity     float64
	share        float64 // of what arrives
}

// patience sets how long an example waits for a replica.
const patience = time.Second

// playPools plays a series on pools whose replicas take a time to start, with the controllers.
func playPools(s *workloads.Series, warmUp time.Duration, groups []group, with func(p *pools, a control.Actuator) []control.Controller) (*pools, error) {
	p := &pools{minutes: make([][]fluid.Total, len(groups))}
	var hosts []fleet.Host
	var all []fleet.Replica
	c := &env.Config{Period: time.Minute}
	for h, g := range groups {
		hosts = append(hosts, fleet.Host{Name: fmt.Sprint("pool-", h)})
		p.list = append(p.list, &fluid.Pool{Arrivals: s.Arrivals, Share: g.share, Capacity: g.capacity, Patience: patience})
		for i := range g.replicas {
			r := fleet.Replica{Name: fmt.Sprintf("%d@%d", i, h), Host: h, Initial: fleet.Cold}
			if i < g.up {
				r.Initial = fleet.Up
			}
			all, c.LoadTimes = append(all, r), append(c.LoadTimes, warmUp)
		}
	}
	var err error
	if c.Table, err = fleet.NewTable([]fleet.Task{{Name: "examples", Deadline: patience, Quality: []float64{1}}}, []fleet.Variant{{Name: "model"}}, hosts, all); err != nil {
		return nil, err
	}
	c.Laws = func() (laws []env.Law) {
		for _, x := range p.list {
			laws = append(laws, x)
		}
		return laws
	}
	c.Controllers = func(a env.ControlAccess) []control.Controller { return with(p, a.Actuator) }
	if p.sim, err = env.NewSimulator(c); err != nil {
		return nil, err
	}
	p.sim.Follow(c, fleet.NewLedger(c.Table), 0, p)
	_, err = p.sim.Advance(time.Duration(len(s.Arrivals))*time.Second, nil)
	return p, err
}

// Measure implements [env.Follower].
func (p *pools) Measure(now time.Duration) {
	for i, x := range p.list {
		p.minutes[i] = append(p.minutes[i], x.Count(now))
	}
	if p.note != nil {
		p.note()
	}
}

// minute returns what a pool had in a minute.
func (p *pools) minute(pool, i int) fluid.Total {
	if i == 0 {
		return p.minutes[pool][0]
	}
	return p.minutes[pool][i].Less(p.minutes[pool][i-1])
}

// refused returns the share of all examples that were refused.
func (p *pools) refused() float64 {
	var sum fluid.Total
	for _, list := range p.minutes {
		last := list[len(list)-1]
		sum.Arrived, sum.Refused = sum.Arrived+last.Arrived, sum.Refused+last.Refused
	}
	return sum.Refused / max(1, sum.Arrived)
}

// Ended, Broken and Turned implement [env.Follower], for which pools have no single requests, and no host is lost.
func (p *pools) Ended(uint64, time.Duration) error { return nil }
func (p *pools) Broken(uint64, time.Duration)      {}
func (p *pools) Turned(int)                        {}

// pooled is a pool as a controller of replica counts sees it. It implements [replicas.Fleet].
type pooled struct {
	control.Actuator
	pool  *fluid.Pool
	first int // of its replicas
	last  fluid.Total
	at    time.Duration
	loads int // that were begun
}

// Act implements [control.Actuator].
func (p *pooled) Act(a control.Action) error {
	if a.Verb == control.Load {
		p.loads++
	}
	return p.Actuator.Act(a)
}

// Rate implements [replicas.Fleet]. What is refused counts.
func (p *pooled) Rate(_ int, now time.Duration) float64 {
	total := p.pool.Count(now)
	rate := total.Less(p.last).Arrived / max(1, (now-p.at).Seconds())
	p.last, p.at = total, now
	return rate
}

// Count implements [replicas.Fleet].
func (p *pooled) Count(int) (up, loading int) { return p.pool.Replicas() }

// Startable implements [replicas.Fleet].
func (p *pooled) Startable(r int) bool { return p.pool.State(r-p.first) == fleet.Cold }

// Stoppable implements [replicas.Fleet].
func (p *pooled) Stoppable(r int) bool { return p.pool.State(r-p.first) == fleet.Up }

// counts returns a controller that has a scaler count the replicas of a pool.
func (p *pooled) counts(of replicas.Scaler, period time.Duration, n int) control.Controller {
	m := replicas.Scaled{Scaler: of, Most: n}
	for i := range n {
		m.Replicas = append(m.Replicas, p.first+i)
	}
	return replicas.New([]replicas.Scaled{m}, period, p)
}

// scaled is the fleet whose replicas are counted.
type scaled struct {
	capacity float64
	warmUp   time.Duration
	period   time.Duration
}

// run is what came of a series and a scaler.
type run struct {
	refused, atPeaks float64 // shares of the examples
	hours            float64 // of replicas that were up or starting
	starts           int
	counts           []float64 // of replicas, by minute
}

// play plays a series. It begins with replicas for the first minute at 70 %; there may be ten times as many as the
// peak needs. Peaks are the tenth of the minutes with the highest rates.
func (f scaled) play(s *workloads.Series, by replicas.Scaler) (*run, error) {
	n := int(math.Ceil(10 * slices.Max(s.Rates) / f.capacity))
	var x *pooled
	p, err := playPools(s, f.warmUp, []group{{replicas: n, up: int(math.Ceil(s.Rates[0] / f.capacity / 0.7)), capacity: f.capacity, share: 1}},
		func(p *pools, a control.Actuator) []control.Controller {
			x = &pooled{Actuator: a, pool: p.list[0]}
			return []control.Controller{x.counts(by, f.period, n)}
		})
	if err != nil {
		return nil, err
	}
	r := &run{refused: p.refused(), hours: p.minutes[0][len(p.minutes[0])-1].Held / 3600, starts: x.loads}
	sorted := slices.Sorted(slices.Values(s.Rates))
	peak, at := sorted[len(sorted)*9/10], fluid.Total{}
	for i, rate := range s.Rates {
		m := p.minute(0, i)
		if r.counts = append(r.counts, m.Held/60); rate >= peak {
			at.Arrived, at.Refused = at.Arrived+m.Arrived, at.Refused+m.Refused
		}
	}
	r.atPeaks = at.Refused / max(1, at.Arrived)
	return r, nil
}

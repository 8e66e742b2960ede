package faillite

import (
	"context"
	"errors"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/env/evaluation"
	envfailover "gearshift/env/failover"
	"gearshift/internal/scenario"
	"gearshift/router/failover"
	"gearshift/workloads"
)

// takes is how long clients take to know of an activation: what the paper measures for a warm backup of
// full size.
const takes = 50 * time.Millisecond

// setting is what is played.
type setting struct {
	on       *scenario.Scenario
	policy   failover.Policy
	headroom float64 // 0: the scenario's
	critical float64 // −1: the scenario's
	classes  string  // of families; empty: all
	apart    bool    // backups are on other sites
	// sites is how many sites are lost. Zero is one server, another one in each run.
	sites int
}

// outcome is what comes of a setting, in one value for each draw: of the testbed, for each server.
type outcome struct {
	recovery, mttr, first, lost, exposed, detection []float64
	all                                             envfailover.Summary
	possible, bounded                               int // runs in which all can be recovered, and in which it cannot be said
	short                                           int // runs in which all can be recovered, and were not
}

// run is one run: a system with what is lost.
type run struct {
	system *failover.System
	losses []envfailover.Loss
	seed   uint64
	draw   int
}

// runs lists those of the setting.
func (p *paper) runs(s setting) (list []run, err error) {
	d, drawn := s.on.Drawing()
	if !drawn {
		for i := range s.on.FailoverSystem(false).Servers {
			seed := workloads.Seed(workloads.Evaluation, uint64(i))
			list = append(list, run{s.on.FailoverSystem(false), envfailover.Once(seed, true, i), seed, i})
		}
		return list, nil
	}
	if s.critical >= 0 {
		d.Critical = s.critical
	}
	draws := p.draws
	if s.sites > 0 {
		draws = min(draws, p.sited)
	}
	for k := range draws {
		d.Seed = workloads.Seed(workloads.Evaluation, uint64(k))
		x, err := envfailover.Draw(d.Of(s.classes))
		if err != nil {
			return nil, err
		}
		if s.sites > 0 {
			list = append(list, run{x, envfailover.Once(d.Seed, true, ofSites(x, s.sites, k)...), d.Seed, k})
			continue
		}
		for j := range p.each {
			list = append(list, run{x, envfailover.Once(d.Seed+uint64(j), true, (k*p.each+j)%len(x.Servers)), d.Seed, k})
		}
	}
	return list, nil
}

// ofSites lists the servers of so many sites, from the k-th on.
func ofSites(x *failover.System, n, k int) (servers []int) {
	var names []string
	index := map[string]int{}
	for i := range x.Servers {
		if _, known := index[x.Servers[i].Site]; !known {
			index[x.Servers[i].Site] = len(names)
			names = append(names, x.Servers[i].Site)
		}
	}
	for i := range x.Servers {
		if at := index[x.Servers[i].Site] - k%len(names); (at+len(names))%len(names) < n {
			servers = append(servers, i)
		}
	}
	return servers
}

// play plays a setting.
func (p *paper) play(ctx context.Context, s setting) (*outcome, error) {
	list, err := p.runs(s)
	if err != nil {
		return nil, err
	}
	results := make([]*envfailover.Result, len(list))
	faults := make([]error, len(list))
	can := make([]verdict, len(list))
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(len(list), runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := int(next.Add(1) - 1); i < len(list) && ctx.Err() == nil; i = int(next.Add(1) - 1) {
				results[i], can[i], faults[i] = one(s, &list[i])
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(faults, ctx.Err())...); err != nil {
		return nil, err
	}
	p.played++
	p.count(p.played, p.settings())
	return gather(list, results, can), nil
}

// one plays a run.
func one(s setting, r *run) (*envfailover.Result, verdict, error) {
	o := s.on.FailoverOptions()
	o.Policy, o.SiteIndependent = s.policy, s.apart
	if s.headroom > 0 {
		o.Headroom = s.headroom
	}
	x := &failover.System{Resources: r.system.Resources, Servers: r.system.Servers, Applications: append([]failover.Application(nil), r.system.Applications...)}
	x.PlacePrimaries(0)
	result, err := envfailover.Run(envfailover.Config{System: x, Options: o, Losses: r.losses, Length: r.losses[0].From + 30*time.Second, Seed: r.seed, Switch: takes})
	if err != nil {
		return nil, 0, err
	}
	return result, recoverable(x, o.Headroom, r.losses), nil
}

// gather puts the results together, by draw.
func gather(list []run, results []*envfailover.Result, can []verdict) *outcome {
	o := &outcome{all: envfailover.Summarize(results)}
	for i := 0; i < len(list); {
		j := i
		for j < len(list) && list[j].draw == list[i].draw {
			j++
		}
		z := envfailover.Summarize(results[i:j])
		if z.Affected > 0 {
			o.recovery = append(o.recovery, z.Recovery)
			o.mttr = append(o.mttr, unless(z.Recovered == 0, z.MTTR))
			o.lost = append(o.lost, unless(z.Recovered == 0, z.AccuracyLost))
			o.first = append(o.first, unless(z.Recovered == 0, z.AccuracyFirst))
			o.exposed = append(o.exposed, z.Unprotected)
			o.detection = append(o.detection, z.Detection)
		}
		i = j
	}
	for i, r := range results {
		switch can[i] {
		case yes:
			o.possible++
			if z := envfailover.Summarize([]*envfailover.Result{r}); z.Recovered < z.Affected {
				o.short++
			}
		case unknown:
			o.bounded++
		}
	}
	return o
}

// unless is the value, or none.
func unless(none bool, x float64) float64 {
	if none {
		return math.NaN()
	}
	return x
}

// percent is the interval of values as percent.
func percent(values []float64) evaluation.Interval {
	i := evaluation.Bootstrap(values)
	return evaluation.Interval{Mean: 100 * i.Mean, Lo: 100 * i.Lo, Hi: 100 * i.Hi}
}

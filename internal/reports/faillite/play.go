package faillite

import (
	"context"
	"math"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/applications"
	"gearshift/env/evaluation"
	"gearshift/internal/reports"
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
	// sites is how many sites are lost. Zero is one host, another one in each run.
	sites int
}

// outcome is what comes of a setting, in one value for each draw: of the testbed, for each host.
type outcome struct {
	recovery, mttr, lost, detection []float64
	all                             applications.Summary
	applications                    float64 // of a run, in the mean
	possible, bounded               int     // runs in which all can be recovered, and in which it cannot be said
	short                           int     // runs in which all can be recovered, and were not
}

// played is what comes of a run.
type played struct {
	*applications.Result
	can                verdict
	draw, applications int
}

// run is one run: a system with what is lost.
type run struct {
	problem *failover.Problem
	losses  []env.HostLoss
	seed    uint64
	draw    int
}

// runs lists those of the setting.
func (p *paper) runs(s setting) (list []run, err error) {
	d, drawn := s.on.Drawing()
	if !drawn {
		for i := range s.on.FailoverProblem(false).Hosts {
			seed := workloads.Seed(workloads.Evaluation, uint64(i))
			list = append(list, run{s.on.FailoverProblem(false), applications.Once(seed, true, i), seed, i})
		}
		return list, nil
	}
	if s.critical >= 0 {
		d.Critical = s.critical
	}
	draws := p.Seeds
	if s.sites > 0 {
		draws = min(draws, p.sited)
	}
	for k := range draws {
		d.Seed = workloads.Seed(workloads.Evaluation, uint64(k))
		x, err := applications.Draw(d.Of(s.classes))
		if err != nil {
			return nil, err
		}
		if s.sites > 0 {
			list = append(list, run{x, applications.Once(d.Seed, true, ofSites(x, s.sites, k)...), d.Seed, k})
			continue
		}
		for j := range p.each {
			list = append(list, run{x, applications.Once(d.Seed+uint64(j), true, (k*p.each+j)%len(x.Hosts)), d.Seed, k})
		}
	}
	return list, nil
}

// ofSites lists the hosts of so many sites, from the k-th on.
func ofSites(x *failover.Problem, n, k int) (hosts []int) {
	var names []string
	index := map[string]int{}
	for i := range x.Hosts {
		if _, known := index[x.Hosts[i].Site]; !known {
			index[x.Hosts[i].Site] = len(names)
			names = append(names, x.Hosts[i].Site)
		}
	}
	for i := range x.Hosts {
		if at := index[x.Hosts[i].Site] - k%len(names); (at+len(names))%len(names) < n {
			hosts = append(hosts, i)
		}
	}
	return hosts
}

// open lists the runs of a setting.
func (p *paper) open(s setting) (int, func(context.Context, int) (played, error), error) {
	list, err := p.runs(s)
	return len(list), func(_ context.Context, i int) (played, error) { return one(s, &list[i]) }, err
}

// play plays the setting under each policy, at each point: outcomes by point and policy.
func (p *paper) play(ctx context.Context, policies []failover.Policy, points ...setting) ([][]*outcome, error) {
	var list []setting
	for _, s := range points {
		for _, s.policy = range policies {
			list = append(list, s)
		}
	}
	all, err := p.sweep.Play(ctx, list...)
	var outcomes []*outcome
	for _, runs := range all {
		outcomes = append(outcomes, gather(runs))
	}
	return slices.Collect(slices.Chunk(outcomes, len(policies))), err
}

// one plays a run.
func one(s setting, r *run) (played, error) {
	o := s.on.FailoverOptions()
	o.Policy, o.SiteIndependent = s.policy, s.apart
	if s.headroom > 0 {
		o.Headroom = s.headroom
	}
	x := *r.problem
	x.Applications = slices.Clone(x.Applications)
	x.PlacePrimaries(0)
	result, err := applications.Run(applications.Config{Problem: &x, Options: o, Losses: r.losses, Length: r.losses[0].From + 30*time.Second, Seed: r.seed, Switch: takes})
	if err != nil {
		return played{}, err
	}
	return played{result, recoverable(&x, o.Headroom, r.losses), r.draw, len(x.Applications)}, nil
}

// summarize puts runs together.
func summarize(runs ...played) applications.Summary {
	return applications.Summarize(reports.Values(runs, func(r played) *applications.Result { return r.Result }))
}

// gather puts the runs together, by draw.
func gather(runs []played) *outcome {
	o := &outcome{all: summarize(runs...)}
	for i := 0; i < len(runs); {
		j := i
		for j < len(runs) && runs[j].draw == runs[i].draw {
			j++
		}
		if z := summarize(runs[i:j]...); z.Affected > 0 {
			o.recovery = append(o.recovery, z.Recovery)
			o.mttr = append(o.mttr, unless(z.Recovered == 0, z.MTTR))
			o.lost = append(o.lost, unless(z.Recovered == 0, z.AccuracyLost))
			o.detection = append(o.detection, z.Detection)
		}
		i = j
	}
	for _, r := range runs {
		o.applications += float64(r.applications)
		switch r.can {
		case yes:
			o.possible++
			if z := summarize(r); z.Recovered < z.Affected {
				o.short++
			}
		case unknown:
			o.bounded++
		}
	}
	o.applications /= float64(len(runs))
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
	return reports.Scaled(evaluation.Bootstrap(values), 100)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"gearshift/cmd/gearshift/machine"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
	"gearshift/serving/measure"
	"gearshift/workloads"
)

// liveOptions are the flags of validate against what is running.
type liveOptions struct {
	scenario, url, upstreams, policy, store, engine string
	loads                                           []float64
	what, only                                      []string
	tries, volley                                   int
	time                                            time.Duration
	seed                                            uint64
}

func (o *liveOptions) validate() error {
	if o.scenario == "" {
		return errors.New("--scenario is missing: the fleet to validate, or --requests FILE for a log")
	}
	if len(o.loads) == 0 || slices.ContainsFunc(o.loads, func(l float64) bool { return !(l > 0) || math.IsInf(l, 0) }) {
		return fmt.Errorf("--loads %v: want numbers above 0, such as 0.3,0.6,0.9", o.loads)
	}
	if o.time <= 0 {
		return fmt.Errorf("--time %v: want a time above 0", o.time)
	}
	if o.tries < 1 {
		return fmt.Errorf("--tries %d: want at least 1", o.tries)
	}
	if o.volley < 0 {
		return fmt.Errorf("--volley %d: want a number of requests, or 0 for none", o.volley)
	}
	for _, w := range o.what {
		if !slices.Contains(liveWhats, w) {
			return fmt.Errorf("--what %q: want some of %s", w, strings.Join(liveWhats, ", "))
		}
	}
	return nil
}

// What a run loads: one variant, all of a host, or the router.
const (
	runAlone      = "alone"
	runCoResident = "co-resident"
	runPolicy     = "policy"
)

var liveWhats = []string{runAlone, runCoResident, runPolicy}

// wants says whether runs of that kind are asked for.
func (o *liveOptions) wants(what string) bool { return slices.Contains(o.what, what) }

// live is a validation under way.
type live struct {
	liveOptions
	scenario *scenario.Scenario
	fleet    env.Config
	settings workloads.Settings
	rates    []float64 // by replica: load 1
	client   *measure.Client
	machine  func() measure.Processors
	sets     [][]int // of replicas that are loaded together
	targets  []int   // by replica; −1 for those that are not asked
	router   int     // the target that is the router, or −1
	progress func(string)
	runs     int
	out      liveReport
}

// fewestSent is how many requests a run needs to say anything.
const fewestSent = 10

// validateLive plays requests against what is running, and the same requests in the
// simulator.
func validateLive(ctx context.Context, o liveOptions, format string, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	l, err := newLive(o)
	if err != nil {
		return err
	}
	targets, err := l.aims()
	if err != nil {
		return err
	}
	l.machine = machine.Processors(append(upstreamTargets(l.scenario), targets...)...)
	if l.client, err = measure.NewClient(ctx, targets, o.seed, nil); err != nil {
		return err
	}
	defer l.client.Close()
	if l.progress = func(string) {}; isTerminal(stderr) {
		l.progress = func(text string) { fmt.Fprint(stderr, "\r\x1b[K", text) }
	}
	err = l.all(ctx)
	l.progress("")
	if err != nil {
		return err
	}
	l.out.pool()
	if format == "table" {
		return l.out.table(stdout)
	}
	return printJSON(stdout, l.out)
}

func newLive(o liveOptions) (*live, error) {
	s, err := scenario.Load(o.scenario)
	if err != nil {
		return nil, err
	}
	l := &live{liveOptions: o, scenario: s, settings: s.Settings(0), router: -1, machine: func() measure.Processors { return measure.Processors{} }}
	if l.fleet, err = s.Simulation(); err != nil {
		return nil, err
	}
	for _, v := range o.only {
		if l.fleet.Table.VariantIndex(v) < 0 {
			return nil, fmt.Errorf("--only %q: the variants are %s", v, names(len(s.Variants), func(i int) string { return s.Variants[i].Name }))
		}
	}
	l.out.Scenario, l.out.Date = s.Name, time.Now().UTC().Format(time.DateOnly)
	for r := range l.fleet.Table.Replicas {
		rate, err := capacity(l.fleet, &l.settings, r)
		if err != nil {
			return nil, err
		}
		l.rates = append(l.rates, rate)
	}
	return l, nil
}

// aims are the servers to be asked: those of the replicas that runs load, and the
// router.
func (l *live) aims() (targets []measure.Target, err error) {
	t := l.fleet.Table
	l.targets = slices.Repeat([]int{-1}, len(t.Replicas))
	l.sets = l.loaded()
	for _, r := range slices.Concat(l.sets...) {
		if l.targets[r] >= 0 {
			continue
		}
		target := measure.Target{URL: l.upstreams, Model: t.Variants[t.Replicas[r].Variant].Name}
		if l.upstreams == "" {
			at := l.scenario.Serving.Upstreams[t.Replicas[r].Name]
			target.URL = at.URL
			if at.Model != "" {
				target.Model = at.Model
			}
			if at.Key != "" {
				target.Key = os.Getenv(at.Key)
			}
		}
		model, key := target.Model, target.Key
		if target, err = measure.Parse(target.URL); err != nil {
			return nil, fmt.Errorf("replica %s: %w", t.Replicas[r].Name, err)
		}
		target.Model, target.Key = model, key
		l.targets[r] = len(targets)
		targets = append(targets, target)
	}
	if l.url != "" && l.wants(runPolicy) {
		target, err := measure.Parse(l.url)
		if err != nil {
			return nil, fmt.Errorf("--url %w", err)
		}
		target.Model = "auto"
		l.router = len(targets)
		targets = append(targets, target)
	}
	switch served := l.upstreams != "" || l.scenario.Serving.Backend == scenario.Upstream; {
	case len(targets) == 0 && served:
		return nil, fmt.Errorf("nothing to run: --what %s; co-resident takes two variants on one host, and policy --url", strings.Join(l.what, ","))
	case len(targets) == 0:
		return nil, fmt.Errorf("nothing to validate: scenario %s has no serving.upstreams; give --upstreams URL of the server of its first host, --url of a router, or both", l.scenario.Name)
	}
	return targets, nil
}

// all is every variant alone, then those of a host together, then the router, each at
// every load.
func (l *live) all(ctx context.Context) error {
	l.runs = len(l.loads) * len(l.sets)
	if l.router >= 0 {
		l.runs += len(l.loads)
	}
	least := slices.Min(l.loads)
	for _, set := range l.sets { // before anything is measured
		for _, r := range set {
			if _, err := l.requests(least / float64(len(set)) * l.rates[r]); err != nil {
				return fmt.Errorf("%s at load %g: %w", l.fleet.Table.Replicas[r].Name, least, err)
			}
		}
	}
	for _, set := range l.sets {
		for _, load := range l.loads {
			if err := l.direct(ctx, set, load); err != nil {
				return err
			}
		}
	}
	if l.router >= 0 {
		for _, load := range l.loads {
			if err := l.routed(ctx, load); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan draws the requests of a run for one replica, or of the router (−1).
func (l *live) plan(replica int, rate float64) ([]workloads.Arrival, error) {
	n, err := l.requests(rate)
	if err != nil {
		return nil, err
	}
	return drawn(&l.settings, rate, n, workloads.Seed(workloads.Serving, l.seed<<16+uint64(len(l.out.Runs))<<8+uint64(replica+1)))
}

// requests is how many a run at that rate has.
func (l *live) requests(rate float64) (int, error) {
	n := int(math.Ceil(rate * l.time.Seconds()))
	if n < fewestSent {
		return 0, fmt.Errorf("%.3g requests a second for %v make %d requests, too few; want at least %d: a longer --time (calibrate: --validate-time), or higher --loads", rate, l.time, n, fewestSent)
	}
	return n, nil
}

// direct sends each of the replicas its load at once.
func (l *live) direct(ctx context.Context, replicas []int, load float64) error {
	var list []sending
	share := load / float64(len(replicas))
	rate := 0.0
	for _, r := range replicas {
		rate += share * l.rates[r]
		arrivals, err := l.plan(r, share*l.rates[r])
		if err != nil {
			return fmt.Errorf("%s at load %g: %w", l.fleet.Table.Replicas[r].Name, load, err)
		}
		for _, a := range arrivals {
			list = append(list, sending{a, r, l.targets[r]})
		}
	}
	run := liveRun{What: runCoResident, Load: load, Rate: rate}
	if t := l.fleet.Table; len(t.Hosts) > 1 {
		run.Host = t.Hosts[t.Replicas[replicas[0]].Host].Name
	}
	if len(replicas) == 1 {
		run.What, run.Variant = runAlone, l.fleet.Table.Variants[l.fleet.Table.Replicas[replicas[0]].Variant].Name
	}
	s, err := l.send(ctx, &run, list)
	if err != nil {
		return err
	}
	predicted, err := simulatedRun(l.fleet, s.arrivals, &pinned{replicas: s.replicas})
	if err != nil {
		return err
	}
	slowed, err := simulatedRun(l.slowedBy(s), s.arrivals, &pinned{replicas: s.replicas})
	if err != nil {
		return err
	}
	for _, r := range replicas { // each variant of its own, and all together
		v := l.fleet.Table.Replicas[r].Variant
		of := run
		of.Variant = l.fleet.Table.Variants[v].Name
		own := func(i int) bool { return s.measured[i].variant == v }
		if s.before[r] > 0 && s.after[r] > 0 {
			of.Slowness = &slowness{Before: s.before[r], After: s.after[r]}
		}
		l.out.add(of, s, predicted, slowed, own)
	}
	return nil
}

// routed sends the router its load: a share of what all replicas of the largest
// variant take.
func (l *live) routed(ctx context.Context, load float64) error {
	t := l.fleet.Table
	rate := 0.0
	for r := range t.Replicas {
		if t.Replicas[r].Variant == len(t.Variants)-1 {
			rate += load * l.rates[r]
		}
	}
	arrivals, err := l.plan(-1, rate)
	if err != nil {
		return fmt.Errorf("the router at load %g: %w", load, err)
	}
	var list []sending
	for _, a := range arrivals {
		list = append(list, sending{a, -1, l.router})
	}
	run := liveRun{What: runPolicy, Load: load, Rate: rate}
	s, err := l.send(ctx, &run, list)
	if err != nil {
		return err
	}
	d, err := l.decides(s.policies)
	if err != nil {
		return err
	}
	run.Policy = d.Name()
	predicted, err := simulatedRun(l.fleet, s.arrivals, d)
	if err != nil {
		return err
	}
	l.out.add(run, s, predicted, nil, nil)
	return nil
}

// policyInUse is a decider that has a name.
type policyInUse interface {
	evaluation.Decider
	Name() string
	Match(t *fleet.Table) error
}

// decides is the policy that the router says it uses, or the one that the flag
// names.
func (l *live) decides(said map[string]int) (policyInUse, error) {
	ref := l.policy
	for name, n := range said {
		if l.policy == "" && (ref == "" || n > said[ref]) {
			ref = name
		}
	}
	if ref == "" {
		return nil, fmt.Errorf("--url %s: the server does not say which policy it uses; is it a gearshift router? --policy names one", l.url)
	}
	source, err := newPolicySource(l.store, l.engine)
	if err != nil {
		return nil, err
	}
	maker, err := l.scenario.Maker(l.fleet.Table)
	if err != nil {
		return nil, err
	}
	return decider(source, maker, ref, l.scenario, &l.out.Notes)
}

// Package validation sends real requests to what is running, simulates the same requests,
// and says how far the simulator is off.
package validation

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"gearshift/env"
	"gearshift/internal/calibrate/loadgen"
	"gearshift/internal/calibrate/profiling"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/workloads"
)

// Options are what to validate, and how.
type Options struct {
	Scenario  string    // by its name or file: the fleet that runs
	URL       string    // of a router, to be validated as a whole
	Upstreams string    // URL of the first host's server; "": serving.upstreams
	Policy    string    // reference of the router's; "": what it says it uses
	Loads     []float64 // above 0; 1 is what a replica alone takes at twice the time per token
	What      []string  // some of [Kinds]
	Only      []string  // variants; empty: all
	Tries     int       // at most, of a run whose processors were stolen
	// Stretch has a load of too few requests go on until it has enough, [longest] times
	// Time at most.
	Stretch bool
	Volley  int // requests at once that measure how slow the machine is; 0: none
	Turns   int // of measuring the profiles and sending the loads; 0: the scenario's profiles are judged
	// Batches and Prompts are what a turn measures, as [loadgen.Config] has them.
	Batches, Prompts []int
	Time             time.Duration // to send requests for, at each load
	Seed             uint64
}

// Program is what a validation takes of the program that runs it.
type Program struct {
	// Policy is the policy of the reference on the fleet of the table; it may add notes.
	Policy func(s *scenario.Scenario, t *fleet.Table, ref string, notes *[]string) (policy.Network, error)
	// Progress is told what is being done, and "" at the end. It may be nil.
	Progress func(string)
}

func (o *Options) validate() error {
	if o.Scenario == "" {
		return errors.New("--scenario is missing: the fleet to validate, or --requests FILE for a log")
	}
	if len(o.Loads) == 0 || slices.ContainsFunc(o.Loads, func(l float64) bool { return !(l > 0) || math.IsInf(l, 0) }) {
		return fmt.Errorf("--loads %v: want numbers above 0, such as 0.3,0.6,0.9", o.Loads)
	}
	if o.Time <= 0 {
		return fmt.Errorf("--time %v: want a time above 0", o.Time)
	}
	if o.Tries < 1 {
		return fmt.Errorf("--tries %d: want at least 1", o.Tries)
	}
	if o.Volley < 0 {
		return fmt.Errorf("--volley %d: want a number of requests, or 0 for none", o.Volley)
	}
	if o.Turns < 0 {
		return fmt.Errorf("--turns %d: want a number, or 0 to judge the scenario's own profiles", o.Turns)
	}
	if o.Turns > 0 && o.URL != "" {
		return errors.New("--turns has no meaning with --url: a router's policy reckons with the profiles that it has")
	}
	if c := (loadgen.Config{Batches: o.Batches, Prompts: o.Prompts, Output: measuredOutput}); o.Turns > 0 {
		if err := c.ValidateLoads(); err != nil {
			return fmt.Errorf("--%w", err)
		}
	}
	for _, w := range o.What {
		if !slices.Contains(Kinds, w) {
			return fmt.Errorf("--what %q: want some of %s", w, strings.Join(Kinds, ", "))
		}
	}
	return nil
}

// What a run loads: one variant, all of a host, or the router.
const (
	Alone      = "alone"
	CoResident = "co-resident"
	Policy     = "policy"
)

// Kinds are all that a run may load.
var Kinds = []string{Alone, CoResident, Policy}

// wants reports whether runs of that kind are asked for.
func (o *Options) wants(what string) bool { return slices.Contains(o.What, what) }

// validator is a validation under way.
type validator struct {
	Options
	scenario   *scenario.Scenario
	fleet      env.Config
	settings   workloads.Settings
	rates      []float64 // by replica: load 1
	client     *loadgen.Client
	by         http.RoundTripper // of what is measured; nil is HTTP's own
	machine    func() loadgen.Processors
	sets       [][]int // of replicas that are loaded together
	targets    []int   // by replica; −1 for those that are not asked
	router     int     // the target that is the router, or −1
	program    Program
	progress   func(string)
	slowByTurn map[string][]float64 // by variant and turn, how slow; see [loadgen.Measurement.Slowness]
	runs       int
	sending    int // runs sent so far
	out        Report
}

// fewestSent is how many requests a load needs to say anything, of all its turns.
const fewestSent = 10

// longest is how many times its time a load may be stretched to.
const longest = 10

// fewest returns how many of them one turn needs.
func (l *validator) fewest() int { return (fewestSent + max(1, l.Turns) - 1) / max(1, l.Turns) }

// Validate plays requests against what is running, and the same requests in the simulator.
// Its errors are options that are refused, named as the command's flags, servers that
// cannot be reached, and too few answers to compare.
func Validate(ctx context.Context, o Options, p Program) (*Report, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	l, err := newValidator(o)
	if err != nil {
		return nil, err
	}
	targets, err := l.aims()
	if err != nil {
		return nil, err
	}
	l.machine = profiling.Processors(append(Upstreams(l.scenario), targets...)...)
	if l.client, err = loadgen.NewClient(ctx, targets, o.Seed, nil); err != nil {
		return nil, err
	}
	defer l.client.Close()
	l.program = p
	if p.Progress != nil {
		l.progress = p.Progress
	}
	err = l.play(ctx)
	l.progress("")
	if err != nil {
		return nil, err
	}
	l.out.pool()
	return &l.out, nil
}

// simulate makes the fleet of the scenario's profiles.
func (l *validator) simulate() (err error) {
	l.fleet, err = l.scenario.WithoutPrompts().Simulation()
	l.fleet.Steady()
	return err
}

func newValidator(o Options) (*validator, error) {
	s, err := scenario.Load(o.Scenario)
	if err != nil {
		return nil, err
	}
	l := &validator{
		Options: o, scenario: s, settings: s.Settings(0), router: -1,
		machine: func() loadgen.Processors { return loadgen.Processors{} }, progress: func(string) {},
	}
	if err := l.simulate(); err != nil {
		return nil, err
	}
	var names []string
	for _, v := range s.Variants {
		names = append(names, v.Name)
	}
	for _, v := range o.Only {
		if l.fleet.Table.VariantIndex(v) < 0 {
			return nil, fmt.Errorf("--only %q: the variants are %s", v, strings.Join(names, ", "))
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

// aims returns the servers to be asked: those of the replicas that runs load, and the
// router.
func (l *validator) aims() (targets []loadgen.Target, err error) {
	t := l.fleet.Table
	l.targets = slices.Repeat([]int{-1}, len(t.Replicas))
	l.sets = l.loaded()
	for _, r := range slices.Concat(l.sets...) {
		if l.targets[r] >= 0 {
			continue
		}
		target, err := l.server(r)
		if err != nil {
			return nil, err
		}
		l.targets[r] = len(targets)
		targets = append(targets, target)
	}
	if l.URL != "" && l.wants(Policy) {
		target, err := loadgen.Parse(l.URL)
		if err != nil {
			return nil, fmt.Errorf("--url %w", err)
		}
		target.Model = "auto"
		l.router = len(targets)
		targets = append(targets, target)
	}
	switch served := l.Upstreams != "" || l.scenario.Serving.Backend == scenario.Upstream; {
	case len(targets) == 0 && served:
		return nil, fmt.Errorf("nothing to run: --what %s; co-resident takes two variants on one host, and policy --url", strings.Join(l.What, ","))
	case len(targets) == 0:
		return nil, fmt.Errorf("nothing to validate: scenario %s has no serving.upstreams; give --upstreams URL of the server of its first host, --url of a router, or both", l.scenario.Name)
	}
	return targets, nil
}

// play sends all there is to send, and enters what came of it.
func (l *validator) play(ctx context.Context) error {
	if err := l.feasible(); err != nil {
		return err
	}
	if l.Turns > 0 {
		return l.inTurns(ctx)
	}
	return l.all(ctx)
}

// feasible reports whether each run has requests enough, before anything is measured.
func (l *validator) feasible() error {
	least := slices.Min(l.Loads)
	for _, set := range l.sets {
		for _, r := range set {
			if _, err := l.requests(least / float64(len(set)) * l.rates[r]); err != nil {
				return fmt.Errorf("%s at load %g: %w", l.fleet.Table.Replicas[r].Name, least, err)
			}
		}
	}
	return nil
}

// all returns every variant alone, then those of a host together, then the router, each at
// every load.
func (l *validator) all(ctx context.Context) error {
	l.runs = len(l.Loads) * len(l.sets)
	if l.router >= 0 {
		l.runs += len(l.Loads)
	}
	for _, set := range l.sets {
		for _, load := range l.Loads {
			s, err := l.direct(ctx, set, load)
			if err != nil {
				return err
			}
			if err := l.judge(set, load, []*sent{s}); err != nil {
				return err
			}
		}
	}
	if l.router >= 0 {
		for _, load := range l.Loads {
			if err := l.routed(ctx, load); err != nil {
				return err
			}
		}
	}
	return nil
}

// plan draws the requests of a run for one replica, or of the router (−1).
func (l *validator) plan(replica int, rate float64) ([]workloads.Arrival, error) {
	n, err := l.requests(rate)
	if err != nil {
		return nil, err
	}
	return drawn(&l.settings, rate, n, workloads.Seed(workloads.Serving, l.Seed<<32+uint64(l.sending)<<8+uint64(replica+1)))
}

// requests returns how many a run at that rate has.
func (l *validator) requests(rate float64) (int, error) {
	n := int(math.Ceil(rate * l.Time.Seconds()))
	if l.Stretch && n < l.fewest() && rate*l.Time.Seconds()*longest >= float64(l.fewest()) {
		n = l.fewest()
	}
	if n < l.fewest() {
		return 0, fmt.Errorf("%.3g requests a second for %v make %d requests, too few; want at least %d: a longer --time (calibrate: --validate-time), or higher --loads", rate, l.Time, n, l.fewest())
	}
	return n, nil
}

// direct sends each of the replicas its load at once.
func (l *validator) direct(ctx context.Context, replicas []int, load float64) (*sent, error) {
	var list []sending
	for _, r := range replicas {
		arrivals, err := l.plan(r, load/float64(len(replicas))*l.rates[r])
		if err != nil {
			return nil, fmt.Errorf("%s at load %g: %w", l.fleet.Table.Replicas[r].Name, load, err)
		}
		for _, a := range arrivals {
			list = append(list, sending{a, r, l.targets[r]})
		}
	}
	return l.send(ctx, l.run(replicas, load), list)
}

// routed sends the router its load: a share of what all replicas of the largest
// variant take.
func (l *validator) routed(ctx context.Context, load float64) error {
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
	run := Run{What: Policy, Load: load, Rate: rate}
	s, err := l.send(ctx, run, list)
	if err != nil {
		return err
	}
	run.Stolen = s.stolen
	l.doubt(run)
	d, err := l.decides(s.policies)
	if err != nil {
		return err
	}
	run.Policy = d.Name()
	predicted, err := simulatedRun(l.fleet, s.arrivals, d)
	if err != nil {
		return err
	}
	l.out.add(run, comparison{{sent: s, predicted: predicted}}, nil)
	return nil
}

// decides returns the policy that the router says it uses, or the one that the flag
// names.
func (l *validator) decides(said map[string]int) (policy.Network, error) {
	ref := l.Policy
	for name, n := range said {
		if l.Policy == "" && (ref == "" || n > said[ref]) {
			ref = name
		}
	}
	if ref == "" {
		return nil, fmt.Errorf("--url %s: the server does not say which policy it uses; is it a gearshift router? --policy names one", l.URL)
	}
	return l.program.Policy(l.scenario, l.fleet.Table, ref, &l.out.Notes)
}

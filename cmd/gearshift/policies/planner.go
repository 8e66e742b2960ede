package policies

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/env/objective"
	"gearshift/env/planner"
	"gearshift/workloads"
)

// PlannedForms is how a planner over another policy is referred to.
const PlannedForms = "clairvoyant:REF[@HORIZON[,PASSES]] or planner:REF[@HORIZON[,SAMPLES[,MARGIN]]], HORIZON with its unit, such as 25s"

// planned is a reference to a planner, read.
type planned struct {
	kind, base  string
	clairvoyant planner.ClairvoyantOptions
	sampling    planner.SamplingOptions
}

// The kinds of planners.
const (
	clairvoyantKind = "clairvoyant"
	samplingKind    = "planner"
)

// IsPlanned says whether a reference has the form of a planner, right or wrong.
func IsPlanned(ref string) bool {
	kind, _, _ := strings.Cut(ref, ":")
	return kind == clairvoyantKind || kind == samplingKind
}

// IsSampled says whether a reference has the form of a planner on samples.
func IsSampled(ref string) bool {
	kind, _, _ := strings.Cut(ref, ":")
	return kind == samplingKind
}

// SampledOn refuses workloads, and a scenario, of which a planner on samples would know
// what no router does: it simulates its futures on copies of the engines as they are, which
// +gpu and the slowdown of a host make slower or quicker than their profiles.
func SampledOn(s *scenario.Scenario, names []string) error {
	const knows = "a planner on samples would know how quick the engines truly are, which no router is told"
	for _, h := range s.Hosts {
		if h.Slowdown != nil {
			return fmt.Errorf("with the slowdown of host %q %s", h.Name, knows)
		}
	}
	for _, name := range names {
		spec, err := workloads.Parse(name)
		if err != nil {
			return err
		}
		if spec.GPU != 0 {
			return fmt.Errorf("on %q %s", name, knows)
		}
	}
	return nil
}

// parsePlanned reads a reference to a planner. What the planner on samples is
// told of the world is the scenario's.
func parsePlanned(s *scenario.Scenario, ref string) (planned, error) {
	p := planned{clairvoyant: planner.ClairvoyantOptions{Horizon: planner.DefaultHorizon, Passes: 1}, sampling: SamplingOptions(s)}
	fault := func(what string) (planned, error) {
		return planned{}, fmt.Errorf("cannot use policy %q: %s; want %s", ref, what, PlannedForms)
	}
	p.kind, p.base, _ = strings.Cut(ref, ":")
	if at := strings.LastIndexByte(p.base, '@'); at >= 0 {
		fields := strings.Split(p.base[at+1:], ",")
		// A policy's own version follows an @ too; it is a bare number.
		if horizon, err := time.ParseDuration(fields[0]); err == nil && strings.ContainsAny(fields[0], "smh") {
			p.base = p.base[:at]
			if wrong := p.set(horizon, fields[1:]); wrong != "" {
				return fault(wrong)
			}
		}
	}
	if p.base == "" {
		return fault("no policy to plan with follows the colon")
	}
	return p, nil
}

// set takes the options that follow the @. It returns what is wrong, or nothing.
func (p *planned) set(horizon time.Duration, rest []string) (wrong string) {
	if horizon < 0 {
		return fmt.Sprintf("a horizon of %v lies in the past", horizon)
	}
	p.clairvoyant.Horizon, p.sampling.Horizon = horizon, horizon
	options := []any{&p.clairvoyant.Passes}
	if p.kind == samplingKind {
		options = []any{&p.sampling.Samples, &p.sampling.Margin}
	}
	for i, field := range rest {
		if i == len(options) {
			return fmt.Sprintf("there is no option for %q", field)
		}
		var err error
		switch option := options[i].(type) {
		case *int:
			*option, err = strconv.Atoi(field)
		case *float64:
			*option, err = strconv.ParseFloat(field, 64)
		}
		if err != nil {
			return fmt.Sprintf("%q is not a number", field)
		}
	}
	switch { // now, and not when others have been played
	case p.clairvoyant.Passes < 0:
		return fmt.Sprintf("%d passes; 0 or more are possible", p.clairvoyant.Passes)
	case p.sampling.Samples < 1:
		return fmt.Sprintf("%d samples; at least 1 is needed", p.sampling.Samples)
	case !(p.sampling.Margin >= 0):
		return fmt.Sprintf("a margin of %v standard errors; 0 or more is possible", p.sampling.Margin)
	}
	return ""
}

// SamplingOptions is the planner on samples that the scenario describes: its
// requests, and its training load for the rates at which they may come.
func SamplingOptions(s *scenario.Scenario) planner.SamplingOptions {
	o := planner.DefaultSamplingOptions()
	load := s.Training.Load
	o.Shape = s.Workload
	o.Rates = planner.Rates{
		Least: load.MinRate, Most: load.MaxRate,
		Phase: time.Duration((load.MinPhase + load.MaxPhase) / 2 * float64(time.Second)),
	}
	return o
}

// plannedContestant is the planner that ref names, on the scenario's whole
// fleet, even where its base would be evaluated alone.
func plannedContestant(s *scenario.Scenario, source *Source, ref string, warn func(string)) (evaluation.Contestant, error) {
	p, err := parsePlanned(s, ref)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	base, err := OnWholeFleet(s, source, p.base, warn)
	if err != nil {
		return evaluation.Contestant{}, err
	}
	if p.kind == clairvoyantKind {
		return Clairvoyant(base, p.clairvoyant), nil
	}
	return Sampling(base, p.sampling), nil
}

// OnWholeFleet is the policy with every replica to choose from, be it static.
func OnWholeFleet(s *scenario.Scenario, source *Source, ref string, warn func(string)) (evaluation.Contestant, error) {
	if IsPlanned(ref) {
		return evaluation.Contestant{}, fmt.Errorf("cannot plan with %q as the base: a planner over a planner takes too long", ref)
	}
	c, err := Contestant(s, source, ref, warn)
	if err != nil {
		return c, err
	}
	if _, ok := c.Decider.(evaluation.Placer); ok {
		return c, fmt.Errorf("cannot plan with %q as the base: it chooses replicas, a planner plans with variants", ref)
	}
	c.Fleet, err = s.Simulation()
	return c, err
}

// Clairvoyant is the clairvoyant whose base is the contestant's policy.
func Clairvoyant(base evaluation.Contestant, o planner.ClairvoyantOptions) evaluation.Contestant {
	c := base
	c.Rule, c.Objective = false, objective.Utility // it looks ahead for utility, whatever its base is
	c.Name = fmt.Sprintf("%s:%s@%s", clairvoyantKind, base.Name, short(o.Horizon))
	if o.Passes > 1 {
		c.Name += fmt.Sprintf(",%d", o.Passes)
	}
	c.Open = func(e *env.Environment, r evaluation.Run) (evaluation.Decider, error) {
		return planner.NewClairvoyant(e, r.Seed, base.Decider, o)
	}
	return c
}

// Sampling is the planner on samples whose base is the contestant's policy.
func Sampling(base evaluation.Contestant, o planner.SamplingOptions) evaluation.Contestant {
	c := base
	c.Rule, c.Objective = false, objective.Utility // it looks ahead for utility, whatever its base is
	c.Name = fmt.Sprintf("%s:%s@%s,%d,%v", samplingKind, base.Name, short(o.Horizon), o.Samples, o.Margin)
	c.Open = func(e *env.Environment, r evaluation.Run) (evaluation.Decider, error) {
		return planner.NewSampling(e, r.Seed, base.Decider, o)
	}
	return c
}

// short writes a duration without the zeros that follow from its parts.
func short(d time.Duration) string {
	if d%time.Second == 0 {
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	}
	return d.String()
}

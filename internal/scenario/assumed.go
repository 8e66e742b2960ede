package scenario

import (
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/rl"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// assumed says which parts of the file are left out and follow from the rest.
type assumed struct {
	observation, load, presets, rates, scale, fallback bool
}

const (
	// usualPresets is the built-in scenario whose presets hold where there are none.
	usualPresets = "titan-rtx-opt"
	// paperRate is the [Scenario.FleetRate] of the paper's fleet, for which its workloads
	// and the sweep of evaluation.stable_rates are made.
	paperRate = 53
)

// Lengths of requests, in tokens, where the workload does not say them.
var (
	assumedPrompt = workloads.Lengths{Distribution: "lognormal", Mean: 200, CV: 1}
	assumedOutput = workloads.Lengths{Distribution: "lognormal", Mean: 150, CV: 1}
)

// leftOut notes what the file leaves out, and fills in what follows from nothing else.
// It runs between decoding and checking.
func (s *Scenario) leftOut(r *report) {
	given := func(key string) bool { _, ok := r.lines[key]; return ok || !r.sound(key) }
	if !given("name") {
		s.Name = NameOf(r.file)
	}
	if !given("workload.prompt_tokens") {
		s.Workload.Prompt = assumedPrompt
	}
	if !given("workload.output_tokens") {
		s.Workload.Output = assumedOutput
	}
	s.failing = given("failover")
	s.rolling, s.plans = given("rollout"), given("modality")
	if d := s.drawn(); d != nil {
		d.drawDefaults(func(key string) bool { return given(child("failover.drawn", key)) })
	}
	a := &s.assumed
	if a.fallback = !given("serving.fallback"); a.fallback {
		s.Serving.Fallback = s.BestRule()
		// Universal chooses replicas itself, so it does not route where the balancer asks engines or keeps sessions together.
		if _, asks, _ := s.rule(); len(s.Evaluation.Rules) == 0 && !asks && !s.Serving.Server.Affinity.On() {
			s.Serving.Fallback = policy.Untuned
		}
	}
	a.observation = !given("training.observation")
	a.load = !given("training.load")
	a.presets = !given("training.presets") && !given("training.presets_from")
	a.rates = a.load && !given("evaluation.stable_rates")
	a.scale = a.load && !given("evaluation.rate_scale")
	if a.presets {
		s.Training.PresetsFrom = usualPresets
	}
}

// usualRule is the best rule of a scenario that lists none.
const usualRule = "slackfit"

// BestRule returns the first of evaluation.rules, which lists the best first; slack-fit where
// there are none.
func (s *Scenario) BestRule() string {
	if len(s.Evaluation.Rules) > 0 {
		return s.Evaluation.Rules[0]
	}
	return usualRule
}

// NamesFallback reports whether the file names serving.fallback. Where it does not, that is
// [Scenario.BestRule], or universal of a scenario that lists no rules.
func (s *Scenario) NamesFallback() bool { return !s.assumed.fallback }

// unnamed are the signs that a name cannot have.
var unnamed = regexp.MustCompile(`[^A-Za-z0-9._:-]+`)

// NameOf returns the name of a scenario whose file does not say it.
func NameOf(file string) string {
	base := filepath.Base(file)
	name := unnamed.ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-")
	if name = strings.Trim(name, "._:-"); name == "" {
		return "scenario"
	}
	return name
}

// assume fills in what follows from the fleet. The fleet is checked.
func (s *Scenario) assume() {
	a := s.assumed
	if !a.observation && !a.load {
		return
	}
	rate := s.FleetRate()
	if a.load {
		s.Training.Load = assumedLoad(rate)
	}
	if a.observation {
		s.Training.Observation = s.assumedObservation(rate)
	}
	scale := min(100, max(0.01, Round(rate/paperRate, 2)))
	if a.scale {
		s.Evaluation.RateScale = Scale(scale)
	}
	if a.rates {
		rates := slices.Clone(s.Evaluation.StableRates)
		for i := range rates {
			rates[i] = Round(rates[i]*scale, 2)
		}
		s.Evaluation.StableRates = rates
	}
}

// assumedLoad spans from next to nothing to more than the fleet can answer in time.
func assumedLoad(rate float64) workloads.Load {
	most := min(1e5, max(0.02, Round(1.25*rate, 2)))
	return workloads.Load{
		MinRate: max(0.01, Round(most/200, 2)), MaxRate: most, UniformShare: 0.25,
		MinPhase: 5, MaxPhase: 30, MinPhaseRequests: 250, KnownShare: 0.3,
	}
}

// assumedObservation returns that of the built-in scenarios, with the fleet's scales.
func (s *Scenario) assumedObservation(rate float64) []observation.Feature {
	ones := make([]float64, len(s.Variants))
	for i := range ones {
		ones[i] = 1
	}
	rates := []float64{Round(max(rate/2.5, 0.01), 2)}
	smoothed := slices.Repeat(rates, len(fleet.RateHorizons))
	features := []observation.Feature{
		{Kind: observation.Advice, Rule: s.BestRule()},
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: s.batchScales()},
		{Kind: observation.KVUse, Scale: ones},
		{Kind: observation.Pace, Scale: ones},
		{Kind: observation.Harm, Scale: ones},
		{Kind: observation.SmoothedRate, Scale: smoothed},
		{Kind: observation.LogSmoothedRate, Scale: slices.Repeat([]float64{1}, len(fleet.RateHorizons))},
		{Kind: observation.Rate, Scale: rates},
		{Kind: observation.LogRate, Scale: []float64{1}},
	}
	features = append(features, s.deadlineFeatures(ones)...)
	if s.Predictor() == "" {
		return features
	}
	var heaviest float64
	for i := range s.Tasks {
		heaviest = max(heaviest, s.Tasks[i].Weight)
	}
	return append(features, observation.Feature{Kind: observation.PredictedQuality, Scale: slices.Repeat([]float64{heaviest}, len(ones))},
		observation.Feature{Kind: observation.PredictedSure})
}

// deadlineFeatures are of the first token and of the end of the answer, each where a task has
// a deadline for it: what is forecast against it by variant, and how long it is.
func (s *Scenario) deadlineFeatures(ones []float64) (features []observation.Feature) {
	for _, kind := range []struct {
		forecast, deadline observation.Kind
		ms                 func(*Task) float64
	}{
		{observation.FirstToken, observation.FirstTokenDeadline, func(t *Task) float64 { return t.FirstTokenMS }},
		{observation.Total, observation.TotalDeadline, func(t *Task) float64 { return t.TotalMS }},
	} {
		var longest float64
		for i := range s.Tasks {
			longest = max(longest, kind.ms(&s.Tasks[i]))
		}
		if longest > 0 {
			features = append(features, observation.Feature{Kind: kind.forecast, Scale: ones},
				observation.Feature{Kind: kind.deadline, Scale: []float64{Round(longest/1000, 2)}})
		}
	}
	return features
}

// batchScales is half of what a replica of each variant batches in time, at least 1:
// with that many in flight it is busy, not full.
func (s *Scenario) batchScales() []float64 {
	scales := make([]float64, len(s.Variants))
	caps := s.Capacities(s.meanDeadline())
	for i, p := range s.placedReplicas() {
		scales[p.variant] = max(1, scales[p.variant], Round(float64(caps[i].Batch)/2, 2))
	}
	return scales
}

// Round returns x to so many significant digits, so that what is derived reads as if written and does
// not hang on the last bits of a sum.
func Round(x float64, digits int) float64 {
	if x == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(x)))-float64(digits)+1)
	rounded := math.Round(x/unit) * unit
	return math.Round(rounded*1e9) / 1e9
}

// borrow adds the presets of the scenario that PresetsFrom names. A name that is
// none is a fault, found by the check.
func (s *Scenario) borrow() {
	data, err := workloads.Scenario(s.Training.PresetsFrom)
	if err != nil {
		return
	}
	lender := new(Scenario)
	lender.register(s.sections)
	decode(newReport(s.Training.PresetsFrom), data, lender)
	if s.Training.Presets == nil {
		s.Training.Presets = map[string]Preset{}
	}
	for name, preset := range lender.Training.Presets {
		if _, own := s.Training.Presets[name]; !own && preset.general() {
			if s.assumed.presets && !s.advised() {
				preset.AdviceMargin = 0
			}
			s.Training.Presets[name] = preset
		}
	}
}

// RulesFor returns the best rules known for an objective, the best first: those tuned for it, or
// for windows those of [objective.NearPeak], and then those of evaluation.rules.
func (s *Scenario) RulesFor(o evaluation.Objective) []string {
	var rules []string
	for _, ref := range slices.Concat(s.tunedFor(o), s.Evaluation.Rules) {
		if !slices.Contains(rules, ref) {
			rules = append(rules, ref)
		}
	}
	return rules
}

func (s *Scenario) tunedFor(o evaluation.Objective) []string {
	for text, rules := range s.Evaluation.RulesFor {
		if of, err := evaluation.ParseObjective(text); err == nil && of == o {
			return rules
		}
	}
	if o.Window() > 1 && o != evaluation.NearPeak {
		return s.tunedFor(evaluation.NearPeak)
	}
	return nil
}

// windowRule is the best rule for windows of a scenario that lists none.
const windowRule = "budget"

// BestRuleFor returns the first rule that is tuned for the objective; where there is none,
// [windowRule] of windows, and else [Scenario.BestRule].
func (s *Scenario) BestRuleFor(o evaluation.Objective) string {
	switch rules := s.tunedFor(o); {
	case len(rules) > 0:
		return rules[0]
	case o.Window() > 1:
		return windowRule
	}
	return s.BestRule()
}

// observationFor returns what a policy sees that is trained for the objective. In place of a rule
// that is the best for utility, that for the objective gives the advice; and of an objective of
// windows, how the window stands is seen, too.
func (s *Scenario) observationFor(o evaluation.Objective) []observation.Feature {
	features := slices.Clone(s.Training.Observation)
	if o == evaluation.MeanUtility || len(features) == 0 {
		return features
	}
	if f := &features[0]; f.Kind == observation.Advice && (f.Rule == s.BestRule() || slices.Contains(s.Evaluation.Rules, f.Rule)) {
		f.Rule = s.BestRuleFor(o)
	}
	standing := func(f observation.Feature) bool { return f.Kind == observation.Shortfall }
	if o.Window() > 1 && !slices.ContainsFunc(features, standing) {
		features = append(features, shortfallIn(o.Window()))
	}
	return features
}

// spendable is the share of a window's peak that leaves it near its peak.
const spendable = 0.02

// shortfallIn observes what the latest requests of a window fell short by: of all of those
// before the present one, and of those that are in it for longer than others.
func shortfallIn(window int) observation.Feature {
	f := observation.Feature{Kind: observation.Shortfall}
	for _, sixths := range []int{1, 2, 4, 6} {
		n := max(1, (window-1)*sixths/6)
		if !slices.Contains(f.Requests, n) {
			f.Requests, f.Scale = append(f.Requests, n), append(f.Scale, spendable*float64(window))
		}
	}
	return f
}

// Preset returns the training preset of the name.
func (s *Scenario) Preset(name string) (Preset, error) {
	p, ok := s.Training.Presets[name]
	if !ok {
		return p, fmt.Errorf("scenario %s has no preset %q; it has %s", s.Name, name,
			strings.Join(slices.Sorted(maps.Keys(s.Training.Presets)), ", "))
	}
	if s.choosesReplicas(&p) {
		p = s.byRows(p)
	}
	return p, nil
}

// choosesReplicas reports whether policies of a preset, which says nothing of that, choose replicas and not
// sizes: where the presets are assumed, replicas of a size differ, or no rule advises policies, and nothing
// but utility counts.
func (s *Scenario) choosesReplicas(p *Preset) bool {
	_, asks, _ := s.rule()
	usual := s.assumed.presets && p.general() && len(p.Candidate) == 0 && s.Training.Objective == evaluation.MeanUtility
	_, streams := s.Streams()
	alone := !asks && !s.Serving.Server.Affinity.On() && !s.plans && !s.failing && !streams
	return usual && alone && (s.unequal() || !s.advised())
}

// unequal reports whether hosts differ in their replicas, or in the speed of these.
func (s *Scenario) unequal() bool {
	on := make([]map[int]*profile.Profile, len(s.Hosts)) // by host and variant
	profiles := s.Profiles()
	for i, p := range s.placedReplicas() {
		if on[p.host] == nil {
			on[p.host] = map[int]*profile.Profile{}
		}
		on[p.host][p.variant] = profiles[i]
	}
	return slices.ContainsFunc(on, func(h map[int]*profile.Profile) bool { return !maps.Equal(h, on[0]) })
}

// byRows returns the preset for policies that value the replicas one by one, from what is expected of the
// request there. A decision's reward has all that it is worth. One network learns from as many decisions as
// all would, since each takes a forward pass for every replica when it decides.
func (s *Scenario) byRows(p Preset) Preset {
	if n := p.Members; n > 1 {
		p.Members, p.Environments = 1, 4 // a step of which takes longer than one of the network
		p.Decisions, p.ValidateEvery, p.CheckpointEvery = n*p.Decisions, n*p.ValidateEvery, n*p.CheckpointEvery
	}
	p.AdviceMargin, p.Dueling, p.CentreRewards, p.DifferenceRewards = 0, false, false, true
	p.Epsilon = rl.Epsilon{Start: 0.1, End: 0.02, Share: 0.5} // expectations are a good beginning
	p.Replay = min(p.Replay, 200_000)
	p.Observation = []observation.Feature{{Kind: observation.TaskOneHot}}
	rate := s.FleetRate()
	for _, f := range s.assumedObservation(rate) {
		switch f.Kind {
		case observation.InFlight, observation.KVUse, observation.Pace, observation.Harm:
			p.Observation = append(p.Observation, f)
		}
	}
	n := 1 + len(fleet.RateHorizons)
	perHost := Round(max(rate/2.5, 0.01)/float64(len(s.Hosts)), 2)
	p.Observation = append(p.Observation, observation.Feature{Kind: observation.HostRate, Scale: slices.Repeat([]float64{perHost}, n)},
		observation.Feature{Kind: observation.LogHostRate, Scale: slices.Repeat([]float64{1}, n)})
	untuned, _ := policy.Canonical(policy.Untuned) // with its numbers: a policy keeps to those it learnt with
	p.Candidate = []observation.Feature{
		{Kind: observation.Estimates, Rule: untuned}, {Kind: observation.VariantOneHot},
		{Kind: observation.Quality, Scale: []float64{1}}, {Kind: observation.Gain, Scale: []float64{0.5}},
		{Kind: observation.LogInFlight, Scale: []float64{3}}, {Kind: observation.KVUse, Scale: []float64{1}},
		{Kind: observation.Harm, Scale: []float64{1}},
	}
	return p
}

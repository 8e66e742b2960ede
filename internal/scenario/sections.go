package scenario

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gearshift/internal/scenario/placing"
	"gearshift/router/fleet"
	"gearshift/router/placement/bands"
	"gearshift/router/placement/replicas"
	"gearshift/router/tiers"
	"gearshift/serving/config"
	"gearshift/serving/engines/agents"
	"gearshift/workloads"
)

// sections returns the registered parts of the file, in the order in which they are judged.
func sections() []registered {
	return []registered{evaluationSection(), trustedSection(), timeoutsSection(), overloadSection(), holdSection(), logSection(), jobsSection(), failoverSection(), rebalancingSection(), countsSection(), placementSection(), rolloutSection(), tailSection(), tiersSection(), streamsSection(), qualitySection(), pickerSection(), discoverySection()}
}

// evaluationSection describes how policies are judged.
func evaluationSection() registered {
	return section[Evaluation]{
		key:     "evaluation",
		in:      func(s *Scenario) *Evaluation { return &s.Evaluation },
		initial: defaultEvaluation,
		check:   (*checker).evaluation,
		world:   func(e *Evaluation) { e.Rules, e.RulesFor = nil, nil }, // the rules to beat
		offline: true,
	}
}

func defaultEvaluation() Evaluation {
	return Evaluation{
		StaticMemory: 90,
		Requests:     10_000,
		PhaseS:       40,
		StableRates:  []float64{0.25, 0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 20, 24, 28, 32, 36, 40, 44, 48},
		RateScale:    1,
	}
}

func (c *checker) evaluation(e *Evaluation) {
	c.judgeIf(e.Requests < 1, "evaluation.requests", "must be at least 1, not %d", e.Requests)
	c.seconds("evaluation.phase_s", e.PhaseS)
	c.judgeIf(len(e.StableRates) == 0, "evaluation.stable_rates", "at least one is needed")
	c.scale("evaluation.rate_scale", e.RateScale)
	for i, rate := range e.StableRates {
		if _, err := workloads.NewPoisson(rate); err != nil {
			c.judge(item("evaluation.stable_rates", i), "%v", err)
		}
	}
}

// Trusted lists the keys whose evaluations of policies count without another one.
type Trusted struct {
	// TrustedKeys are public keys, as gearshift policy keygen prints them.
	TrustedKeys []string `yaml:"trusted_keys,omitempty"`
}

// trustedSection says whose evaluations of policies are trusted.
func trustedSection() registered {
	const key = "serving.policies"
	return section[Trusted]{
		key: key, offline: true,
		check: func(c *checker, v *Trusted) {
			for i, text := range v.TrustedKeys {
				if !publicKey.MatchString(text) {
					c.judge(item(key+".trusted_keys", i), "%q is not a public key; want one that gearshift policy keygen prints, such as ed25519:… with 44 characters", text)
				}
			}
		},
	}
}

// The parts of the server's configuration that are used outside of it, and so must be taken
// over by a reload. The server judges them, with the rest of its own.

func timeoutsSection() registered {
	return section[config.Timeouts]{
		key: "serving.timeouts", in: func(s *Scenario) *config.Timeouts { return &s.Serving.Server.Timeouts },
		initial: func() config.Timeouts { return config.Default().Timeouts },
		live:    []string{""},
	}
}

func overloadSection() registered {
	return section[config.Overload]{
		key: "serving.overload", in: func(s *Scenario) *config.Overload { return &s.Serving.Server.Overload },
		initial: config.DefaultOverload,
		live:    []string{""},
	}
}

// holdSection bounds the requests that wait for a model to be loaded or woken. The server judges its values.
func holdSection() registered {
	return section[config.Hold]{
		key: "serving.hold", in: func(s *Scenario) *config.Hold { return &s.Serving.Server.Hold },
		initial: config.DefaultHold,
		check: func(c *checker, h *config.Hold) {
			c.judgeIf(h.For > 0 && c.sound("serving") && !c.anyDriven(), "serving.hold.for", "holds requests until an engine has loaded or woken their model, and no engine does that; want serving.upstreams with a lifecycle, one of %s", strings.Join(agents.Dialects(), ", "))
		},
	}
}

// anyDriven reports whether any engine loads models, or puts them to sleep.
func (c *checker) anyDriven() bool {
	for _, u := range c.s.Serving.Upstreams {
		if u.Lifecycle != "" {
			return true
		}
	}
	return false
}

func logSection() registered {
	return section[config.Log]{
		key: "serving.log", in: func(s *Scenario) *config.Log { return &s.Serving.Server.Log },
		initial: config.DefaultLog,
		live:    []string{"level", "access", "sample"},
	}
}

// Rebalancing is how a router moves replicas between hosts, so that none is much busier than the
// others. docs/rebalancing.md describes what the keys do.
type Rebalancing struct {
	// Period is how often hosts are measured and replicas are moved; zero is never.
	Period time.Duration `yaml:"period"`
	// Band is how far above the mean of all hosts one may be, relative to it, and Threshold the
	// mean below which nothing is moved for a band's sake.
	Band      Share `yaml:"band"`
	Threshold Part  `yaml:"threshold"`
	// AtOnce is how many replicas are moved at a time.
	AtOnce int `yaml:"at_once"`
}

func rebalancingSection() registered {
	return section[Rebalancing]{
		key: "serving.rebalancing",
		initial: func() Rebalancing {
			return Rebalancing{Band: 10, Threshold: 100 * bands.DefaultThreshold, AtOnce: bands.DefaultAtOnce}
		},
		check: (*checker).rebalancing,
	}
}

func (c *checker) rebalancing(r *Rebalancing) {
	const key = "serving.rebalancing"
	c.judgeIf(r.Period < 0 || r.Period > 0 && r.Period < time.Second || r.Period > 24*time.Hour, child(key, "period"), "want a time from 1s to 24h, or 0s to move nothing, not %v", r.Period)
	c.judgeIf(r.AtOnce < 1 || r.AtOnce > 100, child(key, "at_once"), "want a number from 1 to 100, not %d", r.AtOnce)
	if r.Period > 0 && c.sound("serving") {
		c.judgeIf(!c.anyLoads(), child(key, "period"), "moves replicas by loading and unloading them, and no engine does that; want serving.upstreams with a lifecycle, one of %s", strings.Join(loaders(), ", "))
	}
}

// Rebalancing returns how replicas are moved, and whether they are.
func (s *Scenario) Rebalancing() (settings bands.Settings, on bool) {
	r := Of[Rebalancing](s)
	settings = bands.Settings{
		Options: bands.DefaultOptions(), Period: r.Period, Threshold: r.Threshold.Share(), AtOnce: r.AtOnce,
	}
	settings.Options.Band = float64(r.Band) / 100
	return settings, r.Period > 0
}

// Counts sets how many replicas of its variants a router has up, by forecasts of their load. docs/guides/tail.md
// describes what the keys do.
type Counts struct {
	// Period is how often replicas are counted; zero is never.
	Period time.Duration `yaml:"period"`
	// Variants are those that are counted; empty is all.
	Variants []string `yaml:"variants,flow,omitempty"`
	// Min and Max bound how many are wanted of each; a Max of 0 is all.
	Min int `yaml:"min"`
	Max int `yaml:"max,omitempty"`
	// Target is the utilisation to plan for, and Quantile the share of time in which the load may not exceed the
	// margin.
	Target   Part `yaml:"target"`
	Quantile Part `yaml:"quantile"`
	// Warmup is how long a replica takes from its start until it answers; zero is the load time of its model.
	Warmup time.Duration `yaml:"warmup,omitempty"`
	// Stabilisation is how long a wish for more outlasts its reason.
	Stabilisation time.Duration `yaml:"stabilisation"`
}

func countsSection() registered {
	return section[Counts]{
		key: "serving.replicas",
		initial: func() Counts {
			return Counts{Min: 1, Target: 80, Quantile: 95, Stabilisation: 5 * time.Minute}
		},
		check: (*checker).counts,
	}
}

func (c *checker) counts(x *Counts) {
	const key = "serving.replicas"
	c.judgeIf(x.Period < 0 || x.Period > 0 && x.Period < time.Second || x.Period > 10*time.Minute, child(key, "period"), "want a time from 1s to 10m, or 0s to count nothing, not %v", x.Period)
	c.judgeIf(x.Min < 0 || x.Min > 1000, child(key, "min"), "want a number from 0 to 1000, not %d", x.Min)
	c.judgeIf(x.Max < 0 || x.Max > 0 && x.Max < x.Min, child(key, "max"), "want a number from min, %d, on, or 0 for all replicas of a variant, not %d", x.Min, x.Max)
	c.judgeIf(x.Target == 0, child(key, "target"), "want a share above 0%%")
	c.judgeIf(x.Warmup < 0 || x.Warmup > time.Hour, child(key, "warmup"), "want a time from 0s to 1h, not %v", x.Warmup)
	c.judgeIf(x.Stabilisation < 0 || x.Stabilisation > 24*time.Hour, child(key, "stabilisation"), "want a time from 0s to 24h, not %v", x.Stabilisation)
	names := c.s.variantNames()
	for i, name := range x.Variants {
		c.judgeIf(c.knownVariants() && !slices.Contains(names, name), item(child(key, "variants"), i), "unknown variant %q; %s", name, hint(name, names))
	}
	if x.Period > 0 && c.sound("serving") {
		c.judgeIf(!c.anyLoads(), child(key, "period"), "counts replicas by loading and unloading them, and no engine does that; want serving.upstreams with a lifecycle, one of %s", strings.Join(loaders(), ", "))
	}
}

// anyLoads reports whether any engine loads models.
func (c *checker) anyLoads() bool {
	for _, u := range c.s.Serving.Upstreams {
		if loads(u.Lifecycle) {
			return true
		}
	}
	return false
}

// warmupUnknown stands for the load time of models that have none.
const warmupUnknown = time.Minute

// Counts returns the variants of a table whose replicas are counted, and how often; zero is never.
func (s *Scenario) Counts(t *fleet.Table) (list []replicas.Counted, period time.Duration) {
	x := Of[Counts](s)
	if x.Period == 0 {
		return nil, 0
	}
	interval := max(x.Period, time.Minute)
	for v := range t.Variants {
		if len(t.ReplicasOf(v)) == 0 || len(x.Variants) > 0 && !slices.Contains(x.Variants, t.Variants[v].Name) {
			continue
		}
		warmup := x.Warmup
		if m := t.ModelOf(v); warmup == 0 && m >= 0 {
			warmup = t.Models[m].Load
		}
		if warmup == 0 {
			warmup = warmupUnknown
		}
		list = append(list, replicas.Counted{Variant: v, Least: x.Min, Most: x.Max, Plan: replicas.Plan{
			Forecast: replicas.Daily(interval), Interval: interval, Capacity: 1, WarmUp: min(warmup, time.Hour), Keep: 5 * time.Minute,
			Target: x.Target.Share(), Quantile: x.Quantile.Share(), Guard: x.Target.Share(), Stabilisation: x.Stabilisation, Least: x.Min,
		}})
	}
	return list, x.Period
}

// placementSection sets which replicas of a host are up together.
func placementSection() registered {
	return section[placing.Section]{key: "serving.placement", initial: placing.Initial, check: (*checker).placement}
}

func (c *checker) placement(x *placing.Section) {
	const key = "serving.placement"
	x.Judge(func(at, format string, args ...any) { c.judge(child(key, at), format, args...) })
	rule := child(key, "rule")
	if !x.On() || !c.sound("serving") || !c.sound("replicas") || !c.sound("hosts") || !c.knownVariants() || !c.knownTasks() {
		return
	}
	s := c.s
	c.judgeIf(s.Serving.Backend == ONNX, rule, "the models of backend: %s stay as they are; want backend: %s, and engines that load or sleep", ONNX, Upstream)
	c.judgeIf(s.Serving.Backend == Upstream && !slices.ContainsFunc(s.listedReplicas(), func(p placedReplica) bool { return s.upstream(p).Lifecycle != "" }), rule,
		"loads and unloads replicas, and no engine does that; want serving.upstreams with a lifecycle, one of %s", strings.Join(agents.Dialects(), ", "))
	c.judgeIf(Of[Rebalancing](s).Period > 0, rule, "decides which replicas of a host are up, and serving.rebalancing does so too; want one of the two")
	c.judgeIf(Of[Counts](s).Period > 0, rule, "decides which replicas of a host are up, and serving.replicas does so too; want one of the two")
	known := s.variantNames()
	for _, p := range s.listedReplicas() {
		c.judgeIf(p.worker == 1, rule, "decides on engines of one variant each, and model %q has several in one; want no placement, or models without modalities", s.Replicas[p.placement].Model)
		if p.host >= 0 {
			known = append(known, s.replicaName(p))
		}
		if name := s.Replicas[p.placement].Name; name != "" && p.nth == 0 {
			known = append(known, name)
		}
	}
	for i, name := range x.Pinned {
		c.judgeIf(!slices.Contains(known, name), item(child(key, "pinned"), i), "unknown replica or variant %q; %s", name, hint(name, known))
	}
	c.layouts(x, rule)
}

// Tail is what the page and the metrics hold the busiest hosts against.
type Tail struct {
	// Target is the utilisation up to which they are to be used.
	Target Part `yaml:"target"`
}

func tailSection() registered {
	return section[Tail]{
		key:     "serving.tail",
		initial: func() Tail { return Tail{Target: 70} },
		check:   (*checker).tail,
	}
}

func (c *checker) tail(t *Tail) {
	c.judgeIf(t.Target < 1, "serving.tail.target", "want a share from 1%% to 100%%, not %v%%", float64(t.Target))
}

// Tiers are groups of hosts among which a router divides its requests.
type Tiers struct {
	Groups []Tier `yaml:"groups"`
	// Period is how often shares are corrected, and Gain by which part of a tier's distance.
	Period time.Duration `yaml:"period"`
	Gain   float64       `yaml:"gain"`
}

// Tier is one of them.
type Tier struct {
	Name  string   `yaml:"name"`
	Hosts []string `yaml:"hosts,flow"`
}

func tiersSection() registered {
	return section[Tiers]{
		key: "serving.tiers",
		initial: func() Tiers {
			return Tiers{Groups: []Tier{}, Period: tiers.Defaults.Period, Gain: tiers.Defaults.Gain}
		},
		check: (*checker).tiers,
	}
}

func (c *checker) tiers(x *Tiers) {
	const key = "serving.tiers"
	if len(x.Groups) == 0 {
		return
	}
	c.judgeIf(len(x.Groups) < 2 || len(x.Groups) > 16, child(key, "groups"), "want from 2 to 16 tiers, found %d", len(x.Groups))
	c.judgeIf(x.Period < time.Second || x.Period > time.Hour, child(key, "period"), "want a time from 1s to 1h, not %v", x.Period)
	c.judgeIf(!(x.Gain > 0 && x.Gain <= 1), child(key, "gain"), "want a number above 0 and at most 1, not %v", x.Gain)
	in, named := map[string]int{}, map[string]bool{}
	for i, g := range x.Groups {
		at := item(child(key, "groups"), i)
		c.name(child(at, "name"), g.Name)
		c.judgeIf(named[g.Name], child(at, "name"), "%q is taken by a tier before it", g.Name)
		c.judgeIf(len(g.Hosts) == 0, child(at, "hosts"), "at least one is needed")
		named[g.Name] = true
		for _, h := range g.Hosts {
			in[h]++
		}
	}
	for _, h := range c.s.Hosts {
		c.judgeIf(in[h.Name] != 1, child(key, "groups"), "want each host in one tier; %q is in %d", h.Name, in[h.Name])
		c.judgeIf(h.Compute == 0, child(key, "groups"), "divides requests by what hosts compute; %q has no compute", h.Name)
		delete(in, h.Name)
	}
	for _, h := range slices.Sorted(maps.Keys(in)) {
		c.judgeIf(true, child(key, "groups"), "unknown host %q", h)
	}
	c.judgeIf(c.s.Serving.Server.Affinity.On(), child(key, "groups"), "draws a tier for each request, which serving.affinity does not allow; want one of the two")
}

// ServingTiers returns the tiers of a router, with what they compute, and the membership of each replica;
// none if it has none.
func (s *Scenario) ServingTiers(t *fleet.Table) (list []tiers.Tier, members []tiers.Membership, o tiers.Options) {
	x := Of[Tiers](s)
	on := map[string]int{}
	for i, g := range x.Groups {
		list = append(list, tiers.Tier{Name: g.Name})
		for _, h := range g.Hosts {
			on[h] = i
		}
	}
	if len(list) == 0 {
		return nil, nil, o
	}
	for i := range s.Hosts {
		list[on[s.Hosts[i].Name]].Compute += float64(s.Hosts[i].Compute)
	}
	for i := range t.Replicas {
		h := t.Replicas[i].Host // of the table, whose hosts are the scenario's
		members = append(members, tiers.Membership{Tier: on[t.Hosts[h].Name], Compute: float64(s.Hosts[h].Compute)})
	}
	o = tiers.Defaults
	o.Period, o.Gain = x.Period, x.Gain
	return list, members, o
}

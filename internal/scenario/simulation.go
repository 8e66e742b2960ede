package scenario

import (
	"fmt"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/evaluation"
	"gearshift/router"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/serving/config"
	"gearshift/serving/engines/informed"
	"gearshift/workloads"
)

// Simulation returns the fleet in the simulator, without a workload.
func (s *Scenario) Simulation() (env.Config, error) {
	balancer, err := s.Balancer()
	if err != nil {
		return env.Config{}, err
	}
	c := env.Config{
		Table: s.Table(), Profiles: s.Profiles(), KVTokens: s.KVTokens(),
		Slowdowns: s.slowdowns(), Engine: s.Engine, Balancer: balancer,
		Forecaster: s.Forecaster(), WarmUp: s.Serving.Server.Lifecycle.WarmUp,
	}
	if c.Prompts, err = s.played(); err != nil {
		return env.Config{}, err
	}
	if c.Slowdowns != nil {
		s.declare(&c)
	}
	if s.Served || s.Training.AsServed || s.Controlled() {
		c.Table = s.ServingTable()
		c.AsServed = s.asServed(c.Table)
		s.planJobs(&c)
	}
	if s.Controlled() || s.Measures() || c.AsServed != nil && s.prefers() {
		controllers{Scenario: s, all: true}.act(&c)
	}
	return c, nil
}

// asServed returns how requests wait and are refused in the simulator as in the router.
func (s *Scenario) asServed(t *fleet.Table) *env.AsServed {
	x := &env.AsServed{
		Gate: s.Gate(), Limits: s.Serving.Server.Limits(s.Lengths().Output),
		Wakes: func(replica int) bool { return s.drives(&t.Replicas[replica]) },
	}
	list := s.Serving.Server.Classes
	for i := range list {
		x.Classes, x.First = append(x.Classes, list[i].Waits()), append(x.First, list[i].In(t))
	}
	for i := range t.Tasks {
		x.ByTask = append(x.ByTask, config.OfTask(list, t.Tasks[i].Name))
	}
	return x
}

// classed returns the fleet by which classes of requests are checked.
func (s *Scenario) classed() config.Fleet {
	return config.Fleet{Tasks: s.taskNames(), Variants: s.variantNames(), Answers: func(task, variant string) bool {
		_, ok := s.Tasks[slices.Index(s.taskNames(), task)].Quality[variant]
		return ok
	}}
}

// prefers reports whether a class of requests gets a variant first, which needs the fleet's load to be measured.
func (s *Scenario) prefers() bool { return !s.alone && s.Serving.Server.Prefers() }

// Gate says where a request may be begun; nil if the scenario sheds nothing.
func (s *Scenario) Gate() router.Gate {
	o := s.Serving.Server.Overload
	if o.Shed == config.ShedNever {
		return nil
	}
	return router.AdmissionRule{
		DeadlineShare: o.Pace, KV: o.KV, Output: s.Lengths().Output,
		Sequences: s.Engine.MaxSequences, Profiles: s.Profiles(),
	}
}

// Forecaster reckons with the profiles, and with each task's mean output.
func (s *Scenario) Forecaster() *profile.Forecaster {
	output := make([]float64, len(s.Tasks))
	for i := range s.Tasks {
		_, o := s.Workload.Of(s.Tasks[i].Name)
		output[i] = o.Expected()
	}
	return profile.NewForecaster(s.Profiles()).Expecting(output)
}

// slowdowns returns the hosts' own, or nil where no host has one.
func (s *Scenario) slowdowns() []engine.Slowdown {
	var all []engine.Slowdown
	for i, h := range s.Hosts {
		if h.Slowdown == nil {
			continue
		}
		if all == nil {
			all = make([]engine.Slowdown, len(s.Hosts))
		}
		all[i] = engine.Slowdown{Min: h.Slowdown.Min, Max: h.Slowdown.Max, Mean: time.Duration(h.Slowdown.MeanS * float64(time.Second))}
	}
	return all
}

// declare has policies reckon with the profiles as they are now, and with what is
// seen of slower ones where a router would.
func (s *Scenario) declare(c *env.Config) {
	if d := s.Serving.Server.Drift; d.Correct || d.Doubt {
		c.Declared, c.Uncorrected, c.Doubt = c.Profiles, !d.Correct, d.Doubt
	}
}

// Balancer has the affinity that the scenario asks for: the same in the simulator,
// where no request is of a session, and in the router. A balancer that chooses by what engines say
// of their load chooses by the requests in flight in the simulator: it has no other routers, so that
// there is nothing else to know.
func (s *Scenario) Balancer() (balance.Balancer, error) {
	if _, ok, err := s.rule(); ok || err != nil {
		return s.withAffinity(balance.PowerOfK{K: 2}), err
	}
	b, err := balance.Make(s.Serving.Balancer, balance.Known{Profiles: s.Profiles(), Context: s.Lengths().Context, Output: s.Lengths().Output})
	if err != nil {
		return nil, err
	}
	return s.withAffinity(b), nil
}

// Informed returns the balancer of a router that chooses by what engines say of their load, with the
// affinity that the scenario asks for, and the one that hears it. It is nil if the scenario's
// chooses by something else.
func (s *Scenario) Informed(t *fleet.Table) (balance.Balancer, *informed.Balancer, error) {
	rule, ok, err := s.rule()
	if !ok || err != nil {
		return nil, nil, err
	}
	_, members, _ := s.ServingTiers(t)
	for _, m := range members {
		rule.Tiers = append(rule.Tiers, m.Tier)
	}
	b := informed.NewBalancer(s.Serving.Balancer, t, rule, s.means(t), s.Serving.Server.Signals)
	return s.withAffinity(b), b, nil
}

// means returns how long a request of each variant takes by its profile, alone on a host.
func (s *Scenario) means(t *fleet.Table) []time.Duration {
	prompt, output := s.Workload.Expected(t.Tasks)
	means, profiles := make([]time.Duration, len(t.Variants)), s.Profiles()
	for i := range means {
		replicas := t.ReplicasOf(i)
		if len(replicas) == 0 {
			continue
		}
		p := profiles[replicas[0]]
		ms := p.First(profile.Joining{Prompt: int(prompt)})
		if p.Batches == nil {
			pace, _ := p.Time(1, 1, int(prompt+output/2), 0)
			ms = profile.Total(ms, pace, output)
		}
		means[i] = time.Duration(ms * float64(time.Millisecond))
	}
	return means
}

// rule returns that of a balancer which chooses by what engines say of their load; ok is false of
// others.
func (s *Scenario) rule() (rule informed.Rule, ok bool, err error) {
	return informed.RuleNamed(s.Serving.Balancer, s.Serving.Server.Signals)
}

func (s *Scenario) withAffinity(b balance.Balancer) balance.Balancer {
	if affinity := s.Serving.Server.Affinity; affinity.On() {
		return balance.Affinity{Balancer: b, Bound: affinity.Bound}
	}
	return b
}

// Maker makes the rules for the scenario's fleet, whose table may be that of an
// evaluation or of a router.
func (s *Scenario) Maker(t *fleet.Table) (*policy.Maker, error) {
	balancer, err := s.Balancer()
	if err != nil {
		return nil, err
	}
	return &policy.Maker{Table: t, Profiles: s.Profiles(), Lengths: s.Lengths(), Balancer: balancer}, nil
}

// Settings returns what a workload's name leaves to the scenario.
func (s *Scenario) Settings(requests int) workloads.Settings {
	return workloads.Settings{
		Tasks: s.Table().Tasks, Shape: s.Workload, Requests: requests,
		Phase:     time.Duration(s.Evaluation.PhaseS * float64(time.Second)),
		RateScale: float64(s.Evaluation.RateScale),
		Fits:      s.SmallestCache(),
	}
}

// Evaluated turns workload names into the evaluation's workloads; a sweep
// becomes one at each of the scenario's rates, reported as a group too.
func (s *Scenario) Evaluated(names []string, requests int) ([]evaluation.Workload, error) {
	set := s.Settings(requests)
	var list []evaluation.Workload
	for _, name := range names {
		spec, err := workloads.Parse(name)
		if err != nil {
			return nil, err
		}
		var note string
		set.Notice = func(text string) { note = text }
		for _, one := range spec.Expand(s.Evaluation.StableRates) {
			open, err := one.Prepare(set)
			if err != nil {
				return nil, err
			}
			if _, err := open(0); err != nil { // what only a stream finds out
				return nil, err
			}
			w := evaluation.Workload{Name: one.String(), KnownRate: one.TrueRate(), Open: open, Perturb: s.perturbed(one.Perturbation), Note: note}
			fleet := env.Config{Table: s.Table(), Profiles: s.Profiles()}
			if err := w.Perturb(&fleet); err != nil {
				return nil, fmt.Errorf("cannot play workload %q: %w", one, err)
			}
			if spec.Sweep() {
				w.Group = spec.String()
			}
			list = append(list, w)
		}
	}
	return list, nil
}

// perturbed changes a fleet as the workload asks, whose profiles stay declared.
func (s *Scenario) perturbed(d workloads.Perturbation) func(*env.Config) error {
	return func(c *env.Config) error {
		if d.GPU != 0 {
			s.declare(c)
			c.SlowGPU(d.GPU)
		}
		for _, l := range d.Losses() {
			if err := c.Lose(l.Host, l.From, l.To); err != nil {
				return err
			}
		}
		if d.Streams != (workloads.Streams{}) {
			if err := s.stream(c, d.Streams); err != nil {
				return err
			}
		}
		if d.Timeline == "" && !d.Evidence {
			return nil
		}
		return s.disturb(c, d)
	}
}

// Lengths returns what slack-fit expects of a request, whose task it does not ask for: the
// mean output, and the mean context of a running sequence, the prompt and half of the output.
func (s *Scenario) Lengths() policy.Lengths {
	tasks := s.Table().Tasks
	prompt, output := s.Workload.Expected(tasks)
	l := policy.Lengths{Context: prompt + output/2, Output: output}
	for i, share := range s.Workload.Mix.Shares(tasks) {
		p, o := s.Workload.Of(tasks[i].Name)
		l.Tasks = append(l.Tasks, policy.TaskLengths{Prompt: p.Expected(), Output: o.Expected(), Share: share})
	}
	return l
}

// loadBytesPerS is how fast weights come from a disk where no model says how long its load
// takes.
const loadBytesPerS = 1e9

// loadTimes returns how long the replicas take to load by the bytes of their weights.
func (s *Scenario) loadTimes(c *env.Config) []time.Duration {
	times := make([]time.Duration, len(c.Profiles))
	for i, p := range c.Profiles {
		times[i] = time.Duration(float64(p.WeightBytes) / loadBytesPerS * float64(time.Second))
	}
	return times
}

// Disturb has the episodes of a simulated fleet disturbed as the training load says, if it
// does.
func (s *Scenario) Disturb(c *env.Config) error {
	d := s.Training.Load.Disturbances
	if d.Share == 0 {
		return nil
	}
	t := c.Table
	if len(t.Hosts) < 2 {
		return fmt.Errorf("training.load.disturbances: the fleet has %d host; want two at least, since one may be lost", len(t.Hosts))
	}
	c.LoadTimes = s.loadTimes(c)
	loads := slices.Clone(c.LoadTimes)
	for i, r := range t.Replicas {
		if m := t.ModelOf(r.Variant); m >= 0 && t.Models[m].Load > 0 {
			loads[i] = t.Models[m].Load
		}
	}
	c.DrawLosses = func(seed uint64) (losses []env.HostLoss) {
		drawn, _ := d.Draw(t, loads, seed)
		for _, l := range drawn {
			losses = append(losses, env.HostLoss{Host: l.Host, From: l.From, To: l.To})
		}
		return losses
	}
	x := controllers{Scenario: s, all: c.Controllers != nil}
	x.drawn = func(seed uint64) (orders []order) {
		_, steps := d.Draw(t, loads, seed)
		for _, step := range steps {
			i := slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == step.Replica })
			orders = append(orders, order{step, i, verbs[step.Verb].to})
		}
		return orders
	}
	x.act(c)
	return nil
}

// disturb has a simulated fleet change as the workload says: its steps go through the
// lifecycle that the server has, and evidence through its health monitor. The file's own controllers
// act on too, where they did.
func (s *Scenario) disturb(c *env.Config, d workloads.Perturbation) error {
	orders, initial, err := s.orders(d.Steps(), c.Table)
	if err != nil {
		return err
	}
	c.LoadTimes = s.loadTimes(c)
	if len(orders) > 0 {
		c.Initial = initial
	}
	x := controllers{Scenario: s, orders: orders, evidence: d.Evidence, all: c.Controllers != nil}
	if x.all || x.evidence || len(orders) > 0 {
		x.act(c)
	}
	return nil
}

package scenario

import (
	"errors"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"gearshift/env/engine"
	"gearshift/internal/scenario/placing"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/placement/layouts"
	"gearshift/router/profile"
	"gearshift/router/signals"
	"gearshift/serving/engines/agents"
)

// Capacity is what one replica can do for requests of the workload's mean lengths by
// its profile, alone on its host.
type Capacity struct {
	// Alone is the time per output token of a single request, in ms, its prompt included.
	Alone float64
	// Batch is the most requests at once that all meet the deadline; 0 where not even
	// a single one does.
	Batch int
	// Pace is the time per output token at that batch, in ms.
	Pace float64
	// Rate is the requests per second that the replica answers at that batch.
	Rate float64
	// Most is the most requests at once that the KV cache and engine.max_sequences
	// admit, whatever the deadline, and MostPace the time per output token then, in ms.
	Most     int
	MostPace float64
	// KVTokens is what the KV cache holds.
	KVTokens int
}

// request is the mean request of a workload, in tokens.
type request struct{ prompt, output float64 }

// meanRequest returns the mean request of the workload, at least a token each way.
func (s *Scenario) meanRequest() request {
	prompt, output := s.Workload.Expected(s.tasks())
	return request{max(1, prompt), max(1, output)}
}

// Capacities returns the capacity of each replica under a deadline in ms per output token,
// by the replica's index.
func (s *Scenario) Capacities(deadlineMS float64) []Capacity {
	return s.expected().capacities(deadlineMS)
}

// expected holds what the capacities of the replicas follow from at any deadline.
type expected struct {
	s        *Scenario
	profiles []*profile.Profile // by replica
	tokens   []int              // likewise
	mean     request
	mix      []float64 // by task
}

func (s *Scenario) expected() *expected {
	return &expected{s, s.Profiles(), s.KVTokens(), s.meanRequest(), s.Workload.Mix.Shares(s.tasks())}
}

// capacities returns those of the replicas under a deadline.
func (x *expected) capacities(deadlineMS float64) []Capacity {
	list := make([]Capacity, len(x.profiles))
	for i, p := range x.profiles {
		if p.Batches != nil {
			list[i] = x.s.batchCapacity(p, x.mix, x.mean, deadlineMS)
			continue
		}
		list[i] = capacity(p, x.s.Engine, x.tokens[i], x.mean, deadlineMS)
	}
	return list
}

func capacity(p *profile.Profile, e engine.Config, kvTokens int, mean request, deadlineMS float64) Capacity {
	return capacityNext(p, e, kvTokens, mean, deadlineMS, 0)
}

// capacityNext returns the capacity of a replica whose neighbours load the host by so much.
func capacityNext(p *profile.Profile, e engine.Config, kvTokens int, mean request, deadlineMS, neighbours float64) Capacity {
	pace := func(n int) float64 { return paceOf(p, e, mean, n, neighbours) }
	c := Capacity{Alone: pace(1), KVTokens: kvTokens}
	c.Most = max(0, min(e.MaxSequences, int(float64(kvTokens)/(mean.prompt+mean.output))))
	if c.Most > 0 {
		c.MostPace = pace(c.Most)
	}
	// A step never gets shorter as requests join, so that the batches that meet the
	// deadline are those below the first that does not.
	c.Batch = sort.Search(c.Most, func(i int) bool { return pace(i+1) > deadlineMS })
	if c.Batch > 0 {
		c.Pace = pace(c.Batch)
		c.Rate = rateOf(c.Batch, c.Pace, mean)
	}
	return c
}

// rateOf returns the requests per second of a batch that is kept full.
func rateOf(batch int, paceMS float64, mean request) float64 {
	return float64(batch) * 1000 / (mean.output * paceMS)
}

// paceOf returns the time per output token, in ms, where n requests run all the time: a
// step for each token, and the prompts of those that come meanwhile, one for each
// that goes. Neighbours load the host by so much.
func paceOf(p *profile.Profile, e engine.Config, mean request, n int, neighbours float64) float64 {
	context := int(float64(n) * (mean.prompt + mean.output/2))
	prefill := p.Prefill(int(mean.prompt), neighbours) / mean.output
	if e.Scheduler == engine.ChunkedPrefill && n > 1 {
		// The others' prompts are computed together with the tokens, not in between.
		tokens := float64(n) + float64(n-1)*mean.prompt/mean.output
		ms, _ := p.Time(int(math.Ceil(tokens)), n, context, neighbours)
		return ms + prefill + float64(n-1)*p.Prompt/mean.output
	}
	ms, _ := p.Time(n, n, context, neighbours)
	return ms + float64(n)*prefill
}

// meanDeadline returns what the tasks allow in ms per output token, weighted by their shares of
// the requests. Tasks that allow any time do not count where others have a deadline.
func (s *Scenario) meanDeadline() (ms float64) {
	unpaced := 0.
	for i, share := range s.Workload.Mix.Shares(s.tasks()) {
		if t := &s.Tasks[i]; t.Unpaced() {
			unpaced += share
		} else {
			ms += share * s.PaceMS(t)
		}
	}
	if ms == 0 {
		return longestDeadline
	}
	if unpaced > 0 {
		ms /= 1 - unpaced
	}
	return ms
}

// AnyInTime reports whether any replica answers a request within the mean deadline, on which
// [Scenario.FleetRate] goes.
func (s *Scenario) AnyInTime() bool {
	return slices.ContainsFunc(s.Capacities(s.meanDeadline()), func(c Capacity) bool { return c.Batch > 0 })
}

// FleetRate returns the requests per second that all hosts together answer in time, each
// with the variant that answers most there, of those that are up at the start if any is.
func (s *Scenario) FleetRate() float64 {
	best := make([]float64, len(s.Hosts))
	caps, mean := s.Capacities(s.meanDeadline()), s.meanRequest()
	places := s.placedReplicas()
	all := !slices.ContainsFunc(places, func(p placedReplica) bool { return p.state == fleet.Up })
	for i, p := range places {
		if !all && p.state != fleet.Up {
			continue
		}
		rate := caps[i].Rate
		if rate == 0 { // late, but that is what it does
			rate = rateOf(1, caps[i].Alone, mean)
		}
		best[p.host] = max(best[p.host], rate)
	}
	var sum float64
	for _, rate := range best {
		sum += rate
	}
	return sum
}

// HostTime returns how long an answer with so many tokens takes of a replica's host at its best: in
// the largest batch whose requests are in time, or alone where none is. A host whose answers take
// all of its time has no room left.
func (s *Scenario) HostTime() func(replica, tokens int) time.Duration {
	mean := s.meanRequest()
	seconds := make([]float64, 0, len(s.Replicas))
	for _, c := range s.Capacities(s.meanDeadline()) {
		rate := c.Rate
		if rate == 0 {
			rate = rateOf(1, c.Alone, mean)
		}
		seconds = append(seconds, 1/rate)
	}
	return func(replica, tokens int) time.Duration {
		part := 1.0
		if tokens > 0 {
			part = float64(tokens) / mean.output
		}
		return time.Duration(seconds[replica] * part * float64(time.Second))
	}
}

// work returns the rates of replicas for requests of each task's mean lengths, by their profiles.
func (s *Scenario) work() layouts.Work {
	x := s.expected()
	of := func(replica, task int, neighbours float64) Capacity {
		t, p := &s.Tasks[task], x.profiles[replica]
		prompt, output := s.Workload.Of(t.Name)
		mean, deadline := request{max(1, prompt.Expected()), max(1, output.Expected())}, float64(longestDeadline)
		if !t.Unpaced() {
			deadline = s.PaceMS(t)
		}
		if p.Batches != nil {
			mix := make([]float64, len(s.Tasks))
			mix[task] = 1
			c := s.batchCapacity(p, mix, mean, deadline/p.Interference(neighbours))
			c.Rate /= p.Interference(neighbours)
			return c
		}
		return capacityNext(p, s.Engine, x.tokens[replica], mean, deadline, neighbours)
	}
	return layouts.Work{
		Rate: func(replica, task int, neighbours float64) float64 { return of(replica, task, neighbours).Rate },
		Duty: func(replica int) (most float64) {
			for task := range s.Tasks {
				n := max(1, of(replica, task, 0).Batch)
				_, duty := x.profiles[replica].Step(n, n, int(float64(n)*(x.mean.prompt+x.mean.output/2)), 0)
				most = max(most, duty)
			}
			return most
		},
	}
}

// Combination is a variant of a model with modalities, as a replica of it runs on a host.
type Combination struct {
	Variant    string
	Modalities []string
	Memory     Bytes              // that a subset needs; 0 is unknown
	Quality    map[string]float64 // by task; those that it does not answer are left out
	Latency    []float64          // of a batch of 1, 2, … in ms
}

// Combinations lists what the model's variants do on the host, those of fewer modalities
// first; none if the model has no modalities, or does not run there.
func (s *Scenario) Combinations(model, host string) []Combination {
	m := indexOf(s.modelNames(), model)
	if m < 0 || len(s.Weights[m].Modalities) == 0 {
		return nil
	}
	var list []Combination
	for i := range s.Variants {
		v := &s.Variants[i]
		profiles := s.modelsFor(v.Name, host)
		placed := slices.ContainsFunc(s.Replicas, func(p Placement) bool { return slices.Contains(p.Hosts, host) && s.runsVariant(&p, v.Name) })
		if v.Model != model || len(profiles) == 0 || !placed || !s.Models[profiles[0]].tabled() {
			continue
		}
		p := &s.Models[profiles[0]]
		c := Combination{Variant: v.Name, Modalities: s.Weights[m].subset(s.Weights[m].mask(v.Modalities)), Memory: p.Memory, Quality: map[string]float64{}}
		for _, t := range s.Tasks {
			if q, ok := t.Quality[v.Name]; ok {
				c.Quality[t.Name] = q
			}
		}
		for n := range min(p.Most(0), s.Engine.MaxSequences) {
			c.Latency = append(c.Latency, p.Batches.Time(0, n+1))
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Combination) int {
		x, y := s.Weights[m].mask(a.Modalities), s.Weights[m].mask(b.Modalities)
		if n := bits.OnesCount(x) - bits.OnesCount(y); n != 0 {
			return n
		}
		return int(x) - int(y)
	})
	return list
}

// Busy returns a measurement of how busy the ledger's hosts are.
func (s *Scenario) Busy(l *fleet.Ledger) *signals.Busy {
	o := signals.BusyOptions{Takes: s.HostTime()}
	for _, r := range l.Table().Replicas {
		slots := s.Engine.MaxSequences
		if r.Limit > 0 {
			slots = min(slots, r.Limit)
		}
		o.AtOnce = append(o.AtOnce, slots)
	}
	return signals.NewBusy(l, o)
}

// layouts reports hosts that have no layouts, or too many, or start with replicas up that are none of them.
func (c *checker) layouts(x *placing.Section, at string) {
	if len(c.faults) > 0 {
		return // what is wrong elsewhere may be why
	}
	t, err := c.s.newTable(0)
	if err != nil {
		return
	}
	for h := range t.Hosts {
		list, err := layouts.List(t, h, c.s.layoutLimits(t, x))
		c.judgeIf(err != nil, at, "%v", err)
		if text := layouts.Misfit(t, list); err == nil && text != "" {
			c.judge(at, "host %s starts with %s; want the replicas of a layout up, and the others with state: warm or cold", t.Hosts[h].Name, text)
		}
	}
}

// unchanging warns of layouts that are decided where each host has one.
func (w *warner) unchanging() {
	if err := w.s.Unchanging(); err != nil {
		w.warn("serving.placement.rule", "%v", err)
	}
}

// Unchanging returns an error where layouts are decided and each host has one.
func (s *Scenario) Unchanging() error {
	if !s.Places() {
		return nil
	}
	t, x := s.Table(), Of[placing.Section](s)
	for h := range t.Hosts {
		if list, err := layouts.List(t, h, s.layoutLimits(t, x)); err != nil || len(list) > 1 {
			return nil
		}
	}
	return errors.New("each host has one layout, so that there is nothing to decide; want replicas that do not all fit together, such as a size at two shares of memory, or less pinned")
}

func (s *Scenario) layoutLimits(t *fleet.Table, x *placing.Section) layouts.Limits {
	places := s.placedReplicas()
	return layouts.Limits{
		Decided: func(r int) bool { return !places[r].second && places[r].worker == 0 },
		Pinned: func(r int) bool {
			name := t.Replicas[r].Name
			return slices.ContainsFunc([]string{name, nameOf(name), t.Variants[t.Replicas[r].Variant].Name}, func(of string) bool { return slices.Contains(x.Pinned, of) })
		},
	}
}

// Places reports whether something decides about the layouts of hosts.
func (s *Scenario) Places() bool { return Of[placing.Section](s).On() }

// PlacementPolicy returns the stored policy that decides about layouts; empty if a rule does.
func (s *Scenario) PlacementPolicy() string { return Of[placing.Section](s).Policy }

// Placing returns how the layouts of hosts are decided; ok is false where they are not.
func (s *Scenario) Placing(t *fleet.Table) (o layouts.Options, ok bool) {
	x := Of[placing.Section](s)
	if !x.On() || s.alone {
		return o, false
	}
	o = x.Options()
	if s.Chooser != nil {
		o.Rule = s.Chooser()
		o.Stay = max(o.Stay, time.Duration(x.StayS*float64(time.Second)))
	}
	places := s.placedReplicas()
	o.Limits = s.layoutLimits(t, x)
	in := func(state fleet.State) bool {
		return slices.ContainsFunc(places, func(p placedReplica) bool { return !p.second && p.state == state })
	}
	cold := in(fleet.Cold) && !in(fleet.Warm)
	o.Rest = func(r int) fleet.State {
		d, err := agents.DialectNamed(s.upstream(places[r]).Lifecycle)
		can := func(x agents.Order) bool { return err != nil || d == nil || d.Refuses(x) == nil }
		if cold && can(agents.Order{Verb: control.Unload}) || !can(agents.Order{Verb: control.Sleep, Level: 1}) {
			return fleet.Cold
		}
		return fleet.Warm
	}
	o.Work, o.Shares = s.work(), s.Workload.Mix.Shares(t.Tasks)
	for i := range t.Tasks {
		prompt, output := s.Workload.Of(t.Tasks[i].Name)
		o.Tokens = append(o.Tokens, layouts.Tokens{Prompt: prompt.Expected(), Output: output.Expected()})
	}
	return o, true
}

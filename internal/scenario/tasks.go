package scenario

import (
	"math"
	"slices"

	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Task is a class of requests; see [fleet.Task].
type Task struct {
	Name string `yaml:"name"`
	// Kind is the kind of its requests' input, for profiles with times by it.
	Kind string `yaml:"kind,omitempty"`
	// The deadlines, of which a task has one at least: per output token, from arrival to
	// the first token, and from arrival to the end of the answer. Zero is none.
	DeadlineMS   float64 `yaml:"deadline_ms,omitempty"`
	FirstTokenMS float64 `yaml:"first_token_ms,omitempty"`
	TotalMS      float64 `yaml:"total_ms,omitempty"`
	Decay        string  `yaml:"decay"` // Hard or Soft
	Weight       float64 `yaml:"weight"`
	// Quality is by variant name. A variant that is left out does not answer the task.
	Quality map[string]float64 `yaml:"quality"`
	// Rate makes the task an application, of so many requests per second, which is answered
	// elsewhere when its host dies. Critical ones come first, and Primary is the host that runs
	// it; empty: the one with most room. See [Failover].
	Rate     float64 `yaml:"rate,omitempty"`
	Critical bool    `yaml:"critical,omitempty"`
	Primary  string  `yaml:"primary,omitempty"`
}

// The decays of a [Task].
const (
	Hard = "hard" // nothing past the deadline (LBE-2)
	Soft = "soft" // 1 % less per ms past it, nothing from 10 % over (LBE-3)
)

// Unpaced reports whether the task's answers may take as long per output token as they
// like: only the first of them has a deadline.
func (t *Task) Unpaced() bool { return t.DeadlineMS == 0 && t.TotalMS == 0 }

func (t *Task) defaults() { t.Decay, t.Weight = Hard, 1 }

// An application is a task with a rate. Its variants are those with a quality for it, and its
// primary the host that runs the best of them that answers in time.

// Applications lists the tasks that are applications, by index: the order of the controller of failover.
func (s *Scenario) Applications() (tasks []int) {
	for i, t := range s.Tasks {
		if t.Rate > 0 {
			tasks = append(tasks, i)
		}
	}
	return tasks
}

// criticals says which of the applications are critical: those of which their tasks say so, or
// else the share of them that failover.critical says, spread evenly over the list.
func (s *Scenario) criticals(tasks []int) []bool {
	list := make([]bool, len(tasks))
	own := slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Critical })
	share := Of[Failover](s).Critical.Share()
	for i, task := range tasks {
		if list[i] = s.Tasks[task].Critical; !own {
			list[i] = math.Floor(float64(i+1)*share+1e-9) > math.Floor(float64(i)*share+1e-9)
		}
	}
	return list
}

// serviceMS returns the time of one request of the task on an engine of the variant that runs nothing
// else, on the host; 0 where there is no profile.
func (s *Scenario) serviceMS(task, variant, host int) float64 {
	list := s.modelsFor(s.Variants[variant].Name, s.Hosts[host].Name)
	if len(list) == 0 {
		return 0
	}
	p := &s.Models[list[0]].Profile
	if p.Batches != nil {
		return p.Batches.Time(max(0, p.Batches.Kind(s.Tasks[task].Kind)), 1)
	}
	prompt, output := s.Workload.Of(s.Tasks[task].Name)
	mean := request{max(1, prompt.Expected()), max(1, output.Expected())}
	return paceOf(p, s.Engine, mean, 1, 0) * mean.output
}

// workMS returns what a request of the task takes of a host's compute, in ms, on the host where that is most; a
// variant has one demand in plans.
func (s *Scenario) workMS(task, variant int) (ms float64) {
	for h := range s.Hosts {
		ms = max(ms, s.workOn(task, variant, h))
	}
	return ms
}

// workOn returns what a request of the task takes of the host's compute, in ms: the time of a request in the
// largest batch that is in time, as the check's table of capacities has it, or that of one alone if none is. It is
// 0 where there is no profile.
func (s *Scenario) workOn(task, variant, host int) float64 {
	list := s.modelsFor(s.Variants[variant].Name, s.Hosts[host].Name)
	if len(list) == 0 {
		return 0
	}
	t := &s.Tasks[task]
	prompt, output := s.Workload.Of(t.Name)
	mean := request{max(1, prompt.Expected()), max(1, output.Expected())}
	var c Capacity
	if p := &s.Models[list[0]].Profile; p.Batches != nil {
		mix := make([]float64, len(s.Tasks))
		mix[task] = 1
		c = s.batchCapacity(p, mix, mean, s.PaceMS(t))
	} else {
		c = capacity(p, s.Engine, p.KVTokens(int64(s.weight(variant)), s.Engine.BlockTokens), mean, s.PaceMS(t))
	}
	if c.Rate == 0 {
		return s.serviceMS(task, variant, host)
	}
	return 1000 / c.Rate
}

// boundMS is how long an answer of the task may take; 0 is as long as it likes.
func (s *Scenario) boundMS(task int) float64 {
	t := &s.Tasks[task]
	_, output := s.Workload.Of(t.Name)
	switch {
	case t.TotalMS > 0:
		return t.TotalMS
	case t.DeadlineMS > 0:
		return t.DeadlineMS * max(1, output.Expected())
	}
	return 0
}

// weight returns the bytes that the variant takes once loaded; 0 where it has no model.
func (s *Scenario) weight(variant int) Bytes {
	if m := indexOf(s.modelNames(), s.Variants[variant].Model); m >= 0 {
		return s.Weights[m].Memory
	}
	return 0
}

// slowestMS is the time of a request of the task on the host that takes longest; a variant has one time in plans.
func (s *Scenario) slowestMS(task, variant int) (ms float64) {
	for h := range s.Hosts {
		ms = max(ms, s.serviceMS(task, variant, h))
	}
	return ms
}

// candidates lists the variants of the task that answer in time and fit some host, the best first.
func (s *Scenario) candidates(task int) (list []int) {
	bound := s.boundMS(task)
	for v := range s.Variants {
		fits := slices.ContainsFunc(s.Hosts, func(h Host) bool { return h.Memory >= s.weight(v) })
		if s.Tasks[task].answers(s.Variants[v].Name) && fits && (bound == 0 || s.slowestMS(task, v) <= bound) {
			list = append(list, v)
		}
	}
	q := s.Tasks[task].Quality
	slices.SortStableFunc(list, func(v, w int) int {
		switch a, b := q[s.Variants[v].Name], q[s.Variants[w].Name]; {
		case a > b:
			return -1
		case a < b:
			return 1
		}
		return 0
	})
	return list
}

// home is where an application runs: the variant and the host, −1 if there is no room for it.
type home struct{ variant, host int }

// homes places the applications: on the primaries of their tasks, and the others where most is
// free, in the order of the file.
func (s *Scenario) homes(tasks []int) []home {
	l := load{s: s, taken: make([]amount, len(s.Hosts)), loaded: map[home]bool{}, homes: make([]home, len(tasks))}
	for i, task := range tasks {
		l.homes[i] = home{-1, -1}
		if h := s.hostIndex(s.Tasks[task].Primary); h >= 0 {
			for _, v := range s.candidates(task) {
				if s.weight(v) <= s.Hosts[h].Memory {
					l.put(i, task, home{v, h})
					break
				}
			}
		}
	}
	for i, task := range tasks {
		if list := s.candidates(task); s.Tasks[task].Primary == "" && len(list) > 0 {
			if h := l.roomiest(task, list[0]); h >= 0 {
				l.put(i, task, home{list[0], h})
			}
		}
	}
	return l.homes
}

// load is what applications take of the hosts while they are placed.
type load struct {
	s      *Scenario
	taken  []amount // by host
	loaded map[home]bool
	homes  []home
}

// amount is what applications take of a host. Those that run the same variant share its
// memory; each has its own in separate, by which hosts are compared, so that they do not gather.
type amount struct{ memory, separate, compute float64 }

// with is what is taken of the host once the application is there too.
func (l *load) with(task int, at home) amount {
	x, weight := l.taken[at.host], float64(l.s.weight(at.variant))
	x.separate += weight
	if !l.loaded[at] {
		x.memory += weight
	}
	x.compute += l.s.Tasks[task].Rate * l.s.workOn(task, at.variant, at.host) / 1000
	return x
}

func (l *load) put(i, task int, at home) {
	l.taken[at.host] = l.with(task, at)
	l.loaded[at], l.homes[i] = true, at
}

// roomiest is the host with most left of what is scarcer there, among those with room; −1 if there is none.
func (l *load) roomiest(task, variant int) int {
	best, most := -1, math.Inf(-1)
	for h := range l.s.Hosts {
		x, all := l.with(task, home{variant, h}), float64(l.s.Hosts[h].Memory)
		left := min(1-x.separate/all, 1-x.compute)
		if x.memory <= all && x.compute <= 1+1e-9 && left > most {
			best, most = h, left
		}
	}
	return best
}

// generate makes the replicas that a file with failover leaves out: each variant on each host
// where it fits, cold except where it is an application's own on its primary. Models whose variants
// share an engine, as jobs need it, are up on each.
func (s *Scenario) generate() {
	for _, m := range s.Weights {
		if len(m.Modalities) > 0 {
			s.shareEngines(&m)
		}
	}
	tasks := s.Applications()
	up := map[home]bool{}
	for _, at := range s.homes(tasks) {
		up[at] = true
	}
	for v := range s.Variants {
		if m := indexOf(s.modelNames(), s.Variants[v].Model); m >= 0 && len(s.Weights[m].Modalities) > 0 {
			continue
		}
		var hosts [2][]string // up, cold
		for h, host := range s.Hosts {
			weight := s.weight(v)
			if weight == 0 || weight > host.Memory || len(s.modelsFor(s.Variants[v].Name, host.Name)) == 0 {
				continue
			}
			if up[home{v, h}] {
				hosts[0] = append(hosts[0], host.Name)
			} else {
				hosts[1] = append(hosts[1], host.Name)
			}
		}
		for i, state := range []fleet.State{fleet.Up, fleet.Cold} {
			if len(hosts[i]) > 0 {
				s.Replicas = append(s.Replicas, Placement{Variant: s.Variants[v].Name, Hosts: hosts[i], Memory: Memory{Size: s.weight(v)}, State: state.String()})
			}
		}
	}
}

// shareEngines places the model on each host where it fits.
func (s *Scenario) shareEngines(m *Model) {
	p := Placement{Model: m.Name, Memory: Memory{Size: m.Memory}}
	for _, host := range s.Hosts {
		lacks := slices.ContainsFunc(s.Variants, func(v Variant) bool { return v.Model == m.Name && len(s.modelsFor(v.Name, host.Name)) == 0 })
		if m.Memory <= host.Memory && !lacks {
			p.Hosts = append(p.Hosts, host.Name)
		}
	}
	if len(p.Hosts) > 0 {
		s.Replicas = append(s.Replicas, p)
	}
}

// generated makes the replicas where the file leaves them to failover. Where what they follow
// from is at fault there are none, and nothing is said of them.
func (c *checker) generated() {
	if !c.s.failing || c.s.drawn() != nil || len(c.s.Replicas) > 0 || !c.sound("replicas") {
		return
	}
	if _, given := c.lines["replicas"]; given {
		return
	}
	if len(c.faults) == 0 && c.lengthsSound() && c.modelled() {
		c.s.generate()
		return
	}
	c.breaks("replicas")
}

// modelled reports the variants of applications that have no model, or one that fits no host, and whether
// there is none.
func (c *checker) modelled() bool {
	before := len(c.faults)
	for i, v := range c.s.Variants {
		of := slices.IndexFunc(c.s.Tasks, func(t Task) bool { return t.Rate > 0 && t.answers(v.Name) })
		switch {
		case v.Model == "" && of >= 0:
			c.judge(child(item("variants", i), "model"), "missing; the application %s may be answered by %s after a failure: want the model that is loaded for it", c.s.Tasks[of].Name, v.Name)
		case v.Model == "":
			c.judge(child(item("variants", i), "model"), "missing; without replicas in the file each variant needs a model, which says what it takes")
		case !slices.ContainsFunc(c.s.Hosts, func(h Host) bool { return h.Memory >= c.s.weight(i) }):
			c.judge(child(item("variants", i), "model"), "%s takes %v, more than any host has", v.Model, c.s.weight(i))
		case !slices.ContainsFunc(c.s.Hosts, func(h Host) bool { return len(c.s.modelsFor(v.Name, h.Name)) > 0 }):
			c.judge(child(item("variants", i), "name"), "%s", c.s.lacking(i))
		}
	}
	return len(c.faults) == before
}

// fillMix gives every task its weight, so that a mix left out, or without a
// task, is the same scenario as one that says so. Where all tasks have a rate, that is it.
func (s *Scenario) fillMix() {
	alike := len(s.Workload.Mix) == 0
	rated := !slices.ContainsFunc(s.Tasks, func(t Task) bool { return t.Rate == 0 })
	for _, t := range s.Tasks {
		if alike && rated {
			s.Workload.Mix[t.Name] = t.Rate
		} else if alike {
			s.Workload.Mix[t.Name] = 1
		} else if _, ok := s.Workload.Mix[t.Name]; !ok {
			s.Workload.Mix[t.Name] = 0
		}
	}
}

// bound cuts lengths that have no max to what fits every replica: one request that is
// too long would else end a simulation.
func (s *Scenario) bound() {
	w := &s.Workload
	s.unbounded.prompt, s.unbounded.output = w.Prompt.Unbounded(), w.Output.Unbounded()
	*w = w.Within(s.SmallestCache())
}

// declared returns the workload section as it is written, without the bounds that follow
// from the replicas.
func (s *Scenario) declared() workloads.Shape {
	w := s.Workload
	if s.unbounded.prompt {
		w.Prompt.Max = 0
	}
	if s.unbounded.output {
		w.Output.Max = 0
	}
	return w
}

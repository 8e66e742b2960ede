package scenario

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/router/profile"
	"gearshift/serving/jobs"
	"gearshift/workloads"
)

// tabled reports whether the model is a table of times by batch.
func (m *LatencyModel) tabled() bool { return m.BatchMS != nil || m.Kinds != nil }

// spares reports whether the key may be left out where the others are given: a table
// stands in the place of the times by token, and needs no KV cache.
func (m *LatencyModel) spares(given map[string]bool, key string) bool {
	return key != "variant" && (given["batch_ms"] || given["kinds"])
}

// sparing is a struct of which keys may be left out where others are given.
type sparing interface {
	spares(given map[string]bool, key string) bool
}

// byToken are the keys of a profile that have no meaning in a table of times by batch.
var byToken = []string{
	"launch_floor_ms", "weights_ms", "growth_per_sequence", "token_ms", "context_token_ms", "sequence_ms", "prompt_ms",
	"kv_bytes_per_token",
}

// batches checks a table of times by batch, and makes it.
func (c *checker) batches(at string, m *LatencyModel) {
	for _, key := range byToken {
		if _, given := c.lines[child(at, key)]; given {
			c.judge(child(at, key), "has no meaning in a profile with times by batch; leave it out")
		}
	}
	if m.BatchMS != nil && m.Kinds != nil {
		c.judge(child(at, "kinds"), "excludes batch_ms, the times of all kinds of input; want one of the two")
		return
	}
	listed, keys := m.Kinds, func(kind string) string { return child(child(at, "kinds"), kind) }
	if m.BatchMS != nil {
		listed, keys = map[string]map[string]float64{"": m.BatchMS}, func(string) string { return child(at, "batch_ms") }
	}
	kinds, sound := map[string]map[int]float64{}, true
	for kind, times := range sorted(listed) {
		kinds[kind] = map[int]float64{}
		for size, ms := range sorted(times) {
			n, err := strconv.Atoi(size)
			if key := child(keys(kind), size); err != nil {
				c.judge(key, "a batch size is a whole number, not %q", size)
				sound = false
			} else if ms > maxCostMS {
				c.judge(key, "a cost is at most an hour, %d ms, not %v", maxCostMS, ms)
				sound = false
			}
			kinds[kind][n] = ms
		}
	}
	if !sound {
		return
	}
	if len(kinds) == 0 {
		c.judge(child(at, "kinds"), "lists no kind of input; want times by batch of one, as in {image: {1: 5.5, 8: 21}}")
		return
	}
	table, err := profile.NewBatches(kinds)
	if err != nil {
		for _, e := range flatten(err) {
			c.judge(child(keys(e.Kind), strconv.Itoa(e.Size)), "%s", e.Message)
		}
		return
	}
	m.Batches = table
	for k, kind := range table.Kinds() {
		if least := table.Time(k, 1); m.Overhead >= least {
			c.judge(child(at, "overhead_ms"), "%v ms is part of the time of a batch, and that of a batch of 1%s is %v ms; want less", m.Overhead, ofKind(kind), least)
		}
	}
}

func ofKind(kind string) string {
	if kind == "" {
		return ""
	}
	return " of " + kind
}

// flatten returns the faults joined in an error of [profile.NewBatches].
func flatten(err error) (list []*profile.BatchError) {
	var one *profile.BatchError
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, e := range joined.Unwrap() {
			list = append(list, flatten(e)...)
		}
	} else if errors.As(err, &one) {
		list = append(list, one)
	}
	return list
}

// kinds holds the kind of input of each task against the tables of those that answer it.
func (c *checker) kinds() {
	var known []string
	for i := range c.s.Models {
		if t := c.s.Models[i].Batches; t != nil {
			known = append(known, t.Kinds()...)
		}
	}
	known = slices.DeleteFunc(known, func(kind string) bool { return kind == "" })
	slices.Sort(known)
	known = slices.Compact(known)
	for i, t := range c.s.Tasks {
		key := child(item("tasks", i), "kind")
		if t.Kind != "" && !slices.Contains(known, t.Kind) {
			if len(known) == 0 {
				c.judge(key, "no profile has times by kind of input; leave it out, or give one kinds")
			} else {
				c.judge(key, "unknown kind of input %q; %s", t.Kind, hint(t.Kind, known))
			}
			continue
		}
		for j := range c.s.Models {
			m := &c.s.Models[j]
			if _, answers := t.Quality[m.Variant]; !answers || m.Batches == nil || m.Batches.Kind(t.Kind) >= 0 {
				continue
			}
			c.judge(key, "the profile of %s on line %d has no times of %s, only of %s; want one of these, or no quality of %s",
				m.Variant, c.line(item("profiles", j)), kindName(t.Kind), strings.Join(m.Batches.Kinds(), ", "), m.Variant)
			break
		}
	}
}

func kindName(kind string) string {
	if kind == "" {
		return "a task without a kind"
	}
	return fmt.Sprintf("%q", kind)
}

// tabled reports whether all engines run batches to their end.
func (s *Scenario) tabled() bool {
	return !slices.ContainsFunc(s.Models, func(m LatencyModel) bool { return !m.tabled() })
}

// smallest returns the tokens of the smallest of these KV caches. Engines without one, which
// have 0, hold any request.
func smallest(caches []int) int {
	least := 2 * workloads.MaxTokens
	for _, tokens := range caches {
		if tokens > 0 {
			least = min(least, tokens)
		}
	}
	return least
}

// holds reports whether a replica of so much memory holds requests of so many tokens.
func (m *LatencyModel) holds(memory int64, tokens, block int) bool {
	if m.tabled() {
		return memory >= m.WeightBytes+m.ActivationBytes
	}
	return m.KVTokens(memory, block) >= tokens
}

// batchCapacity is capacity where batches run to their end. A request waits for the batch
// under way, and then for its own.
func (s *Scenario) batchCapacity(p *profile.Profile, mix []float64, mean request, deadlineMS float64) Capacity {
	e := s.Engine
	time, most := s.batchTime(p, mix)
	most = min(most, e.MaxSequences)
	pace := func(n int) float64 {
		if n == 1 {
			return time(1) / mean.output
		}
		return 2 * time(n) / mean.output
	}
	c := Capacity{Alone: pace(1), Most: most, MostPace: pace(most)}
	for n := 1; n <= most && pace(n) <= deadlineMS; n++ {
		c.Batch = n
	}
	if c.Batch > 0 {
		c.Pace, c.Rate = pace(c.Batch), float64(c.Batch)*1000/time(c.Batch)
	}
	return c
}

// batchTime returns the time of a batch of n by the profile, in ms, in the mean over the kinds
// of input by the tasks' shares of the requests, mix, and the largest batch of any.
func (s *Scenario) batchTime(p *profile.Profile, mix []float64) (time func(n int) float64, most int) {
	shares, sum := map[int]float64{}, 0.0
	for i, share := range mix {
		if kind := p.Batches.Kind(s.Tasks[i].Kind); kind >= 0 && share > 0 {
			shares[kind] += share
			sum += share
		}
	}
	if sum == 0 {
		shares, sum = map[int]float64{0: 1}, 1
	}
	kinds := slices.Sorted(maps.Keys(shares))
	for _, kind := range kinds {
		most = max(most, p.Most(kind))
	}
	return func(n int) (ms float64) {
		for _, kind := range kinds {
			ms += shares[kind] / sum * p.Batches.Time(kind, n)
		}
		return ms
	}, most
}

// Jobs returns how jobs are planned: the models with modalities, and the workers that answer for them in a
// fleet. The seed is that of policies that draw.
func (s *Scenario) Jobs(t *fleet.Table, seed uint64) jobs.Config {
	planning := Of[JobPlanning](s)
	c := jobs.Config{Policy: planning.Policy, Mixing: planning.Mixing, Largest: planning.Table, Fixed: planning.FixedEstimates, Seed: seed}
	for i := range s.Weights {
		if m := s.jobsModel(&s.Weights[i], t); len(m.Workers) > 0 && len(m.Tasks) > 0 {
			c.Models = append(c.Models, m)
		}
	}
	return c
}

// planJobs has requests of the tasks that only one model with modalities answers come as jobs of one request
// in a simulation as served, if the file has a section about jobs: of the first such model whose variants share
// an engine on each host, and only where other tasks are left to route. A stored policy, which a file only
// names, is foresight here.
func (s *Scenario) planJobs(c *env.Config) {
	if !s.plans || s.alone {
		return
	}
	all := s.Jobs(c.Table, 0)
	all.Models = slices.DeleteFunc(all.Models, func(m jobs.Model) bool {
		return slices.ContainsFunc(m.Workers, func(w jobs.Worker) bool { return c.Table.Replicas[w.Replicas[0]].Worker == 0 })
	})
	if len(all.Models) == 0 {
		return
	}
	if modality.IsStored(all.Policy) {
		all.Policy = modality.Names[0]
	}
	m := &all.Models[0]
	var tasks []int // of the model, those of the table
	for i := range m.Tasks {
		at := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == m.Tasks[i].Name })
		if len(s.Tasks[at].Quality) > len(m.Tasks[i].Quality) { // other models answer it too
			at = -1
		}
		tasks = append(tasks, at)
	}
	if !slices.ContainsFunc(tasks, func(t int) bool { return t >= 0 }) || len(s.Tasks) == len(tasks) && !slices.Contains(tasks, -1) {
		return
	}
	tables := map[string]*modality.Table{} // of strategies, which episodes share
	all.NewTable = func(_, worker string, options []modality.Option, mixing modality.Mixing, size int) (t *modality.Table, err error) {
		if t = tables[worker]; t == nil {
			t, err = modality.NewTable(options, mixing, size)
		}
		return t, err
	}
	if pool, _, err := all.Pool(m); err == nil { // the error is the first episode's
		for i, w := range pool.Workers {
			tables[m.Workers[i].Name] = w.Table()
		}
	}
	c.Jobs = func(uint64) (*env.Jobs, error) {
		pool, options, err := all.Pool(m)
		j := &env.Jobs{Pool: pool, Answers: make([]uint64, len(s.Tasks))}
		for i, o := range options {
			if t := tasks[o.Task]; t >= 0 {
				j.Answers[t] |= 1 << i
			}
		}
		for w := range m.Workers {
			x := env.JobsWorker{}
			for _, o := range options {
				x.Replicas = append(x.Replicas, m.Workers[w].Replicas[o.Option])
			}
			j.Workers = append(j.Workers, x)
		}
		return j, err
	}
}

// jobsModel is a model with what answers it. Hosts that have not all of its combinations get no
// jobs.
func (s *Scenario) jobsModel(weights *Model, t *fleet.Table) jobs.Model {
	m := jobs.Model{Name: weights.Name, Modalities: weights.Modalities}
	var most []Combination
	for _, h := range s.Hosts {
		if list := s.Combinations(m.Name, h.Name); len(list) > len(most) {
			most = list
		}
	}
	for _, o := range most {
		m.Options = append(m.Options, jobs.Option{Variant: o.Variant, Modalities: o.Modalities})
	}
	for i := range s.Tasks {
		task := jobs.Task{Name: s.Tasks[i].Name, Quality: map[string]float64{}, Total: profile.Duration(s.Tasks[i].TotalMS)}
		for _, o := range most {
			if q, answers := o.Quality[task.Name]; answers {
				task.Quality[o.Variant] = q
			}
		}
		if len(task.Quality) > 0 {
			m.Tasks = append(m.Tasks, task)
		}
	}
	for _, h := range s.Hosts {
		if list := s.Combinations(m.Name, h.Name); slices.EqualFunc(list, most, func(a, b Combination) bool { return a.Variant == b.Variant }) && len(list) > 0 {
			m.Workers = append(m.Workers, jobsWorker(h.Name, list, t))
		}
	}
	return m
}

// jobsWorker is the engine on the host, with the times of its profile.
func jobsWorker(host string, list []Combination, t *fleet.Table) jobs.Worker {
	w := jobs.Worker{Name: host}
	for _, o := range list {
		w.Latency = append(w.Latency, o.Latency)
		w.Replicas = append(w.Replicas, slices.IndexFunc(t.Replicas, func(r fleet.Replica) bool { return r.Name == o.Variant+"@"+host }))
	}
	return w
}

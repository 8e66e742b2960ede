package learning_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/evaluation"
	"gearshift/internal/calibrate/draft"
	"gearshift/internal/learning"
	"gearshift/internal/scenario"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// fleetOf is a true scenario, and what a router without a file begins with of its engines.
type fleetOf struct {
	truth, begun *scenario.Scenario
}

// asked returns what a router begins with that knows of the engines what they report, and one step of each.
func asked(t testing.TB, truth *scenario.Scenario, deadlineMS float64) fleetOf {
	t.Helper()
	table, profiles := truth.Table(), truth.Profiles()
	var engines []draft.Engine
	for i, r := range table.Replicas {
		step, _ := profiles[i].Step(1, 1, 20, 0)
		engines = append(engines, draft.Engine{
			Host: table.Hosts[r.Host].Name, URL: fmt.Sprintf("http://%s:%d", table.Hosts[r.Host].Name, 8000+i), Kind: draft.Gearshift,
			Models: []draft.Model{{ID: table.Variants[r.Variant].Name, KVTokens: truth.KVTokens()[i], Block: truth.Engine.BlockTokens,
				Sequences: truth.Engine.MaxSequences, Step: profile.Duration(step), Context: 4096}},
		})
	}
	f, err := draft.Compose(engines)
	if err != nil {
		t.Fatal(err)
	}
	text, _, err := f.Probed("engines", deadlineMS)
	if err != nil {
		t.Fatal(err)
	}
	begun, err := scenario.Parse("engines.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return fleetOf{truth, begun}
}

// begins returns the profiles that the router begins with, by the true table's replicas.
func (f *fleetOf) begins() []*profile.Profile {
	mine, all := f.begun.Table(), f.begun.Profiles()
	var list []*profile.Profile
	for _, r := range f.truth.Table().Replicas {
		for j, o := range mine.Replicas {
			if o.Name == r.Name {
				list = append(list, all[j])
			}
		}
	}
	return list
}

// table returns the true table with the deadline and the qualities that the router assumes, for every task.
func (f *fleetOf) table(t testing.TB) *fleet.Table {
	t.Helper()
	was := f.truth.Table()
	assumed := f.begun.Table()
	var tasks []fleet.Task
	for _, task := range was.Tasks {
		one := assumed.Tasks[0]
		one.Name = task.Name
		one.Quality = make([]float64, len(was.Variants))
		for v := range was.Variants {
			for k, o := range assumed.Variants {
				if o.Name == was.Variants[v].Name {
					one.Quality[v] = assumed.Tasks[0].Quality[k]
				}
			}
		}
		tasks = append(tasks, one)
	}
	table, err := fleet.NewTable(tasks, was.Variants, was.Hosts, was.Replicas, was.Models...)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// swapped forecasts by the profiles of the moment.
type swapped struct{ *profile.Forecaster }

// session is a router that learns in the simulator.
type session struct {
	learner *learning.Profiles
	answers []drift.Timing
	table   *fleet.Table
	chunked bool
	scores  *learning.Qualities
	random  *rand.Rand
}

// score has the clients, who share a key, say of one answer in three whether it is right.
func (x *session) score(truth *fleet.Table, outcomes []env.Outcome) {
	for i := range outcomes {
		o := &outcomes[i]
		if x.random.IntN(3) > 0 {
			continue
		}
		score := 0.0
		if x.random.Float64() < truth.Tasks[o.Request.Task].Quality[o.Variant] {
			score = 1
		}
		x.scores.Add("", 0, o.Variant, score) // the router knows one task
	}
}

// scored returns the table with the means of scores, once they are certain.
func (x *session) scored(t testing.TB) (*fleet.Table, bool) {
	means, ok := x.scores.Task(0, true)
	if !ok {
		return x.table, false
	}
	tasks := slices.Clone(x.table.Tasks)
	for i := range tasks {
		tasks[i].Quality = make([]float64, len(means))
		for v, m := range means {
			tasks[i].Quality[v] = m.Mean
		}
	}
	table, err := fleet.NewTable(tasks, x.table.Variants, x.table.Hosts, x.table.Replicas, x.table.Models...)
	if err != nil {
		t.Fatal(err)
	}
	return table, true
}

// learns plays so many requests of the workload, decided by the rule and what is known at the moment.
func (f *fleetOf) learns(t testing.TB, workload, rule string, requests int, seed uint64) *session {
	t.Helper()
	c, err := f.truth.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	x := &session{table: f.table(t), chunked: f.truth.Engine.Scheduler == engine.ChunkedPrefill}
	truth := f.truth.Table()
	x.scores, x.random = learning.NewQualities(x.table, func(string) bool { return false }), rand.New(rand.NewPCG(seed, 1))
	x.learner = learning.NewProfiles(x.table, f.begins(), x.chunked)
	forecaster := &swapped{profile.NewForecaster(f.begins())}
	c.Table, c.Declared, c.Forecaster = x.table, f.begins(), forecaster
	c.Timed = func(a *drift.Timing) {
		x.learner.Add(a)
		x.answers = append(x.answers, *a)
	}
	work, err := f.truth.Evaluated([]string{workload}, requests)
	if err != nil {
		t.Fatal(err)
	}
	c.Open = work[0].Open
	e, err := env.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(seed); err != nil {
		t.Fatal(err)
	}
	decide := f.rule(t, x, rule, f.begins())
	for n := 0; n < requests; n++ {
		s, err := evaluation.Route(e, decide, nil)
		if err != nil {
			t.Fatal(err)
		}
		x.score(truth, s.Info.Outcomes)
		if x.learner.Due() {
			now := x.learner.Fit()
			forecaster.Forecaster, decide = profile.NewForecaster(now), f.rule(t, x, rule, now)
			e.Simulator().Drift().Revise(now)
		}
		if s.Terminated {
			break
		}
	}
	return x
}

// rule makes a rule of profiles, and of the lengths that were seen.
func (f *fleetOf) rule(t testing.TB, x *session, ref string, by []*profile.Profile) policy.Rule {
	t.Helper()
	maker, err := f.truth.Maker(x.table)
	if err != nil {
		t.Fatal(err)
	}
	maker.Profiles, maker.Lengths = by, f.begun.Lengths()
	if prompt, output, answers := x.learner.Lengths(); answers >= 50 {
		maker.Lengths.Context, maker.Lengths.Output = prompt+output/2, output
	}
	prompt := maker.Lengths.Context - maker.Lengths.Output/2
	maker.Lengths.Tasks = nil
	for range x.table.Tasks {
		maker.Lengths.Tasks = append(maker.Lengths.Tasks, policy.TaskLengths{Prompt: prompt, Output: maker.Lengths.Output, Share: 1 / float64(len(x.table.Tasks))})
	}
	rule, err := maker.Parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// builtin returns a scenario of the program.
func builtin(t testing.TB, name string) *scenario.Scenario {
	t.Helper()
	s, err := scenario.Load(name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// seedOf returns the seed of the n-th run that a router learns in.
func seedOf(n uint64) uint64 { return workloads.Seed(workloads.Training, n) }

// contestant plays what was learned on the true engines. The deadline and the qualities are the assumed ones.
func (f *fleetOf) contestant(t testing.TB, x *session, rule string) evaluation.Contestant {
	t.Helper()
	c, err := f.truth.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	now := x.learner.Now()
	x.table, _ = x.scored(t)
	c.Table, c.Declared, c.Forecaster = x.table, now, profile.NewForecaster(now)
	return evaluation.Contestant{Name: "learned", Decider: f.rule(t, x, rule, now), Fleet: c}
}

// calibrated plays a rule with the true times, lengths and deadlines, and one task, of the mean quality of all.
func (f *fleetOf) calibrated(t testing.TB, rule string) evaluation.Contestant {
	t.Helper()
	c, err := f.truth.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	c.Table = f.table(t)
	for v := range c.Table.Variants {
		var sum float64
		for _, task := range f.truth.Table().Tasks {
			sum += task.Quality[v]
		}
		for i := range c.Table.Tasks {
			c.Table.Tasks[i].Quality[v] = sum / float64(len(c.Table.Tasks))
		}
	}
	maker, err := f.truth.Maker(c.Table)
	if err != nil {
		t.Fatal(err)
	}
	made, err := maker.Parse(rule)
	if err != nil {
		t.Fatal(err)
	}
	return evaluation.Contestant{Name: "calibrated, one task, " + made.Name(), Decider: made, Fleet: c}
}

package prompts

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/workloads"
	"gearshift/workloads/prompts"
)

// played is the scenario that is simulated, and rule the one that decides by load and quality there.
const (
	played = "prompts-three"
	rule   = "task-aware:0.98,0.08,1,0.5,0.15"
)

// bench is the scenario with its prompts.
type bench struct {
	scenario     *scenario.Scenario
	*set               // columns are variants
	fitted, used []int // places of the prompts that are fitted to, and of those that are played
}

// arm names what decisions know of prompts.
type arm struct {
	name     string
	scenario *scenario.Scenario
	// predicted is by prompt, in place of what the scenario's predictor says; nil leaves that.
	predicted []fleet.Prediction
}

func newBench() (*bench, error) {
	s, err := scenario.Load(played)
	if err != nil {
		return nil, err
	}
	all, err := prompts.BuiltIn(s.Workload.Prompts)
	if err != nil {
		return nil, err
	}
	w := &bench{scenario: s, set: newSet(all.Of(s.Columns()))}
	for i := range w.Prompts {
		if w.Prompts[i].Played() {
			w.used = append(w.used, i)
		} else {
			w.fitted = append(w.fitted, i)
		}
	}
	return w, nil
}

// by returns the scenario with another predictor.
func (w *bench) by(ref string) *scenario.Scenario {
	s := *w.scenario
	s.Predict(ref, nil)
	return &s
}

// arms returns what is compared under one rule: the declared row first, then what is predicted.
func (w *bench) arms() ([]arm, error) {
	fit := w.by(scenario.FitPredictor)
	c, err := fit.Simulation()
	if err != nil {
		return nil, err
	}
	list := []arm{
		{"task's mean", w.by(""), nil},
		{"predicted", fit, nil},
		{"oracle", w.by(scenario.OraclePredictor), nil},
		{"predicted, dealt at random", fit, shuffled(c.Prompts.Predicted[0])},
	}
	for _, m := range []method{neighbours, factors} {
		predict, err := m.fit(w.set, w.fitted, 1)
		if err != nil {
			return nil, err
		}
		rows := make([][]float64, len(w.used))
		for i, at := range w.used {
			rows[i] = make([]float64, len(w.Columns))
			predict(at, rows[i])
		}
		list = append(list, arm{m.name, fit, predictions(rows)})
	}
	return list, nil
}

// shuffled deals the predictions to other prompts.
func shuffled(list []fleet.Prediction) []fleet.Prediction {
	list = slices.Clone(list)
	rand.New(rand.NewPCG(1, key)).Shuffle(len(list), func(a, b int) { list[a], list[b] = list[b], list[a] })
	return list
}

// predictions returns scores by prompt and variant as decisions see them.
func predictions(rows [][]float64) []fleet.Prediction {
	gains := quality.Gains(len(rows), len(rows[0]), func(i, v int) float32 { return float32(rows[i][v]) })
	list := make([]fleet.Prediction, len(rows))
	for i, row := range rows {
		list[i] = fleet.Prediction{Known: true, Sure: 1, Gains: &gains}
		for v, y := range row {
			list[i].Quality[v] = float32(min(1, max(0, y)))
		}
		list[i].Low = list[i].Quality
	}
	return list
}

// contestant returns the rule with what the arm knows.
func (a arm) contestant(rule string) (evaluation.Contestant, error) {
	c, err := policies.Contestant(a.scenario, nil, rule, nil)
	if err != nil {
		return c, fmt.Errorf("%s: %w", a.name, err)
	}
	c.Name = a.name
	if a.predicted != nil {
		c.Fleet.Prompts = &env.Prompts{Scores: c.Fleet.Prompts.Scores, Predicted: slices.Repeat([][]fleet.Prediction{a.predicted}, len(c.Fleet.Table.Tasks))}
	}
	return c, nil
}

// threshold chooses the larger of two sizes where it is predicted to gain more than so much, whatever
// the load, as RouteLLM does.
type threshold struct {
	small, large int
	gain         float64
}

func (threshold) Scratch() int { return 0 }

func (d threshold) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	if v.Table.Quality(r, d.large)-v.Table.Quality(r, d.small) > d.gain {
		return d.large
	}
	return d.small
}

// tuneThreshold returns the best threshold of any two sizes on training seeds of the workload.
func tuneThreshold(ctx context.Context, c evaluation.Contestant, w evaluation.Workload, seeds int) (evaluation.Contestant, error) {
	t := evaluation.Tuning{Fleet: c.Fleet, Workloads: []evaluation.Workload{w}, Seeds: workloads.Seeds(workloads.Training, seeds), Trials: 15}
	made := map[string]evaluation.Decider{}
	for large := range c.Fleet.Table.Variants {
		for small := range large {
			name := fmt.Sprintf("%s or %s", c.Fleet.Table.Variants[small].Name, c.Fleet.Table.Variants[large].Name)
			t.Families = append(t.Families, evaluation.Family{
				Name: name, Axes: []evaluation.Axis{{Name: "gain", Grid: []float64{-0.2, -0.1, 0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4}}},
				Make: func(values []float64) (string, evaluation.Decider, error) {
					d := threshold{small, large, values[0]}
					name := fmt.Sprintf("%s above %.3f", name, values[0])
					made[name] = d
					return name, d, nil
				},
			})
		}
	}
	trials, err := t.Run(ctx)
	if err != nil {
		return c, err
	}
	best := slices.MaxFunc(trials, func(a, b evaluation.Trial) int { return cmp.Compare(a.Score, b.Score) })
	c.Name, c.Decider = "threshold without load: "+best.Policy, made[best.Policy]
	return c, nil
}

// elsewhere returns contestants whose predictors have no labels of the group, and a scenario whose
// requests are of that group alone.
func (w *bench) elsewhere(group string) ([]evaluation.Contestant, *scenario.Scenario, error) {
	var known []int
	for _, i := range w.fitted {
		if w.Prompts[i].Group != group {
			known = append(known, i)
		}
	}
	m, _, err := quality.Fit(w.of(known), w.Columns, quality.Options{Key: key, Seed: 1})
	if err != nil {
		return nil, nil, err
	}
	fit := w.by(scenario.FitPredictor)
	b, err := quality.Bind(m, fit.Table(), fit.Columns())
	if err != nil {
		return nil, nil, err
	}
	shrunk := make([]fleet.Prediction, len(w.used))
	for i, at := range w.used {
		b.Predict(&w.examples[at].Sample, 0, &shrunk[i])
	}
	raw, _ := predictAll(m, w.of(w.used))
	var list []evaluation.Contestant
	for _, a := range []arm{{"declared row", w.by(""), nil}, {"predicted", fit, shrunk}, {"oracle", w.by(scenario.OraclePredictor), nil}, {"raw", fit, predictions(raw)}, {"predicted with labels of the group", fit, nil}} {
		c, err := a.contestant(rule)
		if err != nil {
			return nil, nil, err
		}
		list = append(list, c)
	}
	some := *w.scenario
	some.Workload.Carried = make([][]int32, len(some.Tasks))
	for i, at := range w.used {
		for task := range some.Tasks {
			if w.Prompts[at].Group == group {
				some.Workload.Carried[task] = append(some.Workload.Carried[task], int32(i))
			}
		}
	}
	return list, &some, nil
}

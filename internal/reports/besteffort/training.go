package besteffort

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/rl"
	"gearshift/router/observation"
)

// trainingSection shows what the learner's result depends on: the seed, and each of
// its ingredients.
func (p *paper) trainingSection(ctx context.Context, out *reports.Part) {
	out.Text = "The same preset from other seeds. Then one ingredient of the preset changed at a time, all else equal; where the change is to the fleet or the observation, so is the policy's."
	seeds := p.seedTable(ctx)
	out.Tables = append(out.Tables, seeds)
	if !p.options.Ablations {
		return
	}
	out.Tables = append(out.Tables, p.ablationTable(ctx))
}

// seedTable trains from several seeds.
func (p *paper) seedTable(ctx context.Context) report.Table {
	t := report.Table{ID: "training-seeds", Title: "Policies by training seed", Columns: utilityColumns("Seed")}
	means := map[string][]float64{}
	for seed := 1; seed <= p.options.TrainingSeeds; seed++ {
		ref := p.hard
		if seed > 1 {
			ref = p.trained(ctx, fmt.Sprintf("hard-seed-%d", seed), p.scenario, p.options.Preset, uint64(seed), "")
		}
		all := p.evaluate(ctx, "hard", p.scenario, []string{ref}, policies.JudgedBy)
		t.Rows = append(t.Rows, utilityRow(fmt.Sprint(seed), all, ref))
		for _, name := range policies.JudgedBy {
			means[name] = append(means[name], all[[2]string{ref, name}].Utility.Mean)
		}
	}
	p.longer(ctx, &t)
	t.Note = "Spread between seeds, highest less lowest:"
	for _, name := range policies.JudgedBy {
		t.Note += fmt.Sprintf(" %s %.4f", name, slices.Max(means[name])-slices.Min(means[name]))
	}
	t.Note += "."
	return t
}

// longer adds the row of a run that is several times as long.
func (p *paper) longer(ctx context.Context, t *report.Table) {
	if p.options.Longer == 1 {
		return
	}
	s := ablated(p.scenario, p.options.Preset, ablation{change: func(_ *scenario.Scenario, preset *scenario.Preset) {
		preset.Decisions *= p.options.Longer
	}})
	ref := p.trained(ctx, "hard-longer", s, p.options.Preset, 1, "")
	all := p.evaluate(ctx, "hard", p.scenario, []string{ref}, policies.JudgedBy)
	label := fmt.Sprintf("1, %d times as long", p.options.Longer)
	t.Rows = append(t.Rows, utilityRow(label, all, ref))
}

// ablation changes one ingredient of a preset, or of the scenario.
type ablation struct {
	name   string
	change func(s *scenario.Scenario, p *scenario.Preset)
}

var ablations = []ablation{
	{"none", func(*scenario.Scenario, *scenario.Preset) {}},
	{"no advice of a rule", func(s *scenario.Scenario, p *scenario.Preset) {
		p.AdviceMargin = 0
		s.Training.Observation = without(s.Training.Observation, observation.Advice)
	}},
	{"advice observed, no margin for it", func(_ *scenario.Scenario, p *scenario.Preset) { p.AdviceMargin = 0 }},
	{"one network", func(_ *scenario.Scenario, p *scenario.Preset) { p.Members = 1 }},
	{"no dueling head", func(_ *scenario.Scenario, p *scenario.Preset) { p.Dueling = false }},
	{"true rates never known", func(s *scenario.Scenario, _ *scenario.Preset) { s.Training.Load.KnownShare = 0 }},
	{"returns of up to 0.3 s", func(_ *scenario.Scenario, p *scenario.Preset) { p.NStep, p.NStepTime = 32, 0.3 }},
	{"target copied every 500 steps (LBE-14)", func(_ *scenario.Scenario, p *scenario.Preset) { p.TargetRate, p.TargetSync = 0, 500 }},
	{"discount per step (LBE-14)", func(_ *scenario.Scenario, p *scenario.Preset) { p.Discount = rl.Discount{PerStep: 0.99} }},
	{"rewards not centred", func(_ *scenario.Scenario, p *scenario.Preset) { p.CentreRewards = false }},
	{"weights not averaged", func(_ *scenario.Scenario, p *scenario.Preset) { p.WeightAverage = 0 }},
	{"rates uniform in training (LBE-16)", func(s *scenario.Scenario, _ *scenario.Preset) { s.Training.Load.UniformShare = 1 }},
	{"phases of 5 requests or more", func(s *scenario.Scenario, _ *scenario.Preset) { s.Training.Load.MinPhaseRequests = 5 }},
	{"no forecasts observed", func(s *scenario.Scenario, _ *scenario.Preset) {
		s.Training.Observation = without(s.Training.Observation, observation.Pace, observation.Harm)
	}},
	{"no KV use observed", func(s *scenario.Scenario, _ *scenario.Preset) {
		s.Training.Observation = without(s.Training.Observation, observation.KVUse)
	}},
	{"no smoothed rates observed", func(s *scenario.Scenario, _ *scenario.Preset) {
		s.Training.Observation = without(s.Training.Observation, observation.SmoothedRate, observation.LogSmoothedRate)
	}},
	{"replica chosen by the policy, without advice", func(s *scenario.Scenario, p *scenario.Preset) {
		s.Training.Observation = without(s.Training.Observation, observation.Advice)
		p.Candidate, p.Dueling, p.AdviceMargin = candidates, false, 0
	}},
	{"smallest batch dispatched to (LBE-8)", func(s *scenario.Scenario, _ *scenario.Preset) { s.Serving.Balancer = "smallest-batch" }},
	{"prioritised replay", func(_ *scenario.Scenario, p *scenario.Preset) {
		p.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
	}},
}

// candidates suit any fleet.
var candidates = []observation.Feature{
	{Kind: observation.VariantOneHot},
	{Kind: observation.Quality, Scale: []float64{1}},
	{Kind: observation.Gain, Scale: []float64{0.5}},
	{Kind: observation.InFlight, Scale: []float64{20}},
	{Kind: observation.LogInFlight, Scale: []float64{3}},
	{Kind: observation.KVUse, Scale: []float64{1}},
	{Kind: observation.Pace, Scale: []float64{1}},
	{Kind: observation.Harm, Scale: []float64{1}},
	{Kind: observation.Neighbours, Scale: []float64{20, 4}},
}

func without(features []observation.Feature, kinds ...observation.Kind) []observation.Feature {
	return slices.DeleteFunc(slices.Clone(features), func(f observation.Feature) bool { return slices.Contains(kinds, f.Kind) })
}

// ablationSeeds is how many training seeds each ablation is the mean of.
const ablationSeeds = 3

// ablated returns the scenario whose preset, and whatever else, is changed.
func ablated(s *scenario.Scenario, presetName string, a ablation) *scenario.Scenario {
	c := *s
	preset := c.Training.Presets[presetName]
	a.change(&c, &preset)
	c.Training.Presets = maps.Clone(s.Training.Presets)
	c.Training.Presets[presetName] = preset
	return &c
}

func (p *paper) ablationTable(ctx context.Context) report.Table {
	const preset = "quick"
	t := report.Table{
		ID: "ablations", Title: "One ingredient changed, preset " + preset, Columns: utilityColumns("Changed"),
		Note: fmt.Sprintf("Means over %d training seeds, with intervals over the evaluation seeds: what training seeds differ by is not in them.", ablationSeeds),
	}
	for i, a := range ablations {
		s := ablated(p.scenario, preset, a)
		runs := map[string][][]float64{} // by workload, training seed and evaluation seed
		for seed := uint64(1); seed <= ablationSeeds; seed++ {
			ref := p.train(ctx, reports.Training{
				On: s, Preset: preset, Name: fmt.Sprintf("ablation-%d-seed-%d", i, seed), Seed: seed, Uncompared: true,
			})
			all := p.evaluate(ctx, a.name, s, []string{ref}, policies.JudgedBy)
			for _, name := range policies.JudgedBy {
				runs[name] = append(runs[name], all[[2]string{ref, name}].Runs)
			}
		}
		row := []report.Cell{report.Text(a.name)}
		for _, name := range policies.JudgedBy {
			row = append(row, reports.Cell(evaluation.Bootstrap(acrossTrainings(runs[name]))))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// acrossTrainings returns the mean over trainings of what each evaluation seed came to. All
// were evaluated on the same seeds, which make an interval no narrower by coming again.
func acrossTrainings(runs [][]float64) []float64 {
	means := make([]float64, len(runs[0]))
	for _, run := range runs {
		for i, utility := range run {
			means[i] += utility / float64(len(runs))
		}
	}
	return means
}

package besteffort

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/workloads"
)

// leastLoss is the loss of utility from which a share recovered is reported.
const leastLoss = 0.001

// loggedRequests counts the requests in the log of a fine-tuning.
const loggedRequests = 20_000

// distortion changes the law of engines from that of their profile.
type distortion struct {
	name  string
	apply func(m *profile.Profile)
}

// distortions draws one of each kind by the seed.
func distortions(seed uint64) []distortion {
	random := rand.New(rand.NewPCG(seed, 0x6469_73746f7274))
	batch, arithmetic, contention := 3+3*random.Float64(), 1.4+0.4*random.Float64(), 1.8+0.6*random.Float64()
	return []distortion{
		{fmt.Sprintf("steps grow %.1f times as fast with the batch", batch), func(m *profile.Profile) {
			m.Growth *= batch
			m.Sequence *= batch
		}},
		{fmt.Sprintf("arithmetic, and so prompts, ×%.2f", arithmetic), func(m *profile.Profile) { m.Token *= arithmetic }},
		{fmt.Sprintf("contention ×%.2f, and cached tokens read as much slower", contention), func(m *profile.Profile) {
			m.Contention *= contention
			m.Context *= contention
		}},
	}
}

// world returns the scenario whose engines follow another law.
func (d distortion) world(s *scenario.Scenario) *scenario.Scenario {
	c := *s
	c.Models = slices.Clone(s.Models)
	for i := range c.Models {
		d.apply(&c.Models[i].Profile)
	}
	return &c
}

// entrant is a policy or rule in a distorted world.
type entrant struct {
	label, ref string
	on         *scenario.Scenario // that it forecasts by
	correct    bool               // forecasts allow for what drift measures
}

// distortedSection fine-tunes the policy where engines do not follow the profile.
func (p *paper) distortedSection(ctx context.Context, out *reports.Part) {
	hard := p.trained(ctx, "hard", p.scenario, p.options.Preset, 1, "")
	out.Report.Scenario = simulated(p.scenario.Name, p.options.Preset, p.Seeds)
	out.Text = fmt.Sprintf("The engines follow another law than the profile by which policies forecast. Each law is drawn. The policy serves %d requests of u1 there, and is fine-tuned on the log. \"As it is\" forecasts by the declared profile alone; a refit scales the profile of each size by the factor that the log shows. Recovered is the share of what the policy as it is earns less than the same policy that knows the true law. Doubt is off.", loggedRequests)
	t := report.Table{
		ID: "distorted-laws", Title: "Utility where engines do not follow the profile, by what is done about it",
		Columns: []report.Column{
			report.TextColumn("law", "Law"), report.TextColumn("who", "Policy or rule"), report.NumberColumn("u1", "u1", "", 4), report.NumberColumn("u2", "u2", "", 4),
			report.IntervalColumn("over", "Less the policy as it is, mean", "", 4), report.NumberColumn("recovered", "Recovered", "%", 0),
		},
	}
	for i, d := range distortions(1) {
		t.Rows = append(t.Rows, p.distorted(ctx, d, fmt.Sprintf("law-%d", i+1), hard)...)
	}
	out.Tables = []report.Table{t}
}

// distorted returns the rows of a law.
func (p *paper) distorted(ctx context.Context, d distortion, name, hard string) (list [][]report.Cell) {
	world := d.world(p.scenario)
	tuned, factors, err := p.FineTune(ctx, reports.Tuning{
		Scenario: p.options.Scenario, Store: p.store.Path, From: hard, Name: name, Requests: loggedRequests,
		Fleet: mistaken(world, p.scenario, false), On: p.scenario,
	})
	check(err)
	refit := distortion{apply: func(*profile.Profile) {}}.world(p.scenario)
	for i := range refit.Models {
		refit.Models[i].Profile = *refit.Models[i].Profile.Slower(factors[refit.Models[i].Variant])
	}
	rule := p.scenario.BestRule()
	entrants := []entrant{
		{"policy as it is", hard, p.scenario, false}, {"policy that knows the law", hard, world, false},
		{"policy, fine-tuned", tuned, p.scenario, false}, {"policy, corrected by drift", hard, p.scenario, true},
		{"policy, fine-tuned and corrected by drift", tuned, p.scenario, true}, {"policy, profile refitted", hard, refit, false},
		{"rule as it is", rule, p.scenario, false}, {"rule, corrected by drift", rule, p.scenario, true},
		{"rule, profile refitted", rule, refit, false}, {"rule universal as it is", policy.Untuned, p.scenario, false},
		{"cautious rule as it is", policy.Cautious, p.scenario, false},
	}
	listed := len(entrants)
	for _, ref := range policies.OpponentRefs(p.scenario, evaluation.MeanUtility) {
		if ref != rule && !strings.HasPrefix(ref, "static:") {
			entrants = append(entrants, entrant{"rule " + ref + " as it is", ref, p.scenario, false})
		}
	}
	results := p.playDistorted(ctx, world, entrants)
	scores := make([][]float64, len(entrants))
	for i := range entrants {
		for k := range results[2*i].Runs {
			scores[i] = append(scores[i], (results[2*i].Runs[k]+results[2*i+1].Runs[k])/2)
		}
	}
	best := len(entrants) // of the further rules only the best is shown
	for i := listed; i < len(entrants); i++ {
		if best == len(entrants) || cmp.Less(mean(scores[best]), mean(scores[i])) {
			best = i
		}
	}
	fmt.Fprintln(p.Stderr, d.name)
	for i, e := range entrants {
		fmt.Fprintf(p.Stderr, "  %-44s %.4f\n", e.label, mean(scores[i]))
		if i >= listed && i != best {
			continue
		}
		over := must(evaluation.Paired(scores[i], scores[0]))
		recovered := math.NaN() // shown as none
		if lost := mean(scores[1]) - mean(scores[0]); lost > leastLoss {
			recovered = 100 * over.Mean / lost
		}
		list = append(list, []report.Cell{
			report.Text(d.name), report.Text(e.label), report.Number(results[2*i].Utility.Mean), report.Number(results[2*i+1].Utility.Mean),
			reports.Cell(over), report.Number(recovered),
		})
	}
	return list
}

// mistaken returns the world's fleet with forecasts by the scenario s; with correct they allow for the slowness
// that drift measures.
func mistaken(world, s *scenario.Scenario, correct bool) env.Config {
	fleet := must(world.Simulation())
	fleet.Forecaster, fleet.Declared = profile.NewForecaster(s.Profiles()), nil
	if correct {
		fleet.Declared = s.Profiles()
	}
	return fleet
}

// playDistorted plays the entrants on u1 and u2 in the world.
func (p *paper) playDistorted(ctx context.Context, world *scenario.Scenario, entrants []entrant) []evaluation.Result {
	plan := evaluation.Plan{Workloads: must(p.scenario.Evaluated([]string{"u1", "u2"}, p.scenario.Evaluation.Requests)), Seeds: workloads.Seeds(workloads.Evaluation, p.Seeds)}
	for _, e := range entrants {
		maker := must(e.on.Maker(e.on.Table()))
		decider := must((&policies.Source{Store: p.store}).Network(maker, e.ref, e.on, new([]string)))
		plan.Contestants = append(plan.Contestants, evaluation.Contestant{Name: e.label, Decider: decider, Fleet: mistaken(world, e.on, e.correct)})
	}
	return must(plan.Evaluate(ctx))
}

func mean(values []float64) (m float64) {
	for _, x := range values {
		m += x / float64(len(values))
	}
	return m
}

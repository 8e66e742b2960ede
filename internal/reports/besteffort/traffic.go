package besteffort

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// trafficSection compares policies trained on the first half of a trace, on its second half, with the policy
// of the same preset that is trained on random loads.
func (p *paper) trafficSection(ctx context.Context, out *reports.Part) {
	hard := p.trained(ctx, "hard", p.scenario, p.options.Preset, 1, "")
	out.Report.Scenario = simulated(p.scenario.Name, p.options.Preset, p.Seeds)
	out.Text = "For each trace a policy is trained on blocks of its first half, and judged on its second, block by block, with the trace's token counts. The other policy is trained on the scenario's random loads with the same preset and seed; the rules are those that the gate compares with."
	t := report.Table{
		ID: "traffic-traces", Title: "Trained on the trace, on random loads, and the best rule in hindsight",
		Columns: []report.Column{
			report.TextColumn("trace", "Trace"), report.NumberColumn("blocks", "Blocks", "", 0),
			report.NumberColumn("own", "Trained on the trace", "", 4), report.NumberColumn("random", "On random loads", "", 4),
			report.IntervalColumn("difference", "Difference", "", 4),
			report.TextColumn("rule", "Best rule"), report.NumberColumn("rule_utility", "Its utility", "", 4),
			report.IntervalColumn("over", "The first less that", "", 4),
		},
	}
	for i, trace := range p.options.Traces {
		ref := p.train(ctx, reports.Training{On: p.scenario, Preset: p.options.Preset, Name: fmt.Sprintf("trace-%d", i+1), Seed: 1, Trace: trace})
		t.Rows = append(t.Rows, p.onTrace(ctx, trace, ref, hard))
	}
	out.Tables = []report.Table{t}
}

// onTrace returns the row of a trace.
func (p *paper) onTrace(ctx context.Context, trace, own, random string) []report.Cell {
	on := must(policies.TraceTraffic(p.scenario, trace, true, 0.5, nil))
	work, blocks := on.HeldOut()
	refs := append([]string{own, random}, policies.OpponentRefs(p.scenario, evaluation.MeanUtility)...)
	slices.Sort(refs[2:])
	refs = append(refs[:2], slices.Compact(refs[2:])...)
	list := must(policies.Contestants(p.scenario, &policies.Source{Store: p.store}, refs, func(string) {}))
	plan := evaluation.Plan{Contestants: list, Workloads: []evaluation.Workload{work}, Seeds: workloads.Seeds(workloads.Evaluation, blocks)}
	results := must(plan.Evaluate(ctx))
	best := slices.MaxFunc(results[2:], func(a, b evaluation.Result) int { return cmp.Compare(a.Utility.Mean, b.Utility.Mean) })
	return []report.Cell{
		report.Text(trace), report.Number(float64(blocks)), report.Number(results[0].Utility.Mean), report.Number(results[1].Utility.Mean),
		reports.Cell(must(evaluation.Paired(results[0].Runs, results[1].Runs))),
		report.Text(best.Policy), report.Number(best.Utility.Mean), reports.Cell(must(evaluation.Paired(results[0].Runs, best.Runs))),
	}
}

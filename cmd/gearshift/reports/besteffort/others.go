package besteffort

import (
	"context"
	"fmt"
	"slices"

	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/evaluation/report"
	"gearshift/workloads"
)

// othersSection asks the report's question on the other built-in scenarios whose
// presets are this one's: nothing is tuned to them but the rules.
func (p *paper) othersSection(ctx context.Context) report.Section {
	out := report.Section{
		ID: "others", Title: "Other fleets, the same hyper-parameters",
		Text: "On each fleet the preset trains a policy of its own, and the rules are tuned on that fleet's training seeds.",
	}
	t := report.Table{
		ID: "other-scenarios", Title: "The policy less the best rule of each workload",
		Columns: append([]report.Column{text("scenario", "Scenario"), text("workload", "Workload")}, comparison("rule", 4)...),
	}
	for _, name := range workloads.ScenarioNames() {
		s := must(scenario.Load(name))
		if name == p.scenario.Name || s.Training.PresetsFrom != p.scenario.Name {
			continue
		}
		rows := p.onFleet(ctx, s)
		t.Rows = append(t.Rows, rows...)
	}
	if len(t.Rows) == 0 {
		out.Text = fmt.Sprintf("No other built-in scenario borrows the presets of %s.", p.scenario.Name)
		return out
	}
	out.Tables = []report.Table{t}
	return out
}

// onFleet is the rows of one scenario.
func (p *paper) onFleet(ctx context.Context, s *scenario.Scenario) [][]report.Cell {
	q := &paper{options: p.options, program: p.program, scenario: s, store: p.store, seeds: p.seeds, stderr: p.stderr, cache: map[string]rows{}}
	q.options.Scenario = s.Name
	q.hard = q.trained(ctx, "hard-"+s.Name, s, q.options.Preset, 1, "")
	q.tune(ctx, coarse)
	all := q.evaluate(ctx, "hard", s, slices.Concat([]string{q.hard}, q.rules, statics(s)), policies.JudgedBy)
	var list [][]report.Cell
	for _, name := range policies.JudgedBy {
		rule, best := bestOf(all, append(statics(s), q.rules...), name)
		list = append(list, append([]report.Cell{report.Text(s.Name), report.Text(name)}, compared(all[[2]string{q.hard, name}], rule, best)...))
	}
	return list
}

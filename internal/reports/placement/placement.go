// Package placement makes the report on deciding which sizes are loaded: it plays a scenario's fleet with layouts that
// change, compared with fleets that stay as they are, under five laws of how long engines sleep, wake and load.
package placement

import (
	"context"
	"fmt"
	"slices"

	"gearshift/checkpoints"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/placements"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// Report returns the report on which sizes are loaded.
func Report() reports.Report {
	return reports.Report{
		Name:  "placement",
		Short: "Show what it is worth to decide which sizes are loaded, as one report",
		Long: `Simulate the fleet of a scenario with serving.placement, by the rules worth and bands, and
compare it, paired by seed, with fleets that stay as they are: the layouts of the start, each
other layout on all hosts, and each size alone:

  - at each rate of the sweep, known from the start,
  - under bursts: u1, u2 and others,
  - on a recorded day, compressed to 72 minutes,
  - with a host that is lost, and where the scenario has rollout with versions that change.

Engines sleep, wake and load as fast as others have measured: five laws, from a second to three
minutes, which replace the times of the scenario's models. Written are DIR/report.html,
report.json and a CSV for each table.`,
		Example: "--scenario docs/scenarios/titan-rtx-shifting.yaml --out placement-report",
		Quick:   "two laws, fewer rates and shorter runs: a minute or two",
		Seeds:   reports.Seeds{Usual: 12, Quick: 2, Of: "evaluation runs of each fleet on each workload"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			p := &study{Run: r}
			f.Scenario(&p.name)
			f.Store(&p.store)
			f.StringArrayVar(&p.refs, "policy", nil, "`REF` of a stored policy of placement, or another rule, played too; repeatable (default: serving.placement.policy)")
			return p.study()
		},
	}
}

// study is a report in the making.
type study struct {
	*reports.Run
	name, store string
	refs        []string
	requests    int // in a run of bursts
	scenario    *scenario.Scenario
	laws        []law
	fleets      []fleet
	seeds       []uint64
	plays       reports.Sweep[setting, played]
}

// study lists the sections.
func (p *study) study() reports.Study {
	p.plays = reports.Sweep[setting, played]{Run: p.Run, Open: p.open}
	return reports.Study{
		Run: p.Run, Check: p.check, Open: p.begin,
		Sections: []reports.Section{
			{ID: "sweep", Title: "Steady rates", Make: p.sweep},
			{ID: "bursts", Title: "Bursts", Make: p.bursts},
			{ID: "day", Title: "A day", Make: p.day},
			{ID: "others", Title: "Other workloads", Make: p.others},
			{ID: "faults", Title: "Lost hosts and new versions", Make: p.faults},
		},
	}
}

// check reads the scenario, and refuses one on which there is nothing to decide.
func (p *study) check() (err error) {
	if p.scenario, err = scenario.Load(p.name); err != nil {
		return err
	}
	s := p.scenario
	switch {
	case !s.Places():
		return fmt.Errorf("--scenario %s: nothing decides which sizes are loaded; want serving.placement in it, as in docs/scenarios/titan-rtx-shifting.yaml", p.name)
	case len(s.Weights) == 0:
		return fmt.Errorf("--scenario %s: it has no models, whose times to sleep, wake and load the report sets; want models, and the model of each variant", p.name)
	}
	s.Served = true
	p.seeds = workloads.Seeds(workloads.Evaluation, p.Seeds)
	p.laws, p.requests = laws(), s.Evaluation.Requests
	if p.Quick {
		p.laws, p.requests = []law{p.laws[0], p.laws[3]}, 3000
	}
	if len(p.refs) == 0 && s.PlacementPolicy() != "" {
		p.refs = []string{s.PlacementPolicy()}
	}
	for _, ref := range p.refs {
		own := *s
		if err := policies.Placing(&own, &checkpoints.Store{Path: p.store}, ref); err != nil {
			return err
		}
	}
	p.fleets, err = fleets(s, append([]string{"worth", "bands"}, p.refs...))
	return err
}

// begin says what is simulated.
func (p *study) begin(context.Context) (*report.Report, error) {
	return &report.Report{
		Title: "Which sizes are loaded",
		Scenario: fmt.Sprintf("Simulated: %s, requests routed by %s and played as served, %d evaluation runs of each fleet on each workload, differences paired by seed with 95 %% intervals",
			p.scenario.Name, placements.Routing(p.scenario), len(p.seeds)),
	}, nil
}

// deciding returns the indexes of the fleets whose layouts change, and still those of the others.
func (p *study) deciding() (list []int) {
	return p.where(func(f fleet) bool { return f.decides != "" })
}

func (p *study) still() (list []int) { return p.where(func(f fleet) bool { return f.decides == "" }) }

func (p *study) where(is func(fleet) bool) (list []int) {
	for i := range p.fleets {
		if is(p.fleets[i]) {
			list = append(list, i)
		}
	}
	return slices.Clip(list)
}

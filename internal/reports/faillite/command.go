// Package faillite makes the report that repeats FailLite's evaluation: what losses of servers and
// sites cost under the paper's four policies and ours, in the simulator; and the
// report on what the loss of a host costs where best-effort routing stays in charge.
package faillite

import (
	"context"
	"fmt"
	"os"

	"gearshift/env/applications"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
)

// Report returns the report of failover.
func Report() reports.Report {
	return reports.Report{
		Name:  "faillite",
		Short: "Repeat the evaluation of failover to smaller variants in the simulator, as one report",
		Long: `Play losses of servers and sites under the four policies of FailLite (arXiv 2504.15856) and
ours, on the paper's testbed and its large setting, with the controller that gearshift serve
runs, and write one page: DIR/report.html, with report.json and a CSV for each table.

Headroom goes from 10 to 50 %, the share of critical applications from 0 to 100 %, families are
small, medium and large, one to seven of ten sites are lost, and plans are timed. With --faults
a day of recorded faults is played too. No model is needed.`,
		Example: "--out faillite-report",
		Quick:   "three draws of the applications, in place of twenty, and fewer losses of each: a minute",
		Seeds:   reports.Seeds{Usual: 20, Quick: 3, Of: "draws of the applications"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			p := &paper{Run: r, points: usual()}
			f.StringVar(&p.recordings, "faults", "", "`FILE` of recorded faults in InfiniteHBD's form, of which a day is played: 348 days in 24 hours")
			return p.study()
		},
	}
}

// paper is a report in the making.
type paper struct {
	*reports.Run
	recordings     string // flag
	each           int    // losses of each draw, of one server
	sited          int    // draws of losses of sites, at most
	points         points
	faults         []applications.Fault
	testbed, large *scenario.Scenario
	sweep          reports.Sweep[setting, played]
}

// study lists the sections.
func (p *paper) study() reports.Study {
	p.sweep = reports.Sweep[setting, played]{Run: p.Run, Open: p.open}
	return reports.Study{
		Run: p.Run, Check: p.check, Open: p.begin,
		Sections: []reports.Section{
			{ID: "models", Title: "What is simulated", Make: p.models},
			{ID: "one-application", Title: "One application", Make: p.single},
			{ID: "headline", Title: "The testbed", Make: p.headline},
			{ID: "constraints", Title: "Headroom", Make: p.headroom},
			{ID: "criticality", Title: "Critical applications", Make: p.critical},
			{ID: "family-classes", Title: "Classes of families", Make: p.classes},
			{ID: "site-losses", Title: "Sites", Make: p.sites},
			{ID: "plan-times", Title: "Scalability", Make: p.scalability},
			{ID: "recorded-faults", Title: "Recorded faults", Make: p.recorded, Needs: "faults"},
		},
	}
}

// check reads the faults, if there are any.
func (p *paper) check() error {
	p.each, p.sited = 5, 5
	if p.Quick {
		p.each, p.sited = 2, 2
	}
	if p.recordings == "" {
		return nil
	}
	text, err := os.ReadFile(p.recordings)
	if err == nil {
		p.faults, err = applications.ReadFaults(text)
	}
	if err != nil {
		return fmt.Errorf("--faults: %w", err)
	}
	return nil
}

// begin loads the scenarios.
func (p *paper) begin(context.Context) (_ *report.Report, err error) {
	if p.testbed, err = scenario.LoadFailover("faillite-testbed"); err == nil {
		p.large, err = scenario.LoadFailover("faillite-large")
	}
	return &report.Report{
		Title: "Failover to smaller variants",
		Scenario: fmt.Sprintf("Simulated: FailLite's testbed, each of six servers lost once, and its large setting of 100 servers, %d draws of the applications; clients know %v after an activation",
			p.Seeds, takes),
	}, err
}

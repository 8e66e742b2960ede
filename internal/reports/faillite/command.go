// Package faillite makes the report that repeats FailLite's evaluation: what losses of servers and
// sites cost under the paper's four policies and ours, in the simulator.
package faillite

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"gearshift/env/evaluation/report"
	envfailover "gearshift/env/failover"
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
		Flags:   flags,
	}
}

func flags(f *reports.Flags) reports.Make {
	var quick bool
	var seeds int
	var faults string
	f.BoolVar(&quick, "quick", false, "three draws of the applications, in place of twenty, and fewer losses of each: a minute")
	f.IntVar(&seeds, "seeds", 0, "draws of the applications (default 20, or 3 with --quick)")
	f.StringVar(&faults, "faults", "", "`FILE` of recorded faults in InfiniteHBD's form, of which a day is played: 348 days in 24 hours")
	return func(ctx context.Context, out string, by reports.Program, _ io.Writer) (*report.Report, error) {
		p := &paper{draws: 20, each: 5, sited: 5, points: usual(), program: by, timed: true}
		if quick {
			p.draws, p.each, p.sited = 3, 2, 2
		}
		if f.Changed("seeds") {
			p.draws = seeds
		}
		if p.draws < 2 || p.draws > 1000 {
			return nil, fmt.Errorf("--seeds: %d must be from 2 to 1000", p.draws)
		}
		if faults != "" {
			text, err := os.ReadFile(faults)
			if err == nil {
				p.faults, err = envfailover.ReadFaults(text)
			}
			if err != nil {
				return nil, fmt.Errorf("--faults: %w", err)
			}
		}
		if err := reports.Begin(out); err != nil {
			return nil, err
		}
		p.repeat = fmt.Sprintf("gearshift paper faillite --seeds %d", p.draws)
		if quick {
			p.repeat += " --quick"
		}
		if faults != "" {
			p.repeat += " --faults " + faults
		}
		return p.report(ctx)
	}
}

// paper is a report in the making.
type paper struct {
	draws   int // of the applications of the large setting
	each    int // losses of each draw, of one server
	sited   int // draws of losses of sites, at most
	points  points
	faults  []envfailover.Fault
	timed   bool // plans are timed
	program reports.Program
	repeat  string
	testbed *scenario.Scenario
	large   *scenario.Scenario
	played  int
	count   func(done, total int)
}

// heads are the sections whose verdicts head the report; those of others are part of their text.
var heads = []string{"headline", "constraints", "site-losses"}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// report plays everything and lays it out.
func (p *paper) report(ctx context.Context) (*report.Report, error) {
	var err error
	if p.testbed, err = scenario.LoadFailover("faillite-testbed"); err == nil {
		p.large, err = scenario.LoadFailover("faillite-large")
	}
	if err != nil {
		return nil, err
	}
	p.count = func(int, int) {}
	if p.program.Counting != nil {
		if count := p.program.Counting("settings played"); count != nil {
			p.count = count
		}
	}
	r := &report.Report{
		Title: "Failover to smaller variants",
		Scenario: fmt.Sprintf("Simulated: FailLite's testbed, each of six servers lost once, and its large setting of 100 servers, %d draws of the applications; clients know %v after an activation",
			p.draws, takes),
		Repeat: p.repeat + " --out DIR; " + p.program.Version,
	}
	for _, section := range []func(context.Context) (report.Section, string, error){
		p.models, p.single, p.headline, p.headroom, p.critical, p.classes, p.sites, p.scalability, p.recorded,
	} {
		s, verdict, err := section(ctx)
		if err != nil {
			return nil, err
		}
		if s.ID == "" {
			continue
		}
		switch {
		case slices.Contains(heads, s.ID):
			r.Verdict = append(r.Verdict, capital(verdict)+".")
		case verdict != "":
			s.Text = strings.TrimSpace(s.Text + " " + capital(verdict) + ".")
		}
		r.Sections = append(r.Sections, s)
	}
	return r, nil
}

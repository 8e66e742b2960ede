package mosel

import (
	"context"
	"fmt"
	"io"
	"time"

	"gearshift/cmd/gearshift/reports"
	"gearshift/env/evaluation/report"
)

// Report is the report of modality selection.
func Report() reports.Report {
	return reports.Report{
		Name:  "mosel",
		Short: "Repeat the evaluation of modality selection in the simulator, as one report",
		Long: `Play the policies of MOSEL (arXiv 2310.18481), and ours, on jobs with quality floors and
deadlines, with five models whose profiles are derived from the paper's numbers, and write
one page: DIR/report.html, with report.json and a CSV for each table.

Nothing is trained and no model is needed.`,
		Example: "--out mosel-report",
		Flags:   flags,
	}
}

func flags(f *reports.Flags) reports.Make {
	var quick bool
	var seeds int
	f.BoolVar(&quick, "quick", false, "three runs of two minutes each, in place of twenty of ten")
	f.IntVar(&seeds, "seeds", 0, "runs of each policy on each setting (default 20, or 3 with --quick)")
	return func(ctx context.Context, out string, by reports.Program, _ io.Writer) (*report.Report, error) {
		p := &paper{seeds: 20, day: 10 * time.Minute, program: by}
		if quick {
			p.seeds, p.day = 3, 2*time.Minute
		}
		if f.Changed("seeds") {
			p.seeds = seeds
		}
		if p.seeds < 1 || p.seeds > 10_000 {
			return nil, fmt.Errorf("--seeds: %d must be from 1 to 10000", p.seeds)
		}
		if err := reports.Begin(out); err != nil {
			return nil, err
		}
		p.repeat = fmt.Sprintf("gearshift paper mosel --seeds %d", p.seeds)
		if quick {
			p.repeat += " --quick"
		}
		return p.report(ctx)
	}
}

// paper is a report in the making.
type paper struct {
	seeds         int
	day           time.Duration
	program       reports.Program
	repeat        string
	played, plays int
	count         func(done, total int)
}

// report plays everything and lays it out.
func (p *paper) report(ctx context.Context) (*report.Report, error) {
	p.plays = len(deadlines)*len(models)*len(policies) + len(estimates)*len(models)*2
	p.count = func(int, int) {}
	if p.program.Counting != nil {
		if count := p.program.Counting("policies played"); count != nil {
			p.count = count
		}
	}
	days, err := p.days(ctx)
	if err != nil {
		return nil, err
	}
	wrong, err := p.estimates(ctx)
	if err != nil {
		return nil, err
	}
	throughput, verdict := p.throughput(days)
	violations, beaten, err := p.violations(days)
	if err != nil {
		return nil, err
	}
	return &report.Report{
		Title:    "Modality selection",
		Scenario: fmt.Sprintf("Simulated: five models under profiles derived from the paper's numbers, one worker each; %d days of %v from 5 requests per second to twice the capacity without selection", p.seeds, p.day),
		Verdict:  []string{verdict, beaten, "A profile here is arithmetic on what the paper says; no model was measured."},
		Sections: []report.Section{p.profiles(), throughput, violations, p.quality(days), wrong},
		Repeat:   p.repeat + " --out DIR; " + p.program.Version,
	}, nil
}

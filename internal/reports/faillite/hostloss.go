package faillite

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
)

// on is the scenario of the report, whose hosts are alike.
const on = "titan-rtx-opt"

// HostLoss returns the report on the loss of a host.
func HostLoss() reports.Report {
	return reports.Report{
		Name:  "host-loss",
		Short: "Show what the loss of a host costs under best-effort routing, as one report",
		Long: `Lose one of the four hosts of titan-rtx-opt at a steady load, half of what the fleet can
answer in time by default, and compare what the requests earn that arrive 2 to 12 s after
the loss

  - with the same requests on a fleet that never had the host,
  - with every fixed assignment of backups: each task has a variant on one other host that
    answers the lost host's share of its requests, and the policy routes all others.

Requests that break, and probes, show the loss to the health controller, as they do in the
router. All assignments are played on training seeds, the best of them on evaluation seeds.

A policy is trained first, with the preset quick, unless --policy names others. Written are
DIR/report.html, report.json and a CSV for each table.`,
		Example: "--out host-loss-report",
		Quick:   "few seeds, and one assignment in sixteen: a minute",
		Seeds:   reports.Seeds{Usual: 100, Quick: 4, Of: "evaluation runs of each policy"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			p := &study{Run: r}
			f.Float64Var(&p.rate, "rate", 32, "requests per second: half of 64, the most of which the fleet answers 99 % in time")
			f.StringArrayVar(&p.refs, "policy", nil, "`REF` of a policy, repeatable (default: the scenario's best rule, and one that is trained first)")
			f.StringVar(&p.preset, "preset", "quick", "training preset")
			f.Store(&p.store)
			return p.study()
		},
	}
}

// study is a report in the making.
type study struct {
	*reports.Run
	rate                float64
	refs                []string
	preset, store       string
	screened, finalists int
	scenario            *scenario.Scenario
	contestants         []evaluation.Contestant // by the policies' references
	assignments         []assignment
	loss                loss
	sweep               reports.Sweep[lossSetting, float64]
}

// study lists the sections.
func (p *study) study() reports.Study {
	p.sweep = reports.Sweep[lossSetting, float64]{Run: p.Run, Open: p.open}
	return reports.Study{
		Run: p.Run, Check: p.check, Open: p.begin,
		Sections: []reports.Section{
			{ID: "policies", Title: "Policies after the loss", Make: p.policies},
			{ID: "loads", Title: "At other loads", Make: p.loads},
		},
	}
}

// check refuses rates that are none.
func (p *study) check() error {
	p.screened, p.finalists = 5, 40
	if p.Quick {
		p.screened, p.finalists = 1, 2
	}
	if !(p.rate > 0 && p.rate <= 1000) {
		return fmt.Errorf("--rate: %v must be above 0 and at most 1000", p.rate)
	}
	return nil
}

// begin prepares what is played, and trains a policy where none is named.
func (p *study) begin(ctx context.Context) (_ *report.Report, err error) {
	if p.scenario, err = scenario.Load(on); err != nil {
		return nil, err
	}
	p.loss = loss{host: len(p.scenario.Hosts) - 1, at: 20 * time.Second, from: 2 * time.Second, to: 12 * time.Second}
	if len(p.refs) == 0 {
		p.store = filepath.Join(p.Out, "policies.db")
		trained, err := p.Train(ctx, reports.Training{
			Scenario: on, On: p.scenario, Store: p.store, Preset: p.preset, Name: "best-effort", Seed: 1, Uncompared: true,
		})
		if err != nil {
			return nil, err
		}
		p.refs = []string{p.scenario.Evaluation.Rules[0], trained}
	}
	p.contestants, err = policies.Contestants(p.scenario, &policies.Source{Store: &checkpoints.Store{Path: p.store}}, p.refs, func(note string) { fmt.Fprintln(p.Stderr, note) })
	if err != nil {
		return nil, err
	}
	p.assignments = assignments(p.contestants[0].Fleet.Table, p.loss.host)
	return &report.Report{
		Title: "The loss of a host",
		Scenario: fmt.Sprintf("Simulated: titan-rtx-opt, %g requests per second; host %s is lost for good after %v, and requests count that arrive %v to %v later; %d runs",
			p.rate, p.scenario.Hosts[p.loss.host].Name, p.loss.at, p.loss.from, p.loss.to, p.Seeds),
	}, nil
}

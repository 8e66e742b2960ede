// Package hostloss makes the report on what the loss of a host costs where best-effort routing
// stays in charge: what requests earn soon after it, compared with a fleet that never had the
// host, and with fixed assignments of backups.
package hostloss

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"gearshift/checkpoints"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/workloads"
)

// on is the scenario of the report, whose hosts are alike.
const on = "titan-rtx-opt"

// Report returns the report on the loss of a host.
func Report() reports.Report {
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
		Flags:   flags,
	}
}

// Options are the flags; what is zero has a default.
type options struct {
	seeds, screened, finalists int
	rate                       float64
	policies                   []string
	store, preset              string
	quick                      bool
}

func flags(f *reports.Flags) reports.Make {
	var o options
	f.BoolVar(&o.quick, "quick", false, "few seeds, and one assignment in sixteen: a minute")
	f.IntVar(&o.seeds, "seeds", 0, "evaluation runs of each policy (default 100, or 4 with --quick)")
	f.Float64Var(&o.rate, "rate", 32, "requests per second: half of 64, the most of which the fleet answers 99 % in time")
	f.StringArrayVar(&o.policies, "policy", nil, "`REF` of a policy, repeatable (default: the scenario's best rule, and one that is trained first)")
	f.StringVar(&o.preset, "preset", "quick", "training preset")
	f.Store(&o.store)
	return func(ctx context.Context, out string, by reports.Program, stderr io.Writer) (*report.Report, error) {
		o.screened, o.finalists = 5, 40
		if o.quick {
			o.screened, o.finalists = 1, 2
		}
		if o.seeds == 0 {
			o.seeds = map[bool]int{false: 100, true: 4}[o.quick]
		}
		switch {
		case o.seeds < 2 || o.seeds > 10_000:
			return nil, fmt.Errorf("--seeds: %d must be from 2 to 10000", o.seeds)
		case !(o.rate > 0 && o.rate <= 1000):
			return nil, fmt.Errorf("--rate: %v must be above 0 and at most 1000", o.rate)
		}
		if err := reports.Begin(out); err != nil {
			return nil, err
		}
		p, err := o.study(ctx, out, by, stderr)
		if err != nil {
			return nil, err
		}
		return p.report(ctx)
	}
}

// study is a report in the making.
type study struct {
	options  options
	scenario *scenario.Scenario
	source   *policies.Source
	refs     []string
	loss     loss
	seeds    []uint64
	screen   []uint64
	version  string
	stderr   io.Writer
	count    func(what string) func(done, total int)
	played   func() // after each play; nil if nothing counts
}

// study prepares what is played, and trains a policy where none is named.
func (o *options) study(ctx context.Context, out string, by reports.Program, stderr io.Writer) (*study, error) {
	s, err := scenario.Load(on)
	if err != nil {
		return nil, err
	}
	p := &study{
		options: *o, scenario: s, refs: o.policies, version: by.Version, stderr: stderr, count: by.Counting,
		source: &policies.Source{Store: &checkpoints.Store{Path: o.store}},
		loss:   loss{host: len(s.Hosts) - 1, at: 20 * time.Second, from: 2 * time.Second, to: 12 * time.Second},
		seeds:  workloads.Seeds(workloads.Evaluation, o.seeds),
		screen: workloads.Seeds(workloads.Training, o.screened),
	}
	if len(p.refs) > 0 {
		return p, nil
	}
	p.source.Store.Path = filepath.Join(out, "policies.db")
	trained, err := by.Train(ctx, reports.Training{
		Scenario: on, On: s, Store: p.source.Store.Path, Preset: o.preset, Name: "best-effort", Seed: 1, Uncompared: true,
	})
	if err != nil {
		return nil, err
	}
	p.refs = []string{s.Evaluation.Rules[0], trained}
	return p, nil
}

// Package arise makes the report on streaming clients: how many of them a server carries by a schedule and without,
// beside the evaluation of ARISE.
package arise

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/env/streams"
	"gearshift/internal/reports"
	"gearshift/workloads"
)

// Report returns the report on ARISE.
func Report() reports.Report {
	return reports.Report{
		Name:  "arise",
		Short: "Repeat ARISE's evaluation of streaming clients, simulated, as one report",
		Long: `Simulate clients that stream frames to a server and track its results between them, and report ours
next to the figures of "ARISE" (MobiSys '24):

  - the interval and batch of a client by its drop rate and SLA,
  - how many clients a server carries by ARISE's schedule, by ARISE-alpha, as with Clipper and
    Chameleon, and with a fixed interval and batch: over 5G and LTE, on the testbed's slower server,
    and for object detection,
  - the same with plans so strict that no client loses more than its SLA in any second, and with
    faster and slower networks,
  - how many more our own schedule carries, with one size of the model and with two, and what keeps
    it from a bound,
  - hard and easy clients, late batches, errors of estimates, intervals by drop rate.

What the baselines leave open is tuned on other seeds. Written are DIR/report.html, report.json and a
CSV for each table.`,
		Example: "--out arise-report",
		Quick:   "shorter runs: half a minute",
		Seeds:   reports.Seeds{Usual: 20, Quick: 2, Of: "runs of each setting, each with clients and links of its own"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			s := &study{Run: r}
			f.DurationVar(&s.length, "length", 70*time.Second, "how long a run is, or 25s with --quick; clients stay for 70 s")
			return s.study()
		},
	}
}

// study is a report in the making.
type study struct {
	*reports.Run
	length          time.Duration
	seeds, training []uint64
	sweep           *reports.Sweep[setting, *streams.Result]
}

func (s *study) study() reports.Study {
	s.sweep = &reports.Sweep[setting, *streams.Result]{Run: s.Run, Open: s.open}
	return reports.Study{
		Run: s.Run, Check: s.check, Open: s.head,
		Sections: []reports.Section{
			{ID: "settings", Title: "Intervals and batches", Make: s.settings},
			{ID: "clients", Title: "Clients over 5G and LTE", Make: s.clients},
			{ID: "kept", Title: "Clients where every second keeps the SLA", Make: s.kept},
			{ID: "ours", Title: "By deadlines, with one size and with two", Make: s.ours},
			{ID: "losses", Title: "What keeps clients from the fluid bound", Make: s.losses},
			{ID: "frames", Title: "Whole frames", Make: s.frames},
			{ID: "difficulty", Title: "Hard and easy clients", Make: s.difficulty},
			{ID: "testbed", Title: "The testbed", Make: s.testbed},
			{ID: "analysis", Title: "Late batches and estimates", Make: s.analysis},
			{ID: "rates", Title: "Intervals and batches by drop rate", Make: s.rates},
			{ID: "detection", Title: "Object detection", Make: s.detection},
		},
	}
}

// warmUp is the time of a run that is not measured.
const warmUp = 10 * time.Second

// check sets the seeds and how long runs are.
func (s *study) check() error {
	if s.Quick && !s.Given("length") {
		s.length = 25 * time.Second
	}
	if s.length < 2*warmUp {
		return fmt.Errorf("--length: %v must be %v or more, of which %v are not measured", s.length, 2*warmUp, warmUp)
	}
	s.seeds, s.training = workloads.Seeds(workloads.Evaluation, s.Seeds), workloads.Seeds(workloads.Training, min(s.Seeds, 4))
	return nil
}

func (s *study) head(context.Context) (*report.Report, error) {
	return &report.Report{
		Title: "ARISE: streaming clients",
		Scenario: fmt.Sprintf("Simulated under profile %s, which is derived from the paper's means; %d runs of %v, of which the first %v are not measured; 10 clients come each second; tuned on %d other seeds",
			emulation.server, len(s.seeds), s.length, warmUp, len(s.training)),
	}, nil
}

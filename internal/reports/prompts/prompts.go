// Package prompts makes the report on predicted quality: which of two models answers a prompt, by
// what is predicted for it, on prompts that were not fitted to; and what that is worth under load.
package prompts

import (
	"context"
	"fmt"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// Report returns the report on predicted quality.
func Report() reports.Report {
	return reports.Report{
		Name:  "prompts",
		Short: "Measure what quality predicted from prompts is worth, as one report",
		Long: `Fit predictors of quality to labelled prompts, and measure them on prompts that they have not seen:

  - the gain over random, in the mean over all shares of traffic that the larger of two models
    answers: predicted, by the nearest labelled prompts, by matrix factorisation as RouteLLM's, by the
    prompt's group, and for who knows all scores,
  - gain, calibration and lower bounds with 30 to 5,000 labels,
  - the same on groups of prompts that no label is of,
  - under load, in scenario prompts-three: at random, by the task's mean, predicted, by the other
    ways, by a threshold without load, and for the oracle; on groups that no label is of; and what a
    learned policy adds.

The prompts are nine-models, which is packed into the program, and those of --data. Written are
DIR/report.html, report.json and a CSV for each table and figure.`,
		Example: "--out prompts-report --data mmlu.jsonl.gz",
		Quick:   "fewer draws and seeds: some minutes",
		Seeds:   reports.Seeds{Usual: 20, Quick: 5, Of: "runs of each setting, and draws of labels"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			s := &study{Run: r}
			f.StringSliceVar(&s.files, "data", nil, "`files` of labelled prompts (JSONL or CSV), judged next to those of the program; each on its own")
			return s.study()
		},
	}
}

// study is a report in the making.
type study struct {
	*reports.Run
	files []string // flag
	sets  []*set

	requests int      // of a run
	steady   []string // workloads that are played besides bursts
}

func (s *study) study() reports.Study {
	return reports.Study{
		Run: s.Run, Check: s.check, Open: s.head,
		Sections: []reports.Section{
			{ID: "gain", Title: "Gain on prompts that were not seen", Make: s.gain},
			{ID: "labels", Title: "By number of labels", Make: s.labels},
			{ID: "elsewhere", Title: "On groups that no label is of", Make: s.elsewhere},
			{ID: "load", Title: "Under load", Make: s.load},
			{ID: "strange", Title: "Under load, on groups that no label is of", Make: s.strange},
			{ID: "learned", Title: "A learned policy under load", Make: s.learned, Slow: true},
		},
	}
}

func (s *study) head(context.Context) (*report.Report, error) {
	r := &report.Report{Title: "Quality predicted from prompts", Scenario: "Labelled prompts:"}
	for i, x := range s.sets {
		if i > 0 {
			r.Scenario += ";"
		}
		r.Scenario += fmt.Sprintf(" %d of %s", len(x.examples), x.Name)
	}
	return r, nil
}

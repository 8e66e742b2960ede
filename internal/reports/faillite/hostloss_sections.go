package faillite

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

func mean(utility []float64) float64 { return evaluation.Bootstrap(utility).Mean }

// policies adds a section for each policy: after a loss compared with the fleet of three hosts, and
// with itself with fixed backups.
func (p *study) policies(ctx context.Context, part *reports.Part) error {
	var hosts, backups []string
	for k, c := range p.contestants {
		out := report.Section{ID: fmt.Sprintf("policy-%d", k+1), Title: c.Name, Text: "Utility per request of the window, with 95 % bootstrap intervals over the runs. Differences are paired by seed."}
		all, err := p.sweep.Play(ctx, lossSetting{policy: k, rate: p.rate}, lossSetting{policy: k, rate: p.rate, never: true})
		if err != nil {
			return err
		}
		after, three := all[0], all[1]
		apart := reports.Less(after, three)
		fixed, best, err := p.fixed(ctx, k, out.ID, after)
		if err != nil {
			return err
		}
		out.Tables = []report.Table{{
			ID: out.ID + "-hosts", Title: "After the loss, compared with three hosts from the beginning",
			Columns: []report.Column{report.TextColumn("fleet", "Fleet"), report.IntervalColumn("utility", "Utility", "", 4), report.IntervalColumn("difference", "After the loss, less this", "", 4)},
			Rows: [][]report.Cell{
				{report.Text("four hosts, one lost"), reports.Mean(after), {}},
				{report.Text("three hosts"), reports.Mean(three), reports.Cell(apart)},
			},
		}, fixed}
		hosts = append(hosts, fmt.Sprintf("%s earns %.4f, on three hosts %.4f: %s", c.Name, mean(after), mean(three), evaluation.Signed(apart)))
		backups = append(backups, c.Name+" "+evaluation.Signed(best))
		part.Report.Sections = append(part.Report.Sections, out)
	}
	part.Head("Utility 2 to 12 s after the loss: %s", strings.Join(hosts, "; "))
	part.Head("Over the best fixed assignment of backups: %s", strings.Join(backups, "; "))
	return nil
}

// fixed plays the assignments of backups, and returns by how much the policy without any, which
// has earned ours, is above the best of them.
func (p *study) fixed(ctx context.Context, policy int, id string, ours []float64) (report.Table, evaluation.Interval, error) {
	var names []string
	for _, task := range p.scenario.Table().Tasks {
		names = append(names, task.Name)
	}
	t := report.Table{
		ID: id + "-backups", Title: "Fixed backups, for " + strings.Join(names, ", "),
		Columns: []report.Column{report.TextColumn("backups", "Backups"), report.IntervalColumn("utility", "Utility", "", 4), report.IntervalColumn("difference", "The policy alone, less this", "", 4)},
	}
	list, all, err := p.rivals(ctx, policy)
	if err != nil {
		return t, evaluation.Interval{}, err
	}
	for _, r := range list {
		t.Rows = append(t.Rows, []report.Cell{report.Text(p.assignments[r.backups-1].name(p.scenario.Table())), reports.Mean(r.utility), reports.Cell(reports.Less(ours, r.utility))})
	}
	t.Note = fmt.Sprintf("%d assignments, all that differ by more than the order of the hosts, were played on %d training seeds. Shown are the best %d of these, and those with one backup for all tasks, on the evaluation seeds.",
		all, p.screened, min(p.finalists, all))
	return t, reports.Less(ours, list[0].utility), nil
}

// rival is a setting with a fixed assignment, and what it earns by seed and in the mean.
type rival struct {
	lossSetting
	utility []float64
	earns   float64
}

// rivals returns the assignments that are best on training seeds and those with one backup for all
// tasks, the best on evaluation seeds first; and how many there are in all.
func (p *study) rivals(ctx context.Context, policy int) (list []rival, all int, err error) {
	var screened []lossSetting
	for i, a := range p.assignments {
		if !p.Quick || i%16 == 0 || a.uniform() {
			screened = append(screened, lossSetting{policy: policy, backups: i + 1, rate: p.rate, training: true})
		}
	}
	if list, err = p.ranked(ctx, screened); err != nil {
		return nil, 0, err
	}
	var finalists []lossSetting
	for i, r := range list {
		if i < p.finalists || p.assignments[r.backups-1].uniform() {
			r.training = false
			finalists = append(finalists, r.lossSetting)
		}
	}
	list, err = p.ranked(ctx, finalists)
	return list, len(screened), err
}

// ranked plays settings and returns the best first.
func (p *study) ranked(ctx context.Context, settings []lossSetting) (list []rival, err error) {
	all, err := p.sweep.Play(ctx, settings...)
	for i := range all {
		list = append(list, rival{settings[i], all[i], mean(all[i])})
	}
	slices.SortStableFunc(list, func(a, b rival) int { return cmp.Compare(b.earns, a.earns) })
	return list, err
}

// loads shows what the loss costs at other loads.
func (p *study) loads(ctx context.Context, part *reports.Part) error {
	part.Text = "The same loss at other rates. 64 requests per second are the most of which four hosts answer 99 % in time, and 48 the most of which three do."
	t := report.Table{
		ID: "loads-utility", Title: "Utility of requests that arrive 2 to 12 s after the loss",
		Columns: []report.Column{
			report.TextColumn("policy", "Policy"), report.NumberColumn("rate", "Requests per second", "", 0),
			report.IntervalColumn("after", "After the loss", "", 4), report.IntervalColumn("three", "Three hosts", "", 4), report.IntervalColumn("difference", "Difference", "", 4),
		},
	}
	rates := []float64{8, 16, 24, 32, 40, 48}
	if p.Quick {
		rates = []float64{16, 48}
	}
	var settings []lossSetting
	for k := range p.contestants {
		for _, rate := range rates {
			settings = append(settings, lossSetting{policy: k, rate: rate}, lossSetting{policy: k, rate: rate, never: true})
		}
	}
	all, err := p.sweep.Play(ctx, settings...)
	if err != nil {
		return err
	}
	var worst float64
	for i := 0; i < len(all); i += 2 {
		apart := reports.Less(all[i], all[i+1])
		if math.Abs(apart.Mean) > math.Abs(worst) {
			worst = apart.Mean
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(p.contestants[settings[i].policy].Name), report.Number(settings[i].rate), reports.Mean(all[i]), reports.Mean(all[i+1]), reports.Cell(apart)})
	}
	part.Tables = []report.Table{t}
	part.Head("At 8 to 48 requests per second the largest difference from three hosts is %+.4f", worst)
	return nil
}

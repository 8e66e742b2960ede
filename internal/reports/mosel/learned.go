package mosel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// disturbance is what is not as the table has it.
type disturbance struct {
	key, title      string
	estimate, noise float64
}

// disturbances are those under which the learned policy is compared, at a deadline of a
// second. Estimates are corrected, as served.
var disturbances = []disturbance{
	{"noise-25", "latencies vary by 25 %", 1, 0.25},
	{"noise-50", "latencies vary by 50 %", 1, 0.5},
	{"half", "estimates of 50 %", 0.5, 0},
	{"half-more", "estimates of 150 %", 1.5, 0},
	{"double", "estimates of 200 %", 2, 0},
	{"both", "estimates of 50 %, and latencies vary by 50 %", 0.5, 0.5},
}

// learned compares what a request is worth under the learned policy and under the plans.
func (p *paper) learned(ctx context.Context, part *reports.Part) error {
	part.Text = "What a request is worth in the mean: its quality if it is answered in time, -1 if it is late or dropped. The differences are paired by day. The policy: " + p.trained + ". Its plan's cautions: " + p.network.Cautions.String() + "."
	v := []verdict{{than: "optimized"}, {than: "foresight"}, {than: "its plan alone"}}
	add := func(id, title string, s setting) error {
		t, err := p.compareLearned(ctx, id, title, s, v)
		part.Tables = append(part.Tables, t)
		return err
	}
	for _, deadline := range deadlines {
		if err := add(fmt.Sprint(deadline.Milliseconds()), fmt.Sprintf("deadline %v", deadline), setting{deadline: deadline, estimate: 1}); err != nil {
			return err
		}
	}
	for _, d := range disturbances {
		if err := add(d.key, d.title, setting{deadline: time.Second, estimate: d.estimate, noise: d.noise}); err != nil {
			return err
		}
	}
	for i := range v {
		part.Head("%s", &v[i])
	}
	return nil
}

// verdict counts where the learned policy is worth more than another, and less.
type verdict struct {
	than            string
	settings, ahead int
	behind          []string
	most            float64 // by which it is worth less
}

// add takes in a setting.
func (v *verdict) add(where string, more evaluation.Interval) {
	if v.settings++; more.Lo > 0 {
		v.ahead++
	}
	if more.Hi < 0 {
		v.behind, v.most = append(v.behind, where), max(v.most, -more.Mean)
	}
}

// String is a sentence.
func (v *verdict) String() string {
	text := fmt.Sprintf("The learned policy is worth more than %s, beyond chance, in %d of %d settings", v.than, v.ahead, v.settings)
	if len(v.behind) > 0 {
		text += fmt.Sprintf(", and less in %d, by at most %.2g: %s", len(v.behind), v.most, strings.Join(v.behind, "; "))
	}
	return text + "."
}

// compareLearned makes the table of a setting.
func (p *paper) compareLearned(ctx context.Context, id, title string, s setting, v []verdict) (report.Table, error) {
	t := report.Table{ID: "learned-" + id, Title: title, Columns: []report.Column{report.TextColumn("model", "model"),
		report.IntervalColumn("learned", "learned", "", 4), report.IntervalColumn("optimized", "optimized", "", 4), report.IntervalColumn("foresight", "foresight", "", 4), report.IntervalColumn("plan", "its plan alone", "", 4),
		report.IntervalColumn("more", "learned less optimized", "", 4), report.IntervalColumn("over", "learned less foresight", "", 4), report.IntervalColumn("departures", "learned less its plan", "", 4)}}
	all, err := p.each(ctx, s, learned, optimized, ours, alone)
	for j := range all {
		name := models[j].name
		row, differences := []report.Cell{report.Text(name)}, []report.Cell{}
		its := reports.Values(all[j][0], worth)
		for k, runs := range all[j] {
			other := reports.Values(runs, worth)
			row = append(row, reports.Mean(other))
			if k > 0 {
				more := reports.Less(its, other)
				differences = append(differences, reports.Cell(more))
				v[k-1].add(name+", "+title, more)
			}
		}
		t.Rows = append(t.Rows, append(row, differences...))
	}
	return t, err
}

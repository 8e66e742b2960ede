package mosel

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/router/modality"
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

// rivals are those that the learned policy is compared with. The last is the plan that advises it, with
// the cautions that are part of it, and without departures.
func (p *paper) rivals() []policy {
	return []policy{compared[optimized], compared[ours], {"its plan alone", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewCautious(t, p.network.Cautions), nil
	}}}
}

// learnedPlays is how many policies the section plays, if the report has played days or not.
func learnedPlays(days bool) int {
	n := 4 * len(models) * (len(deadlines) + len(disturbances))
	if days { // which have three of the four
		n -= 3 * len(models) * len(deadlines)
	}
	return n
}

// learned compares what a request is worth under the learned policy and under the plans. Without days
// all are played here.
func (p *paper) learned(ctx context.Context, all days) (report.Section, []string, error) {
	section := report.Section{ID: "learned", Title: "The learned policy",
		Text: "What a request is worth in the mean: its quality if it is answered in time, -1 if it is late or dropped. The differences are paired by day. The policy: " + p.trained + ". Its plan's cautions: " + p.network.Cautions.String() + "."}
	v := []verdict{{than: "optimized"}, {than: "foresight"}, {than: "its plan alone"}}
	for i, deadline := range deadlines {
		s := setting{deadline: deadline, estimate: 1}
		var played [][]*run
		if all != nil {
			played = all[i]
		}
		t, err := p.compareLearned(ctx, fmt.Sprint(deadline.Milliseconds()), fmt.Sprintf("deadline %v", deadline), s, played, v)
		if err != nil {
			return section, nil, err
		}
		section.Tables = append(section.Tables, t)
	}
	for _, d := range disturbances {
		t, err := p.compareLearned(ctx, d.key, d.title, setting{deadline: time.Second, estimate: d.estimate, noise: d.noise}, nil, v)
		if err != nil {
			return section, nil, err
		}
		section.Tables = append(section.Tables, t)
	}
	var sentences []string
	for i := range v {
		sentences = append(sentences, v[i].String())
	}
	return section, sentences, nil
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

// compareLearned makes the table of a setting, of whose days some are played.
func (p *paper) compareLearned(ctx context.Context, id, title string, s setting, played [][]*run, v []verdict) (report.Table, error) {
	t := report.Table{ID: "learned-" + id, Title: title, Columns: []report.Column{report.TextColumn("model", "model"),
		report.IntervalColumn("learned", "learned", "", 4), report.IntervalColumn("optimized", "optimized", "", 4), report.IntervalColumn("foresight", "foresight", "", 4), report.IntervalColumn("plan", "its plan alone", "", 4),
		report.IntervalColumn("more", "learned less optimized", "", 4), report.IntervalColumn("over", "learned less foresight", "", 4), report.IntervalColumn("departures", "learned less its plan", "", 4)}}
	for j := range models {
		s.model = &models[j]
		list := append([]policy{compared[learned]}, p.rivals()...)
		runs := make([]*run, len(list))
		if played != nil {
			copy(runs, []*run{played[j][learned], played[j][optimized], played[j][ours]})
		}
		row := []report.Cell{report.Text(s.model.name)}
		for k := range list {
			var err error
			if runs[k] == nil {
				if runs[k], err = p.play(ctx, s, list[k]); err != nil {
					return t, err
				}
			}
			row = append(row, cell(evaluation.Bootstrap(runs[k].worth)))
		}
		for k, other := range runs[1:] {
			more, err := evaluation.Paired(runs[0].worth, other.worth)
			if err != nil {
				return t, err
			}
			row = append(row, cell(more))
			v[k].add(s.model.name+", "+title, more)
		}
		t.Rows = append(t.Rows, row)
	}
	return t, nil
}

package tail

import (
	"context"
	"fmt"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
)

// knowledge is the load that is carried, by rule and number of clients.
func (s *study) knowledge(ctx context.Context, r *report.Report) error {
	list := rules()
	carried := make([][][]float64, len(list)) // by rule, number of clients and seed
	var jobs []job
	for i := range list {
		carried[i] = make([][]float64, len(s.clients))
		for k, n := range s.clients {
			carried[i][k] = make([]float64, len(s.seeds))
			for j, seed := range s.seeds {
				jobs = append(jobs, func(ctx context.Context) (err error) {
					carried[i][k][j], err = s.carried(ctx, list[i], n, seed)
					return err
				})
			}
		}
	}
	if err := s.all(ctx, "load carried", jobs); err != nil {
		return err
	}
	t := report.Table{
		ID: "carried", Title: "The load that is carried, by the number of clients",
		Columns: []report.Column{report.TextColumn("rule", "Choice")},
		Note:    "A share of all cores, with 95 % bootstrap intervals over the tiers.",
	}
	for _, n := range s.clients {
		t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("clients_%d", n), fmt.Sprintf("%d clients", n), "", 3))
	}
	for i := range list {
		row := []report.Cell{report.Text(list[i].name)}
		for k := range s.clients {
			x := evaluation.Bootstrap(carried[i][k])
			row = append(row, report.Interval(x.Mean, x.Lo, x.Hi))
		}
		t.Rows = append(t.Rows, row)
	}
	r.Sections = append(r.Sections, report.Section{
		ID: "knowledge", Title: "What clients know",
		Text:   "Each client sees what hosts say with its own answers. The more clients there are, the older that is, until it is worth no more than a random choice; a poll is as fresh with any number.",
		Tables: []report.Table{t},
	})
	gain, err := evaluation.Paired(carried[len(list)-1][0], carried[1][0])
	if err != nil {
		return err
	}
	mean := func(rule, k int) float64 { return evaluation.Bootstrap(carried[rule][k]).Mean }
	var words []string
	for k, n := range s.clients {
		words = append(words, fmt.Sprintf("%.2f of its cores with %d clients", mean(1, k), n))
	}
	r.Verdict = append(r.Verdict,
		fmt.Sprintf("By what hosts last said of themselves a tier carries %s; by chance %.2f.", strings.Join(words, ", "), mean(0, 0)),
		fmt.Sprintf("Polled and compared by work it carries %.2f: %s more with %d clients.", mean(len(list)-1, 0), evaluation.Signed(gain), s.clients[0]))
	return nil
}

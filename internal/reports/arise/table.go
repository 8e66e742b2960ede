package arise

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/streams"
	"gearshift/internal/reports"
)

// row is a setting in a table, with what the paper says of it.
type row struct {
	setting
	ratio  span // of the clients of the first row of its group to those here
	states figures
	runs   []*streams.Result
}

// span is a range of the paper's; the zero is none.
type span struct{ low, high float64 }

// String shows a range.
func (s span) String() string {
	switch s {
	case span{}:
		return "–"
	case span{s.low, s.low}:
		return fmt.Sprintf("%.1f", s.low)
	}
	return fmt.Sprintf("%.1f to %.1f", s.low, s.high)
}

// holds says where a value lies, rounded as the paper's are.
func (s span) holds(x float64) string {
	switch x = math.Round(10*x) / 10; {
	case s == span{}:
		return "–"
	case x < s.low:
		return "below"
	case x > s.high:
		return "above"
	}
	return "within"
}

// times returns how many times the clients of another row there are, by seed.
func (r row) times(other row) evaluation.Interval {
	list := make([]float64, len(r.runs))
	for i, x := range r.runs {
		if list[i] = math.NaN(); other.runs[i].Clients > 0 {
			list[i] = x.Clients / other.runs[i].Clients
		}
	}
	return evaluation.Bootstrap(list)
}

func mean(runs []*streams.Result, of func(*streams.Result) float64) float64 {
	return evaluation.Bootstrap(reports.Values(runs, of)).Mean
}

func clients(r *streams.Result) float64 { return r.Clients }
func dropped(r *streams.Result) float64 { return r.Drop }

// worst returns the most that a client loses in a second of any run.
func worst(runs []*streams.Result) float64 {
	return slices.Max(reports.Values(runs, func(r *streams.Result) float64 { return r.Worst }))
}

// fixed shows what all clients of a system have.
func fixed(x streams.System) string {
	var parts []string
	for _, n := range []struct {
		format string
		is     int
	}{{"interval %d", x.Fixed.Interval}, {"batch %d", x.Fixed.Batch}, {"%d clients", x.Clients}} {
		if n.is > 0 {
			parts = append(parts, fmt.Sprintf(n.format, n.is))
		}
	}
	return strings.Join(parts, ", ")
}

// show plays groups of settings, and adds their table.
func (s *study) show(ctx context.Context, p *reports.Part, id string, groups [][]row) error {
	for _, g := range groups {
		for i := range g {
			all, err := s.sweep.Play(ctx, g[i].setting)
			if err != nil {
				return err
			}
			g[i].runs = all[0]
		}
	}
	p.Tables = append(p.Tables, s.table(id, p.Title, groups))
	return nil
}

// table lays groups of rows out.
func (s *study) table(id, title string, groups [][]row) report.Table {
	t := report.Table{ID: id, Title: title, Columns: []report.Column{
		report.TextColumn("conditions", "Conditions"), report.NumberColumn("rate", "Drop rate", "", 4), report.TextColumn("system", "System"), report.TextColumn("fixed", "Fixed"),
		report.BesideColumn("clients", "Clients", "", 2), report.IntervalColumn("ratio", "First ÷ these", "", 2), report.TextColumn("paper", "Paper"), report.TextColumn("is", "Ours is"),
		report.NumberColumn("drop", "Drop, mean", "", 4), report.NumberColumn("worst", "worst second", "", 4), report.NumberColumn("broken", "Seconds above the SLA", "%", 1), report.NumberColumn("fluid", "Of the fluid bound", "%", 0),
		report.BesideColumn("interval", "Interval", "frames", 1), report.BesideColumn("batch", "Batch", "", 1), report.BesideColumn("idle", "Idle", "%", 1),
		report.BesideColumn("late", "Later than planned", "%", 1), report.BesideColumn("estimate", "Error of estimates", "", 3),
	}, Note: "Means over the runs with 95 % bootstrap intervals, beside the paper's. Ratios are of clients, of the first row above that has none, paired by seed; of the worst second it is the worst of all runs. The fluid bound has as many clients as could be served at their whole SLAs if intervals were not whole and nothing waited or varied."}
	for _, g := range groups {
		for i, r := range g {
			beside := func(of func(*streams.Result) float64, paper float64) report.Cell {
				return reports.Beside(evaluation.Bootstrap(reports.Values(r.runs, of)), paper)
			}
			ratio := report.Cell{}
			if i > 0 {
				ratio = reports.Cell(g[0].times(r))
			}
			t.Rows = append(t.Rows, []report.Cell{
				report.Text(r.name), report.Number(r.rate), report.Text(r.Name), report.Text(fixed(r.System)),
				beside(clients, r.states.clients), ratio, report.Text(r.ratio.String()), report.Text(r.ratio.holds(g[0].times(r).Mean)),
				report.Number(mean(r.runs, dropped)), report.Number(worst(r.runs)),
				report.Number(mean(r.runs, func(r *streams.Result) float64 { return 100 * r.Broken })),
				report.Number(mean(r.runs, func(r *streams.Result) float64 { return 100 * r.Fluid })),
				beside(func(r *streams.Result) float64 { return r.Interval }, r.states.interval), beside(func(r *streams.Result) float64 { return r.Batch }, r.states.batch),
				beside(func(r *streams.Result) float64 { return 100 * max(0, 1-r.Busy) }, r.states.idle),
				beside(func(r *streams.Result) float64 { return 100 * r.Late }, r.states.late),
				beside(func(r *streams.Result) float64 { return r.EstimateError.Most }, r.states.estimate),
			})
		}
	}
	return t
}

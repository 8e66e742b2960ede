package tail

import (
	"context"
	"fmt"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// allowed is how many questions a rule may ask for each request.
var allowed = []float64{1, 0.5, 0.2, 0.1}

// asking are the rules that are compared at equal numbers of questions.
var asking = []struct {
	name string
	of   func(each float64) balance.Chooser
}{
	{"probing by worth", func(each float64) balance.Chooser { return probing(each) }},
	{byPool, func(each float64) balance.Chooser { return prequal(each) }},
	{"two choices, polled for some requests", func(each float64) balance.Chooser {
		return balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true, Part: each / 2}
	}},
}

// curve is the load that a rule carries and what it asks, by allowance, number of clients and
// seed.
type curve struct{ carried, asked [][][]float64 }

// probes is the load that is carried by what may be asked.
func (s *study) probes(ctx context.Context, r *report.Report) error {
	clients := s.clients
	curves := make([]curve, len(asking)+1)
	var jobs []job
	for i := range asking {
		curves[i] = newCurve(len(allowed), len(clients), len(s.seeds))
		for a, each := range allowed {
			jobs = append(jobs, s.points(&curves[i], a, rule{asking[i].name, asking[i].of(each)}, clients)...)
		}
	}
	all := &curves[len(asking)]
	*all = newCurve(1, len(clients), len(s.seeds))
	jobs = append(jobs, s.points(all, 0, rule{byPolled, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}}, clients)...)
	if err := s.all(ctx, "load carried by probes", jobs); err != nil {
		return err
	}
	return s.probesReport(r, clients, curves)
}

func newCurve(allowances, clients, seeds int) (c curve) {
	for range allowances {
		var carried, asked [][]float64
		for range clients {
			carried, asked = append(carried, make([]float64, seeds)), append(asked, make([]float64, seeds))
		}
		c.carried, c.asked = append(c.carried, carried), append(c.asked, asked)
	}
	return c
}

// points are the jobs that find the load that the rule carries, with each number of clients.
func (s *study) points(to *curve, allowance int, c rule, clients []int) (jobs []job) {
	for k, n := range clients {
		for j, seed := range s.seeds {
			jobs = append(jobs, func(ctx context.Context) error {
				load, err := s.carried(ctx, c, n, seed)
				if err != nil {
					return err
				}
				x, err := s.play(c, n, load, seed)
				if err != nil {
					return err
				}
				to.carried[allowance][k][j] = load
				to.asked[allowance][k][j] = asked(x)
				return nil
			})
		}
	}
	return jobs
}

// probesReport lays out what the rules carry.
func (s *study) probesReport(r *report.Report, clients []int, curves []curve) error {
	t := report.Table{
		ID: "by-questions", Title: "The load that is carried, by what may be asked for each request",
		Columns: []report.Column{report.TextColumn("rule", "Choice"), report.NumberColumn("allowed", "Allowed", "", 1), report.NumberColumn("asked", "Asked, at most", "", 2)},
		Note:    "A share of all cores, with 95 % bootstrap intervals over the tiers. Asked is the most that it is with any number of clients.",
	}
	for _, n := range clients {
		t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("clients_%d", n), fmt.Sprintf("%d clients", n), "", 3))
	}
	row := func(name string, each float64, c *curve, a int) {
		cells, most := []report.Cell{report.Text(name), report.Number(each)}, 0.0
		for k := range clients {
			most = max(most, evaluation.Bootstrap(c.asked[a][k]).Mean)
		}
		cells = append(cells, report.Number(most))
		for k := range clients {
			x := evaluation.Bootstrap(c.carried[a][k])
			cells = append(cells, report.Interval(x.Mean, x.Lo, x.Hi))
		}
		t.Rows = append(t.Rows, cells)
	}
	polled := &curves[len(asking)]
	row(byPolled, 2, polled, 0)
	for i := range asking {
		for a, each := range allowed {
			row(asking[i].name, each, &curves[i], a)
		}
	}
	section := report.Section{ID: "probes", Title: "What a question is worth", Tables: []report.Table{t}}
	for k, n := range clients {
		section.Figures = append(section.Figures, figure(n, k, curves))
	}
	r.Sections = append(r.Sections, section)
	return s.probesVerdict(r, clients, curves)
}

// figure is the load that is carried with a number of clients, by what may be asked.
func figure(clients, k int, curves []curve) report.Figure {
	f := report.Figure{
		ID: fmt.Sprintf("questions-%d", clients), Title: fmt.Sprintf("%d clients", clients),
		X: report.Axis{Label: "questions for each request"}, Y: report.Axis{Label: "load carried"},
	}
	for i := range asking {
		x := report.Series{Name: asking[i].name, Style: report.Line}
		for a := len(allowed) - 1; a >= 0; a-- {
			load := evaluation.Bootstrap(curves[i].carried[a][k])
			x.X, x.Y, x.Lo, x.Hi = append(x.X, allowed[a]), append(x.Y, load.Mean), append(x.Lo, load.Lo), append(x.Hi, load.Hi)
		}
		f.Series = append(f.Series, x)
	}
	load := evaluation.Bootstrap(curves[len(asking)].carried[0][k]).Mean
	f.Series = append(f.Series, report.Series{Name: byPolled + ", 2 for each", Style: report.Line, X: []float64{allowed[len(allowed)-1], allowed[0]}, Y: []float64{load, load}})
	return f
}

// probesVerdict compares ours with polling each request, and with Prequal at equal numbers of
// questions.
func (s *study) probesVerdict(r *report.Report, clients []int, curves []curve) error {
	least, at := 2.0, 0
	for k, n := range clients {
		part := evaluation.Bootstrap(curves[0].carried[2][k]).Mean / evaluation.Bootstrap(curves[len(asking)].carried[0][k]).Mean
		if n <= 20 && part < least {
			least, at = part, n
		}
	}
	worst := evaluation.Interval{Mean: 2}
	where := ""
	for k, n := range clients {
		for a, each := range allowed {
			x, err := evaluation.Paired(curves[0].carried[a][k], curves[1].carried[a][k])
			if err != nil {
				return err
			}
			if x.Mean < worst.Mean {
				worst, where = x, fmt.Sprintf("%d clients and %v questions a request", n, each)
			}
		}
	}
	r.Verdict = append(r.Verdict,
		fmt.Sprintf("With %v questions a request, a tenth of those of two polled choices, probing by worth carries %.1f %% of what these carry with %d clients.", allowed[2], 100*least, at),
		fmt.Sprintf("At equal numbers of questions probing by worth carries more than Prequal by %s at least, with %s.", evaluation.Signed(worst), where))
	return nil
}

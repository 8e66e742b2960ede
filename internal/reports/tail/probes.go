package tail

import (
	"context"
	"fmt"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
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

// polledOnly is the place of the rule that polls each request, after those of asking and allowed.
var polledOnly = len(asking) * len(allowed)

// probes is the load that is carried by what may be asked.
func (s *study) probes(ctx context.Context, p *reports.Part) error {
	var rules []rule
	for i := range asking {
		for _, each := range allowed {
			rules = append(rules, rule{asking[i].name, asking[i].of(each)})
		}
	}
	rules = append(rules, rule{byPolled, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}})
	c, err := s.curves(ctx, rules)
	if err != nil {
		return err
	}
	c.lay(p)
	c.head(p)
	return nil
}

// lay lays out what the rules carry.
func (c *curves) lay(p *reports.Part) {
	t := report.Table{
		ID: "by-questions", Title: "The load that is carried, by what may be asked for each request",
		Columns: []report.Column{report.TextColumn("rule", "Choice"), report.NumberColumn("allowed", "Allowed", "", 1), report.NumberColumn("asked", "Asked, at most", "", 2)},
		Note:    "A share of all cores, with 95 % bootstrap intervals over the tiers. Asked is the most that it is with any number of clients.",
	}
	for _, n := range c.clients {
		t.Columns = append(t.Columns, report.IntervalColumn(fmt.Sprintf("clients_%d", n), fmt.Sprintf("%d clients", n), "", 3))
	}
	row := func(name string, each float64, rule int) {
		cells, most := []report.Cell{report.Text(name), report.Number(each)}, 0.0
		for k := range c.clients {
			asked := reports.Values(c.runs[rule*len(c.clients)+k], func(x probed) float64 { return x.asked })
			most = max(most, evaluation.Bootstrap(asked).Mean)
		}
		cells = append(cells, report.Number(most))
		for k := range c.clients {
			cells = append(cells, reports.Mean(c.carried(rule, k)))
		}
		t.Rows = append(t.Rows, cells)
	}
	row(byPolled, 2, polledOnly)
	for i := range asking {
		for a, each := range allowed {
			row(asking[i].name, each, i*len(allowed)+a)
		}
	}
	p.Tables = []report.Table{t}
	for k := range c.clients {
		p.Figures = append(p.Figures, c.figure(k))
	}
}

// figure is the load that is carried with a number of clients, by what may be asked.
func (c *curves) figure(k int) report.Figure {
	n := c.clients[k]
	f := report.Figure{
		ID: fmt.Sprintf("questions-%d", n), Title: fmt.Sprintf("%d clients", n),
		X: report.Axis{Label: "questions for each request"}, Y: report.Axis{Label: "load carried"},
	}
	for i := range asking {
		x := report.Series{Name: asking[i].name, Style: report.Line}
		for a := len(allowed) - 1; a >= 0; a-- {
			load := evaluation.Bootstrap(c.carried(i*len(allowed)+a, k))
			x.X, x.Y, x.Lo, x.Hi = append(x.X, allowed[a]), append(x.Y, load.Mean), append(x.Lo, load.Lo), append(x.Hi, load.Hi)
		}
		f.Series = append(f.Series, x)
	}
	load := evaluation.Bootstrap(c.carried(polledOnly, k)).Mean
	f.Series = append(f.Series, report.Series{Name: byPolled + ", 2 for each", Style: report.Line, X: []float64{allowed[len(allowed)-1], allowed[0]}, Y: []float64{load, load}})
	return f
}

// head compares ours with polling each request, and with Prequal at equal numbers of questions.
func (c *curves) head(p *reports.Part) {
	least, at := 2.0, 0
	for k, n := range c.clients {
		part := evaluation.Bootstrap(c.carried(2, k)).Mean / evaluation.Bootstrap(c.carried(polledOnly, k)).Mean
		if n <= 20 && part < least {
			least, at = part, n
		}
	}
	worst := evaluation.Interval{Mean: 2}
	where := ""
	for k, n := range c.clients {
		for a, each := range allowed {
			if x := reports.Less(c.carried(a, k), c.carried(len(allowed)+a, k)); x.Mean < worst.Mean {
				worst, where = x, fmt.Sprintf("%d clients and %v questions a request", n, each)
			}
		}
	}
	p.Head("With %v questions a request, a tenth of those of two polled choices, probing by worth carries %.1f %% of what these carry with %d clients.", allowed[2], 100*least, at)
	p.Head("At equal numbers of questions probing by worth carries more than Prequal by %s at least, with %s.", evaluation.Signed(worst), where)
}

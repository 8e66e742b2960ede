package tail

import (
	"context"
	"fmt"

	"gearshift/env/clients"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// even is the load at which balancers are compared.
const even = 0.85

// variations is the load that is carried by what was tried beyond two choices.
func (s *study) variations(ctx context.Context, p *reports.Part) error {
	c, err := s.curves(ctx, variations())
	if err != nil {
		return err
	}
	p.Tables = []report.Table{c.table("more-choices", "The load that is carried with more choices, hedged requests and weights by hardware")}
	return nil
}

// balancers compares those of others, and ours, by the load that they carry and at equal load.
func (s *study) balancers(ctx context.Context, p *reports.Part) error {
	list := append([]rule{{byPolled, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}}}, peers()...)
	c, err := s.curves(ctx, list)
	if err != nil {
		return err
	}
	equal, err := s.evenTable(ctx, list)
	if err != nil {
		return err
	}
	p.Say("Parameters of all are tuned on tiers that are not among these. Asked is how many replicas are asked for their load for each request, before the choice or beside the request. "+
		"Peak-EWMA and hedging learn from answers alone, so that they know little where there are many clients; Prequal's pool, in which what a host says serves all of its models, goes stale there. Ours is %q.", byWorth)
	p.Tables = []report.Table{c.table("by-balancer", "The load that is carried, by balancer"), equal}
	ours := len(list) - 1
	for k, n := range s.clients {
		text := fmt.Sprintf("With %d clients %s carries %.3f of the cores", n, byWorth, evaluation.Bootstrap(c.carried(ours, k)).Mean)
		for i := len(list) - len(peers()); i < ours; i++ {
			text += fmt.Sprintf(", than %s %s more", list[i].name, evaluation.Signed(reports.Less(c.carried(ours, k), c.carried(i, k))))
		}
		p.Head("%s.", text)
	}
	return nil
}

// brief is the result without all times but a hundred quantiles: there are many.
func brief(x *clients.Result) *clients.Result {
	short := *x
	short.Times = nil
	for q := range 1000 {
		short.Times = append(short.Times, x.Quantile((float64(q)+0.5)/1000))
	}
	return &short
}

// evenTable has timeouts and p99 of the rules at a load of even, and how they differ from ours on the same tiers.
func (s *study) evenTable(ctx context.Context, list []rule) (t report.Table, err error) {
	n := len(s.clients)
	results, err := reports.Grid(ctx, s.Run, len(list)*n, len(s.seeds), func(_ context.Context, i, j int) (*clients.Result, error) {
		x, err := s.play(list[i/n], s.clients[i%n], even, s.seeds[j])
		if err != nil {
			return nil, err
		}
		return brief(x), nil
	})
	if err != nil {
		return t, err
	}
	t = report.Table{
		ID: "equal-load", Title: fmt.Sprintf("At a load of %.2f", even),
		Columns: []report.Column{
			report.TextColumn("rule", "Choice"), report.NumberColumn("clients", "Clients", "", 0),
			report.IntervalColumn("timeouts", "Timeouts", "", 5), report.IntervalColumn("timeouts_more", "More than ours", "", 5),
			report.IntervalColumn("p99_ms", "p99", "ms", 1), report.IntervalColumn("p99_more_ms", "More than ours", "ms", 1),
			report.NumberColumn("tail", "Busiest 5 % of hosts", "", 3), report.NumberColumn("asked", "Asked", "", 2),
		},
		Note: "Means over the tiers with 95 % bootstrap intervals; differences are paired.",
	}
	for i, runs := range results {
		ours := results[(len(list)-1)*n+i%n]
		row := []report.Cell{report.Text(list[i/n].name), report.Number(float64(s.clients[i%n]))}
		for _, f := range []func(*clients.Result) float64{(*clients.Result).TimeoutShare, p99} {
			a, b := reports.Values(runs, f), reports.Values(ours, f)
			row = append(row, reports.Mean(a), reports.Cell(reports.Less(a, b)))
		}
		t.Rows = append(t.Rows, append(row, report.Number(mean(runs, (*clients.Result).Tail)), report.Number(mean(runs, asked))))
	}
	return t, nil
}

// asked is how many replicas were asked for their load for each request.
func asked(x *clients.Result) float64 { return float64(x.Polls+x.Probes) / float64(max(1, x.Sent)) }

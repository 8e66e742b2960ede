package tail

import (
	"context"
	"fmt"

	"gearshift/env/clients"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// even is the load at which balancers are compared.
const even = 0.85

// variations is the load that is carried by what was tried beyond two choices.
func (s *study) variations(ctx context.Context, r *report.Report) error {
	list := variations()
	carried, err := s.carriedBy(ctx, "load carried by variations", list)
	if err != nil {
		return err
	}
	r.Sections = append(r.Sections, report.Section{
		ID: "variations", Title: "Beyond two choices",
		Tables: []report.Table{s.carriedTable("more-choices", "The load that is carried with more choices, hedged requests and weights by hardware", list, carried)},
	})
	return nil
}

// balancers compares those of others, and ours, by the load that they carry and at equal load.
func (s *study) balancers(ctx context.Context, r *report.Report) error {
	list := append([]rule{{byPolled, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}}}, peers()...)
	carried, err := s.carriedBy(ctx, "load carried by balancers", list)
	if err != nil {
		return err
	}
	results, err := s.played(ctx, list)
	if err != nil {
		return err
	}
	equal, err := s.evenTable(list, results)
	if err != nil {
		return err
	}
	r.Sections = append(r.Sections, report.Section{
		ID: "balancers", Title: "Balancers",
		Text: fmt.Sprintf("Parameters of all are tuned on tiers that are not among these. Asked is how many replicas are asked for their load for each request, before the choice or beside the request. "+
			"Peak-EWMA and hedging learn from answers alone, so that they know little where there are many clients; Prequal's pool, in which what a host says serves all of its models, goes stale there. Ours is %q.", byWorth),
		Tables: []report.Table{s.carriedTable("by-balancer", "The load that is carried, by balancer", list, carried), equal},
	})
	ours := len(list) - 1
	for k, n := range s.clients {
		text := fmt.Sprintf("With %d clients %s carries %.3f of the cores", n, byWorth, evaluation.Bootstrap(carried[ours][k]).Mean)
		for i := len(list) - len(peers()); i < ours; i++ {
			x, err := evaluation.Paired(carried[ours][k], carried[i][k])
			if err != nil {
				return err
			}
			text += fmt.Sprintf(", than %s %s more", list[i].name, evaluation.Signed(x))
		}
		r.Verdict = append(r.Verdict, text+".")
	}
	return nil
}

// played is what comes of each rule at the load of even, by rule, number of clients and seed.
func (s *study) played(ctx context.Context, list []rule) ([][][]*clients.Result, error) {
	results := make([][][]*clients.Result, len(list))
	var jobs []job
	for i := range list {
		results[i] = make([][]*clients.Result, len(s.clients))
		for k, n := range s.clients {
			results[i][k] = make([]*clients.Result, len(s.seeds))
			for j, seed := range s.seeds {
				jobs = append(jobs, func(context.Context) error {
					x, err := s.play(list[i], n, even, seed)
					if err == nil {
						results[i][k][j] = brief(x)
					}
					return err
				})
			}
		}
	}
	return results, s.all(ctx, "balancers at equal load", jobs)
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

// evenTable has timeouts and p99 at equal load, and how they differ from ours on the same tiers.
func (s *study) evenTable(list []rule, results [][][]*clients.Result) (report.Table, error) {
	t := report.Table{
		ID: "equal-load", Title: fmt.Sprintf("At a load of %.2f", even),
		Columns: []report.Column{
			report.TextColumn("rule", "Choice"), report.NumberColumn("clients", "Clients", "", 0),
			report.IntervalColumn("timeouts", "Timeouts", "", 5), report.IntervalColumn("timeouts_more", "More than ours", "", 5),
			report.IntervalColumn("p99_ms", "p99", "ms", 1), report.IntervalColumn("p99_more_ms", "More than ours", "ms", 1),
			report.NumberColumn("tail", "Busiest 5 % of hosts", "", 3), report.NumberColumn("asked", "Asked", "", 2),
		},
		Note: "Means over the tiers with 95 % bootstrap intervals; differences are paired.",
	}
	timeouts := func(x *clients.Result) float64 { return x.TimeoutShare() }
	p99 := func(x *clients.Result) float64 { return 1000 * x.Quantile(0.99).Seconds() }
	ours := results[len(list)-1]
	for i := range list {
		for k, n := range s.clients {
			row := []report.Cell{report.Text(list[i].name), report.Number(float64(n))}
			for _, f := range []func(*clients.Result) float64{timeouts, p99} {
				a, b := each(results[i][k], f), each(ours[k], f)
				x, err := evaluation.Paired(a, b)
				if err != nil {
					return t, err
				}
				m := evaluation.Bootstrap(a)
				row = append(row, report.Interval(m.Mean, m.Lo, m.Hi), report.Interval(x.Mean, x.Lo, x.Hi))
			}
			tail := evaluation.Bootstrap(each(results[i][k], (*clients.Result).Tail)).Mean
			asked := evaluation.Bootstrap(each(results[i][k], asked)).Mean
			t.Rows = append(t.Rows, append(row, report.Number(tail), report.Number(asked)))
		}
	}
	return t, nil
}

// asked is how many replicas were asked for their load for each request.
func asked(x *clients.Result) float64 { return float64(x.Polls+x.Probes) / float64(max(1, x.Sent)) }

func each(list []*clients.Result, f func(*clients.Result) float64) (values []float64) {
	for _, x := range list {
		values = append(values, f(x))
	}
	return values
}

// carriedBy is the load that is carried, by rule, number of clients and seed.
func (s *study) carriedBy(ctx context.Context, what string, list []rule) ([][][]float64, error) {
	carried := make([][][]float64, len(list))
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
	return carried, s.all(ctx, what, jobs)
}

// carriedTable lays that out.
func (s *study) carriedTable(id, title string, list []rule, carried [][][]float64) report.Table {
	t := report.Table{
		ID: id, Title: title, Columns: []report.Column{report.TextColumn("rule", "Choice")},
		Note: "A share of all cores, with 95 % bootstrap intervals over the tiers.",
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
	return t
}

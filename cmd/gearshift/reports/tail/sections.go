package tail

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/tier"
	"gearshift/router/balance"
)

// report plays everything and lays it out.
func (s *study) report(ctx context.Context) (*report.Report, error) {
	d := drawn(0)
	r := &report.Report{
		Title: "Tail utilisation",
		Scenario: fmt.Sprintf("Simulated: %d hosts of 2 and 4 cores, %d models with %d replicas, whose requests take %v to %v of a core in the mean; %d tiers are drawn, %v of requests each",
			d.Hosts, d.Models, d.Replicas, d.Fastest, d.Slowest, len(s.seeds), s.length),
		Repeat: fmt.Sprintf("gearshift paper tail --seeds %d", len(s.seeds)),
	}
	if s.options.quick {
		r.Repeat += " --quick"
	}
	r.Repeat += " --out DIR; " + s.version
	for _, part := range []func(context.Context, *report.Report) error{s.knowledge, s.loads, s.closedForms} {
		if err := part(ctx, r); err != nil {
			return nil, err
		}
	}
	return r, nil
}

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

// loads is what requests see at loads from half to nearly full.
func (s *study) loads(ctx context.Context, r *report.Report) error {
	list, at := rules(), []float64{0.5, 0.6, 0.7, 0.8, 0.85, 0.9, 0.95}
	const n = 1000
	results := make([][]*tier.Result, len(list))
	var jobs []job
	for i := range list {
		results[i] = make([]*tier.Result, len(at))
		for k, load := range at {
			jobs = append(jobs, func(context.Context) (err error) {
				results[i][k], err = s.play(list[i], n, load, s.seeds[0])
				return err
			})
		}
	}
	if err := s.all(ctx, "loads", jobs); err != nil {
		return err
	}
	t := report.Table{ID: "loads", Title: fmt.Sprintf("%d clients, the first of the tiers", n), Columns: []report.Column{
		report.TextColumn("rule", "Choice"), report.NumberColumn("load", "Load", "", 2),
		report.NumberColumn("timeouts", "Timeouts", "", 5), report.NumberColumn("p99_ms", "p99", "ms", 1),
		report.NumberColumn("tail", "Busiest 5 % of hosts", "", 3), report.NumberColumn("polls", "Polls per request", "", 2),
	}}
	f := report.Figure{ID: "timeouts", Title: "Timeouts by load", X: report.Axis{Label: "load"}, Y: report.Axis{Label: "share of requests that time out", Range: &report.Range{Min: 0, Max: 0.02}}}
	for i := range list {
		series := report.Series{Name: list[i].name, Style: report.Line}
		for k, load := range at {
			x := results[i][k]
			t.Rows = append(t.Rows, []report.Cell{report.Text(list[i].name), report.Number(load), report.Number(x.TimeoutShare()),
				report.Number(1000 * x.Quantile(0.99).Seconds()), report.Number(x.Tail()), report.Number(float64(x.Polls) / float64(max(1, x.Requests)))})
			series.X, series.Y = append(series.X, load), append(series.Y, x.TimeoutShare())
		}
		f.Series = append(f.Series, series)
	}
	r.Sections = append(r.Sections, report.Section{ID: "loads", Title: "Timeouts, response times and the busiest hosts", Tables: []report.Table{t}, Figures: []report.Figure{f}})
	return nil
}

// closedForms holds the simulator against what is known in closed form.
func (s *study) closedForms(ctx context.Context, r *report.Report) error {
	cases := []struct {
		name    string
		chooser balance.Chooser
		load    float64
		want    float64
	}{
		{"random", balance.Sampled{K: 1}, 0.9, 10},
		{"power of two choices", balance.Sampled{K: 2, Poll: true}, 0.9, 2.614},
		{"power of two choices", balance.Sampled{K: 2, Poll: true}, 0.99, 5.43},
	}
	means := make([]float64, len(cases))
	var jobs []job
	for i, x := range cases {
		jobs = append(jobs, func(context.Context) error {
			result, err := tier.Run(s.supermarket(x.chooser, x.load))
			if err == nil {
				means[i] = result.Mean().Seconds()
			}
			return err
		})
	}
	if err := s.all(ctx, "theory", jobs); err != nil {
		return err
	}
	t := report.Table{ID: "theory", Title: "Mean response time, 500 hosts of one core, in service times", Columns: []report.Column{
		report.TextColumn("rule", "Choice"), report.NumberColumn("load", "Load", "", 2),
		report.BesideColumn("simulated", "Simulated, and theory for infinitely many hosts", "", 3),
	}}
	var words []string
	for i, x := range cases {
		t.Rows = append(t.Rows, []report.Cell{report.Text(x.name), report.Number(x.load), report.Beside(means[i], x.want)})
		words = append(words, fmt.Sprintf("%.2f for %.2f", means[i], x.want))
	}
	r.Sections = append(r.Sections, report.Section{ID: "theory", Title: "Held against theory", Tables: []report.Table{t}})
	r.Verdict = append(r.Verdict, "Mean response times of the simulator and of theory: "+strings.Join(words, ", ")+".")
	return nil
}

// supermarket is the tier of theory: alike hosts of one core, one model, exponential work.
func (s *study) supermarket(c balance.Chooser, load float64) *tier.Config {
	const hosts = 500
	x := &tier.Config{
		Models:  []tier.Model{{Name: "m", Share: 1, Work: tier.Exponential(time.Second), Mean: time.Second}},
		Clients: 1, Rate: load * hosts, Chooser: c, Length: s.theory, Warmup: s.theory / 4, Seed: s.seeds[0],
	}
	for i := range hosts {
		x.Hosts, x.Models[0].Replicas = append(x.Hosts, tier.Host{Cores: 1}), append(x.Models[0].Replicas, i)
	}
	return x
}

package tail

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/balance"
	"gearshift/router/fleet"
)

// closedForms holds the simulator against what is known in closed form.
func (s *study) closedForms(ctx context.Context, p *reports.Part) error {
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
	means, err := reports.Grid(ctx, s.Run, len(cases), 1, func(_ context.Context, i, _ int) (float64, error) {
		result, err := clients.Run(s.supermarket(cases[i].chooser, cases[i].load))
		if err != nil {
			return 0, err
		}
		return result.Mean().Seconds(), nil
	})
	if err != nil {
		return err
	}
	t := report.Table{ID: "closed-forms", Title: "Mean response time, 500 hosts of one core, in service times", Columns: []report.Column{
		report.TextColumn("rule", "Choice"), report.NumberColumn("load", "Load", "", 2),
		report.BesideColumn("simulated", "Simulated, and theory for infinitely many hosts", "", 3),
	}}
	var words []string
	for i, x := range cases {
		t.Rows = append(t.Rows, []report.Cell{report.Text(x.name), report.Number(x.load), report.Beside(means[i][0], x.want)})
		words = append(words, fmt.Sprintf("%.2f for %.2f", means[i][0], x.want))
	}
	p.Tables = []report.Table{t}
	p.Head("Mean response times of the simulator and of theory: %s.", strings.Join(words, ", "))
	return nil
}

// supermarket is the tier of theory: alike hosts of one core, one model, exponential work.
func (s *study) supermarket(c balance.Chooser, load float64) *clients.Config {
	const hosts = 500
	x := &clients.Config{
		Models:  []clients.Demand{{Model: fleet.Model{Name: "m"}, Share: 1, Work: clients.Exponential(time.Second), Mean: time.Second}},
		Clients: 1, Rate: load * hosts, Chooser: c, Length: s.theory, Warmup: s.theory / 4, Seed: s.seeds[0],
	}
	for i := range hosts {
		x.Hosts, x.Models[0].Replicas = append(x.Hosts, fleet.Host{Compute: 1}), append(x.Models[0].Replicas, i)
	}
	return x
}

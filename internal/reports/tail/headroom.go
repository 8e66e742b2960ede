package tail

import (
	"context"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// headroom is what has to be bought for the sake of the busiest hosts, as load grows (META-20).
func (s *study) headroom(ctx context.Context, r *report.Report) error {
	list, loads := steps(), []float64{0.3, 0.45, 0.6, 0.75, 0.9}
	list = []measure{list[0], list[len(list)-1]}
	list[1].name = "all measures"
	seeds := s.seeds[:min(len(s.seeds), 5)]
	runs, err := reports.Grid(ctx, s.Run, len(list)*len(loads), len(seeds), func(_ context.Context, i, j int) (*clients.Result, error) {
		return s.summed(list[i/len(loads)], loads[i%len(loads)], seeds[j])
	})
	if err != nil {
		return err
	}
	t := report.Table{ID: "busiest", Title: "The busiest hosts as load grows", Columns: []report.Column{
		report.TextColumn("measure", "Measure"), report.NumberColumn("load", "Load at the peak", "", 2),
		report.NumberColumn("p50", "p50", "", 3), report.NumberColumn("p95", "p95", "", 3), report.NumberColumn("tail", "Mean of the busiest 5 %", "", 3),
		report.NumberColumn("headroom", "Capacity to add", "%", 1),
	}, Note: "Hosts in the evening. Capacity is added to all hosts alike until the busiest 5 % are used to .7."}
	for i := range list {
		for k, load := range loads {
			at := func(f func(hosts []float64) float64) float64 {
				return mean(runs[i*len(loads)+k], func(r *clients.Result) float64 { return f(peak(r)) })
			}
			t.Rows = append(t.Rows, []report.Cell{report.Text(list[i].name), report.Number(load),
				report.Number(at(func(x []float64) float64 { return quantile(x, 0.5) })), report.Number(at(func(x []float64) float64 { return quantile(x, 0.95) })),
				report.Number(at(busiestOf)), report.Number(at(func(x []float64) float64 { return 100 * max(0, busiestOf(x)/target-1) }))})
		}
	}
	r.Sections = append(r.Sections, report.Section{ID: "headroom", Title: "Headroom to buy", Tables: []report.Table{t}})
	return nil
}

// busiestOf is the mean of the busiest twentieth of hosts.
func busiestOf(hosts []float64) float64 { return (&clients.Result{Utilisation: hosts}).Tail() }

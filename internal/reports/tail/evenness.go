package tail

import (
	"math"
	"slices"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
)

// peak is the utilisation of hosts in the evening of a day, in order.
func peak(r *clients.Result) []float64 {
	hosts := make([]float64, len(r.Utilisation))
	n := 0.0
	for _, m := range r.Series {
		if part := m.At.Seconds() / r.Series[len(r.Series)-1].At.Seconds(); part < 0.75 || part > 0.85 {
			continue
		}
		n++
		for i, u := range m.Utilisation {
			hosts[i] += u
		}
	}
	for i := range hosts {
		hosts[i] /= n
	}
	slices.Sort(hosts)
	return hosts
}

// quantile is that of a sorted list.
func quantile(list []float64, q float64) float64 {
	return list[min(len(list)-1, int(q*float64(len(list))))]
}

// variation is the coefficient of variation of the requests that hosts answered for each core.
func variation(r *clients.Result, cores []float64) float64 {
	var sum, squares float64
	for i, n := range r.Answered {
		x := float64(n) / cores[i]
		sum, squares = sum+x, squares+x*x
	}
	n := float64(len(r.Answered))
	return math.Sqrt(max(0, squares/n-sum/n*sum/n)) / (sum / n)
}

// target is the utilisation for whose sake capacity is bought.
const target = 0.7

// even adds how hosts are used, before and after.
func (d *measured) even(s *study, r *report.Report) {
	var cores []float64
	x := s.uneven(0)
	for i := range x.Hosts {
		cores = append(cores, x.Kinds[i%len(x.Kinds)])
	}
	r.Sections = append(r.Sections, report.Section{
		ID: "evenness", Title: "How evenly hosts are used",
		Text:    "Hosts in the evening, at the load that the first measure carries. Capacity is added to all hosts alike until the busiest 5 % are used to .7: their use ÷ .7 − 1. A core that waits for memory is busy.",
		Tables:  []report.Table{d.busy(cores)},
		Figures: d.figures(),
	})
}

// busy is how hosts are used in the evening, by measure, at the load that the first carries.
func (d *measured) busy(cores []float64) report.Table {
	t := report.Table{ID: "utilisation", Title: "Utilisation of hosts", Columns: []report.Column{report.TextColumn("measure", "Measure")}}
	for _, q := range shown {
		t.Columns = append(t.Columns, report.NumberColumn(q.name, q.name, "", 3))
	}
	t.Columns = append(t.Columns,
		report.NumberColumn("tail", "Mean of the busiest 5 %", "", 3),
		report.NumberColumn("headroom", "Capacity to add", "%", 1),
		report.NumberColumn("variation", "Variation of requests per core", "", 3),
		report.NumberColumn("moves", "Replicas moved in a day", "", 1))
	for i := range d.list {
		row := []report.Cell{report.Text(d.list[i].name)}
		for _, q := range shown {
			row = append(row, report.Number(mean(d.least[i], func(r *clients.Result) float64 { return quantile(peak(r), q.at) })))
		}
		tail := func(r *clients.Result) float64 { return busiestOf(peak(r)) }
		t.Rows = append(t.Rows, append(row, report.Number(mean(d.least[i], tail)),
			report.Number(100*mean(d.least[i], func(r *clients.Result) float64 { return max(0, tail(r)/target-1) })),
			report.Number(mean(d.least[i], func(r *clients.Result) float64 { return variation(r, cores) })),
			report.Number(mean(d.least[i], func(r *clients.Result) float64 { return float64(r.Loads) }))))
	}
	return t
}

// shown are the percentiles of hosts that tables have.
var shown = []struct {
	name string
	at   float64
}{{"p5", 0.05}, {"p25", 0.25}, {"p50", 0.5}, {"p75", 0.75}, {"p95", 0.95}}

// figures are the utilisation of hosts over the day, before and after, on the first tier.
func (d *measured) figures() (list []report.Figure) {
	for _, x := range []struct {
		id, title string
		run       *clients.Result
	}{{"before", "Before: hosts over the day", d.least[0][0]}, {"after", "After: with all measures, at the same load", d.least[d.all][0]}} {
		f := report.Figure{ID: "day-" + x.id, Title: x.title, Half: true, X: report.Axis{Label: "part of the day"}, Y: report.Axis{Label: "utilisation", Range: &report.Range{Min: 0, Max: 1}}}
		for _, q := range []struct {
			name string
			at   float64
		}{{"p5", 0.05}, {"p50", 0.5}, {"p95", 0.95}, {"busiest", 1}} {
			series := report.Series{Name: q.name, Style: report.Line}
			for k, m := range x.run.Series {
				hosts := slices.Clone(m.Utilisation)
				slices.Sort(hosts)
				series.X, series.Y = append(series.X, float64(k+1)/float64(len(x.run.Series))), append(series.Y, quantile(hosts, q.at))
			}
			f.Series = append(f.Series, series)
		}
		list = append(list, f)
	}
	return list
}

package arise

import (
	"fmt"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/streams"
	"gearshift/internal/reports"
)

// add adds what there is of the runs to a series, with its interval.
func add(s *report.Series, x float64, runs []*streams.Result, of func(*streams.Result) float64) {
	v := evaluation.Bootstrap(reports.Values(runs, of))
	s.X, s.Y, s.Lo, s.Hi = append(s.X, x), append(s.Y, v.Mean), append(s.Lo, v.Lo), append(s.Hi, v.Hi)
}

// unplanned names the conditions without what part of the SLA is planned for.
func (w *conditions) unplanned() string {
	name, _, _ := strings.Cut(w.name, ", planned")
	return name
}

// bars draws a bar for each system, by conditions.
func bars(id, title string, y report.Axis, groups [][]row, of func(r *row) func(*streams.Result) float64) report.Figure {
	f := report.Figure{ID: id, Title: title, X: report.Axis{Label: "network and SLA"}, Y: y}
	for k, g := range groups {
		f.X.Categories = append(f.X.Categories, g[0].unplanned())
		for i := range g {
			if k == 0 {
				f.Series = append(f.Series, report.Series{Name: g[i].Name, Style: report.Bars})
			}
			add(&f.Series[i], float64(k), g[i].runs, of(&g[i]))
		}
	}
	return f
}

// served draws how many clients systems serve.
func served(id string, groups [][]row) report.Figure {
	return bars(id, "Clients served", report.Axis{Label: "clients"}, groups, func(*row) func(*streams.Result) float64 { return clients })
}

// lost draws what part of their SLAs clients lose, where all have the same.
func lost(id string, groups [][]row) report.Figure {
	var same [][]row
	for _, g := range groups {
		if g[0].sla[0] == g[0].sla[1] {
			same = append(same, g)
		}
	}
	f := bars(id, "Part of the SLA that clients lose", report.Axis{Label: "mean drop ÷ SLA", Unit: "%"}, same, func(r *row) func(*streams.Result) float64 {
		return func(x *streams.Result) float64 { return 100 * x.Drop / r.sla[0] }
	})
	f.Note = "A system that plans for the whole SLA has seconds above it; the rest of a bar up to 100 % is not used."
	return f
}

// timelines draw the last second of the first run of each system under some conditions.
func timelines(id string, g []row) (list []report.Figure) {
	for i := range g {
		f := report.Figure{
			ID: fmt.Sprintf("%s-%d", id, i+1), Title: fmt.Sprintf("A second of %s: %s", g[i].Name, g[i].unplanned()), Half: true,
			X: report.Axis{Label: "time", Unit: "ms", Range: &report.Range{Max: 1000}}, Y: report.Axis{Label: "frames of the batch that runs"},
		}
		var by [2]report.Series // by model
		for _, b := range g[i].runs[0].Last {
			begin := time.Second - b.Before
			by[b.Model].Block(ms(begin), ms(min(time.Second, begin+b.Took)), float64(b.Frames))
		}
		for k, name := range []string{"the model", "the smaller model"} {
			if by[k].Name, by[k].Style = name, report.Band; len(by[k].X) > 0 {
				f.Series = append(f.Series, by[k])
			}
		}
		if len(f.Series) > 0 {
			list = append(list, f)
		}
	}
	return list
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// byRoundTrip draws clients by the round trip of the network.
func byRoundTrip(groups [][]row) report.Figure {
	f := report.Figure{ID: "by-network-figure", Title: "Clients by the network's round trip", X: report.Axis{Label: "round trip", Unit: "ms"}, Y: report.Axis{Label: "clients"}}
	for i, r := range groups[0] {
		s := report.Series{Name: r.Name, Style: report.Line}
		for _, g := range groups {
			add(&s, ms(g[i].link.RoundTrip), g[i].runs, clients)
		}
		f.Series = append(f.Series, s)
	}
	return f
}

// byRate draws intervals and batches by the drop rate.
func byRate(g []row) report.Figure {
	f := report.Figure{ID: "by-rate-figure", Title: "Intervals and batches by drop rate", X: report.Axis{Label: "drop rate per frame"}, Y: report.Axis{Label: "frames"}}
	interval, batch := report.Series{Name: "interval", Style: report.Line}, report.Series{Name: "batch", Style: report.Line}
	for _, r := range g {
		add(&interval, r.rate, r.runs, func(x *streams.Result) float64 { return x.Interval })
		add(&batch, r.rate, r.runs, func(x *streams.Result) float64 { return x.Batch })
	}
	f.Series = []report.Series{interval, batch}
	return f
}

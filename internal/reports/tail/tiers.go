package tail

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/scaling"
	"gearshift/internal/reports"
	"gearshift/router/tiers"
	"gearshift/workloads"
)

// division is one way to divide traffic among tiers.
type division struct {
	name    string
	routers []scaling.Router
}

// divisions are those of the report. The tiers have equally many hosts.
func divisions() []division {
	byHosts := []float64{0.5, 0.5}
	byCompute := tiers.Shares([]tiers.Tier{{Compute: 2}, {Compute: 1}})
	return []division{
		{"by hosts", []scaling.Router{{Part: 1, Shares: byHosts}}},
		{"by compute", []scaling.Router{{Part: 1, Shares: byCompute}}},
		{"by compute, corrected", []scaling.Router{{Part: 1, Shares: byCompute, Controlled: true}}},
		{"corrected by two routers, one of which begins by hosts", []scaling.Router{{Part: 0.5, Shares: byCompute, Controlled: true}, {Part: 0.5, Shares: byHosts, Controlled: true}}},
	}
}

// tiersOf is the run of a division: the load is that of the replicas' series; the old hosts answer
// less than they compute, and half of them are away for three hours.
func tiersOf(series *scaling.Series, d division) *scaling.Tiers {
	const oldest = 550.
	return &scaling.Tiers{
		Series: series, Routers: d.routers, Options: tiers.Defaults, Patience: time.Second,
		Tiers: []scaling.Tier{
			{Tier: tiers.Tier{Name: "new", Compute: 2}, Capacity: 1350},
			{Tier: tiers.Tier{Name: "old", Compute: 1}, Capacity: oldest},
		},
		Changes: []scaling.Change{{At: 36 * time.Hour, Tier: 1, Capacity: oldest / 2}, {At: 39 * time.Hour, Tier: 1, Capacity: oldest}},
	}
}

// tiers compares divisions of traffic among tiers.
func (s *study) tiers(ctx context.Context, r *report.Report) error {
	list := divisions()
	refused, spread := make([][]float64, len(list)), make([][]float64, len(list))
	results := make([]*scaling.TiersResult, len(list)) // of the first series
	series, err := growth{single: 1. / 3}.draw(workloads.Evaluation, s.series)
	if err != nil {
		return err
	}
	for i, d := range list {
		for k, x := range series {
			if err := ctx.Err(); err != nil {
				return err
			}
			result, err := tiersOf(x, d).Run()
			if err != nil {
				return err
			}
			if k == 0 {
				results[i] = result
			}
			refused[i], spread[i] = append(refused[i], 100*result.Errors()), append(spread[i], result.Spread())
		}
	}
	t := report.Table{ID: "tier-divisions", Title: "Traffic divided among two tiers", Columns: []report.Column{
		report.TextColumn("division", "Division"), report.IntervalColumn("refused", "Refused", "%", 3),
		report.IntervalColumn("spread", "Busiest less idlest tier", "", 3),
	}, Note: "Utilisation of tiers is by minute. With 95 % bootstrap intervals over the series."}
	for i, d := range list {
		t.Rows = append(t.Rows, []report.Cell{report.Text(d.name), reports.Mean(refused[i]), reports.Mean(spread[i])})
	}
	r.Sections = append(r.Sections, report.Section{
		ID: "tiers", Title: "Tiers",
		Text:   fmt.Sprintf("Simulated, with the load of the %d series above: two tiers of equally many hosts, of which those of one compute twice as much by their specification; the slower ones answer a fifth less than that, and half of them are away for three hours of the second day. A controller corrects a tenth of the distance between utilisations each 10 s.", len(series)),
		Tables: []report.Table{t}, Figures: []report.Figure{sharesFigure(list, results)},
	})
	mean := func(list []float64) float64 { return evaluation.Bootstrap(list).Mean }
	r.Verdict = append(r.Verdict, fmt.Sprintf("Two tiers that get traffic by hosts refuse %s %%, by compute %s %%, corrected by what they report %s %%, also by two routers (%s %%).",
		percent(mean(refused[0])/100), percent(mean(refused[1])/100), percent(mean(refused[2])/100), percent(mean(refused[3])/100)))
	return nil
}

// sharesFigure is the share of the faster tier around the loss.
func sharesFigure(list []division, results []*scaling.TiersResult) report.Figure {
	f := report.Figure{ID: "tier-shares", Title: "Share of the faster tier, first series", X: report.Axis{Label: "time", Unit: "h"}, Y: report.Axis{Label: "share"}}
	for i, d := range list {
		for k := range d.routers {
			x := report.Series{Name: d.name, Style: report.Line}
			if k > 0 {
				x.Name += ": the other"
			}
			for minute := 0; minute < len(results[i].Shares); minute += 10 {
				x.X, x.Y = append(x.X, float64(minute)/60), append(x.Y, results[i].Shares[minute][k])
			}
			f.Series = append(f.Series, x)
		}
	}
	return f
}

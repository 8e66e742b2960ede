package tail

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/workloads"
)

// scaledBy returns the fleet whose replicas are counted: each answers 25 requests a second.
func scaledBy(warmUp time.Duration) scaled {
	return scaled{capacity: 25, warmUp: warmUp, period: 15 * time.Second}
}

// days is what series are drawn from: the recorded day, a hundred times as busy.
func days(single float64, seed uint64) workloads.Days {
	return workloads.Days{
		Day: workloads.DailyRates(), Scale: 100, Drawn: 3, Before: 1,
		DayFactor: 0.1, Noise: 0.05, NoiseHolds: 20 * time.Minute,
		Daily: 2, DailyJitter: 2 * time.Minute, Single: single,
		Lowest: 1.2, Highest: 1.6, Shortest: 10 * time.Minute, Longest: 30 * time.Minute, Steep: 5 * time.Minute, Seed: seed,
	}
}

// growth is a world in which replicas are counted.
type growth struct {
	name    string
	warmUp  time.Duration
	single  float64 // spikes that come once, a day in the mean
	history bool    // whether the day before is known
}

// growths are the worlds of the report, the one that its verdict is of first.
func (s *study) growths() []growth {
	list := []growth{
		{"warm-up of 10 min, 2 spikes that recur and 1/3 that does not, a day", 10 * time.Minute, 1. / 3, true},
		{"a spike each day that does not recur", 10 * time.Minute, 1, true},
	}
	if s.Quick {
		return list
	}
	return append(list,
		growth{"no spike that does not recur", 10 * time.Minute, 0, true},
		growth{"warm-up of 2 min", 2 * time.Minute, 1. / 3, true},
		growth{"warm-up of 5 min", 5 * time.Minute, 1. / 3, true},
		growth{"warm-up of 20 min", 20 * time.Minute, 1. / 3, true},
		growth{"nothing known of the day before", 10 * time.Minute, 1. / 3, false},
	)
}

// counted is what came of a world: the ways to count, tuned on other series, and their runs.
type counted struct {
	growth
	series                 []*workloads.Series
	reactiveIs, forecastIs string
	reactive, forecast     []*run
}

// counted tunes both ways on series of training, and plays them on those of evaluation.
func (s *study) counted(ctx context.Context, g growth) (c counted, err error) {
	c.growth = g
	t := tuning{scaled: scaledBy(g.warmUp), Run: s.Run}
	if t.series, err = g.draw(workloads.Training, s.series); err != nil {
		return c, err
	}
	reactive, forecast, err := t.tune(ctx, t.reactives(), t.forecasts(g.history), most)
	if err != nil {
		return c, err
	}
	c.reactiveIs, c.forecastIs = reactive.name, forecast.name
	if c.series, err = g.draw(workloads.Evaluation, s.series); err != nil {
		return c, err
	}
	if c.reactive, _, err = t.playAll(c.series, reactive.counting); err == nil {
		c.forecast, _, err = t.playAll(c.series, forecast.counting)
	}
	return c, err
}

func (g growth) draw(d workloads.Domain, n int) (list []*workloads.Series, err error) {
	for _, seed := range workloads.Seeds(d, n) {
		x, err := days(g.single, seed).Draw()
		if err != nil {
			return nil, err
		}
		list = append(list, x)
	}
	return list, nil
}

// replicas compares counts of replicas by forecasts with reactive ones.
func (s *study) replicas(ctx context.Context, p *reports.Part) error {
	list := s.growths()
	all, err := reports.Grid(ctx, s.Run, 1, len(list), func(ctx context.Context, _, k int) (counted, error) { return s.counted(ctx, list[k]) })
	if err != nil {
		return err
	}
	results := all[0]
	p.Say("Simulated: %d series of three days, drawn around a day of 35 clients that ServeGen recorded, a hundred times as busy: factors of days (deviation .1), noise (.05, over 20 minutes) and spikes of 1.2 to 1.6 times the load for 10 to 30 minutes. A day before each series is known, if nothing else is said. A replica answers 25 requests a second, and is paid for while it warms up; a request waits a second at most. Peaks are the tenth of the minutes with the most load.\n\n"+
		"Both were tuned on %[1]d other series: the reactive scaler, which is that of Kubernetes with a rate as its metric, for the fewest replica-hours with at most .1 %% of errors; the forecasts then for the fewest errors at peaks with 1 %% fewer replica-hours.", s.series)
	p.Tables, p.Figures = []report.Table{worldsTable(results), seriesTable(results[0])}, []report.Figure{dayFigure(results[0])}
	x := results[0].summary()
	p.Head("Replicas counted by forecasts refuse %s %% of the requests at peaks in the median of %d drawn series, reactive ones %s %%, with %+.1f %% replica-hours; where a spike each day does not recur, %.2f of the reactive ones' errors are left.",
		percent(x.forecast), s.series, percent(x.reactive), 100*(x.hours-1), results[1].summary().ratio())
	return nil
}

// percent is a share in percent with two digits that say something.
func percent(share float64) string { return fmt.Sprintf("%.2g", 100*share) }

// summary is medians over the series.
type summary struct {
	reactive, forecast float64 // errors at peaks
	hours              float64 // of forecasts, relative
	fewer              int     // series in which forecasts take no more replica-hours
}

// ratio is which part of the reactive errors is left.
func (s summary) ratio() float64 { return s.forecast / max(s.reactive, 1e-9) }

func (c *counted) summary() (s summary) {
	var reactive, forecast, hours []float64
	for i, a := range c.reactive {
		b := c.forecast[i]
		reactive, forecast = append(reactive, a.atPeaks), append(forecast, b.atPeaks)
		hours = append(hours, b.hours/a.hours)
		if b.hours <= a.hours {
			s.fewer++
		}
	}
	s.reactive, s.forecast, s.hours = median(reactive), median(forecast), median(hours)
	return s
}

// median of numbers, of which there is one at least.
func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// worldsTable has a row for each world.
func worldsTable(results []counted) report.Table {
	t := report.Table{
		ID: "replica-cases", Title: "Errors at peaks, medians over the series",
		Columns: []report.Column{
			report.TextColumn("case", "Case"),
			report.NumberColumn("reactive", "Reactive", "%", 4), report.NumberColumn("forecast", "Forecast", "%", 4),
			report.NumberColumn("ratio", "Forecast ÷ reactive", "", 2),
			report.NumberColumn("hours", "Replica-hours, forecast ÷ reactive", "", 3), report.NumberColumn("fewer", "Series with no more replica-hours", "", 0),
			report.TextColumn("reactive_is", "Reactive, as tuned"), report.TextColumn("forecast_is", "Forecast, as tuned"),
		},
		Note: "Cases differ from the first in what they name. A series without reactive errors counts as it is.",
	}
	for i := range results {
		c := &results[i]
		x := c.summary()
		t.Rows = append(t.Rows, []report.Cell{
			report.Text(c.name), report.Number(100 * x.reactive), report.Number(100 * x.forecast), report.Number(x.ratio()),
			report.Number(x.hours), report.Number(float64(x.fewer)), report.Text(c.reactiveIs), report.Text(c.forecastIs),
		})
	}
	return t
}

// seriesTable has a row for each series of a world.
func seriesTable(c counted) report.Table {
	t := report.Table{
		ID: "replica-series", Title: "Each series: " + c.name,
		Columns: []report.Column{
			report.TextColumn("series", "Series"),
			report.NumberColumn("reactive_peaks", "Errors at peaks, reactive", "%", 3), report.NumberColumn("forecast_peaks", "forecast", "%", 3),
			report.NumberColumn("reactive_all", "All errors, reactive", "%", 3), report.NumberColumn("forecast_all", "forecast", "%", 3),
			report.NumberColumn("reactive_hours", "Replica-hours, reactive", "h", 0), report.NumberColumn("forecast_hours", "forecast", "h", 0),
			report.NumberColumn("reactive_starts", "Starts, reactive", "", 0), report.NumberColumn("forecast_starts", "forecast", "", 0),
		},
	}
	for i, a := range c.reactive {
		b := c.forecast[i]
		row := []report.Cell{report.Text(fmt.Sprint(i + 1))}
		for _, x := range []float64{
			100 * a.atPeaks, 100 * b.atPeaks, 100 * a.refused, 100 * b.refused,
			a.hours, b.hours, float64(a.starts), float64(b.starts),
		} {
			row = append(row, report.Number(x))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// dayFigure is the second day of the first series.
func dayFigure(c counted) report.Figure {
	f := report.Figure{ID: "replica-day", Title: "Replicas on the second day of the first series", X: report.Axis{Label: "time", Unit: "h"}, Y: report.Axis{Label: "replicas"}}
	needed := report.Series{Name: "needed by the load", Style: report.Line}
	reactive := report.Series{Name: "reactive", Style: report.Step}
	forecast := report.Series{Name: "forecast", Style: report.Step}
	const day = 24 * 60
	for i := day; i < 2*day; i += 5 {
		x := float64(i-day) / 60
		highest := slices.Max(c.series[0].Rates[i : i+5])
		needed.X, needed.Y = append(needed.X, x), append(needed.Y, math.Ceil(highest/scaledBy(c.warmUp).capacity))
		reactive.X, reactive.Y = append(reactive.X, x), append(reactive.Y, c.reactive[0].counts[i])
		forecast.X, forecast.Y = append(forecast.X, x), append(forecast.Y, c.forecast[0].counts[i])
	}
	f.Series = []report.Series{needed, reactive, forecast}
	return f
}

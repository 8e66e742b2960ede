package tail

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/clients"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/rollout"
	"gearshift/router/signals"
)

// day is the load in which a version changes: a peak, in which it is ordered, and a night.
type day struct {
	hosts       int
	peak, night float64 // loads
	order       time.Duration
	falls, low  time.Duration // the load falls from one to the other
	length      time.Duration
}

// shortDay is a day shortened to minutes.
func shortDay() day {
	return day{hosts: 40, peak: 0.93, night: 0.5, order: 30 * time.Second, falls: 100 * time.Second, low: 130 * time.Second, length: 400 * time.Second}
}

// at is the load at a time.
func (d *day) at(now time.Duration) float64 {
	switch {
	case now < d.falls:
		return d.peak
	case now >= d.low:
		return d.night
	}
	return d.peak + (d.night-d.peak)*float64(now-d.falls)/float64(d.low-d.falls)
}

// What a load of the largest model takes: from disk, and of a core; and how many of the first requests
// take how many times as long.
const (
	readTakes   = 2 * time.Second
	loadTakes   = 10 * time.Second
	coldCount   = 200
	coldFactor  = 3
	versionWait = time.Second // for each share
)

// change is a way to change the version.
type change struct {
	name string
	// options of the controller; nil changes nothing.
	options *rollout.Options
}

// changes are those that are compared: none, with the budget, and without one.
func changes() []change {
	budget, all := rollout.DefaultOptions(), rollout.DefaultOptions()
	budget.AtOnce, budget.Warmup, budget.StaleAfter, budget.Interval = 4, versionWait, 0, 500*time.Millisecond
	all.AtOnce, all.Utilisation, all.Warmup, all.Shares, all.Interval = 1000, 1, 0, nil, 500*time.Millisecond
	all.StaleAfter = time.Nanosecond // whatever the utilisation is
	return []change{{"no change", nil}, {"within the budget", &budget}, {"at once, at the peak", &all}}
}

// changed is what came of a run.
type changed struct {
	*clients.Result
	stale time.Duration // from the order to the end; zero where there was none, or it has not come
	ended bool
}

// change runs one tier through the day.
func (s *study) change(x change, seed uint64) (changed, error) {
	d := drawn(seed)
	if d.Hosts = s.day.hosts; d.Hosts < 40 {
		d.Models, d.Replicas = 4, 4*d.Hosts
	}
	c, err := d.Draw()
	if err != nil {
		return changed{}, err
	}
	next := c.Models[0]
	next.Version, next.Share, next.Replicas = "2", 0, nil
	next.Load, next.LoadWork, next.Cold, next.Coldness = readTakes, loadTakes, coldCount, coldFactor
	c.Models[0].Version = "1"
	c.Models = append(c.Models, next)
	capacity := c.Capacity()
	c.RateAt = func(now time.Duration) float64 { return capacity * s.day.at(now) }
	c.Clients, c.Chooser, c.PollTakes, c.PollWork = 100, balance.Sampled{K: 2, Counter: signals.ByWork, Poll: true}, pollTakes, pollWork
	c.Length, c.Warmup, c.Timeout, c.Period, c.Seed = s.day.length, s.day.order/3, timeout, time.Second, seed
	var by *rolled
	var fault error
	c.Control = func(f *clients.Fleet) control.Controller {
		if x.options == nil {
			return control.NewSet()
		}
		if by, fault = roll(f, c, 0, len(c.Models)-1, s.day.order, *x.options); fault != nil {
			return control.NewSet()
		}
		return by
	}
	out := changed{}
	if out.Result, err = clients.Run(c); err == nil {
		err, out.Times = fault, nil // which many runs have no memory for
	}
	if by != nil && by.done > 0 {
		out.stale, out.ended = by.done-s.day.order, true
	}
	return out, err
}

// versions is what a change of the largest model's version costs (META-13, META-14).
func (s *study) versions(ctx context.Context, p *reports.Part) error {
	list := changes()
	runs, err := reports.Grid(ctx, s.Run, len(list), len(s.seeds), func(_ context.Context, i, k int) (changed, error) { return s.change(list[i], s.seeds[k]) })
	if err != nil {
		return err
	}
	bounds := []float64{0.6, 0.7, 0.8, 0.9, 1}
	traded, err := reports.Grid(ctx, s.Run, len(bounds), len(s.few()), func(_ context.Context, i, k int) (changed, error) {
		o := *list[1].options
		o.Utilisation = bounds[i]
		return s.change(change{options: &o}, s.few()[k])
	})
	if err != nil {
		return err
	}
	table, err := changeTable(list, runs)
	if err != nil {
		return err
	}
	p.Say("A day in minutes: a load of %.2f until %v, and of %.2f from %v on. At %v, in the peak, the model with the most work gets a new version on each of its hosts; a load takes %v, then %v of a core, and the first %d requests on a new replica take %d times as long. Within the budget at most %d replicas change at a time, on hosts below %.0f %%.",
		s.day.peak, s.day.falls, s.day.night, s.day.low, s.day.order, readTakes, loadTakes, coldCount, coldFactor, list[1].options.AtOnce, 100*list[1].options.Utilisation)
	p.Tables, p.Figures = []report.Table{table, s.tradeTable(bounds, traded, runs[0])}, []report.Figure{changeFigure(list, runs)}
	extra, spike := reports.Less(shares(runs[1]), shares(runs[0])), reports.Less(shares(runs[2]), shares(runs[0]))
	p.Head("A change of the largest model's version that is ordered at the peak adds %s to the share of timeouts within the budget, and %s at once.", small(extra), small(spike))
	return nil
}

// few are the seeds for what is only a tendency.
func (s *study) few() []uint64 { return s.seeds[:min(3, len(s.seeds))] }

// shares are the shares of timeouts, by seed.
func shares(runs []changed) []float64 { return reports.Values(runs, changed.TimeoutShare) }

// worst is the largest share of timeouts in five periods in a row.
func (x *changed) worst() (most float64) {
	for i := range len(x.Series) - 4 {
		requests, late := 0, 0
		for _, m := range x.Series[i : i+5] {
			requests, late = requests+m.Requests, late+m.Timeouts+m.Failed
		}
		most = max(most, float64(late)/float64(max(1, requests)))
	}
	return most
}

// small writes an interval of small shares.
func small(i evaluation.Interval) string {
	return fmt.Sprintf("%+.6f (%+.6f to %+.6f)", i.Mean, i.Lo, i.Hi)
}

// changeTable compares the ways to change.
func changeTable(list []change, runs [][]changed) (report.Table, error) {
	t := report.Table{ID: "version-changes", Title: "Timeouts of the whole day, and how stale the version becomes", Columns: []report.Column{
		report.TextColumn("change", "Change"), report.IntervalColumn("timeouts", "Timeouts", "", 6), report.IntervalColumn("added", "More than without a change", "", 6),
		report.IntervalColumn("worst", "Timeouts in the worst 5 s", "", 4), report.IntervalColumn("busiest", "Busiest 5 % of hosts then", "", 3),
		report.NumberColumn("failed", "Failed", "", 0), report.IntervalColumn("stale_s", "Stale for", "s", 0),
	}, Note: "Over paired tiers, with 95 % bootstrap intervals. Failed are requests without an answer."}
	for i, x := range list {
		var worst, tails, stale []float64
		failed := 0
		for k := range runs[i] {
			run := &runs[i][k]
			worst, failed = append(worst, run.worst()), failed+run.Failed
			most := 0.0
			for m := range run.Series {
				most = max(most, run.Series[m].Tail())
			}
			tails = append(tails, most)
			if run.ended {
				stale = append(stale, run.stale.Seconds())
			}
		}
		if x.options != nil && len(stale) < len(runs[i]) {
			return t, fmt.Errorf("%s: %d of %d changes ended within the day; the simulation is too short", x.name, len(stale), len(runs[i]))
		}
		t.Rows = append(t.Rows, []report.Cell{report.Text(x.name), reports.Mean(shares(runs[i])), reports.Cell(reports.Less(shares(runs[i]), shares(runs[0]))), reports.Mean(worst), reports.Mean(tails), report.Number(float64(failed)), reports.Mean(stale)})
	}
	return t, nil
}

// tradeTable shows staleness against timeouts by the bound on utilisation.
func (s *study) tradeTable(bounds []float64, runs [][]changed, without []changed) report.Table {
	t := report.Table{ID: "version-bounds", Title: "Stale or late: by the utilisation below which changes begin", Columns: []report.Column{
		report.NumberColumn("utilisation", "Utilisation", "", 1), report.NumberColumn("stale_s", "Stale for", "s", 0), report.NumberColumn("added", "More timeouts than without a change", "", 6),
	}, Note: fmt.Sprintf("Means of %d tiers; 0 s is a change that did not end within the day.", len(s.few()))}
	n := len(s.few())
	for i, bound := range bounds {
		stale, added := 0.0, 0.0
		for k := range n {
			x := &runs[i][k]
			stale += x.stale.Seconds() / float64(n)
			added += (x.TimeoutShare() - without[k].TimeoutShare()) / float64(n)
		}
		t.Rows = append(t.Rows, []report.Cell{report.Number(bound), report.Number(stale), report.Number(added)})
	}
	return t
}

// changeFigure shows timeouts over the day.
func changeFigure(list []change, runs [][]changed) report.Figure {
	f := report.Figure{ID: "version-spike", Title: "Timeouts while a version changes", X: report.Axis{Label: "time", Unit: "s"}, Y: report.Axis{Label: "share of requests that time out, of 5 s"}}
	for i, x := range list {
		line := report.Series{Name: x.name, Style: report.Line}
		for k := 0; k+5 <= len(runs[i][0].Series); k += 5 {
			requests, late := 0, 0
			for j := range runs[i] {
				for _, m := range runs[i][j].Series[k : k+5] {
					requests, late = requests+m.Requests, late+m.Timeouts+m.Failed
				}
			}
			line.X, line.Y = append(line.X, runs[i][0].Series[k+4].At.Seconds()), append(line.Y, float64(late)/float64(max(1, requests)))
		}
		f.Series = append(f.Series, line)
	}
	return f
}

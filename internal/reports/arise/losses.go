package arise

import (
	"context"
	"fmt"
	"math"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/env/streams"
	"gearshift/internal/reports"
	"gearshift/router/offload"
)

// losses shows what keeps clients that are served by deadlines from the fluid bound: one cause after another is taken
// away.
func (s *study) losses(ctx context.Context, p *reports.Part) error {
	p.Say("Clients are served by deadlines, with one model. What is taken away stays away in the rows below. In the last row nothing is simulated: the bound counts a frame as new when its batch begins, while clients capture theirs at any time, so that in the mean it is half a frame old, and that half a frame is lost to whole frames too. It is the part of the bound that a server could carry if frames were of any age and nothing else were lost; a server may have more, since it can choose whose frames are new.")
	t := report.Table{ID: "lost-by-cause", Title: p.Title, Columns: []report.Column{
		report.TextColumn("conditions", "Conditions"), report.TextColumn("without", "Taken away"), report.IntervalColumn("clients", "Clients", "", 1), report.NumberColumn("bound", "Bound for them", "", 1),
		report.IntervalColumn("fluid", "Of the fluid bound", "%", 1), report.NumberColumn("worst", "Worst second", "", 4), report.NumberColumn("broken", "Seconds above the SLA", "%", 2),
	}}
	lteLoose := lte()
	lteLoose.name, lteLoose.sla = "LTE, SLA 0.06", loose.sla
	for _, w := range []conditions{strict, loose, lte(), lteLoose} {
		planned, err := s.stricter(ctx, w, deadlines)
		if err != nil {
			return err
		}
		known := w
		known.known = true
		even := known
		even.link = steady(w.link)
		for _, x := range []struct {
			conditions
			without string
		}{{planned, "nothing"}, {w, "the margin"}, {known, "what is not known of drop rates, which do not vary"}, {even, "what varies of links"}} {
			all, err := s.sweep.Play(ctx, setting{x.conditions, deadlines, false})
			if err != nil {
				return err
			}
			fluid := reports.Mean(reports.Values(all[0], func(r *streams.Result) float64 { return 100 * r.Fluid }))
			t.Rows = append(t.Rows, []report.Cell{report.Text(x.name), report.Text(x.without), reports.Mean(reports.Values(all[0], clients)),
				report.Number(mean(all[0], func(r *streams.Result) float64 { return r.Clients / r.Fluid })), fluid, report.Number(worst(all[0])),
				report.Number(mean(all[0], func(r *streams.Result) float64 { return 100 * r.Broken }))})
		}
		any := 100 * ofAnyAge(w.planner())
		t.Rows = append(t.Rows, []report.Cell{report.Text(w.name), report.Text("all else; frames of any age"), {}, {}, reports.Cell(evaluation.Interval{Mean: any, Lo: any, Hi: any}), {}, {}})
	}
	p.Tables = []report.Table{t}
	return nil
}

// ofAnyAge returns the part of the fluid bound that remains if frames are of any age as their batches begin: the whole
// frames from one to its result are then one more in the mean than the time that it takes.
func ofAnyAge(s *offload.Server, c *offload.Client) float64 {
	bound, _, _ := s.Share(c)
	least, allowed := math.Inf(1), s.Allowed(c, 0)
	for n, l := range s.Latency {
		if interval := 2*(allowed-(c.Network+l+1)) + 1; interval >= 1 {
			least = min(least, l/float64(n+1)/interval)
		}
	}
	return bound / least
}

// part returns the conditions in which clients are planned for so much of their SLA.
func (w conditions) part(percent int) conditions {
	w.name += fmt.Sprintf(", planned for %d %%", percent)
	w.margin = 100/float64(percent) - 1
	return w
}

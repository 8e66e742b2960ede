//go:build !serveonly

package operate

import (
	"fmt"

	"gearshift/env/evaluation/report"
	"gearshift/serving/streams"
)

// Hosts that are drawn.
const mostHosts = 8

// draw writes a report of a recording into the folder.
func (r *recording) draw(dir string) error {
	clients, loss := r.clients(), r.loss()
	page := report.Report{
		Title: "Streaming clients of a router", Scenario: fmt.Sprintf("%d hosts, %v frames a second, %d looks in %.0f s", len(r.last.Hosts), r.last.FPS, len(r.samples), r.samples[len(r.samples)-1].at),
		Verdict: r.verdict(), Repeat: "gearshift offload watch --out DIR",
		Sections: []report.Section{
			{ID: "time", Title: "Over time", Figures: []report.Figure{clients, loss}},
		},
	}
	if last := r.batches(); len(last) > 0 {
		page.Sections = append(page.Sections, report.Section{ID: "second", Title: "The last second", Text: "Batches by when they ran, and how many frames they had.", Figures: last})
	}
	for name, f := range map[string]*report.Figure{"clients.svg": &clients, "loss.svg": &loss} {
		picture, err := f.Standalone()
		if err != nil {
			return err
		}
		page.Files = append(page.Files, report.File{Name: name, Content: picture})
	}
	return page.Write(dir)
}

// over returns a series of the samples.
func (r *recording) over(name string, of func(*sample) float64) report.Series {
	s := report.Series{Name: name, Style: report.Step}
	for i := range r.samples {
		s.X, s.Y = append(s.X, r.samples[i].at), append(s.Y, of(&r.samples[i]))
	}
	return s
}

// clients draws who is served.
func (r *recording) clients() report.Figure {
	f := report.Figure{
		ID: "clients", Title: "Clients served", X: report.Axis{Label: "time", Unit: "s"}, Y: report.Axis{Label: "clients"},
		Series: []report.Series{r.over("served", func(s *sample) float64 { return float64(s.served) }), r.over("waiting", func(s *sample) float64 { return float64(s.waiting) })},
	}
	for i, h := range r.last.Hosts[:min(mostHosts, len(r.last.Hosts))] {
		f.Series = append(f.Series, r.over("on "+h.Name, func(s *sample) float64 { return float64(s.hosts[i]) }))
	}
	return f
}

// loss draws what part of their SLAs clients lose.
func (r *recording) loss() report.Figure {
	return report.Figure{
		ID: "loss", Title: "Part of the SLA that is lost", X: report.Axis{Label: "time", Unit: "s"}, Y: report.Axis{Label: "drop ÷ SLA", Unit: "%"},
		Series: []report.Series{
			r.over("the client that loses most", func(s *sample) float64 { return 100 * s.most }), r.over("all in the mean", func(s *sample) float64 { return 100 * s.mean }),
			r.over("the SLA", func(*sample) float64 { return 100 }),
		},
		Note: "Of whole seconds, by the drop rates that clients report and the strides that they had.",
	}
}

// batches draws the last second of each host.
func (r *recording) batches() (list []report.Figure) {
	for i, h := range r.last.Hosts[:min(mostHosts, len(r.last.Hosts))] {
		f := report.Figure{
			ID: fmt.Sprintf("batches-%d", i+1), Title: "Batches of " + h.Name, Half: len(r.last.Hosts) > 1,
			X: report.Axis{Label: "before the end", Unit: "ms", Range: &report.Range{Min: -1000, Max: 0}}, Y: report.Axis{Label: "frames"},
		}
		for _, b := range h.Batches {
			f.Series = addBatch(f.Series, b)
		}
		if len(f.Series) > 0 {
			list = append(list, f)
		}
	}
	return list
}

// addBatch adds a batch to the series of its model.
func addBatch(list []report.Series, b streams.BatchState) []report.Series {
	k := 0
	for k < len(list) && list[k].Name != b.Model {
		k++
	}
	if k == len(list) {
		list = append(list, report.Series{Name: b.Model, Style: report.Band})
	}
	end := 0.0 // it runs
	if b.TookMS > 0 {
		end = b.TookMS - b.AgoMS
	}
	list[k].Block(-b.AgoMS, min(end, 0), float64(b.Frames))
	return list
}

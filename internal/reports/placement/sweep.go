package placement

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// rates returns those of the sweep.
func (p *study) rates() (list []float64) {
	for i, r := range p.scenario.Evaluation.StableRates {
		if !p.Quick || i%3 == 0 {
			list = append(list, r)
		}
	}
	return list
}

// long is the length in seconds of steady rates in which slow engines load too.
const long = 600

// sweep adds steady rates: for the scenario's time, and for long enough that slow engines load.
func (p *study) sweep(ctx context.Context, part *reports.Part) error {
	part.Say("Poisson arrivals from an idle fleet; the rate is known from the start.")
	short := append(settings(p.still(), 1, "", 0), settings(p.deciding(), len(p.laws), "", 0)...)
	slow := slices.DeleteFunc(slices.Clone(short), func(x setting) bool {
		f := &p.fleets[x.fleet]
		return f.alone != "" || f.decides != "" && !p.laws[x.law].loads
	})
	for i, fleets := range [][]setting{short, slow} {
		length := []float64{p.scenario.Evaluation.PhaseS, long}[i]
		if i > 0 && p.Quick {
			break
		}
		list, err := p.swept(ctx, length, fleets)
		if err != nil {
			return err
		}
		id, title := fmt.Sprintf("sweep-%g-s", length), fmt.Sprintf("each for %g s", length)
		part.Tables = append(part.Tables, p.means(id, title, list), p.byRate(id, title, list))
		part.Figures = append(part.Figures, p.figure(id, title, list))
		p.tell(part, title, list)
	}
	return nil
}

// swept holds the runs of a fleet under a law at each rate.
type swept struct {
	setting
	runs [][]played // by rate
	by   []float64  // the mean utility at each rate
	all  []float64  // the mean over the rates, by seed
	// Worst is the least that it earns at a rate less the best fleet that stays, and at is that rate.
	worst, at float64
}

// swept plays the fleets at each rate for so many seconds: those that stay first, that of the start before all.
func (p *study) swept(ctx context.Context, length float64, fleets []setting) (list []swept, err error) {
	rates := p.rates()
	best := make([]float64, len(rates))
	for _, x := range fleets {
		x.phase = length
		w := swept{setting: x, all: make([]float64, len(p.seeds)), worst: math.Inf(1)}
		var plays []setting
		for _, rate := range rates {
			x.workload = fmt.Sprintf("stable:%g", rate)
			plays = append(plays, x)
		}
		if w.runs, err = p.plays.Play(ctx, plays...); err != nil {
			return nil, err
		}
		for i, runs := range w.runs {
			mean := 0.0
			for k, r := range runs {
				w.all[k] += r.utility / float64(len(rates))
				mean += r.utility / float64(len(runs))
			}
			w.by = append(w.by, mean)
			if p.fleets[x.fleet].decides == "" {
				best[i] = max(best[i], mean)
			} else if mean-best[i] < w.worst {
				w.worst, w.at = mean-best[i], rates[i]
			}
		}
		list = append(list, w)
	}
	return list, nil
}

// named names a fleet and what its engines take.
func (p *study) named(x setting) (fleet, law string) {
	if f := &p.fleets[x.fleet]; f.decides == "" {
		return f.name, "any"
	}
	return p.fleets[x.fleet].name, p.laws[x.law].Name
}

// means returns the table of means over the rates.
func (p *study) means(id, title string, list []swept) report.Table {
	t := report.Table{
		ID: id, Title: fmt.Sprintf("Mean over %d rates, %s", len(p.rates()), title),
		Columns: []report.Column{
			report.TextColumn("fleet", "Fleet"), report.TextColumn("law", "Engines"), report.IntervalColumn("utility", "Utility", "", 4),
			report.IntervalColumn("more", "More than the layouts of the start", "", 4), report.NumberColumn("worst", "Least, less the best fleet that stays", "", 4),
			report.NumberColumn("at", "at", "requests/s", 2), report.NumberColumn("changes", "Changes", "per hour", 1),
		},
		Note: "The best fleet that stays is picked at each rate, from the same runs.",
	}
	for _, w := range list {
		var runs []played
		for _, r := range w.runs {
			runs = append(runs, r...)
		}
		fleet, law := p.named(w.setting)
		row := []report.Cell{report.Text(fleet), report.Text(law), reports.Mean(w.all), {}, {}, {}, report.Number(perHour(runs))}
		if w.fleet != stays {
			row[3] = reports.Cell(reports.Less(w.all, list[0].all))
		}
		if p.fleets[w.fleet].decides != "" {
			row[4], row[5] = report.Number(w.worst), report.Number(w.at)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// byRate returns the table of means at each rate.
func (p *study) byRate(id, title string, list []swept) report.Table {
	t := report.Table{ID: id + "-rates", Title: "By rate, " + title, Columns: []report.Column{report.NumberColumn("rate", "Rate", "requests/s", 2)}}
	for i, w := range list {
		fleet, law := p.named(w.setting)
		if law != "any" {
			fleet += ", " + law
		}
		t.Columns = append(t.Columns, report.NumberColumn(fmt.Sprintf("fleet_%d", i+1), fleet, "", 4))
	}
	for i, rate := range p.rates() {
		row := []report.Cell{report.Number(rate)}
		for _, w := range list {
			row = append(row, report.Number(w.by[i]))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// figure draws the fleets by rate, those that decide under the first law.
func (p *study) figure(id, title string, list []swept) report.Figure {
	f := report.Figure{
		ID: id + "-figure", Title: "Utility by rate, " + title + "; what decides with the quickest engines",
		X: report.Axis{Label: "Arrival rate", Unit: "requests/s", Log: true}, Y: report.Axis{Label: "Utility per request"},
	}
	for _, w := range list {
		if x := &p.fleets[w.fleet]; x.alone == "" && w.law == 0 && len(f.Series) < report.MaxSeries {
			f.Series = append(f.Series, report.Series{Name: x.name, Style: report.Line, X: p.rates(), Y: w.by})
		}
	}
	return f
}

// tell says what is gained over the sweep with the engines of least and of most gain, and where the most is lost.
func (p *study) tell(part *reports.Part, title string, list []swept) {
	for _, f := range p.deciding() {
		var gains tale
		worst := swept{worst: math.Inf(1)}
		for _, w := range list {
			if w.fleet == f {
				gains.add(w.setting, reports.Less(w.all, list[0].all))
				if w.worst < worst.worst {
					worst = w
				}
			}
		}
		part.Head("The sweep, %s: %s; less than the best fleet that stays by %.4f at most (%g requests/s, %s)", title, gains.of(p, f, false), max(0, -worst.worst), worst.at, p.laws[worst.law].Name)
	}
}

package mosel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// multiples are the constant rates of the sweep, in units of a model's capacity with all
// inputs.
var multiples = []float64{0.25, 0.5, 0.75, 0.9, 1, 1.5, 2, 3, 4, 6}

// low is the index of the rate that stands for a low load.
const low = 0

// half is how many times as fast FP16 is, a choice; the paper has AV-HuBERT gain nothing by
// it (MOSEL-25). It costs no quality here.
const half = 1.8

func (m *model) halved() float64 {
	if m.name == "AV-HuBERT" {
		return 1
	}
	return half
}

// rising plays all models at the constant rates: runs by model and rate.
func (p *paper) rising(ctx context.Context, s setting) ([][][]played, error) {
	s.estimate, s.day = 1, max(3*time.Second, p.day/20)
	var list []setting
	for j := range models {
		for _, s.constant = range multiples {
			s.model = &models[j]
			list = append(list, s)
		}
	}
	runs, err := p.sweep.Play(ctx, list...)
	return slices.Collect(slices.Chunk(runs, len(multiples))), err
}

// peaks is the most answers in time per second at any of the rates, by seed.
func peaks(sweep [][]played) []float64 {
	best := make([]float64, len(sweep[0]))
	for _, runs := range sweep {
		for i, r := range runs {
			best[i] = max(best[i], r.Goodput())
		}
	}
	return best
}

// until is the highest of the rates up to which the mean violations stay at most at a share.
func until(sweep [][]played, m *model, share float64) report.Cell {
	rate := 0.0
	for i, r := range sweep {
		if evaluation.Bootstrap(reports.Values(r, played.Violations)).Mean > share {
			break
		}
		rate = multiples[i] * m.capacity
	}
	return report.Number(rate)
}

// almostAll is the share of violations up to which the paper raises the rate.
const almostAll = 0.99

// overwhelms is the rate at which violations reach almost all on the first day, to 20 %: the rate is
// raised in steps until they do, and the last step halved. A day is as long as the report's for none,
// whose lateness grows with time, and of two seconds for a policy that drops what it cannot save.
func (p *paper) overwhelms(ctx context.Context, s setting) (report.Cell, error) {
	s.deadline, s.estimate, s.once = standard, 1, true
	low, high, step := 0.5, 1.0, 2.0
	if s.with != none {
		s.day, low, high, step = 2*time.Second, 1, 64, 4
	}
	reaches := func(multiple float64) (bool, error) {
		s.constant = multiple
		r, err := p.sweep.Play(ctx, s)
		return err == nil && r[0][0].Violations() >= almostAll, err
	}
	most := cmp.Or(p.multiple, 4096)
	for ; high <= most; low, high = high, step*high {
		if enough, err := reaches(high); err != nil {
			return report.Cell{}, err
		} else if enough {
			break
		}
	}
	if high > most {
		return report.Cell{}, nil
	}
	for high > 1.2*low {
		middle := math.Sqrt(low * high)
		enough, err := reaches(middle)
		if err != nil {
			return report.Cell{}, err
		}
		if enough {
			high = middle
		} else {
			low = middle
		}
	}
	return report.Number(high * s.model.capacity), nil
}

// rates compares constant rates: peak goodput, low load, and FP16.
func (p *paper) rates(ctx context.Context, part *reports.Part) error {
	gain := report.Table{ID: "peaks", Title: "Most answers in time per second at any constant rate, relative to none",
		Columns: []report.Column{report.TextColumn("model", "model"), report.BesideColumn("gain", "foresight, deadline 1 s", "×", 2),
			report.IntervalColumn("half", "0.5 s", "×", 2), report.IntervalColumn("two", "2 s", "×", 2)},
		Note: "The paper's throughput gains read as what a worker can sustain: none answers next to nothing in time once more comes than it can do."}
	idle := report.Table{ID: "low", Title: fmt.Sprintf("Low load: %g of the capacity with all inputs, deadline 1 s", multiples[low]),
		Columns: []report.Column{report.TextColumn("model", "model"), report.IntervalColumn("throughput", "throughput of foresight, relative to none", "×", 3),
			report.IntervalColumn("violations", "violations of foresight", "", 4), report.IntervalColumn("none", "of none", "", 4)},
		Note: "The paper: at a low load both have the same throughput (MOSEL-29)."}
	number := func(key, title string) report.Column { return report.NumberColumn(key, title, "1/s", 1) }
	quantised := report.Table{ID: "quantised", Title: "Rates that FP32, FP16 and FP16 with modality selection bear, deadline 1 s",
		Columns: []report.Column{report.TextColumn("model", "model"), number("full", "FP32, none: violations up to 10 %"), number("halved", "FP16, none"), number("selected", "FP16, foresight"),
			number("full_end", "FP32, none: violations reach 99 %"), number("halved_end", "FP16, none"), number("selected_end", "FP16, foresight"),
			report.IntervalColumn("more", "most in time, FP16 with foresight relative to FP32 with none", "×", 2)},
		Note: fmt.Sprintf("FP16 is taken to be %g times as fast, a choice; the paper says of AV-HuBERT that quantisation alone gains nothing, and names up to 7 times more requests with both (MOSEL-25). Rates up to 10 %% are multiples of the capacity, from %g to %g. Those of 99 %% are found to 20 %%, on one day. none answers everything, so that what is in time comes in the first moments of a day, here of %v: the longer the day, the lower the rate. foresight drops what it cannot save and is in time with the rest, so that it takes far more.", half, multiples[0], multiples[len(multiples)-1], p.day)}
	for j := range models {
		name := report.Text(models[j].name)
		gain.Rows, idle.Rows, quantised.Rows = append(gain.Rows, []report.Cell{name}), append(idle.Rows, []report.Cell{name}), append(quantised.Rows, []report.Cell{name})
	}
	smallest := math.Inf(1)
	for _, deadline := range []time.Duration{standard, deadlines[0], deadlines[2]} {
		its, err := p.rising(ctx, setting{deadline: deadline, with: none})
		if err != nil {
			return err
		}
		own, err := p.rising(ctx, setting{deadline: deadline, with: ours})
		if err != nil {
			return err
		}
		for j := range models {
			times, ok := relative(peaks(own[j]), peaks(its[j]))
			if ok {
				smallest = min(smallest, times.Lo)
			}
			if deadline != standard {
				gain.Rows[j] = append(gain.Rows[j], reports.Cell(times))
				continue
			}
			gain.Rows[j] = append(gain.Rows[j], reports.Beside(times, models[j].gain))
			r, other := own[j][low], its[j][low]
			idle.Rows[j] = append(idle.Rows[j], relativeCell(reports.Values(r, played.Throughput), reports.Values(other, played.Throughput)),
				reports.Mean(reports.Values(r, played.Violations)), reports.Mean(reports.Values(other, played.Violations)))
		}
	}
	if err := p.quantised(ctx, quantised.Rows); err != nil {
		return err
	}
	part.Tables = []report.Table{gain, idle, quantised}
	part.Head("The most answers in time at a constant rate are at least %.2f times those of none, on each model and deadline.", smallest)
	return nil
}

// quantised fills the rows of models that are as they are, and halved with and without modality selection.
func (p *paper) quantised(ctx context.Context, rows [][]report.Cell) error {
	cases := []setting{{deadline: standard, with: none}, {deadline: standard, with: none, halved: true}, {deadline: standard, with: ours, halved: true}}
	var all [][][][]played
	for _, s := range cases {
		runs, err := p.rising(ctx, s)
		if err != nil {
			return err
		}
		all = append(all, runs)
	}
	for j := range rows {
		m := &models[j]
		for i := range cases {
			rows[j] = append(rows[j], until(all[i][j], m, 0.1))
		}
		for _, s := range cases {
			s.model = m
			end, err := p.overwhelms(ctx, s)
			if err != nil {
				return err
			}
			rows[j] = append(rows[j], end)
		}
		rows[j] = append(rows[j], relativeCell(peaks(all[2][j]), peaks(all[0][j])))
	}
	return nil
}

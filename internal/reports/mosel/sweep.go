package mosel

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	envjobs "gearshift/env/jobs"
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

// sweep is the runs at the constant rates.
func (p *paper) sweep(ctx context.Context, m *model, deadline time.Duration, faster float64, with int) ([]*run, error) {
	short := *p
	short.day = max(3*time.Second, p.day/20)
	var list []*run
	for _, multiple := range multiples {
		r, err := short.play(ctx, setting{model: m, deadline: deadline, estimate: 1, constant: multiple * m.capacity, faster: faster}, compared[with])
		if err != nil {
			return nil, err
		}
		list = append(list, r)
	}
	p.played = short.played
	return list, nil
}

// peaks is the most answers in time per second at any of the rates, by seed.
func peaks(sweep []*run) []float64 {
	best := make([]float64, len(sweep[0].results))
	for _, r := range sweep {
		for i, x := range r.of((*envjobs.Result).Goodput) {
			best[i] = max(best[i], x)
		}
	}
	return best
}

// until is the highest of the rates up to which the mean violations stay at most at a share.
func until(sweep []*run, m *model, share float64) report.Cell {
	rate := 0.0
	for i, r := range sweep {
		if evaluation.Bootstrap(r.of((*envjobs.Result).Violations)).Mean > share {
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
func (p *paper) overwhelms(ctx context.Context, m *model, faster float64, with int) (report.Cell, error) {
	one := *p
	one.count, one.seeds = func(int, int) {}, 1
	low, high, step := 0.5, 1.0, 2.0
	if with != none {
		one.day, low, high, step = 2*time.Second, 1, 64, 4
	}
	reaches := func(multiple float64) (bool, error) {
		r, err := one.play(ctx, setting{model: m, deadline: time.Second, estimate: 1, constant: multiple * m.capacity, faster: faster}, compared[with])
		return err == nil && r.results[0].Violations() >= almostAll, err
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
	return report.Number(high * m.capacity), nil
}

// rates compares constant rates: peak goodput, low load, and FP16.
func (p *paper) rates(ctx context.Context) (report.Section, string, error) {
	gain := report.Table{ID: "peaks", Title: "Most answers in time per second at any constant rate, relative to none",
		Columns: []report.Column{report.TextColumn("model", "model"), {Key: "gain", Title: "foresight, deadline 1 s", Unit: "×", Kind: report.KindBeside, Decimals: 2},
			report.IntervalColumn("half", "0.5 s", "×", 2), report.IntervalColumn("two", "2 s", "×", 2)},
		Note: "The paper's throughput gains read as what a worker can sustain: none answers next to nothing in time once more comes than it can do."}
	idle := report.Table{ID: "low", Title: fmt.Sprintf("Low load: %g of the capacity with all inputs, deadline 1 s", multiples[low]),
		Columns: []report.Column{report.TextColumn("model", "model"), report.IntervalColumn("throughput", "throughput of foresight, relative to none", "×", 3),
			report.IntervalColumn("violations", "violations of foresight", "", 4), report.IntervalColumn("none", "of none", "", 4)},
		Note: "The paper: at a low load both have the same throughput (MOSEL-29)."}
	number := func(key, title string) report.Column {
		return report.Column{Key: key, Title: title, Unit: "1/s", Kind: report.KindNumber, Decimals: 1}
	}
	quantised := report.Table{ID: "quantised", Title: "Rates that FP32, FP16 and FP16 with modality selection bear, deadline 1 s",
		Columns: []report.Column{report.TextColumn("model", "model"), number("full", "FP32, none: violations up to 10 %"), number("halved", "FP16, none"), number("selected", "FP16, foresight"),
			number("full_end", "FP32, none: violations reach 99 %"), number("halved_end", "FP16, none"), number("selected_end", "FP16, foresight"),
			report.IntervalColumn("more", "most in time, FP16 with foresight relative to FP32 with none", "×", 2)},
		Note: fmt.Sprintf("FP16 is taken to be %g times as fast, a choice; the paper says of AV-HuBERT that quantisation alone gains nothing, and names up to 7 times more requests with both (MOSEL-25). Rates up to 10 %% are multiples of the capacity, from %g to %g. Those of 99 %% are found to 20 %%, on one day. none answers everything, so that what is in time comes in the first moments of a day, here of %v: the longer the day, the lower the rate. foresight drops what it cannot save and is in time with the rest, so that it takes far more.", half, multiples[0], multiples[len(multiples)-1], p.day)}
	smallest := math.Inf(1)
	for j := range models {
		m := &models[j]
		row := []report.Cell{report.Text(m.name)}
		var plain, mine []*run
		for _, i := range []int{standard, 0, 2} {
			its, err := p.sweep(ctx, m, deadlines[i], 1, none)
			if err != nil {
				return report.Section{}, "", err
			}
			own, err := p.sweep(ctx, m, deadlines[i], 1, ours)
			if err != nil {
				return report.Section{}, "", err
			}
			times, ok := relative(peaks(own), peaks(its))
			if ok {
				smallest = min(smallest, times.Lo)
			}
			if i == standard {
				plain, mine = its, own
				row = append(row, beside(times, m.gain))
			} else {
				row = append(row, cell(times))
			}
		}
		gain.Rows = append(gain.Rows, row)
		r, its := mine[low], plain[low]
		idle.Rows = append(idle.Rows, []report.Cell{report.Text(m.name), relativeCell(r.of((*envjobs.Result).Throughput), its.of((*envjobs.Result).Throughput)),
			cell(evaluation.Bootstrap(r.of((*envjobs.Result).Violations))), cell(evaluation.Bootstrap(its.of((*envjobs.Result).Violations)))})
		row, err := p.quantised(ctx, m, plain)
		if err != nil {
			return report.Section{}, "", err
		}
		quantised.Rows = append(quantised.Rows, row)
	}
	return report.Section{ID: "rates", Title: "Constant rates", Tables: []report.Table{gain, idle, quantised}},
		fmt.Sprintf("The most answers in time at a constant rate are at least %.2f times those of none, on each model and deadline", smallest), nil
}

// quantised returns the row of a model that is halved, with and without modality selection, beside plain
// runs of none.
func (p *paper) quantised(ctx context.Context, m *model, plain []*run) ([]report.Cell, error) {
	fast, err := p.sweep(ctx, m, time.Second, m.halved(), none)
	if err != nil {
		return nil, err
	}
	both, err := p.sweep(ctx, m, time.Second, m.halved(), ours)
	if err != nil {
		return nil, err
	}
	row := []report.Cell{report.Text(m.name), until(plain, m, 0.1), until(fast, m, 0.1), until(both, m, 0.1)}
	for _, of := range []struct {
		faster float64
		with   int
	}{{1, none}, {m.halved(), none}, {m.halved(), ours}} {
		end, err := p.overwhelms(ctx, m, of.faster, of.with)
		if err != nil {
			return nil, err
		}
		row = append(row, end)
	}
	return append(row, relativeCell(peaks(both), peaks(plain))), nil
}

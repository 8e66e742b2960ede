package mosel

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// deadlines are those of the jobs, from their arrival. The paper gives none (MOSEL-19).
var deadlines = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// standard is the deadline of most tables.
const standard = time.Second

// columns are the model and policies.
func columns(decimals int, unit string, policies ...int) []report.Column {
	list := []report.Column{report.TextColumn("model", "model")}
	for _, k := range policies {
		list = append(list, report.IntervalColumn(key(compared[k].name), compared[k].name, unit, decimals))
	}
	return list
}

// relative is the geometric mean of a by b, which are by seed: a day on which b is close to
// nothing does not outweigh the others. Days on which either is nothing are left out; the
// cell is missing if there is no other.
func relative(a, b []float64) (i evaluation.Interval, ok bool) {
	logs := make([]float64, len(a))
	for i := range a {
		if logs[i] = math.NaN(); a[i] > 0 && b[i] > 0 {
			logs[i], ok = math.Log(a[i]/b[i]), true
		}
	}
	i = evaluation.Bootstrap(logs)
	return evaluation.Interval{Mean: math.Exp(i.Mean), Lo: math.Exp(i.Lo), Hi: math.Exp(i.Hi)}, ok
}

// relativeCell is the cell of [relative].
func relativeCell(a, b []float64) report.Cell {
	if i, ok := relative(a, b); ok {
		return reports.Cell(i)
	}
	return report.Cell{}
}

// throughput compares requests answered per second with those of none.
func (p *paper) throughput(ctx context.Context, part *reports.Part) error {
	work := report.Table{
		ID: "gains", Title: "Requests answered in time per second, relative to none (geometric mean over the days)",
		Columns: []report.Column{report.TextColumn("model", "model"), report.BesideColumn("gain", "ours, deadline 1 s", "×", 2),
			report.IntervalColumn("half", "0.5 s", "×", 2), report.IntervalColumn("two", "2 s", "×", 2), report.IntervalColumn("done", "all work, late or not, 1 s", "×", 2)},
		Note: "The paper counts throughput without saying whether late answers count. Arrivals are at most twice the capacity, so a gain above 2 can only be of work in time, next to a policy that answers late jobs too (MOSEL-20). Days on which none answers nothing in time are left out.",
	}
	var gains []string
	for _, m := range models {
		work.Rows = append(work.Rows, []report.Cell{report.Text(m.name)})
	}
	for _, deadline := range []time.Duration{standard, deadlines[0], deadlines[2]} {
		all, err := p.each(ctx, setting{deadline: deadline, estimate: 1}, ours, none)
		if err != nil {
			return err
		}
		for j, m := range models {
			mine, its := reports.Values(all[j][0], played.Goodput), reports.Values(all[j][1], played.Goodput)
			c := relativeCell(mine, its)
			if gain, ok := relative(mine, its); deadline == standard && ok {
				c = reports.Beside(gain, m.gain)
				gains = append(gains, fmt.Sprintf("%s %.2f", m.name, gain.Mean))
			}
			work.Rows[j] = append(work.Rows[j], c)
		}
	}
	all, err := p.days(ctx, standard)
	if err != nil {
		return err
	}
	for j := range models {
		work.Rows[j] = append(work.Rows[j], relativeCell(reports.Values(all[j][ours], played.Throughput), reports.Values(all[j][none], played.Throughput)))
	}
	part.Tables = []report.Table{work, admission(all)}
	part.Head("Answers in time per second on days, relative to none, at a deadline of 1 s: %s.", strings.Join(gains, ", "))
	return nil
}

// admission compares plans with all inputs and admission alone: a policy that drops what would be late
// answers in time too, without a choice of inputs.
func admission(all [][][]played) report.Table {
	t := report.Table{
		ID: "admission", Title: "Beyond admission: all inputs, dropping what would be late (none, drop), and plans, deadline 1 s",
		Columns: []report.Column{report.TextColumn("model", "model"), report.IntervalColumn("drop", "in time relative to none: none, drop", "×", 2)},
		Note:    "A request is worth its quality if it is answered in time, and -1 if it is late or dropped. Differences are paired by day.",
	}
	for _, k := range []int{optimized, ours, learned} {
		name := compared[k].name
		t.Columns = append(t.Columns, report.IntervalColumn("gain_"+key(name), name, "×", 2),
			report.IntervalColumn("worth_"+key(name), name+": worth less that of none, drop", "", 3), report.IntervalColumn("quality_"+key(name), "and quality", "", 3))
	}
	for j := range models {
		of := func(k int, f func(played) float64) []float64 { return reports.Values(all[j][k], f) }
		row := []report.Cell{report.Text(models[j].name), relativeCell(of(drop, played.Goodput), of(none, played.Goodput))}
		for _, k := range []int{optimized, ours, learned} {
			row = append(row, relativeCell(of(k, played.Goodput), of(none, played.Goodput)),
				reports.Cell(reports.Less(of(k, worth), of(drop, worth))), reports.Cell(reports.Less(of(k, played.MeanQuality), of(drop, played.MeanQuality))))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// violations compares the shares of requests that were late or dropped.
func (p *paper) violations(ctx context.Context, part *reports.Part) error {
	part.Text = "Requests that were late or dropped, of all requests (MOSEL-21). The difference is paired by day."
	var beaten []string
	for _, deadline := range deadlines {
		all, err := p.days(ctx, deadline)
		if err != nil {
			return err
		}
		t := report.Table{
			ID: fmt.Sprintf("violations-%d", deadline.Milliseconds()), Title: fmt.Sprintf("Share of violations, deadline %v", deadline),
			Columns: append(columns(3, "", everyone()...), report.BesideColumn("fewer", "foresight: fewer than none, points", "", 1),
				report.IntervalColumn("less", "foresight, less the best without a plan", "", 4), report.IntervalColumn("better", "and its quality less that one's", "", 4)),
		}
		for j, m := range models {
			row, best := []report.Cell{report.Text(m.name)}, others
			shares, means := make([][]float64, len(compared)), make([]float64, len(compared))
			for k := range compared {
				shares[k] = reports.Values(all[j][k], played.Violations)
				i := evaluation.Bootstrap(shares[k])
				row, means[k] = append(row, reports.Cell(i)), i.Mean
				if k > others && means[k] < means[best] {
					best = k
				}
			}
			fewer, less := reports.Less(shares[none], shares[ours]), reports.Less(shares[ours], shares[best])
			better := reports.Less(reports.Values(all[j][ours], played.MeanQuality), reports.Values(all[j][best], played.MeanQuality))
			if less.Lo > 0 || better.Hi < 0 {
				beaten = append(beaten, fmt.Sprintf("%s at %v", m.name, deadline))
			}
			t.Rows = append(t.Rows, append(row, reports.Beside(reports.Scaled(fewer, 100), m.fewer), reports.Cell(less), reports.Cell(better)))
		}
		part.Tables = append(part.Tables, t)
	}
	if len(beaten) == 0 {
		part.Head("On no model and deadline has a policy without a plan fewer violations than foresight, or the best of them more quality, beyond chance.")
		return nil
	}
	part.Head("A policy without a plan has fewer violations than foresight, or as the best of them more quality, beyond chance, on %s.", strings.Join(beaten, ", "))
	return nil
}

// key is the name of a column of a policy.
func key(name string) string {
	return strings.NewReplacer(", ", "_", " ", "_").Replace(name)
}

// quality shows the mean qualities and how long jobs take.
func (p *paper) quality(ctx context.Context, part *reports.Part) error {
	all, err := p.days(ctx, standard)
	quality := report.Table{ID: "qualities", Title: "Mean quality of the requests answered, deadline 1 s", Columns: columns(3, "", everyone()...)}
	times := report.Table{ID: "completion", Note: "The paper's 11 times shorter (MOSEL-23) is a request of TVLT with audio alone against both: 3.0 and 33.3 ms, as the profiles have it.", Title: "Mean time from a job's arrival to its end, deadline 1 s", Columns: columns(3, "s", everyone()...)}
	for j := range all {
		best, after := []report.Cell{report.Text(models[j].name)}, []report.Cell{report.Text(models[j].name)}
		for _, runs := range all[j] {
			best = append(best, reports.Mean(reports.Values(runs, played.MeanQuality)))
			after = append(after, reports.Mean(reports.Values(runs, took)))
		}
		quality.Rows, times.Rows = append(quality.Rows, best), append(times.Rows, after)
	}
	part.Tables = []report.Table{quality, times}
	return err
}

// profiles are what is simulated.
func (p *paper) profiles(_ context.Context, part *reports.Part) error {
	t := report.Table{
		ID: "latencies", Title: "Profiles",
		Columns: []report.Column{report.TextColumn("model", "model"), report.TextColumn("inputs", "inputs"), {Key: "quality", Title: "quality", Kind: report.KindNumber, Decimals: 2}, {Key: "ms", Title: "time of a request", Unit: "ms", Kind: report.KindNumber, Decimals: 1}},
		Note:    "The time with all inputs is one over the paper's capacity (MOSEL-19). Of TVLT, audio alone is 11 times as fast (MOSEL-23); the other models' fastest input has the same ratio of speed to throughput gain, or takes a quarter of the inputs' time, a choice; every combination of MMSA also takes a time of its own, because a gain as small as the paper's cannot come of its inputs alone. The quality of the fastest input is such that a worker with the fastest strategy for each floor sustains the paper's gain times what one with all inputs does (MOSEL-20). The worst option and all inputs have the qualities of the paper's Figure 2; those between are choices. Batches take as long as their requests one by one.",
	}
	for i := range models {
		for _, o := range models[i].options(1) {
			t.Rows = append(t.Rows, []report.Cell{report.Text(models[i].name), report.Text(o.Name), report.Number(o.Quality), report.Number(o.Latency[0])})
		}
	}
	part.Text, part.Tables = "A profile here is arithmetic on what the paper says; no model was measured.", []report.Table{t}
	return nil
}

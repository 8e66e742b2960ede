package mosel

import (
	"context"
	"fmt"
	"math"
	"strings"
	"time"

	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	envjobs "gearshift/env/jobs"
)

// deadlines are those of the jobs, from their arrival. The paper gives none (MOSEL-19).
var deadlines = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

// days are the runs by deadline, model and policy.
type days [][][]*run

func (p *paper) days(ctx context.Context) (days, error) {
	all := make(days, len(deadlines))
	for i, deadline := range deadlines {
		all[i] = make([][]*run, len(models))
		for j := range models {
			for _, with := range compared {
				r, err := p.play(ctx, setting{model: &models[j], deadline: deadline, estimate: 1}, with)
				if err != nil {
					return nil, err
				}
				all[i][j] = append(all[i][j], r)
			}
		}
	}
	return all, nil
}

// standard is the index of the deadline of a second.
const standard = 1

func cell(i evaluation.Interval) report.Cell { return report.Interval(i.Mean, i.Lo, i.Hi) }

func beside(i evaluation.Interval, paper float64) report.Cell {
	return report.BesideInterval(i.Mean, i.Lo, i.Hi, paper)
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
		return cell(i)
	}
	return report.Cell{}
}

// throughput compares requests answered per second with those of none.
func (p *paper) throughput(all days) (report.Section, string) {
	work := report.Table{
		ID: "gains", Title: "Requests answered in time per second, relative to none (geometric mean over the days)",
		Columns: []report.Column{report.TextColumn("model", "model"), {Key: "gain", Title: "ours, deadline 1 s", Unit: "×", Kind: report.KindBeside, Decimals: 2},
			report.IntervalColumn("half", "0.5 s", "×", 2), report.IntervalColumn("two", "2 s", "×", 2), report.IntervalColumn("done", "all work, late or not, 1 s", "×", 2)},
		Note: "The paper counts throughput without saying whether late answers count. Arrivals are at most twice the capacity, so a gain above 2 can only be of work in time, next to a policy that answers late jobs too (MOSEL-20). Days on which none answers nothing in time are left out.",
	}
	var gains []string
	for j, m := range models {
		row := []report.Cell{report.Text(m.name)}
		for _, i := range []int{standard, 0, 2} {
			runs := all[i][j]
			mine, its := runs[ours].of((*envjobs.Result).Goodput), runs[none].of((*envjobs.Result).Goodput)
			if gain, ok := relative(mine, its); i == standard && ok {
				row = append(row, beside(gain, m.gain))
				gains = append(gains, fmt.Sprintf("%s %.2f", m.name, gain.Mean))
				continue
			}
			row = append(row, relativeCell(mine, its))
		}
		runs := all[standard][j]
		row = append(row, relativeCell(runs[ours].of((*envjobs.Result).Throughput), runs[none].of((*envjobs.Result).Throughput)))
		work.Rows = append(work.Rows, row)
	}
	return report.Section{ID: "throughput", Title: "Throughput", Tables: []report.Table{work, admission(all)}},
		"answers in time per second on days, relative to none, at a deadline of 1 s: " + strings.Join(gains, ", ") + "."
}

// admission compares plans with all inputs and admission alone: a policy that drops what would be late
// answers in time too, without a choice of inputs.
func admission(all days) report.Table {
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
		runs := all[standard][j]
		its, admitted := runs[none].of((*envjobs.Result).Goodput), runs[drop]
		row := []report.Cell{report.Text(models[j].name), relativeCell(admitted.of((*envjobs.Result).Goodput), its)}
		for _, k := range []int{optimized, ours, learned} {
			worth, _ := evaluation.Paired(runs[k].worth, admitted.worth) // of the same days
			quality, _ := evaluation.Paired(runs[k].of((*envjobs.Result).MeanQuality), admitted.of((*envjobs.Result).MeanQuality))
			row = append(row, relativeCell(runs[k].of((*envjobs.Result).Goodput), its), cell(worth), cell(quality))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// violations compares the shares of requests that were late or dropped.
func (p *paper) violations(all days) (report.Section, string, error) {
	section := report.Section{ID: "violations", Title: "Violations", Text: "Requests that were late or dropped, of all requests (MOSEL-21). The difference is paired by day."}
	var beaten []string
	for i, deadline := range deadlines {
		t := report.Table{
			ID: fmt.Sprintf("violations-%d", deadline.Milliseconds()), Title: fmt.Sprintf("Share of violations, deadline %v", deadline),
			Columns: []report.Column{report.TextColumn("model", "model")},
		}
		for _, with := range compared {
			t.Columns = append(t.Columns, report.IntervalColumn(key(with.name), with.name, "", 3))
		}
		t.Columns = append(t.Columns, report.Column{Key: "fewer", Title: "foresight: fewer than none, points", Kind: report.KindBeside, Decimals: 1}, report.IntervalColumn("less", "foresight, less the best without a plan", "", 4), report.IntervalColumn("better", "and its quality less that one's", "", 4))
		for j, m := range models {
			row, best := []report.Cell{report.Text(m.name)}, others
			shares := make([][]float64, len(compared))
			for k := range compared {
				shares[k] = all[i][j][k].of((*envjobs.Result).Violations)
				row = append(row, cell(evaluation.Bootstrap(shares[k])))
				if k > others && evaluation.Bootstrap(shares[k]).Mean < evaluation.Bootstrap(shares[best]).Mean {
					best = k
				}
			}
			fewer, err := evaluation.Paired(shares[none], shares[ours])
			if err != nil {
				return section, "", err
			}
			fewer.Mean, fewer.Lo, fewer.Hi = 100*fewer.Mean, 100*fewer.Lo, 100*fewer.Hi
			less, err := evaluation.Paired(shares[ours], shares[best])
			if err != nil {
				return section, "", err
			}
			better, err := evaluation.Paired(all[i][j][ours].of((*envjobs.Result).MeanQuality), all[i][j][best].of((*envjobs.Result).MeanQuality))
			if err != nil {
				return section, "", err
			}
			if less.Lo > 0 || better.Hi < 0 {
				beaten = append(beaten, fmt.Sprintf("%s at %v", m.name, deadline))
			}
			t.Rows = append(t.Rows, append(row, beside(fewer, m.fewer), cell(less), cell(better)))
		}
		section.Tables = append(section.Tables, t)
	}
	if len(beaten) == 0 {
		return section, "On no model and deadline has a policy without a plan fewer violations than foresight, or the best of them more quality, beyond chance.", nil
	}
	return section, "A policy without a plan has fewer violations than foresight, or as the best of them more quality, beyond chance, on " + strings.Join(beaten, ", ") + ".", nil
}

// key is the name of a column of a policy.
func key(name string) string {
	return strings.NewReplacer(", ", "_", " ", "_").Replace(name)
}

// quality shows the mean qualities and how long jobs take.
func (p *paper) quality(all days) report.Section {
	quality := report.Table{ID: "qualities", Title: "Mean quality of the requests answered, deadline 1 s", Columns: []report.Column{report.TextColumn("model", "model")}}
	took := report.Table{ID: "completion", Note: "The paper's 11 times shorter (MOSEL-23) is a request of TVLT with audio alone against both: 3.0 and 33.3 ms, as the profiles have it.", Title: "Mean time from a job's arrival to its end, deadline 1 s", Columns: []report.Column{report.TextColumn("model", "model")}}
	for _, with := range compared {
		quality.Columns = append(quality.Columns, report.IntervalColumn(key(with.name), with.name, "", 3))
		took.Columns = append(took.Columns, report.IntervalColumn(key(with.name), with.name, "s", 3))
	}
	for j, m := range models {
		row, times := []report.Cell{report.Text(m.name)}, []report.Cell{report.Text(m.name)}
		for k := range compared {
			r := all[standard][j][k]
			row = append(row, cell(evaluation.Bootstrap(r.of((*envjobs.Result).MeanQuality))))
			times = append(times, cell(evaluation.Bootstrap(r.took)))
		}
		quality.Rows, took.Rows = append(quality.Rows, row), append(took.Rows, times)
	}
	return report.Section{ID: "quality", Title: "Quality and completion times", Tables: []report.Table{quality, took}}
}

// profiles are what is simulated.
func (p *paper) profiles() report.Section {
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
	return report.Section{ID: "profiles", Title: "What is simulated", Text: "A profile here is arithmetic on what the paper says; no model was measured.", Tables: []report.Table{t}}
}

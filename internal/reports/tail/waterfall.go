package tail

import (
	"context"
	"fmt"
	"time"

	"gearshift/env/clients"
	"gearshift/env/evaluation"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
)

// measured is the runs of measures, by measure and seed.
type measured struct {
	list    []measure
	all     int // the step with all measures
	carried [][]float64
	// least and most are runs at the load that the first measure carries, and at the one that all
	// steps together do, on the same tier.
	least, most [][]*clients.Result
}

// measured runs all measures on all tiers.
func (s *study) measured(ctx context.Context, steps, others []measure) (*measured, error) {
	d := &measured{list: append(steps, others...), all: len(steps) - 1}
	var err error
	d.carried, err = reports.Grid(ctx, s.Run, len(d.list), len(s.seeds), func(ctx context.Context, i, j int) (float64, error) {
		return s.dayCarried(ctx, d.list[i], s.seeds[j])
	})
	if err != nil {
		return nil, err
	}
	at := func(of int) ([][]*clients.Result, error) {
		return reports.Grid(ctx, s.Run, len(d.list), len(s.seeds), func(_ context.Context, i, j int) (*clients.Result, error) {
			return s.summed(d.list[i], d.carried[of][j], s.seeds[j])
		})
	}
	if d.least, err = at(0); err != nil {
		return nil, err
	}
	d.most, err = at(d.all)
	return d, err
}

// summed is a day of whose response times only the one is kept within which 99 % were answered.
func (s *study) summed(m measure, load float64, seed uint64) (*clients.Result, error) {
	r, err := s.playDay(m, load, seed, false)
	if err == nil {
		r.Times = []time.Duration{r.Quantile(0.99)}
	}
	return r, err
}

// mean is that of what is worked out of the runs.
func mean(runs []*clients.Result, f func(r *clients.Result) float64) float64 {
	sum := 0.0
	for _, r := range runs {
		sum += f(r) / float64(len(runs))
	}
	return sum
}

func p99(r *clients.Result) float64 { return 1000 * r.Quantile(0.99).Seconds() }

// gain is how much more one measure carries than another, relative to that, over the tiers.
func (d *measured) gain(of, over int) evaluation.Interval {
	list := make([]float64, len(d.carried[of]))
	for j := range list {
		list[j] = d.carried[of][j]/d.carried[over][j] - 1
	}
	return evaluation.Bootstrap(list)
}

// waterfall is what each measure adds.
// It adds its sections itself, of which there are three.
func (s *study) waterfall(ctx context.Context, p *reports.Part) error {
	d, err := s.measured(ctx, steps(), others())
	if err != nil {
		return err
	}
	d.lay(s, p.Report)
	return s.headroom(ctx, p.Report)
}

// lay lays the runs out.
func (d *measured) lay(s *study, r *report.Report) {
	x := s.uneven(0)
	r.Sections = append(r.Sections, report.Section{
		ID: "waterfall", Title: "What each measure adds",
		Text: fmt.Sprintf("Simulated days of %v on %d hosts of 2, 4 and 8 cores. %d models have %d replicas, which were counted and placed by estimates of their work that are wrong by %.0f %% (the coefficient of variation); clients are 1,000. A day has two peaks, each model its own time, and 6 hosts have a job that takes .4 of their memory's bandwidth for a third of it. Placement runs %d times a day, above a mean use of %.1f, and moves %d replicas at a time, a fifth of the hosts; two rows have the product's default of %d. Each step is in addition to those above it. Loads are those of the highest peak, as a share of all cores.",
			s.dayTakes(), x.Hosts, x.Models, x.Replicas, 100*x.Error, perDay, byBandwidth.threshold, byBandwidth.atOnce, byDefaults.atOnce),
		Tables: []report.Table{
			d.table("steps", "Step by step", 0, d.all+1),
			d.table("other-choices", "Other choices, and other combinations", d.all+1, len(d.list)),
			d.orders(),
		},
	})
	d.even(s, r)
	r.Verdict = append(r.Verdict, d.verdict()...)
}

// table is that of some of the measures.
func (d *measured) table(id, title string, from, to int) report.Table {
	t := report.Table{ID: id, Title: title, Columns: []report.Column{
		report.TextColumn("measure", "Measure"),
		report.IntervalColumn("carried", "Load carried", "", 3),
		report.IntervalColumn("gain", "More than the first", "%", 1),
		report.NumberColumn("timeouts_least", "Timeouts at the load of the first", "", 6),
		report.NumberColumn("p99_least", "p99 there", "ms", 1),
		report.NumberColumn("timeouts_most", "Timeouts at the load that all steps carry", "", 6),
		report.NumberColumn("p99_most", "p99 there", "ms", 1),
		report.NumberColumn("polls", "Questions per request", "", 2),
	}, Note: "The load carried is the highest at which at most one request in a thousand of a day takes longer than 250 ms. Intervals: 95 % bootstrap over the tiers."}
	for i := from; i < to; i++ {
		t.Rows = append(t.Rows, []report.Cell{
			report.Text(d.list[i].name), reports.Mean(d.carried[i]), reports.Cell(reports.Scaled(d.gain(i, 0), 100)),
			report.Number(mean(d.least[i], (*clients.Result).TimeoutShare)), report.Number(mean(d.least[i], p99)),
			report.Number(mean(d.most[i], (*clients.Result).TimeoutShare)), report.Number(mean(d.most[i], p99)),
			report.Number(mean(d.most[i], func(r *clients.Result) float64 { return float64(r.Polls+r.Probes) / float64(max(1, r.Requests)) })),
		})
	}
	return t
}

// verdict says what all measures come to.
func (d *measured) verdict() []string {
	gain := d.gain(d.all, 0)
	lines := []string{fmt.Sprintf("Simulated: all measures carry %.0f %% more load (%.0f to %.0f %%) than two choices by what hosts said with earlier answers: %.2f of all cores at the peak of a day, in place of %.2f.",
		100*gain.Mean, 100*gain.Lo, 100*gain.Hi, evaluation.Bootstrap(d.carried[d.all]).Mean, evaluation.Bootstrap(d.carried[0]).Mean)}
	for _, x := range []struct {
		words string
		runs  [][]*clients.Result
	}{{"the load that the first carries", d.least}, {"the load that all carry", d.most}} {
		lines = append(lines, fmt.Sprintf("At %s, %.5f of the requests time out with all measures and %.5f without; p99 is %.0f and %.0f ms.", x.words,
			mean(x.runs[d.all], (*clients.Result).TimeoutShare), mean(x.runs[0], (*clients.Result).TimeoutShare), mean(x.runs[d.all], p99), mean(x.runs[0], p99)))
	}
	return lines
}

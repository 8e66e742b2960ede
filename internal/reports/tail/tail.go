// Package tail makes the report on tail utilisation: what the clients of a tier know of its
// hosts, and what they compare them by, decides how much load it carries.
package tail

import (
	"context"
	"fmt"
	"io"
	"time"

	"gearshift/env/clients"
	"gearshift/env/evaluation/report"
	"gearshift/internal/reports"
	"gearshift/workloads"
)

// Report returns the report on tail utilisation.
func Report() reports.Report {
	return reports.Report{
		Name:  "tail",
		Short: "Show what a tier carries by what its clients know of its hosts, as one report",
		Long: `Simulate a tier of hosts of two kinds that answer the requests of many models, whose clients
choose between two replicas each time, after "Taming the tail utilization of ads inference":

  - by what hosts said with earlier answers, or by asking them first,
  - by the requests of the model, of the host, or by the work that is outstanding for each core,
  - with 20, 1,000 and 20,000 clients, each of which sees its own answers alone,
  - by peak-EWMA, weighted round robin, Prequal, hedged requests, and ours, which asks a replica
    where that is worth it: with as many questions as are allowed,
  - on a day with two peaks, measure by measure: with replicas that were placed beforehand, or are
    moved within load bands, by processors and by memory bandwidth.

The load that is carried is the highest at which at most one request in a thousand takes longer
than 250 ms. Written are DIR/report.html, report.json and a CSV for each table.`,
		Example: "--out tail-report",
		Flags:   flags,
	}
}

// options are the flags; what is zero has a default.
type options struct {
	seeds int
	quick bool
	only  []string
	// length of the runs
	length time.Duration
}

func flags(f *reports.Flags) reports.Make {
	var o options
	f.BoolVar(&o.quick, "quick", false, "three tiers, and shorter runs: some minutes")
	f.DurationVar(&o.length, "length", 0, "how long requests arrive in a run (default 1m, or 10s with --quick)")
	f.IntVar(&o.seeds, "seeds", 0, "tiers that are drawn, each with requests of its own (default 20, or 3 with --quick)")
	f.StringSliceVar(&o.only, "only", nil, "sections to make, of "+names()+" (default all)")
	return func(ctx context.Context, out string, by reports.Program, stderr io.Writer) (*report.Report, error) {
		length := o.length
		if length == 0 {
			length = map[bool]time.Duration{false: time.Minute, true: 10 * time.Second}[o.quick]
		}
		if length < time.Second {
			return nil, fmt.Errorf("--length: %v must be a second or more", length)
		}
		if o.seeds == 0 {
			o.seeds = map[bool]int{false: 20, true: 3}[o.quick]
		}
		if o.seeds < 2 || o.seeds > 1000 {
			return nil, fmt.Errorf("--seeds: %d must be from 2 to 1000", o.seeds)
		}
		if _, err := chosen(o.only); err != nil {
			return nil, err
		}
		if err := reports.Begin(out); err != nil {
			return nil, err
		}
		s := &study{options: o, length: length, clients: []int{20, 1000, 20_000}, theory: 4000 * time.Second, day: shortDay(), seeds: workloads.Seeds(workloads.Evaluation, o.seeds), series: 10, version: by.Version, count: by.Counting, stderr: stderr}
		return s.report(ctx)
	}
}

// study is a report in the making.
type study struct {
	options options
	length  time.Duration
	clients []int         // the numbers of clients that are tried
	theory  time.Duration // how long runs are that are held against theory
	day     day           // in which versions change
	seeds   []uint64
	series  int // of days, on which replicas are counted
	version string
	count   func(what string) func(done, total int)
	stderr  io.Writer
}

// timeout is after how long a request counts as timed out, and most the share of those that a
// load may have which is carried.
const (
	timeout = 250 * time.Millisecond
	most    = 0.001
)

// pollTakes is what a poll adds to a request, and pollWork what it takes of a core of the host: an
// engine process of four models took 50 to 100 µs for each GET /v1/loads on kept connections.
const (
	pollTakes = time.Millisecond
	pollWork  = 100 * time.Microsecond
)

// drawn is the tier of a seed.
func drawn(seed uint64) clients.Drawing {
	return clients.Drawing{
		Hosts: 40, Kinds: []float64{2, 4}, Models: 12, Skew: 0.8, Replicas: 160,
		Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: 0.5, Seed: seed,
	}
}

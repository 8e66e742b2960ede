// Package tail makes the report on tail utilisation: what the clients of a tier know of its
// hosts, and what they compare them by, decides how much load it carries.
package tail

import (
	"context"
	"fmt"
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
		Quick:   "three tiers, and shorter runs: some minutes",
		Seeds:   reports.Seeds{Usual: 20, Quick: 3, Of: "tiers that are drawn, each with requests of its own"},
		New: func(f *reports.Flags, r *reports.Run) reports.Study {
			s := &study{Run: r, clients: []int{20, 1000, 20_000}, theory: 4000 * time.Second, day: shortDay(), series: 10}
			f.DurationVar(&s.length, "length", 0, "how long requests arrive in a run (default 1m, or 10s with --quick)")
			return s.study()
		},
	}
}

// study is a report in the making.
type study struct {
	*reports.Run
	length  time.Duration
	clients []int         // the numbers of clients that are tried
	theory  time.Duration // how long runs are that are held against theory
	day     day           // in which versions change
	seeds   []uint64
	series  int // of days, on which replicas are counted
	carries *reports.Sweep[carrying, probed]
}

// study lists the sections, each of which stands in a file of its own.
func (s *study) study() reports.Study {
	return reports.Study{
		Run: s.Run, Check: s.check, Open: s.head,
		Sections: []reports.Section{
			{ID: "knowledge", Title: "What clients know", Make: s.knowledge},
			{ID: "variations", Title: "Beyond two choices", Make: s.variations},
			{ID: "balancers", Title: "Balancers", Make: s.balancers},
			{ID: "probes", Title: "What a question is worth", Make: s.probes},
			{ID: "loads", Title: "Timeouts, response times and the busiest hosts", Make: s.loads},
			{ID: "waterfall", Make: s.waterfall},
			{ID: "theory", Title: "Held against theory", Make: s.closedForms},
			{ID: "replicas", Title: "Replicas by forecasts, and by the load that there is", Make: s.replicas},
			{ID: "tiers", Title: "Tiers", Make: s.tiers},
			{ID: "versions", Title: "A new version of the largest model", Make: s.versions},
		},
	}
}

// check sets how long runs are, and the tiers.
func (s *study) check() error {
	if !s.Given("length") {
		s.length = time.Minute
		if s.Quick {
			s.length = 10 * time.Second
		}
	}
	if s.length < time.Second {
		return fmt.Errorf("--length: %v must be a second or more", s.length)
	}
	s.seeds = workloads.Seeds(workloads.Evaluation, s.Seeds)
	return nil
}

// head says what is simulated.
func (s *study) head(context.Context) (*report.Report, error) {
	d := drawn(0)
	return &report.Report{
		Title: "Tail utilisation",
		Scenario: fmt.Sprintf("Simulated: %d hosts of 2 and 4 cores, %d models with %d replicas, whose requests take %v to %v of a core in the mean; %d tiers are drawn, %v of requests each; a question for a load takes %v, and %v of a core of the host that is asked",
			d.Hosts, d.Models, d.Replicas, d.Fastest, d.Slowest, len(s.seeds), s.length, pollTakes, pollWork),
	}, nil
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

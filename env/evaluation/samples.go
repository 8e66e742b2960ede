package evaluation

import (
	"context"
	"time"

	"gearshift/env"
)

// Sample holds the result of one request of a run.
type Sample struct {
	Arrival                time.Duration
	Rate                   float64 // of arrivals per second, as the workload had it
	Task, Variant, Replica int
	OutputTokens           int
	FirstToken, Finished   time.Duration // when it came, as Arrival
	Utility                float64
	Peak                   float64 // the utility of the best answer in time
	Met                    bool
	PerToken               time.Duration // latency by output tokens, queueing included
}

// Samples plays one run and returns its requests in order of arrival or, as
// served, those that were begun in the order of that.
func Samples(ctx context.Context, c *Contestant, w *Workload, seed uint64) ([]Sample, error) {
	var samples []Sample
	err := play(ctx, c, w, seed, observer{
		due: func(e *env.Environment) {
			a := e.Arrival()
			task := &c.Fleet.Table.Tasks[a.Task]
			samples = append(samples, Sample{
				Arrival: a.At, Rate: a.Rate, Task: a.Task, Peak: task.Peak(),
			})
		},
		ended: func(o *env.Outcome) {
			if o.Decision < 0 {
				return
			}
			s := &samples[o.Decision]
			s.Variant, s.Replica, s.OutputTokens = o.Variant, o.Replica, o.OutputTokens
			s.FirstToken, s.Finished = o.FirstToken, o.Finished
			s.Utility, s.Met, s.PerToken = o.Utility, o.Met, o.Latency()
		},
	})
	return samples, err
}

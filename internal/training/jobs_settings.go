package training

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/env"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// jobsSettings are what training and validation draw episodes from: the models, loads of all
// shapes and heights, deadlines, and how wrong the estimates are.
type jobsSettings struct {
	models []jobsSetting
	// few validate a network, and many choose among cautions and margins: numbers of episodes.
	few, many int
}

// jobsSetting is a model with what its loads follow from.
type jobsSetting struct {
	options        []modality.Option
	largest        int
	capacity       float64 // requests per second with the best option
	lowest, finest float64 // qualities
	tables         map[float64]*modality.Table
}

// estimates are how many times the real latencies tables have. Most episodes have the right
// ones.
var estimates = []float64{1, 1, 1, 1, 0.5, 0.75, 1.5, 2}

// noises are the standard deviations of the logarithm of what a batch takes.
var noises = []float64{0, 0, 0.1, 0.25, 0.5}

// deadlines are from a job's arrival.
var deadlines = []time.Duration{500 * time.Millisecond, time.Second, 2 * time.Second}

func newJobsSettings(models []JobsModel, validation int) (*jobsSettings, error) {
	w := &jobsSettings{few: (validation + 3) / 4, many: validation}
	for _, m := range models {
		one := jobsSetting{options: m.Options, lowest: math.Inf(1), finest: math.Inf(-1), tables: map[float64]*modality.Table{}}
		for i := range m.Options {
			o := &m.Options[i]
			one.largest = max(one.largest, len(o.Latency))
			one.lowest = min(one.lowest, o.Quality)
			if o.Quality > one.finest {
				one.finest, one.capacity = o.Quality, 1000*float64(len(o.Latency))/o.Latency[len(o.Latency)-1]
			}
		}
		for _, estimate := range estimates {
			table, err := modality.NewTable(EstimatedOptions(m.Options, estimate), modality.Mixed, one.largest)
			if err != nil {
				return nil, err
			}
			one.tables[estimate] = table
		}
		w.models = append(w.models, one)
	}
	return w, nil
}

// EstimatedOptions are the options with latencies that are so many times as long.
func EstimatedOptions(options []modality.Option, times float64) []modality.Option {
	list := make([]modality.Option, len(options))
	for i, o := range options {
		latency := make([]float64, len(o.Latency))
		for n, l := range o.Latency {
			latency[n] = times * l
		}
		list[i] = modality.Option{Name: o.Name, Quality: o.Quality, Latency: latency}
	}
	return list
}

// EstimateNoise draws how many times as long a batch takes: its logarithm is normal, and its mean
// is 1. It is nil for a spread of 0.
func EstimateNoise(spread float64, rng *rand.Rand) func() float64 {
	if spread == 0 {
		return nil
	}
	return func() float64 { return math.Exp(spread*rng.NormFloat64() - spread*spread/2) }
}

// draw makes the episode of a seed, and returns its deadline too.
func (w *jobsSettings) draw(seed uint64, c modality.Cautions) (jobsEpisode, time.Duration, error) {
	rng := rand.New(rand.NewPCG(seed, 3))
	m := &w.models[rng.IntN(len(w.models))]
	estimate, spread := estimates[rng.IntN(len(estimates))], noises[rng.IntN(len(noises))]
	load := workloads.JobLoad{
		Length: time.Minute, Mean: 1, Spread: 6, Largest: m.largest, Deadline: deadlines[rng.IntN(len(deadlines))],
		FloorLow: m.lowest, FloorHigh: m.finest,
	}
	most := m.capacity * math.Exp(math.Log(0.3)+rng.Float64()*math.Log(2.4/0.3))
	load.Most, load.Least = most, most*0.3*rng.Float64()
	switch rng.IntN(4) {
	case 0:
		load.Shape, load.Poisson = workloads.ConstantJobs, true
	case 1:
		load.Shape, load.Poisson = workloads.SwitchingJobs, true
	}
	arrivals, err := load.Draw(seed)
	if err == nil && len(arrivals) == 0 { // of a rate that is low throughout
		load.Shape, load.Poisson, load.Most = workloads.ConstantJobs, false, max(1, m.capacity)
		arrivals, err = load.Draw(seed)
	}
	return jobsEpisode{
		Table: m.tables[estimate], Options: m.options, Noise: EstimateNoise(spread, rng), Arrivals: arrivals, Cautions: c,
	}, load.Deadline, err
}

// jobsMaker makes a policy of a table.
type jobsMaker func(*modality.Table) (modality.Policy, error)

// played is what came of episodes of validation: what all requests were worth, and how many there
// were, by episode.
type played struct{ worth, requests []float64 }

// mean is what a request is worth.
func (p *played) mean() float64 {
	var worth, requests float64
	for i := range p.worth {
		worth, requests = worth+p.worth[i], requests+p.requests[i]
	}
	return worth / requests
}

// of is what a request of the episode is worth.
func (p *played) of(i int) float64 { return p.worth[i] / p.requests[i] }

// play plays so many episodes of validation under a policy.
func (w *jobsSettings) play(ctx context.Context, episodes int, with jobsMaker) (*played, error) {
	p := &played{make([]float64, episodes), make([]float64, episodes)}
	err := each(ctx, episodes, func(i int) error {
		e, _, err := w.draw(workloads.Seed(workloads.Validation, uint64(i)), nil)
		if err != nil {
			return err
		}
		decides, err := with(e.Table)
		if err != nil {
			return err
		}
		r, err := e.play(decides, func(o env.JobOutcome) { p.worth[i] += o.Worth() })
		if err == nil {
			p.requests[i] = float64(r.Requests)
		}
		return err
	})
	return p, err
}

// each calls f for the numbers below n, on all cores.
func each(ctx context.Context, n int, f func(i int) error) error {
	faults := make([]error, n)
	var next atomic.Int64
	var running sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for i := next.Add(1) - 1; i < int64(n) && ctx.Err() == nil; i = next.Add(1) - 1 {
				faults[i] = f(int(i))
			}
		})
	}
	running.Wait()
	return errors.Join(append(faults, ctx.Err())...)
}

// UsualJobs counts the decisions that a policy learns from by default, and QuickJobs those of a first look.
const (
	UsualJobs = 200_000
	QuickJobs = 40_000
)

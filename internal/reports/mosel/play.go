package mosel

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	envjobs "gearshift/env/jobs"
	"gearshift/internal/training/jobtraining"
	"gearshift/router/modality"
	"gearshift/workloads"
	"gearshift/workloads/jobs"
)

// policy is one of those compared, by the paper's name.
type policy struct {
	name string
	make func(t *modality.Table, seed uint64) (modality.Policy, error)
}

// compared are the policies of the report. One without a make is the paper's network.
var compared = []policy{
	{"optimized", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewPlanner(t, modality.PrefixSafe)
	}},
	{"optimized, literal", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewPlanner(t, modality.Literal)
	}},
	{"foresight", foresight(modality.Caution)},
	{"foresight, bold", foresight(1.5)},
	{"learned", nil}, // made once it is trained
	{"random, alg1", func(t *modality.Table, seed uint64) (modality.Policy, error) {
		return modality.NewRandom(t, modality.StopByWait, rand.New(rand.NewPCG(seed, 7)))
	}},
	{"random, text", func(t *modality.Table, seed uint64) (modality.Policy, error) {
		return modality.NewRandom(t, modality.StopByFinish, rand.New(rand.NewPCG(seed, 7)))
	}},
	{"aggressive", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewAggressive(t), nil
	}},
	{"none, drop", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewDropping(t), nil
	}},
	{"none", func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewAgnostic(t), nil
	}},
}

// foresight makes our policy with a caution.
func foresight(caution float64) func(*modality.Table, uint64) (modality.Policy, error) {
	return func(t *modality.Table, _ uint64) (modality.Policy, error) {
		return modality.NewForesighted(t, caution), nil
	}
}

// The policies that tables compare. From others on, they are the paper's without a plan.
const (
	optimized = 0
	ours      = 2
	learned   = 4
	others    = 5
	drop      = 8
	none      = 9
)

// setting is what is played.
type setting struct {
	model    *model
	deadline time.Duration
	estimate float64 // the table's latencies are so many times the real ones
	fixed    bool    // and are not corrected
	faster   float64 // how many times as fast the model is; 0 is 1
	clients  bool    // jobs of recorded clients, in place of a day
	noise    float64 // standard deviation of the logarithm of what a batch takes
	constant float64 // rate, in place of a day
}

// load is that of a setting.
func (p *paper) load(s setting) jobs.Load {
	l := jobs.Load{
		Length: p.day, Least: 5, Most: 2 * s.model.capacity, Mean: 1, Spread: 6, Largest: largest,
		Deadline: s.deadline, FloorLow: leastQuality, FloorHigh: bestQuality,
	}
	if s.constant > 0 {
		l.Shape, l.Least, l.Most = jobs.Constant, s.constant, s.constant
	}
	return l
}

// run is the results of a policy, by seed, and the mean time from arrival to end of the jobs
// answered, in seconds.
type run struct {
	results []*envjobs.Result
	took    []float64
	worth   []float64 // of a request, in the mean, by [envjobs.Outcome.Worth]
}

// of is a quantity of the results, by seed.
func (r *run) of(f func(*envjobs.Result) float64) []float64 {
	list := make([]float64, len(r.results))
	for i, result := range r.results {
		list[i] = f(result)
	}
	return list
}

// draw draws a day's jobs.
func (p *paper) draw(s setting, load *jobs.Load, seed uint64) ([]jobs.Arrival, error) {
	if s.clients {
		return load.DrawFrom(p.clients, s.model.capacity, seed)
	}
	return load.Draw(seed)
}

// decides makes the policy.
func (p *paper) decides(with policy, t *modality.Table, seed uint64) (modality.Policy, error) {
	if with.make == nil {
		return modality.NewLearned(t, p.network)
	}
	return with.make(t, seed)
}

// play runs a policy on all seeds of a setting.
func (p *paper) play(ctx context.Context, s setting, with policy) (*run, error) {
	table, err := modality.NewTable(s.model.options(s.estimate/cmp.Or(s.faster, 1)), modality.Mixed, largest)
	if err != nil {
		return nil, err
	}
	one := playing{paper: p, setting: s, with: with, table: table, real: s.model.options(1 / cmp.Or(s.faster, 1))}
	r := &run{results: make([]*envjobs.Result, p.seeds), took: make([]float64, p.seeds), worth: make([]float64, p.seeds)}
	faults := make([]error, p.seeds)
	var next atomic.Int64
	var all sync.WaitGroup
	for range min(p.seeds, runtime.GOMAXPROCS(0)) {
		all.Go(func() {
			for i := next.Add(1) - 1; i < int64(p.seeds) && ctx.Err() == nil; i = next.Add(1) - 1 {
				faults[i] = one.play(int(i), r)
			}
		})
	}
	all.Wait()
	if err := errors.Join(append(faults, ctx.Err())...); err != nil {
		return nil, err
	}
	p.played++
	p.count(p.played, p.plays)
	return r, nil
}

// playing is a policy in a setting, whose runs share nothing that changes.
type playing struct {
	*paper
	setting setting
	with    policy
	table   *modality.Table   // of the estimates
	real    []modality.Option // what batches take
}

// play runs a seed, and writes what comes of it where its number is.
func (p *playing) play(i int, r *run) error {
	seed := workloads.Seed(workloads.Evaluation, uint64(i))
	load := p.load(p.setting)
	arrivals, err := p.draw(p.setting, &load, seed)
	if err != nil {
		return err
	}
	decides, err := p.decides(p.with, p.table, seed)
	if err != nil {
		return err
	}
	d := modality.NewDispatcher(p.table, decides)
	d.Fixed = p.setting.fixed
	var took, worth float64
	answered := 0
	noise := jobtraining.Noise(p.setting.noise, rand.New(rand.NewPCG(seed, 8)))
	r.results[i], err = envjobs.Run(envjobs.Config{Dispatcher: d, Window: window, Options: p.real, Noise: noise}, arrivals, func(o envjobs.Outcome) {
		worth += o.Worth()
		if !o.Dropped {
			took += (o.Finished - o.At).Seconds()
			answered++
		}
	})
	if err != nil {
		return err
	}
	r.took[i], r.worth[i] = took/float64(max(1, answered)), worth/float64(max(1, r.results[i].Requests))
	return nil
}

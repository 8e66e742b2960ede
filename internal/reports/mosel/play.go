package mosel

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/internal/training"
	"gearshift/router/modality"
	"gearshift/workloads"
)

// policy is one of those compared, by the paper's name.
type policy struct {
	name string
	make func(t *modality.Table, seed uint64) (modality.Policy, error)
}

// compared are the policies of the report. One without a make has the network of the report.
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
	alone     = 10 // the plan that advises the learned policy, with its cautions and without departures
)

// setting is what is played, which does not change while it is.
type setting struct {
	model    *model
	with     int // policy: an index of compared, or alone
	deadline time.Duration
	estimate float64       // the table's latencies are so many times the real ones
	fixed    bool          // and are not corrected
	halved   bool          // the model is as fast as with FP16
	clients  bool          // jobs of recorded clients, in place of a day
	noise    float64       // standard deviation of the logarithm of what a batch takes
	constant float64       // rate, in units of the model's capacity, in place of a day
	day      time.Duration // 0 is the report's
	once     bool          // the first seed only
}

// load is that of a setting.
func (p *paper) load(s setting) workloads.JobLoad {
	l := workloads.JobLoad{
		Length: cmp.Or(s.day, p.day), Least: 5, Most: 2 * s.model.capacity, Mean: 1, Spread: 6, Largest: largest,
		Deadline: s.deadline, FloorLow: leastQuality, FloorHigh: bestQuality,
	}
	if s.constant > 0 {
		rate := s.constant * s.model.capacity
		l.Shape, l.Least, l.Most = workloads.ConstantJobs, rate, rate
	}
	return l
}

// played is the results of a run.
type played struct {
	*env.JobsResult
	took  float64 // mean time from arrival to end of the jobs answered, in seconds
	worth float64 // of a request, in the mean, by [envjobs.Outcome.Worth]
}

func worth(r played) float64 { return r.worth }
func took(r played) float64  { return r.took }

// draw draws a day's jobs.
func (p *paper) draw(s setting, seed uint64) ([]workloads.JobArrival, error) {
	load := p.load(s)
	if s.clients {
		return load.DrawFrom(p.clients, s.model.capacity, seed)
	}
	return load.Draw(seed)
}

// decides makes the policy.
func (p *paper) decides(with int, t *modality.Table, seed uint64) (modality.Policy, error) {
	switch with {
	case learned:
		return modality.NewLearned(t, p.network)
	case alone:
		return modality.NewCautious(t, p.network.Cautions), nil
	}
	return compared[with].make(t, seed)
}

// open prepares a setting, whose runs share the table of the estimates and what batches take.
func (p *paper) open(s setting) (int, func(context.Context, int) (played, error), error) {
	faster := 1.0
	if s.halved {
		faster = s.model.halved()
	}
	table, err := modality.NewTable(s.model.options(s.estimate/faster), modality.Mixed, largest)
	real, seeds := s.model.options(1/faster), p.Seeds
	if s.once {
		seeds = 1
	}
	return seeds, func(_ context.Context, i int) (played, error) {
		return p.play(s, table, real, workloads.Seed(workloads.Evaluation, uint64(i)))
	}, err
}

// play runs a seed.
func (p *paper) play(s setting, table *modality.Table, real []modality.Option, seed uint64) (r played, err error) {
	arrivals, err := p.draw(s, seed)
	if err != nil {
		return r, err
	}
	decides, err := p.decides(s.with, table, seed)
	if err != nil {
		return r, err
	}
	w := modality.NewWorker(table, decides)
	w.Fixed = s.fixed
	answered := 0
	noise := training.EstimateNoise(s.noise, rand.New(rand.NewPCG(seed, 8)))
	j, err := env.NewJobs(w, real, noise, arrivals)
	if err != nil {
		return r, err
	}
	j.Window = window
	j.Ended = func(o env.JobOutcome) {
		r.worth += o.Worth()
		if !o.Dropped {
			r.took += (o.Finished - o.At).Seconds()
			answered++
		}
	}
	if r.JobsResult, err = j.Run(); err != nil {
		return r, err
	}
	r.took, r.worth = r.took/float64(max(1, answered)), r.worth/float64(max(1, r.Requests))
	return r, nil
}

// each plays policies on all models, as the setting says otherwise: runs by model and policy.
func (p *paper) each(ctx context.Context, s setting, with ...int) ([][][]played, error) {
	var list []setting
	for j := range models {
		for _, s.with = range with {
			s.model = &models[j]
			list = append(list, s)
		}
	}
	runs, err := p.sweep.Play(ctx, list...)
	if err != nil {
		return nil, err
	}
	return slices.Collect(slices.Chunk(runs, len(with))), nil
}

// everyone is all policies that are compared.
func everyone() []int {
	all := make([]int, len(compared))
	for k := range all {
		all[k] = k
	}
	return all
}

// days plays all policies on days with a deadline: runs by model and policy.
func (p *paper) days(ctx context.Context, deadline time.Duration) ([][][]played, error) {
	return p.each(ctx, setting{deadline: deadline, estimate: 1}, everyone()...)
}

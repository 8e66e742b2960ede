package logged

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"gearshift/env"
	"gearshift/env/evaluation"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Replay is what a policy earns in the simulator on the logged arrivals, over the
// requests whose deadline was judged when they were served.
type Replay struct {
	Utility     evaluation.Interval `json:"utility"`
	DeadlineMet evaluation.Interval `json:"deadline_met"`
	// OverLogged is the utility less that of the logged choices in the same
	// simulator, request by request: what is off in both alike drops out.
	OverLogged evaluation.Interval `json:"over_logged_choices"`
	// Share of these requests by variant.
	Share map[string]float64 `json:"share"`
	// PaceRatio is, of the logged choices, the measured time per token as a multiple of
	// the simulated one, by variant: the median.
	PaceRatio map[string]float64 `json:"pace_ratio,omitempty"`
}

// Stream returns a run's arrivals: times, tasks, deadlines and lengths as logged. The
// length of an answer that was never whole is drawn from those of the log that
// were, of the same task if there is any. Requests are cut to so many tokens as fit
// every replica (0: any); see [workloads.Fit]. Rates are the log's estimates.
func (l *Log) Stream(run, fits int, seed uint64) workloads.Stream {
	return &arrivals{decisions: l.Runs[run].Decisions, drawer: l.drawer(fits, seed^uint64(run))}
}

func (l *Log) drawer(fits int, seed uint64) drawer {
	return drawer{lengths: l.lengths(), fits: fits, random: rand.New(rand.NewPCG(seed, lengthStream))}
}

// Endless returns the log's arrivals from the n-th on, over and over: its runs follow
// each other, and its beginning its end, at the mean gap.
func (l *Log) Endless(n, fits int, seed uint64) workloads.Stream {
	e := &endless{drawer: l.drawer(fits, seed)}
	var span time.Duration
	for i := range l.Runs {
		list := l.Runs[i].Decisions
		for k := range list {
			gap := time.Duration(-1)
			if k > 0 {
				gap = max(0, list[k].at()-list[k-1].at())
				span += gap
			}
			e.decisions, e.gaps = append(e.decisions, &list[k]), append(e.gaps, gap)
		}
	}
	mean := span / time.Duration(max(1, len(e.gaps)-len(l.Runs)))
	for k, gap := range e.gaps {
		if gap < 0 {
			e.gaps[k] = mean
		}
	}
	e.next = n % len(e.decisions)
	return e
}

// endless goes round the decisions.
type endless struct {
	drawer
	decisions []*Decision
	gaps      []time.Duration // before each
	next      int
	now       time.Duration
}

// Next implements [workloads.Stream].
func (e *endless) Next() (workloads.Arrival, bool) {
	e.now += e.gaps[e.next]
	a := e.arrival(e.decisions[e.next], e.now)
	e.next = (e.next + 1) % len(e.decisions)
	return a, true
}

// lengthStream sets the draws of unknown lengths apart from others of a seed.
const lengthStream = 0x6c656e67746873

// lengths returns the known lengths of answers by task, and of all tasks under −1.
func (l *Log) lengths() map[int][]int {
	known := map[int][]int{}
	l.each(func(_ int, d *Decision) {
		if d.OutputTokens > 0 {
			known[d.Request.Task] = append(known[d.Request.Task], d.OutputTokens)
			known[-1] = append(known[-1], d.OutputTokens)
		}
	})
	return known
}

type arrivals struct {
	drawer
	decisions []Decision
	last      time.Duration
}

// Next implements [workloads.Stream].
func (a *arrivals) Next() (workloads.Arrival, bool) {
	if len(a.decisions) == 0 {
		return workloads.Arrival{}, false
	}
	d := &a.decisions[0]
	a.decisions = a.decisions[1:]
	a.last = max(a.last, d.at()) // two that came at once may be stamped out of order
	return a.arrival(d, a.last), true
}

// drawer draws the lengths that are not known.
type drawer struct {
	lengths map[int][]int
	fits    int
	random  *rand.Rand
}

// arrival returns the request that was decided, at a time.
func (a *drawer) arrival(d *Decision, at time.Duration) workloads.Arrival {
	output := d.OutputTokens
	if output < 1 {
		output = a.draw(d.Request.Task)
	}
	prompt, output := workloads.Fit(max(1, d.Request.PromptTokens), output, a.fits)
	return workloads.Arrival{
		At: at, Task: d.Request.Task,
		Deadline: d.Request.Deadline, FirstToken: d.Request.FirstToken, Total: d.Request.Total,
		PromptTokens: prompt, OutputTokens: output,
		Rate: d.View.Smoothed[len(d.View.Smoothed)-1],
	}
}

// draw returns a length of the task.
func (a *drawer) draw(task int) int {
	known := a.lengths[task]
	if len(known) == 0 {
		known = a.lengths[-1]
	}
	if len(known) == 0 {
		return 1
	}
	return known[a.random.IntN(len(known))]
}

// script decides a run: what clients asked for stays, the rest is the decider's.
type script struct {
	evaluation.Decider
	decisions []Decision
	balancer  env.Balancer
	request   *fleet.Request // its own memory
}

// shown returns the request with what was predicted for it when it was served.
func (s script) shown(r *fleet.Request) *fleet.Request {
	p := &s.decisions[r.ID].Request.Predicted
	if !p.Known {
		return r
	}
	*s.request = *r
	s.request.Predicted = *p
	return s.request
}

// Decide implements [evaluation.Decider]. The simulator numbers requests from 0.
func (s script) Decide(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if d := &s.decisions[r.ID]; d.Pinned {
		return d.Variant
	}
	return s.Decider.Decide(v, s.shown(r), scratch)
}

// placing is a script for a decider that chooses the replica.
type placing struct {
	script
	placer evaluation.Placer
}

// Place implements [evaluation.Placer].
func (s placing) Place(v *fleet.View, r *fleet.Request, scratch []float32) int {
	if d := &s.decisions[r.ID]; d.Pinned {
		return s.balancer.Pick(v, r, d.Variant, chance(r.ID))
	}
	return s.placer.Place(v, s.shown(r), scratch)
}

// asLogged places each request where it was placed.
type asLogged []Decision

func (asLogged) Scratch() int { return 0 }
func (a asLogged) Decide(_ *fleet.View, r *fleet.Request, _ []float32) int {
	return a[r.ID].Variant
}
func (a asLogged) Place(_ *fleet.View, r *fleet.Request, _ []float32) int { return a[r.ID].Replica }

// Replayer plays a log's arrivals on a simulated fleet.
type Replayer struct {
	Log *Log
	// Fleet is all of the environment but its workload.
	Fleet env.Config
	// Fits is the tokens that requests are cut to; see [Log.Stream].
	Fits int
	Seed uint64

	logged [][]evaluation.Sample // by run: of the logged choices
}

// AsLogged plays the logged choices themselves: what the simulator says of what
// happened, to be held against what was measured.
func (p *Replayer) AsLogged(ctx context.Context) (Replay, error) {
	runs, err := p.play(ctx, func(run int) evaluation.Decider { return asLogged(p.Log.Runs[run].Decisions) })
	if err != nil {
		return Replay{}, fmt.Errorf("cannot replay the logged choices: %w", err)
	}
	p.logged = runs
	r := p.summarise(runs)
	r.PaceRatio = map[string]float64{}
	for v, ratio := range p.paceRatios(runs) {
		if ratio > 0 {
			r.PaceRatio[p.Fleet.Table.Variants[v].Name] = ratio
		}
	}
	return r, nil
}

// Play plays the decider.
func (p *Replayer) Play(ctx context.Context, name string, decider evaluation.Decider) (Replay, error) {
	if p.logged == nil {
		if _, err := p.AsLogged(ctx); err != nil {
			return Replay{}, err
		}
	}
	runs, err := p.play(ctx, p.scripted(decider))
	if err != nil {
		return Replay{}, fmt.Errorf("cannot replay the log with %s: %w", name, err)
	}
	return p.summarise(runs), nil
}

// scripted makes the decider of each run.
func (p *Replayer) scripted(decider evaluation.Decider) func(run int) evaluation.Decider {
	return func(run int) evaluation.Decider {
		s := script{Decider: decider, decisions: p.Log.Runs[run].Decisions, balancer: p.Fleet.Balancer, request: new(fleet.Request)}
		if placer, ok := decider.(evaluation.Placer); ok {
			return placing{s, placer}
		}
		return s
	}
}

// play plays every run by the decider that of makes for it.
func (p *Replayer) play(ctx context.Context, of func(run int) evaluation.Decider) ([][]evaluation.Sample, error) {
	var runs [][]evaluation.Sample
	for i := range p.Log.Runs {
		w := evaluation.Workload{Open: func(seed uint64) (workloads.Stream, error) { return p.Log.Stream(i, p.Fits, seed), nil }}
		samples, err := evaluation.Samples(ctx, &evaluation.Contestant{Decider: of(i), Fleet: p.Fleet}, &w, p.Seed)
		if err != nil {
			return nil, err
		}
		runs = append(runs, samples)
	}
	return runs, nil
}

// summarise takes the means over the requests that were judged.
func (p *Replayer) summarise(runs [][]evaluation.Sample) Replay {
	n := p.Log.count(judged)
	utility, met, over := newBlocks(n), newBlocks(n), newBlocks(n)
	variants := p.Fleet.Table.Variants
	r := Replay{Share: map[string]float64{}}
	for i := range runs {
		for k, x := range runs[i] {
			if !p.Log.Runs[i].Decisions[k].Judged {
				continue
			}
			for _, b := range []*blocks{utility, met, over} {
				b.next(i)
			}
			utility.add(x.Utility, 1)
			met.add(share(x.Met), 1)
			over.add(x.Utility-p.logged[i][k].Utility, 1)
			r.Share[variants[x.Variant].Name] += 1 / float64(n)
		}
	}
	r.Utility, _ = utility.interval()
	r.DeadlineMet, _ = met.interval()
	r.OverLogged, _ = over.interval()
	return r
}

func share(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// Versus returns what a decider earns per request more than another, on the same
// arrivals: paired, with its 95 % interval.
func (p *Replayer) Versus(ctx context.Context, a, b evaluation.Decider) (evaluation.Interval, error) {
	var sides [2][][]evaluation.Sample
	for k, d := range []evaluation.Decider{a, b} {
		runs, err := p.play(ctx, p.scripted(d))
		if err != nil {
			return evaluation.Interval{}, fmt.Errorf("cannot replay the log: %w", err)
		}
		sides[k] = runs
	}
	over := newBlocks(p.Log.count(judged))
	for i := range sides[0] {
		for k, x := range sides[0][i] {
			if judged(&p.Log.Runs[i].Decisions[k]) {
				over.next(i)
				over.add(x.Utility-sides[1][i][k].Utility, 1)
			}
		}
	}
	difference, _ := over.interval()
	return difference, nil
}

func judged(d *Decision) bool { return d.Judged }

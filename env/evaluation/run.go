// Package evaluation plays policies on workloads over many seeds and reports
// how they did: utility, deadlines met, windows near peak performance, the mix
// of sizes and latencies, with bootstrap intervals over the seeds.
package evaluation

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Decider chooses a variant for a request: what a routing policy is to an
// evaluation. Decide must be safe for concurrent use with scratch buffers of
// the callers' own, each of length Scratch.
type Decider interface {
	Scratch() int
	Decide(v *fleet.View, r *fleet.Request, scratch []float32) int
}

// Placer is what a Decider adds if it chooses the replica too: it is asked to
// place, and no balancer picks. See router.Placer.
type Placer interface {
	Place(v *fleet.View, r *fleet.Request, scratch []float32) (replica int)
}

// Contestant is a policy and the fleet that it is evaluated on. A static policy
// has a fleet of its own, with all the memory (LBE-18).
type Contestant struct {
	Name    string
	Decider Decider
	// Open, if set, makes a decider for each run in place of Decider: one that
	// looks at the environment that it decides for, as a planner does. It is
	// called after the reset with the seed.
	Open func(e *env.Environment, seed uint64) (Decider, error)
	// Fleet holds all of the environment but its workload.
	Fleet env.Config
	// Rule is whether the policy is one that is written down, beside which the
	// others are judged.
	Rule bool
}

// Workload is a family of request streams, one for each seed.
type Workload struct {
	Name      string
	KnownRate bool // the policy is told the true rate (LBE-19)
	Open      func(seed uint64) (workloads.Stream, error)
	// Depart, if set, changes the fleet that it is played on, such as by the
	// loss of a host; what deciders were made of stays.
	Depart func(fleet *env.Config) error
	// Group, if set, is the name under which the means of several workloads
	// are also reported, such as a sweep over rates.
	Group string
}

// headline is the name that the workload counts under as a whole.
func (w *Workload) headline() string {
	if w.Group != "" {
		return w.Group
	}
	return w.Name
}

// Plan is what to evaluate.
type Plan struct {
	Contestants []Contestant
	Workloads   []Workload
	Seeds       []uint64
	// Clock measures the simulator's speed. Nil leaves it unreported.
	Clock func() time.Duration
	// Observe, if set, may hook into the simulator of a run as it begins. Runs
	// begin concurrently.
	Observe func(r Run, e *env.Environment)
	// Progress, if set, is called after each contestant and workload.
	Progress func(done, total int)
}

// Run names one episode of a plan.
type Run struct {
	Contestant, Workload string
	Seed                 uint64
}

// Evaluate plays every contestant on every workload and seed. Results are in
// the order of the plan, whatever the number of cores. A run in which no request
// comes counts as none; that a workload has no other is an error.
func (p *Plan) Evaluate(ctx context.Context) ([]Result, error) {
	var results []Result
	total := len(p.Contestants) * len(p.Workloads)
	for i := range p.Contestants {
		var groups []group
		for j := range p.Workloads {
			runs, speed, err := p.play(ctx, &p.Contestants[i], &p.Workloads[j])
			if err != nil {
				return nil, fmt.Errorf("cannot evaluate %s on %s: %w", p.Contestants[i].Name, p.Workloads[j].Name, err)
			}
			r := summarise(&p.Contestants[i], p.Workloads[j].Name, runs, speed)
			results = append(results, r)
			if g := p.Workloads[j].Group; g != "" {
				groups = addToGroup(groups, g, runs, speed)
			}
			if p.Progress != nil {
				p.Progress(i*len(p.Workloads)+j+1, total)
			}
		}
		for _, g := range groups {
			results = append(results, summarise(&p.Contestants[i], g.name, g.merged(), g.speed()))
		}
	}
	compare(results)
	return results, nil
}

// play runs all seeds of one contestant and workload, on all cores.
func (p *Plan) play(ctx context.Context, c *Contestant, w *Workload) ([]tally, float64, error) {
	runs := make([]tally, len(p.Seeds))
	began := p.now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	for i, seed := range p.Seeds {
		g.Go(func() (err error) {
			runs[i], err = p.playSeed(ctx, c, w, seed)
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return nil, 0, err
	}
	var requests int
	for i := range runs {
		requests += runs[i].requests
	}
	if requests == 0 {
		return nil, 0, errNoRequests
	}
	return runs, perSecond(requests, p.now()-began), nil
}

var errNoRequests = errors.New("no request comes in any of its runs; want a higher rate, longer phases or more seeds")

func (p *Plan) now() time.Duration {
	if p.Clock == nil {
		return 0
	}
	return p.Clock()
}

func perSecond(n int, d time.Duration) float64 {
	if d <= 0 {
		return 0
	}
	return float64(n) / d.Seconds()
}

// playSeed is one episode of the plan.
func (p *Plan) playSeed(ctx context.Context, c *Contestant, w *Workload, seed uint64) (tally, error) {
	return recorded(ctx, c, w, seed, func(e *env.Environment) {
		if p.Observe != nil {
			p.Observe(Run{c.Name, w.Name, seed}, e)
		}
	})
}

// recorded is what one episode comes to. Begun, if not nil, is told of its
// beginning.
func recorded(ctx context.Context, c *Contestant, w *Workload, seed uint64, begun func(*env.Environment)) (tally, error) {
	record := newRecorder(c.Fleet.Table)
	if err := play(ctx, c, w, seed, observer{begun: begun, ended: record.add}); err != nil {
		return tally{}, err
	}
	return record.tally(), nil
}

// observer is told of an episode's beginning, of each decision as it is due, and
// of each request as it ends. What is nil is not called.
type observer struct {
	begun, due func(*env.Environment)
	ended      func(*env.Outcome)
}

// play is one episode, with the decider choosing every action. Of one without a
// request the observer hears nothing.
func play(ctx context.Context, c *Contestant, w *Workload, seed uint64, o observer) error {
	config := c.Fleet
	config.Open, config.KnownRate, config.Encoder = w.Open, w.KnownRate, nil
	if w.Depart != nil {
		if err := w.Depart(&config); err != nil {
			return err
		}
	}
	e, err := env.New(config)
	if err != nil {
		return err
	}
	if _, err := e.Reset(seed); errors.Is(err, env.ErrNoRequest) {
		return nil
	} else if err != nil {
		return err
	}
	if o.begun != nil {
		o.begun(e)
	}
	decider := c.Decider
	if c.Open != nil {
		if decider, err = c.Open(e, seed); err != nil {
			return err
		}
	}
	scratch := make([]float32, decider.Scratch())
	for {
		if o.due != nil {
			o.due(e)
		}
		step, err := route(e, decider, scratch)
		if err != nil {
			return err
		}
		for i := range step.Info.Outcomes {
			o.ended(&step.Info.Outcomes[i])
		}
		if step.Terminated || step.Truncated {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// route lets the decider route the present request, as far as it does.
func route(e *env.Environment, d Decider, scratch []float32) (env.Step, error) {
	if p, ok := d.(Placer); ok {
		return e.Place(p.Place(e.View(), e.Request(), scratch))
	}
	return e.Step(d.Decide(e.View(), e.Request(), scratch))
}

// Package evaluation plays policies on workloads over many seeds and reports
// how they did: utility, deadlines met, windows near peak performance, the mix
// of sizes and latencies, with bootstrap intervals over the seeds.
package evaluation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

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
	// Doubted, if set, decides while the decider is doubted; see [env.Environment.Doubted].
	Doubted Decider
	// Open, if set, makes a decider for each run instead of Decider: one that
	// looks at the environment that it decides for, as a clairvoyant does. It is
	// called after the reset with the run's seed.
	Open func(e *env.Environment, r Run) (Decider, error)
	// Fleet holds all of the environment but its workload.
	Fleet env.Config
	// Rule is whether the policy is one that is written down, compared with which the
	// others are judged.
	Rule bool
	// Objective is what the policy was trained for.
	Objective Objective
}

// Workload is a family of request streams, one for each seed.
type Workload struct {
	Name      string
	KnownRate bool // the policy knows the true rate (LBE-19)
	Open      func(seed uint64) (workloads.Stream, error)
	// Perturb, if set, changes the fleet that it is played on, such as by the
	// loss of a host; what deciders were made of stays.
	Perturb func(fleet *env.Config) error
	// Group, if set, is the name under which the means of several workloads
	// are also reported, such as a sweep over rates.
	Group string
	// Note, if set, says which requests of it are left out, for readers of the results.
	Note string
}

// headline returns the name that the workload counts under as a whole.
func (w *Workload) headline() string {
	if w.Group != "" {
		return w.Group
	}
	return w.Name
}

// Headlines returns the names that the workloads count under as wholes, in order: a sweep is
// there once, its members are not.
func Headlines(list []Workload) []string {
	var names []string
	for i := range list {
		if name := list[i].headline(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// Plan is what to evaluate.
type Plan struct {
	Contestants []Contestant
	Workloads   []Workload
	Seeds       []uint64
	// Objectives are those that the results report in addition to mean utility.
	Objectives []Objective
	// Judge, if set, are the tasks by which answers are judged, by index, instead of the
	// fleets' own: of policies for other deadlines than they were made for. What they decide
	// by does not change.
	Judge []fleet.Task
	// Clock measures the simulator's speed. Nil leaves it unreported.
	Clock func() time.Duration
	// Observe, if set, may hook into the simulator of a run as it begins. Runs
	// begin concurrently.
	Observe func(r Run, e *env.Environment)
	// Progress, if set, is called after each contestant and workload.
	Progress func(done, total int)
	Pacing
}

// Run names one episode of a plan.
type Run struct {
	Contestant, Workload string
	Seed                 uint64
}

// Evaluate plays every contestant on every workload and seed. Results are in
// the order of the plan, whatever the number of cores. A run in which no request
// comes counts as none; that a workload has no other is an error.
//
// All cores play until the last run has begun, while the runs of one contestant and
// workload after the other are summed up.
func (p *Plan) Evaluate(ctx context.Context) ([]Result, error) {
	if err := p.Playable(); err != nil {
		return nil, err
	}
	matches := p.matches()
	cores := min(p.cores(), len(matches)*len(p.Seeds))
	ctx, cancel := context.WithCancel(ctx)
	workers := p.start(ctx, matches, cores)
	defer workers.Wait()
	defer cancel()

	var results []Result
	var groups []group
	for i, m := range matches {
		m.unplayed.Wait()
		r, err := m.result(cores)
		if err != nil {
			return nil, fmt.Errorf("cannot evaluate %s on %s: %w", m.contestant.Name, m.workload.Name, err)
		}
		results = append(results, r)
		if g := m.workload.Group; g != "" {
			groups = addToGroup(groups, g, m.runs, r.SimRequestsPerS)
		}
		m.runs = nil // of a thousand matches, not all latencies at a time
		if p.Progress != nil {
			p.Progress(i+1, len(matches))
		}
		if (i+1)%len(p.Workloads) == 0 { // the contestant's last
			for _, g := range groups {
				results = append(results, p.summarise(m.contestant, g.name, g.merged(), g.speed()))
			}
			groups = nil
		}
	}
	compare(results)
	return results, nil
}

// Playable refuses a plan of which a run could not begin, such as one that loses the only
// host of a policy: else it ends when others have been played, and their results are lost.
func (p *Plan) Playable() error {
	for i := range p.Contestants {
		for j := range p.Workloads {
			c, w := &p.Contestants[i], &p.Workloads[j]
			if _, err := environment(c, w); err != nil {
				return fmt.Errorf("cannot evaluate %s on %s: %w", c.Name, w.Name, err)
			}
		}
	}
	return nil
}

// world is the contestant's fleet under the workload.
func environment(c *Contestant, w *Workload) (*env.Environment, error) {
	if c.Open != nil && c.Fleet.AsServed != nil {
		return nil, errors.New("it plays copies of the environment, and one as served, whose requests wait, cannot be copied")
	}
	config := c.Fleet
	config.Open, config.KnownRate, config.Encoder = w.Open, w.KnownRate, nil
	if w.Perturb != nil {
		if err := w.Perturb(&config); err != nil {
			return nil, err
		}
	}
	if c.Open != nil && (config.Controllers != nil || config.Beside != nil) {
		return nil, errors.New("a clairvoyant cannot look ahead where replicas are loaded, drained and the like on the way, losses are known by evidence, or clients stream; want another policy, or the workload without these")
	}
	return env.New(config)
}

// match is one contestant on one workload.
type match struct {
	plan       *Plan
	contestant *Contestant
	workload   *Workload
	unplayed   sync.WaitGroup
	// By seed.
	runs []tally
	took []time.Duration
	errs []error
}

func (p *Plan) matches() (list []*match) {
	n := len(p.Seeds)
	for i := range p.Contestants {
		for j := range p.Workloads {
			m := &match{
				plan: p, contestant: &p.Contestants[i], workload: &p.Workloads[j],
				runs: make([]tally, n), took: make([]time.Duration, n), errs: make([]error, n),
			}
			m.unplayed.Add(n)
			list = append(list, m)
		}
	}
	return list
}

// start plays all runs in order, as many at a time as there are cores.
func (p *Plan) start(ctx context.Context, matches []*match, cores int) *sync.WaitGroup {
	var workers sync.WaitGroup
	var next atomic.Int64
	runs := len(matches) * len(p.Seeds)
	for range cores {
		workers.Go(func() {
			record := recorder{objectives: p.Objectives, judge: p.Judge, due: p.due()}
			for i := int(next.Add(1)) - 1; i < runs; i = int(next.Add(1)) - 1 {
				matches[i/len(p.Seeds)].play(ctx, i%len(p.Seeds), &record)
			}
		})
	}
	return &workers
}

// play returns the run of the seed at an index.
func (m *match) play(ctx context.Context, i int, record *recorder) {
	defer m.unplayed.Done()
	if m.errs[i] = ctx.Err(); m.errs[i] != nil {
		return
	}
	began := m.plan.now()
	m.runs[i], m.errs[i] = record.play(ctx, m.contestant, m.workload, m.plan.Seeds[i], func(e *env.Environment) {
		if m.plan.Observe != nil {
			m.plan.Observe(Run{m.contestant.Name, m.workload.Name, m.plan.Seeds[i]}, e)
		}
	})
	m.took[i] = m.plan.now() - began
}

// result sums up what has been played on so many cores.
func (m *match) result(cores int) (Result, error) {
	var requests int
	var took time.Duration
	for i := range m.runs {
		if m.errs[i] != nil {
			return Result{}, m.errs[i]
		}
		requests += m.runs[i].requests
		took += m.took[i]
	}
	if requests == 0 {
		return Result{}, errNoRequests
	}
	speed := perSecond(requests, took) * float64(cores)
	return m.plan.summarise(m.contestant, m.workload.Name, m.runs, speed), nil
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

// play returns what one episode comes to. Begun, if not nil, is called at its beginning.
func (r *recorder) play(ctx context.Context, c *Contestant, w *Workload, seed uint64, begun func(*env.Environment)) (tally, error) {
	r.begin(c.Fleet.Table, c.Fleet.Prompts)
	r.served = c.Fleet.AsServed != nil
	if err := play(ctx, c, w, seed, observer{begun: begun, due: r.due, ended: r.add, over: r.over}); err != nil {
		return tally{}, err
	}
	return r.tally(), nil
}

// over takes in what happened beside the requests of an episode.
func (r *recorder) over(e *env.Environment) {
	r.waits.acted = e.Counts()
	if x, ok := e.Beside().(streamer); ok {
		r.streams = x.Result(e.Simulator().Now())
	}
}

// observer sees an episode's beginning and end, each decision as it is due, and
// each request as it ends. What is nil is not called.
type observer struct {
	begun, due func(*env.Environment)
	ended      func(*env.Outcome)
	over       func(*env.Environment)
}

// play is one episode, with the decider choosing every action. Of one without a
// request the observer hears nothing.
func play(ctx context.Context, c *Contestant, w *Workload, seed uint64, o observer) error {
	e, err := environment(c, w)
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
		if decider, err = c.Open(e, Run{c.Name, w.Name, seed}); err != nil {
			return err
		}
	}
	trusted, spare := ready(decider), ready(c.Doubted)
	for {
		chosen := &trusted
		if c.Doubted != nil && e.Doubted() {
			chosen = &spare
		}
		if o.due != nil {
			o.due(e)
		}
		step, err := Route(e, chosen.Decider, chosen.scratch)
		if err != nil {
			return err
		}
		for i := range step.Info.Outcomes {
			o.ended(&step.Info.Outcomes[i])
		}
		if step.Terminated || step.Truncated {
			if o.over != nil {
				o.over(e)
			}
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// deciding holds a decider with its scratch buffer.
type deciding struct {
	Decider
	scratch []float32
}

// ready returns the decider, which may be nil, with a scratch buffer.
func ready(d Decider) deciding {
	if d == nil {
		return deciding{}
	}
	return deciding{d, make([]float32, d.Scratch())}
}

// Route has the decider route the environment's present request: to a replica if it is a [Placer], else to a variant.
func Route(e *env.Environment, d Decider, scratch []float32) (env.Step, error) {
	if p, ok := d.(Placer); ok {
		return e.Place(p.Place(e.View(), e.Request(), scratch))
	}
	return e.Step(d.Decide(e.View(), e.Request(), scratch))
}

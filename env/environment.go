package env

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/workloads"
)

// Environment follows the Gymnasium contract over the simulator: one step is
// one routing decision, the action is the index of the variant, and the
// observation describes the request that arrived and the load it found.
//
// Requests end long after their decision. Step's reward is the sum of the
// utilities that completed since the step before, so that an episode's rewards
// add up to its utility; Info.Outcomes names the decision that earned each, so
// that a learner can join it to its transition (LBE-11).
//
// An episode terminates when the workload has no further request, and is
// truncated when the limit of decisions is reached. In both cases the requests
// still in flight run to their end, with no further arrivals, and are part of
// the last step's Outcomes.
//
// Place is a step too, for policies that choose the replica themselves.
//
// As served (Config.AsServed), requests wait for room. A decision is then on a request that
// can begin, at the time at which it can. Refused requests have no decision and are
// Outcomes without utility. Requests that wait at a truncation are left out, as the present
// one is.
//
// Where hosts are lost (Config.Losses), the requests on them end as failed, and the mask
// forbids variants that have no replica left.
//
// An Environment is not safe for concurrent use.
type Environment struct {
	config  Config
	sim     *Simulator
	ledger  *fleet.Ledger
	stream  workloads.Stream
	random  *rand.PCG       // for the balancer
	seed    uint64          // of the episode
	routers *routerReplicas // nil of a single router; else ledger is the present one's
	served  *served         // nil where each request is begun at its arrival

	decide      *router.Decision
	request     fleet.Request
	arrival     workloads.Arrival
	now         time.Duration // of the present decision
	decisions   int
	over        bool
	observation []float32
	outcomes    []Outcome
}

// Info is what a step reports besides the observation and the reward. Its slice is valid
// until the next call.
type Info struct {
	// Elapsed is the time between this decision and the next one; on the last
	// step of a terminated episode, until the last request ended.
	Elapsed  time.Duration
	Outcomes []Outcome // requests that ended since the last step, in order
}

// Step is the result of [Environment.Step]. The observation is valid until the next call.
type Step struct {
	Observation []float32
	Reward      float64
	Terminated  bool
	Truncated   bool
	Info        Info
}

// New makes an environment; Reset starts its first episode.
func New(c Config) (*Environment, error) {
	if c.Balancer == nil || c.Open == nil {
		return nil, errRequired
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	e := &Environment{config: c, over: true}
	var err error
	if e.decide, err = newDecision(&c); err != nil {
		return nil, err
	}
	if c.Encoder != nil {
		e.observation = make([]float32, c.Encoder.Dim())
	}
	return e, nil
}

// Actions returns the size of the action space: actions are 0 … Actions−1.
func (e *Environment) Actions() int { return len(e.config.Table.Variants) }

// Dim returns the length of an observation; its values lie in [0, observation.Bound].
func (e *Environment) Dim() int { return len(e.observation) }

// Bounds returns the bounds of the observation space, the same for each of its values.
func (e *Environment) Bounds() (low, high float32) { return 0, observation.Bound }

// ActionMask writes which actions are allowed now; len(dst) is Actions.
func (e *Environment) ActionMask(dst []bool) {
	for i := range dst {
		dst[i] = e.View().VariantAvailable(i)
	}
}

// View returns what a policy may know at the present decision. It is read-only and valid
// until the next call.
func (e *Environment) View() *fleet.View { return e.decide.View() }

// Request returns the request to be routed. It is read-only and valid until the next call.
func (e *Environment) Request() *fleet.Request { return &e.request }

// Arrival returns the request to be routed as the workload made it, with what no policy may
// know: its output length and the true arrival rate.
func (e *Environment) Arrival() workloads.Arrival { return e.arrival }

// Simulator returns the present episode's simulator. Observers are attached to it after
// Reset, which makes a new one.
func (e *Environment) Simulator() *Simulator { return e.sim }

// Doubted reports whether a router would doubt policies that choose by forecasts, at the moment.
func (e *Environment) Doubted() bool { return e.sim.drift != nil && e.sim.drift.doubted }

// InFlight returns how many requests are under way, by the ledgers of all routers.
func (e *Environment) InFlight() int {
	if e.routers != nil {
		return e.routers.inFlight()
	}
	return e.ledger.InFlight()
}

// ErrNoRequest is returned by Reset for a workload that ends before its first request. A
// low rate may leave a whole run without any.
var ErrNoRequest = errors.New("cannot start an episode: the workload has no request")

// Reset starts a new episode and returns the observation of its first request.
// The same seed gives the same episode for the same actions.
func (e *Environment) Reset(seed uint64) ([]float32, error) {
	if e.config.DrawLosses != nil {
		e.config.Losses = e.config.DrawLosses(seed)
	}
	sim, err := NewSimulator(&e.config)
	if err != nil {
		return nil, err
	}
	stream, err := e.config.Open(seed)
	if err != nil {
		return nil, fmt.Errorf("cannot open workload: %w", err)
	}
	e.sim, e.stream = sim, stream
	e.ledger = fleet.NewLedger(e.config.Table)
	sim.watch(newDriftFeed(&e.config, e.ledger))
	for h, s := range e.config.Slowdowns {
		sim.hosts[h].SlowDown(s, seed+uint64(h)<<32)
	}
	e.random = rand.NewPCG(seed, 0x62616c616e6365) // a stream apart from the workload's
	e.seed = seed
	e.routers = newRouterReplicas(e.config.Routers, e.config.Table, seed)
	e.sim.join(e.ledger, e.routers)
	e.routers.schedule(&e.sim.agenda)
	e.sim.startControllers(&e.config, e.ledger, seed)
	if err := sim.share(&e.config, e.ledger, seed); err != nil {
		return nil, err
	}
	e.decisions, e.over = 0, false
	if e.served = newServed(e); e.served != nil {
		ok, err := e.served.start()
		if err == nil && !ok {
			e.over, err = true, ErrNoRequest
		}
		if err != nil {
			return nil, err
		}
		return e.observation, nil
	}
	arrival, ok := stream.Next()
	if !ok {
		e.over = true
		return nil, ErrNoRequest
	}
	if _, err := e.sim.Advance(arrival.At, nil); err != nil { // hosts may be lost before
		return nil, err
	}
	e.arrive(arrival)
	return e.observation, nil
}

// arrive makes the arrival the present request, and observes it.
func (e *Environment) arrive(a workloads.Arrival) {
	e.note(&a)
	e.arrival, e.now = a, a.At
	e.request = e.requestOf(&a, e.decisions)
	if err := e.look(a.At); err != nil && e.config.Forecaster != nil { // no replica can take it; the observation needs the forecasts anyway
		e.config.Forecaster.Forecast(e.decide.View(), &e.request)
	}
	e.observe()
}

// note counts the arrival in the ledger of the router that it comes to.
func (e *Environment) note(a *workloads.Arrival) {
	if e.routers != nil {
		e.ledger = e.routers.next(e.sim)
	}
	if e.config.KnownRate {
		e.ledger.DeclareRate(a.Rate)
	}
	e.ledger.Arrive(a.At)
}

// requestOf returns what a policy may know of the arrival with this number.
func (e *Environment) requestOf(a *workloads.Arrival, number int) fleet.Request {
	r := fleet.Request{ID: uint64(number), Task: a.Task, PromptTokens: a.PromptTokens, Deadline: a.Deadline, FirstToken: a.FirstToken, Total: a.Total, Arrival: a.At}
	e.config.Prompts.put(&r, a.Prompt)
	return r
}

// look brings the view up to date for the present request. The view of a large fleet is of
// a sample of hosts, unless the observation lists all replicas.
func (e *Environment) look(now time.Duration) error {
	if len(e.sim.hiders) > 0 {
		e.request.Without = e.sim.hide(&e.request)
	}
	e.decide.On(e.ledger, e.holder())
	whole := e.config.Encoder != nil && e.config.Encoder.Spec().Places()
	return e.decide.Look(&e.request, now, e.seed+uint64(e.decisions), whole)
}

// observe writes the observation of the present request.
func (e *Environment) observe() {
	if e.config.Encoder != nil {
		e.config.Encoder.Encode(e.observation, e.decide.View(), &e.request)
	}
}

// holder returns what knows the tokens that requests hold: all of them, or those of the
// present router.
func (e *Environment) holder() fleet.Holder {
	switch {
	case e.routers != nil:
		return e.routers
	case e.served != nil:
		return e.served
	}
	return e.sim
}

// Step routes the present request to the variant, on the replica that the balancer picks,
// and runs until the next request arrives. It is an error to step before Reset, after the
// episode's end, or with an action that the mask forbids.
func (e *Environment) Step(action int) (Step, error) {
	if e.over {
		return Step{}, errOver
	}
	if action < 0 || action >= e.Actions() {
		return Step{}, fmt.Errorf("cannot step: action %d is not in 0 … %d", action, e.Actions()-1)
	}
	if !e.View().VariantAvailable(action) {
		return Step{}, fmt.Errorf("cannot step: no replica of %s is available", e.config.Table.Variants[action].Name)
	}
	choice, err := e.decide.Take(action, &e.request, e.random.Uint64())
	if err != nil {
		return Step{}, fmt.Errorf("cannot step: %w", err)
	}
	return e.run(choice)
}

// Place is Step with the replica chosen by the caller instead of the balancer. The replica
// must be available in the view.
func (e *Environment) Place(replica int) (Step, error) {
	if e.over {
		return Step{}, errOver
	}
	if replica < 0 || replica >= len(e.config.Table.Replicas) {
		return Step{}, fmt.Errorf("cannot step: replica %d is not in 0 … %d", replica, len(e.config.Table.Replicas)-1)
	}
	if !e.View().Available(replica) {
		return Step{}, fmt.Errorf("cannot step: replica %s is down or has no place left", e.config.Table.Replicas[replica].Name)
	}
	var random uint64
	if !e.config.Table.Reaches(&e.request, e.config.Table.Replicas[replica].Variant) { // the balancer chooses another
		random = e.random.Uint64()
	}
	choice, err := e.decide.Place(replica, &e.request, random)
	if err != nil {
		return Step{}, fmt.Errorf("cannot step: %w", err)
	}
	return e.run(choice)
}

var errOver = errors.New("cannot step: the episode is over; call Reset")

// run submits the present request to the chosen replica, and runs until the next one
// arrives.
func (e *Environment) run(choice router.Choice) (Step, error) {
	if err := e.dispatch(choice); err != nil {
		return Step{}, fmt.Errorf("cannot step: %w", err)
	}
	e.decisions++
	e.outcomes = e.outcomes[:0]
	since := e.now
	if e.served != nil {
		return e.runServed(since)
	}
	next, ok := e.stream.Next()
	if !ok {
		return e.finish(Step{Terminated: true}, since)
	}
	var err error
	if e.outcomes, err = e.sim.Advance(next.At, e.outcomes); err != nil {
		return Step{}, err
	}
	e.arrive(next)
	if e.config.Limit > 0 && e.decisions >= e.config.Limit {
		return e.finish(Step{Truncated: true}, since)
	}
	return e.report(Step{}, next.At-since), nil
}

// runServed is run for an environment as served: it runs until the next request can begin.
func (e *Environment) runServed(since time.Duration) (Step, error) {
	s := e.served
	outcomes, ok, err := s.advance(append(e.outcomes, s.early...))
	s.early, e.outcomes = nil, outcomes
	switch {
	case err != nil:
		return Step{}, err
	case !ok:
		return e.finish(Step{Terminated: true}, since)
	case e.config.Limit > 0 && e.decisions >= e.config.Limit:
		return e.finish(Step{Truncated: true}, since)
	}
	return e.report(Step{}, e.now-since), nil
}

func (e *Environment) dispatch(choice router.Choice) error {
	err := e.sim.Submit(e.decisions, e.request, e.arrival.OutputTokens, choice.Replica, choice.Lease, e.now)
	if err != nil {
		choice.Lease.End()
	} else if e.served != nil {
		e.served.begun(e.decisions, &choice)
	}
	return err
}

// finish ends the episode: what is in flight runs to its end.
func (e *Environment) finish(s Step, since time.Duration) (Step, error) {
	e.over = true
	if s.Truncated {
		e.sim.source.cease()
	}
	elapsed := e.now - since
	before := len(e.outcomes)
	var err error
	if e.outcomes, err = e.sim.Drain(e.outcomes); err != nil {
		return Step{}, err
	}
	if e.served != nil {
		e.served.ended(e.outcomes[before:])
	}
	if s.Terminated {
		elapsed = e.sim.Now() - since
		clear(e.observation)
	}
	return e.report(s, elapsed), nil
}

func (e *Environment) report(s Step, elapsed time.Duration) Step {
	s.Observation = e.observation
	s.Info = Info{Elapsed: elapsed, Outcomes: e.outcomes}
	for i := range e.outcomes {
		s.Reward += e.outcomes[i].Utility
	}
	return s
}

// newDecision makes the router's pipeline without a policy: the environment's caller
// decides.
func newDecision(c *Config) (*router.Decision, error) {
	d := router.Config{
		Ledger: fleet.NewLedger(c.Table), Balancer: balancer{c.Balancer}, Forecaster: c.Forecaster,
		OnPanic: func(_ string, value any) { panic(value) },
	}
	if c.AsServed != nil {
		d.Gate = c.AsServed.Gate
	}
	return router.NewDecision(d)
}

// balancer adds the name that the router asks of a balancer.
type balancer struct{ Balancer }

// Name implements [router.Balancer].
func (balancer) Name() string { return "balancer" }

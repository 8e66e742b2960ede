// Package fit finds the latency model of an engine from a log of the requests
// that it served, and says how well the simulated engine then predicts requests
// that the fit has not seen. It knows arrivals, token counts and the times of the
// first and last tokens; what went on inside the engine it gets by simulating the
// same arrivals and comparing.
package fit

import (
	"fmt"
	"math"
	"slices"

	"gearshift/env/engine"
	"gearshift/router/profile"
)

// Options are what is known of the engine beforehand; zero means that the log
// shows it.
type Options struct {
	MaxBatchTokens, MaxSequences, KVTokens int
	// Resamples are the refits that intervals come from; 0 for no intervals.
	Resamples int
	// WeightBytes and KVBytes describe the model in the profile; times do not
	// follow from them.
	WeightBytes, KVBytes int64
	// Effort is the number of simulations of a search; 0 means the default.
	Effort int
}

const (
	// Fewest requests that a fit takes.
	Fewest = 30
	// BlockTokens is the size of a KV block that is assumed.
	BlockTokens = 16
	// defaultSequences is vLLM's own bound, assumed where the log shows none.
	defaultSequences = 256
	// defaultEffort is for logs that a simulation is done with in quickSteps; longer
	// ones get less.
	defaultEffort, leastEffort, quickSteps = 1000, 150, 20_000
)

// budgets are the token budgets of a step that engines are commonly given.
var budgets = []int{512, 1024, 2048, 4096, 8192, 16384}

// Fit finds the model under which the first n requests took as long as they did.
// It simulates the whole log's arrivals and token counts, since what comes later
// slows what still runs, but looks at the times of the first n alone.
func Fit(log *Log, n int, o Options) (*Fitted, error) {
	if n < Fewest {
		return nil, fmt.Errorf("%s: %d requests are too few to fit; at least %d are needed", log.Name, n, Fewest)
	}
	if n > len(log.Requests) {
		return nil, fmt.Errorf("%s: there are %d requests, fewer than the first %d to fit", log.Name, len(log.Requests), n)
	}
	for _, r := range log.Requests {
		if need := r.PromptTokens + r.OutputTokens; o.KVTokens > 0 && need > o.KVTokens {
			return nil, fmt.Errorf("%s: request %s of %d tokens does not fit into a KV cache of %d tokens", log.Name, r.ID, need, o.KVTokens)
		}
	}
	s := newSearch(log.Requests, n, o)
	best, err := s.run()
	if err != nil {
		return nil, err
	}
	return s.fitted(best, log.Name)
}

// search is a fit in progress. Its parameters are the logarithms of weights_ms,
// token_ms, context_token_ms, sequence_ms and, where requests waited for room,
// the KV cache's tokens.
type search struct {
	requests []Request
	n        int
	options  Options
	guess    guess
	longest  int
	base     Model
	centre   []float64 // where the guess has the parameters
	most     int       // steps of a simulation
	weights  []float64 // of the first n requests in the loss; nil: all alike
}

func newSearch(requests []Request, n int, o Options) *search {
	s := &search{requests: requests, n: n, options: o, guess: guessFrom(requests[:n])}
	for _, r := range requests {
		s.longest = max(s.longest, r.PromptTokens+r.OutputTokens)
	}
	s.longest = (s.longest + BlockTokens - 1) / BlockTokens * BlockTokens
	sequences := defaultSequences
	if s.guess.capped {
		sequences = s.guess.sequences
	}
	if o.MaxSequences > 0 {
		sequences = o.MaxSequences
	}
	s.base = Model{Engine: engine.Config{
		Scheduler: engine.ChunkedPrefill, MaxSequences: sequences, BlockTokens: BlockTokens, MaxBatchTokens: o.MaxBatchTokens,
	}}
	s.base.Profile = profile.Profile{Growth: growth, WeightBytes: o.WeightBytes, KVBytes: o.KVBytes}
	s.base.KVTokens = o.KVTokens
	if s.base.KVTokens == 0 && !s.binding() {
		const ample = 4 // times the fullest seen: nothing waits for room
		s.base.KVTokens = max(int(ample*s.guess.held), 2*s.longest)
	}
	return s
}

// growth is held: batches between a decode's and a prefill's, which would show it,
// are rare in a log.
const growth = 0.003

// binding reports whether the log shows how large the KV cache is.
func (s *search) binding() bool {
	return s.options.KVTokens == 0 && s.guess.waited && !s.guess.capped
}

// model returns the one at the parameters x.
func (s *search) model(x []float64, budget int) *Model {
	m := s.base
	m.Engine.MaxBatchTokens = budget
	m.Profile.Weights, m.Profile.Token = math.Exp(x[0]), math.Exp(x[1])
	m.Profile.Context, m.Profile.Sequence = math.Exp(x[2]), math.Exp(x[3])
	if s.binding() {
		m.KVTokens = max(int(math.Exp(x[4])), s.longest)
	}
	return &m
}

// start returns the parameters to begin with.
func (s *search) start() []float64 {
	g := s.guess
	x := []float64{math.Log(g.weights), math.Log(g.token), math.Log(g.context), math.Log(0.002 * g.weights)}
	if s.binding() {
		x = append(x, math.Log(math.Max(g.held, float64(s.longest))))
	}
	return x
}

// run searches each budget a little, and the best two to the end.
func (s *search) run() (trial, error) {
	s.centre = s.start()
	effort := s.options.Effort
	s.most = mostSteps(s.requests)
	// What needs many times the steps of a fair guess preempts without end.
	const patience = 6
	_, steps, err := s.model(s.centre, budgets[len(budgets)/2]).simulate(s.requests, s.most)
	if err == nil {
		s.most = min(s.most, patience*steps)
	}
	if effort == 0 {
		effort = min(defaultEffort, max(leastEffort, defaultEffort*quickSteps/max(steps, 1)))
	}
	candidates := budgets
	if s.options.MaxBatchTokens > 0 {
		candidates = []int{s.options.MaxBatchTokens}
	}
	var tried []trial
	for _, budget := range candidates {
		for _, slower := range []float64{0, math.Log(2)} {
			x := slices.Clone(s.centre)
			x[1] += slower
			tried = append(tried, s.descend(x, budget, effort/8))
		}
	}
	slices.SortStableFunc(tried, trial.compare)
	const finalists = 3
	var best trial
	for i, t := range tried[:min(finalists, len(tried))] {
		for range 2 { // a second simplex leaves what trapped the first
			t = s.descend(t.x, t.budget, effort/2)
		}
		if i == 0 || t.loss < best.loss {
			best = t
		}
	}
	if math.IsInf(best.loss, 0) || math.IsNaN(best.loss) {
		return trial{}, fmt.Errorf("no model fits the log: none could be simulated to its end")
	}
	return best, nil
}

// trial is where a search came to.
type trial struct {
	x      []float64
	budget int
	loss   float64
}

func (t trial) compare(o trial) int {
	switch {
	case t.loss < o.loss:
		return -1
	case t.loss > o.loss:
		return 1
	}
	return 0
}

func (s *search) descend(x []float64, budget, simulations int) trial {
	const size = 0.15 // relative change of each parameter at first
	best, value := minimise(func(x []float64) float64 { return s.loss(x, budget) }, x, size, simulations)
	return trial{best, budget, value}
}

// The loss is a mean of bounded errors, so that no straggler steers it. Priors
// only decide what the log leaves open.
const (
	bend       = 0.1 // relative error from which the loss grows linearly
	priorScale = 1e-4
)

func (s *search) loss(x []float64, budget int) float64 {
	m := s.model(x, budget)
	times, _, err := m.simulate(s.requests, s.most)
	if err != nil {
		return math.Inf(1)
	}
	sum, weight := 0.0, 0.0
	for i, r := range s.requests[:s.n] {
		w := 1.0
		if s.weights != nil {
			w = s.weights[i]
		}
		sum += w * distance(r, r.predicted(times[i]))
		weight += w
	}
	sum /= weight
	for i := range x {
		d := x[i] - s.centre[i]
		sum += priorScale * d * d
	}
	return sum
}

// distance returns how far a prediction lies from what was measured. The end counts
// twice as much as each of its parts.
func distance(r, p Request) float64 {
	d := huber(math.Log(p.EndToEnd()/r.EndToEnd())) + 0.5*huber(math.Log(p.TTFT()/r.TTFT()))
	if r.OutputTokens > 1 {
		d += 0.5 * huber(math.Log(p.TPOT()/r.TPOT()))
	}
	return d
}

// predicted returns the request with the times that a simulation gave it.
func (r Request) predicted(t Times) Request {
	r.First, r.Last = t.First, t.Last
	return r
}

func huber(e float64) float64 {
	e = math.Abs(e)
	if e <= bend {
		return e * e / (2 * bend)
	}
	return e - bend/2
}

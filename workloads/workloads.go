// Package workloads makes the requests that a fleet has to serve: arrival
// processes, length distributions and task mixes, and the traces that replace
// some of them. When requests arrive, which task they belong to and how long
// they are come from separate generators, each with a random source of its own,
// so that changing one leaves the others' draws where they were.
//
// Everything follows from a seed: the same process, shape and seed give the
// same stream. The package also embeds the built-in scenarios, and families of image models with
// published sizes and accuracies.
package workloads

import (
	"math/rand/v2"
	"time"

	"gearshift/router/fleet"
)

// Arrival is one request as the fleet meets it.
type Arrival struct {
	// At is the time since the workload began.
	At time.Duration
	// Task is an index into the fleet's tasks.
	Task int
	// PromptTokens is at least 1, and OutputTokens too except in answers that have none.
	PromptTokens, OutputTokens int
	// Prompt is one more than the index of the labelled prompt that it carries; zero is none.
	Prompt int32
	// Deadline per output token, FirstToken to the first of them and Total to the end of
	// the answer; zero stands for the task's own.
	Deadline, FirstToken, Total time.Duration
	// Rate is the true arrival rate at that moment, per second; 0 where it is
	// unknown, as in a trace.
	Rate float64
}

// Stream yields requests in order of time. False means that the workload has
// ended, and stays so. A Stream belongs to one goroutine.
type Stream interface {
	Next() (Arrival, bool)
}

// Given is a stream of what it holds, which it gives away.
type Given []Arrival

// Next implements [Stream].
func (g *Given) Next() (Arrival, bool) {
	if len(*g) == 0 {
		return Arrival{}, false
	}
	a := (*g)[0]
	*g = (*g)[1:]
	return a, true
}

// Limit ends a stream early. A zero field does not.
type Limit struct {
	// Requests is how many the stream yields at most.
	Requests int
	// Duration is the time from which on nothing arrives any more.
	Duration time.Duration
}

// New joins a process with the shape of its requests. Arrivals, tasks, lengths of prompts
// and of outputs, and labelled prompts each draw from their own source under the seed. The error names
// every fault of the shape.
func New(p Process, tasks []fleet.Task, shape Shape, seed uint64, limit Limit) (Stream, error) {
	g, err := newGenerator(tasks, shape, seed)
	if err != nil {
		return nil, err
	}
	g.times = p.Times(source(seed, arrivalPart))
	return Take(g, limit), nil
}

func newGenerator(tasks []fleet.Task, shape Shape, seed uint64) (*generator, error) {
	if err := shape.Validate(tasks); err != nil {
		return nil, err
	}
	return &generator{
		tasks:   shape.Mix.chooser(tasks),
		lengths: shape.samplers(tasks),
		tasking: source(seed, taskPart),
		prompts: source(seed, promptPart),
		outputs: source(seed, outputPart),
		carried: shape.Carried,
		texts:   source(seed, textPart),
	}, nil
}

// generator is the join: each part with the source that it draws from.
type generator struct {
	times                     Times
	tasks                     chooser
	lengths                   []samplers // by task
	tasking, prompts, outputs *rand.Rand
	carried                   [][]int32 // by task; see [Shape]
	texts                     *rand.Rand
}

// Next implements [Stream]. It allocates nothing.
func (g *generator) Next() (Arrival, bool) {
	at, rate, ok := g.times()
	if !ok {
		return Arrival{}, false
	}
	a := g.request(-1)
	a.At, a.Rate = at, rate
	return a, true
}

// request draws a request of the given task, or where that is negative of a drawn one, without its time. The
// task is drawn all the same, so that one that is given does not shift the others'.
func (g *generator) request(task int) Arrival {
	if drawn := g.tasks.choose(g.tasking); task < 0 {
		task = drawn
	}
	lengths := &g.lengths[task]
	return Arrival{
		Task:         task,
		PromptTokens: lengths.prompt(g.prompts),
		OutputTokens: lengths.output(g.outputs),
		Prompt:       g.carries(task),
	}
}

// carries draws the labelled prompt of a request of the task, each with the same chance.
func (g *generator) carries(task int) int32 {
	if g.carried == nil {
		return 0
	}
	list := g.carried[task]
	if len(list) == 0 {
		return 0
	}
	return 1 + list[g.texts.IntN(len(list))]
}

// Take returns the beginning of a stream, up to the limit.
func Take(s Stream, limit Limit) Stream {
	if limit.Requests <= 0 && limit.Duration <= 0 {
		return s
	}
	return &limited{stream: s, limit: limit}
}

type limited struct {
	stream Stream
	limit  Limit
	n      int
	ended  bool
}

// Next implements [Stream].
func (l *limited) Next() (Arrival, bool) {
	if l.ended || (l.limit.Requests > 0 && l.n >= l.limit.Requests) {
		return Arrival{}, false
	}
	a, ok := l.stream.Next()
	if !ok || (l.limit.Duration > 0 && a.At >= l.limit.Duration) {
		l.ended = true
		return Arrival{}, false
	}
	l.n++
	return a, true
}

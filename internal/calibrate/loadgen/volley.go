package loadgen

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"gearshift/router/fleet"
)

// Sample is what a step of an engine took, as seen from outside.
type Sample struct {
	Engine int    // 0 is the engine measured, then its neighbours
	Cell   string // which samples belong together
	Round  int    // from 0
	// Prefill is that MS is the time to the first token of a prompt of Tokens, or, if
	// Queued, its step behind others; else it is a decode step of so many Sequences.
	Prefill, Queued   bool
	Tokens, Sequences int
	// Context is the tokens that the step attended to, of all sequences.
	Context float64
	MS      float64
	// Stolen is the share of the processors' time that went to other machines.
	Stolen float64
	// Beside is what the neighbours under load did meanwhile.
	Beside []Activity
}

// Activity is an engine's work in a stretch of time: decode steps per second, of
// so many sequences and so many tokens in their contexts, and prompts per second.
type Activity struct {
	Engine             int
	Steps              float64
	Sequences, Context float64
	Prefills           float64
	PrefillTokens      float64
}

// sample takes a sample of a cell. One that the engine refuses is left out from then on.
func (r *run) sample(ctx context.Context, c *Cell, l *load) error {
	if c.dropped {
		return nil
	}
	if !await(ctx, time.NewTimer(rest), rest) {
		return context.Cause(ctx)
	}
	before := r.processors()
	s, w, answers, err := r.stretch(ctx, c)
	s.Stolen = r.processors().StolenSince(before)
	if fault := l.fault(); fault != nil {
		return fault
	}
	unsteady := errors.As(err, new(notAtOnce))
	if unsteady && c.Samples > 0 {
		return nil // it can be done, and was disturbed
	}
	if unsteady || errors.Is(err, ErrRefused) {
		r.drop(c, err)
		return nil
	}
	if err != nil {
		return err
	}
	w.sample = len(r.out.Samples)
	l.windows = append(l.windows, w)
	c.Samples++
	r.out.Samples = append(r.out.Samples, s)
	if q, ok := queued(answers); ok && len(c.Loaded) == 0 {
		q.Engine, q.Cell, q.Round, q.Stolen = s.Engine, s.Cell+", a prompt behind others", s.Round, s.Stolen
		r.out.Samples = append(r.out.Samples, q)
	}
	return nil
}

// stretch sends a cell's requests at once: to an idle engine one volley of them, and
// beside neighbours one after the other, of which those count that come once the engine
// has run among these for long enough. It returns what they show on average, the time
// that this is of, and the last answers.
func (r *run) stretch(ctx context.Context, c *Cell) (s Sample, w window, answers []Answer, err error) {
	settled := r.since()
	until := settled
	if len(c.Loaded) > 0 {
		settled += settle
		until = settled + stretch
	}
	var volleys, ms, attended float64
	for volleys == 0 || r.since() < until {
		if answers, err = r.volley(ctx, c); err != nil {
			return s, w, nil, err
		}
		s = Sample{Engine: c.Engine, Cell: r.describe(c), Round: r.out.Rounds}
		from, to, err := s.tell(c, answers)
		if err != nil {
			return s, w, nil, err
		}
		if c.Engine == 0 {
			r.record(c, answers)
		}
		if from < settled {
			continue
		}
		if volleys == 0 {
			w.from = from
		}
		w.to = to
		volleys, ms, attended = volleys+1, ms+s.MS, attended+s.Context
	}
	s.MS, s.Context = ms/volleys, attended/volleys
	return s, w, answers, nil
}

// tell fills in what the answers say, and of which time.
func (s *Sample) tell(c *Cell, answers []Answer) (from, to time.Duration, err error) {
	if c.Output == 1 {
		s.first(answers[0])
		return answers[0].Sent, answers[0].Pieces[0], nil
	}
	return s.steady(answers)
}

// drop leaves a cell out from then on.
func (r *run) drop(c *Cell, why error) {
	c.dropped = true
	r.out.Notes = append(r.out.Notes, fmt.Sprintf("%s left out: %v", r.describe(c), why))
}

// volley sends a cell's requests at once and waits for all answers.
func (r *run) volley(ctx context.Context, c *Cell) ([]Answer, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	answers := make([]Answer, c.Batch)
	var all sync.WaitGroup
	for i := range answers {
		text := r.prompt(r.words[c.Engine].count(c.Prompt))
		all.Go(func() {
			h, err := r.targets[c.Engine].ask(ctx, r.client, r.since, text, c.Output, nil)
			if err != nil {
				cancel(err) // the first fault is the cause, the others follow from it
			}
			answers[i] = h
		})
	}
	all.Wait()
	return answers, context.Cause(ctx)
}

// first is the time to the first token.
func (s *Sample) first(h Answer) {
	s.Prefill, s.Tokens, s.Sequences = true, h.Prompt, 1
	s.MS = fleet.Milliseconds(h.Pieces[0] - h.Sent)
}

// queued is the step of a prompt behind others: what lies between the first tokens of
// requests sent together, where the engine takes one prompt at a time.
func queued(answers []Answer) (s Sample, ok bool) {
	const fewest = 4
	if len(answers) < fewest {
		return s, false
	}
	var firsts []time.Duration
	tokens, soonest := 0, answers[0].Pieces[0]-answers[0].Sent
	for _, h := range answers {
		firsts = append(firsts, h.Pieces[0])
		tokens += h.Prompt
		soonest = min(soonest, h.Pieces[0]-h.Sent)
	}
	slices.Sort(firsts)
	var gaps []time.Duration
	for i := range len(firsts) - 1 {
		gaps = append(gaps, firsts[i+1]-firsts[i])
	}
	slices.Sort(gaps)
	// Prompts that share a step have their first tokens at once, or in bunches.
	middle := gaps[len(gaps)/2]
	if middle > 3*gaps[len(gaps)/4] || soonest > 4*middle {
		return s, false
	}
	return Sample{Prefill: true, Queued: true, Tokens: (tokens + len(answers)/2) / len(answers), Sequences: 1, MS: fleet.Milliseconds(middle)}, true
}

// notAtOnce says that the engine does not run so many requests at once.
type notAtOnce int

func (n notAtOnce) Error() string {
	return fmt.Sprintf("the engine does not run %d requests at once", int(n))
}

// fewestSteps of a sample of decode steps, of each sequence.
const fewestSteps = 3

// steady is the mean step from when the last of the requests has its first token
// until the first of them ends: then all of them decode, and nothing else runs. It is
// timed by the tokens of that last request: those of the others begin a step later, and
// would leave out what the engine took to have it join.
func (s *Sample) steady(answers []Answer) (from, to time.Duration, err error) {
	from, to = answers[0].Pieces[0], answers[0].Pieces[len(answers[0].Pieces)-1]
	for _, h := range answers[1:] {
		from, to = max(from, h.Pieces[0]), min(to, h.Pieces[len(h.Pieces)-1])
	}
	s.Sequences, s.Tokens = len(answers), len(answers)
	for _, h := range answers {
		first, _ := slices.BinarySearch(h.Pieces, from)
		last, at := slices.BinarySearch(h.Pieces, to)
		if !at {
			last--
		}
		// Of engines that hold pieces of characters back, a piece is some tokens.
		each := float64(h.Output) / float64(len(h.Pieces))
		steps := float64(last-first) * each
		if steps < fewestSteps {
			return 0, 0, notAtOnce(len(answers))
		}
		if h.Pieces[0] == from {
			s.MS = fleet.Milliseconds(h.Pieces[last]-from) / steps
		}
		s.Context += float64(h.Prompt) + each*(float64(first+last)/2+0.5)
	}
	return from, to, nil
}

// record keeps the requests for the log.
func (r *run) record(c *Cell, answers []Answer) {
	var names []string
	for _, n := range c.Loaded {
		names = append(names, r.targets[n].Model)
	}
	// Of requests sent at the same moment, the first that gets in comes first.
	slices.SortStableFunc(answers, func(a, b Answer) int { return cmp.Compare(a.Pieces[0], b.Pieces[0]) })
	for _, h := range answers {
		r.out.Requests = append(r.out.Requests, Record{
			ID: fmt.Sprint(len(r.out.Requests)), PromptTokens: h.Prompt, OutputTokens: h.Output,
			Arrival: h.Sent.Seconds(), First: h.Pieces[0].Seconds(), Last: h.Pieces[len(h.Pieces)-1].Seconds(),
			Beside: c.Batch - 1, Neighbours: names,
		})
	}
}

// Package drift compares the pace of live answers with what the replicas'
// profiles say of the load that they had, and reports when a profile no longer
// holds: the machine has changed, its neighbours, or the engine.
package drift

import (
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

const (
	// Enough answers of a replica must have been compared before anything is said.
	Enough = 50
	// Bound is how far measured may lie from predicted, as a factor either way,
	// before a warning.
	Bound = 1.25
	// Back is within what factor it must lie again for the warning to be over.
	Back = 1.15
	// Shortest is the fewest tokens after the first whose pace is compared.
	Shortest = 8
	// every is how many tokens lie between two looks at the load.
	every = 8
)

// Config is what a Monitor is made of.
type Config struct {
	Table *fleet.Table
	// Profiles of the replicas, by index; read-only. A nil one is not compared.
	Profiles []*profile.Profile
	// Sequences bounds those that an engine runs at once; zero is no bound.
	Sequences int
	// Chunked says that engines put prompts into their decode steps. Otherwise each
	// prompt, or those that wait together, has a step of its own.
	Chunked bool
	// Timed, if set, is called with each whole answer that was timed. It must not keep the pointer.
	Timed func(*Timing)
	// Log gets the warnings; nil for none.
	Log *slog.Logger
}

// Monitor keeps, for each replica, the requests that decode there, and a smoothed
// ratio of measured to predicted time per token. Its methods may be called from
// any goroutine; those on a request's path allocate nothing, and wait for others on the
// same replica, and where its slowdown changes for what [Monitor.OnSlow] does. A nil
// Monitor does nothing.
type Monitor struct {
	// OnSlow, if set before the first request, is told how many times as long as its
	// profile says a replica takes at the moment, from [SlowFrom] on, and 1 once it is
	// within [SlowTo] again. Requests on the replica wait for it. See [Monitor.Correct].
	OnSlow func(replica int, factor float64)

	// OnDoubt, if set before the first request, is called when policies that choose by forecasts become
	// doubted, since answers depart from forecasts as corrected by OnSlow, and when that has ended.
	// [Monitor.Fade] and [Monitor.Doubt] call it.
	OnDoubt func(doubted bool)

	config   Config
	doubt    doubt
	trusting atomic.Bool // OnDoubt is not called
	silent   atomic.Bool // OnSlow is not called
	table    *fleet.Table
	replicas []replica
}

// replica is what is known of one.
type replica struct {
	profile atomic.Pointer[profile.Profile] // may hold nil
	load    load                            // of this router's own
	others  load                            // by the engine's gauges
	// prefilled is the predicted time of all prompts so far, in nanoseconds.
	prefilled atomic.Int64
	// begun is when the last prompt was done, and together the prompt tokens of the
	// step that it was part of.
	begun, together atomic.Int64
	prompts         prompts      // that were read
	waiting         atomic.Int64 // prompts that are to be read
	estimate        estimate
	residual        estimate // of measured by predicted times the factor in force
	slowdown        slowdown
}

// load counts sequences that decode, and the tokens that they hold.
type load struct{ sequences, context atomic.Int64 }

func (l *load) add(sequences, context int) {
	l.sequences.Add(int64(sequences))
	l.context.Add(int64(context))
}

// New makes a Monitor of idle replicas.
func New(c Config) *Monitor {
	m := &Monitor{config: c, table: c.Table, replicas: make([]replica, len(c.Table.Replicas))}
	if m.config.Log == nil {
		m.config.Log = slog.New(slog.DiscardHandler)
	}
	for i := range m.replicas {
		m.replicas[i].profile.Store(c.Profiles[i])
		m.replicas[i].begun.Store(math.MinInt64 / 2) // never
	}
	return m
}

// Others sets what the replica has in addition to this router's own requests.
func (m *Monitor) Others(replica, sequences, context int) {
	if m == nil {
		return
	}
	l := &m.replicas[replica].others
	l.sequences.Store(int64(sequences))
	l.context.Store(int64(context))
}

// Stay is a request's among those that decode on a replica. The zero value is
// nowhere. It belongs to one goroutine at a time.
type Stay struct {
	replica   int
	in, timed bool
	context   int     // tokens that it is counted with
	seen      int     // tokens at the last look at the load
	pace      float64 // the predicted step then, in ms
	with      Load    // then
	answer    span    // from its first tokens on
	stretch   span    // its last part
	wait      wait    // from its place on the replica to its first tokens
}

// span is a part of an answer whose pace is compared.
type span struct {
	began     time.Duration
	first     int     // tokens that had come by then
	prefilled int64   // the replica's, then
	sum       float64 // of predicted steps, weighted
	weight    float64
	loads     Load  // sums, weighted
	prompts   count // the replica's, then
}

// compare says how long the tokens since took, and how long they were predicted to
// take; known of no fewer than so many.
func (s *span) compare(now time.Duration, generated, fewest int, prefilled int64) (measured, predicted time.Duration, known bool) {
	tokens := generated - s.first
	if tokens < fewest || s.weight == 0 {
		return 0, 0, false
	}
	predicted = profile.Duration(s.sum/s.weight*float64(tokens)) + time.Duration(prefilled-s.prefilled)
	measured = now - s.began
	return measured, predicted, measured > 0 && predicted > 0
}

// Enter counts a request whose prompt is done: it decodes on the replica from now
// on, with so many tokens generated. If timed, that is the moment of its first
// tokens, and its pace can be compared; the prompt of any other is taken to be done
// as it enters.
func (m *Monitor) Enter(s *Stay, replica int, now time.Duration, prompt, generated int, timed bool) {
	if m == nil {
		return
	}
	r := &m.replicas[replica]
	m.read(s)
	*s = Stay{replica: replica, in: true, timed: timed, context: prompt + generated, seen: generated, wait: s.wait}
	known := r.profile.Load() != nil
	if known {
		m.prefill(replica, now, prompt)
	}
	r.load.add(1, s.context)
	if known {
		s.pace, s.with = m.step(replica)
		s.answer = span{began: now, first: generated, prefilled: r.prefilled.Load(), prompts: r.prompts.now()}
		s.stretch = s.answer
	}
}

// Inside reports whether the request is counted.
func (s *Stay) Inside() bool { return s.in }

// Advance notes how many tokens of the answer have come by now.
func (m *Monitor) Advance(s *Stay, now time.Duration, prompt, generated int) {
	if m == nil || !s.in || generated-s.seen < every {
		return
	}
	m.replicas[s.replica].load.context.Add(int64(prompt + generated - s.context))
	s.context = prompt + generated
	m.look(s, generated)
	m.pause(s, now, generated, stretch)
}

// pause compares the stretch that ends now, if it has so many tokens, and begins the
// next.
func (m *Monitor) pause(s *Stay, now time.Duration, generated, fewest int) {
	prefilled := m.replicas[s.replica].prefilled.Load()
	if measured, predicted, known := s.stretch.compare(now, generated, fewest, prefilled); known {
		m.slow(s.replica, now, measured, predicted)
		s.stretch = span{began: now, first: generated, prefilled: prefilled}
	}
}

// look takes in the load on the replica. Tokens that came at once, or were only
// told of at the end, weigh no more than those between two looks.
func (m *Monitor) look(s *Stay, generated int) {
	if !s.timed || m.replicas[s.replica].profile.Load() == nil || generated <= s.seen {
		return
	}
	pace, with := m.step(s.replica)
	w := float64(min(generated-s.seen, every))
	for _, part := range []*span{&s.answer, &s.stretch} {
		part.sum += w * (s.pace + pace) / 2
		part.weight += w
	}
	s.answer.loads.add(w/2, &s.with)
	s.answer.loads.add(w/2, &with)
	s.pace, s.with, s.seen = pace, with, generated
}

// Leave ends the stay, if there is one. Whole says that the answer came to its end
// with that many tokens: then its pace is compared.
func (m *Monitor) Leave(s *Stay, now time.Duration, generated int, whole bool) {
	if m == nil {
		return
	}
	m.read(s)
	if !s.in {
		return
	}
	m.look(s, generated) // while it still counts
	r := &m.replicas[s.replica]
	r.load.add(-1, -s.context)
	s.in = false
	if whole {
		m.report(s, now, generated)
	}
	if !whole || !s.timed {
		return
	}
	m.pause(s, now, generated, Shortest)
	if measured, predicted, known := s.answer.compare(now, generated, Shortest, r.prefilled.Load()); known {
		m.compare(s.replica, measured, predicted)
	}
}

// compare takes in an answer's time from its first token to its last, and logs
// when the replica leaves its profile or is back.
func (m *Monitor) compare(replica int, measured, predicted time.Duration) {
	off := float64(measured) / float64(predicted)
	if m.OnDoubt != nil {
		m.replicas[replica].residual.add(off / m.Slowdown(replica))
		m.doubt.answered(replica, len(m.replicas))
	}
	out, turned, ratio, answers := m.replicas[replica].estimate.add(off)
	if !turned {
		return
	}
	name := m.table.Replicas[replica].Name
	if !out {
		m.config.Log.Info("replica keeps to its profile again", "replica", name, "measured_to_predicted", rounded(ratio), "answers", answers)
		return
	}
	what := "slower"
	if ratio < 1 {
		what = "quicker"
	}
	m.config.Log.Warn("replica is "+what+" than its profile: what is predicted of it is off", "replica", name,
		"measured_to_predicted", rounded(ratio), "answers", answers, "remedy", "gearshift profile measure, or gearshift calibrate")
}

// Ratio is the replica's time per token, measured as a multiple of predicted, and
// how many answers it rests on; known once those are enough.
func (m *Monitor) Ratio(replica int) (ratio float64, answers uint64, known bool) {
	if m == nil {
		return 0, 0, false
	}
	return m.replicas[replica].estimate.get()
}

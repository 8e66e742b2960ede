package backend

import (
	"math/rand/v2"
	"sync"
	"time"

	"gearshift/env/engine"
)

// host drives the engines of one machine by the wall clock. Steps end at the
// times that the simulation says, not when their timer fires, so lateness of
// timers does not add up.
type host struct {
	start   time.Time // the epoch of the simulated time
	wake    chan struct{}
	quit    chan struct{}
	ended   sync.WaitGroup
	draw    func(*rand.Rand) int
	observe func(Span) // may be nil

	mu     sync.Mutex // protects all below, and the jobs' progress
	host   *engine.Host
	count  int // engines
	jobs   map[uint64]*job
	lastID uint64
	random *rand.Rand
	events []engine.Event
	closed bool
}

// job is one sequence on its way through an engine.
type job struct {
	id      uint64
	replica int
	engine  int
	prompt  int
	output  int
	cut     bool // output is a limit that the client set

	// Under the host's mutex.
	tokens int
	done   bool
	err    error // with done: why it ended short
	began  time.Duration
	first  time.Duration // the time of its first token, zero before

	// wake has room for one signal: there is progress to see.
	wake chan struct{}
}

// firstID returns a random number of 47 bits, after which a host or an engine numbers its work:
// the ids of answers of several, or after a restart, are different, and fit 12 digits.
func firstID() uint64 { return rand.Uint64() >> 17 }

func newHost(start time.Time, random *rand.Rand, draw func(*rand.Rand) int) *host {
	return &host{
		start: start, random: random, draw: draw, lastID: firstID(),
		wake: make(chan struct{}, 1),
		quit: make(chan struct{}),
		jobs: map[uint64]*job{},
	}
}

func (h *host) begin(engines []*engine.Engine) {
	h.host, h.count = engine.NewHost(engines...), len(engines)
	h.ended.Go(h.run)
}

// run ends the steps of the engines as their time comes.
func (h *host) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		h.mu.Lock()
		now := time.Since(h.start)
		h.catchUp(now)
		at, busy := h.host.Next()
		h.mu.Unlock()
		tick := timer.C
		if busy {
			timer.Reset(at - now)
		} else {
			tick = nil
		}
		select {
		case <-tick:
		case <-h.wake:
		case <-h.quit:
			return
		}
	}
}

// catchUp ends every step that is due. The caller holds h.mu.
func (h *host) catchUp(now time.Duration) {
	for {
		at, busy := h.host.Next()
		if !busy || at > now {
			return
		}
		h.events = h.host.Step(h.events[:0])
		for _, e := range h.events {
			j := h.jobs[e.ID]
			switch {
			case j == nil:
			case e.Kind == engine.Finished:
				h.end(j, nil, e.At)
			case j.first == 0: // once more after a preemption
				j.first = e.At
			}
		}
		for i := range h.count {
			h.host.Each(i, h.progress)
		}
	}
}

// progress notes how far a running sequence has come. A preempted sequence
// starts over in its engine; what it has generated stays generated.
func (h *host) progress(id uint64, generated int) {
	if j := h.jobs[id]; j != nil && generated > j.tokens {
		j.tokens = generated
		j.signal()
	}
}

// end removes the job from the counts. The caller holds h.mu.
func (h *host) end(j *job, err error, at time.Duration) {
	delete(h.jobs, j.id)
	j.done, j.err = true, err
	if err == nil {
		j.tokens = j.output
	}
	if h.observe != nil {
		h.observe(j.span(at))
	}
	j.signal()
}

func (j *job) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// length draws what an answer's length would be.
func (h *host) length() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(1, h.draw(h.random))
}

// submit puts the job in its engine's queue. fits is false if the
// engine's cache could never hold it.
func (h *host) submit(j *job) (fits bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return true, ErrClosed
	}
	s := engine.Sequence{ID: h.lastID + 1, PromptTokens: j.prompt, OutputTokens: j.output}
	if !h.host.Engine(j.engine).Fits(s) {
		return false, nil
	}
	h.lastID++
	j.id = s.ID
	h.jobs[j.id] = j
	now := time.Since(h.start)
	h.catchUp(now)
	j.began = now
	h.host.Submit(j.engine, s, now)
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return true, nil
}

// submitAll puts the jobs, which are of one engine, in its queue at one moment, so that a batch
// may have all of them. fits is false if its cache could never hold one.
func (h *host) submitAll(jobs []*job) (fits bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return true, ErrClosed
	}
	sequences := make([]engine.Sequence, len(jobs))
	for i, j := range jobs {
		sequences[i] = engine.Sequence{ID: h.lastID + 1 + uint64(i), PromptTokens: j.prompt, OutputTokens: j.output}
		if !h.host.Engine(j.engine).Fits(sequences[i]) {
			return false, nil
		}
	}
	now := time.Since(h.start)
	h.catchUp(now)
	for i, j := range jobs {
		j.id, j.began = sequences[i].ID, now
		h.jobs[j.id] = j
	}
	h.lastID += uint64(len(jobs))
	h.host.SubmitAll(jobs[0].engine, sequences, now)
	select {
	case h.wake <- struct{}{}:
	default:
	}
	return true, nil
}

// cancel takes the job out of its engine, if it has not ended.
func (h *host) cancel(j *job, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !j.done {
		h.host.Cancel(j.engine, j.id)
		h.end(j, err, time.Since(h.start))
	}
}

// seen is how far the job has come.
func (h *host) seen(j *job) (tokens int, done bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return j.tokens, j.done, j.err
}

func (h *host) close() {
	h.mu.Lock()
	if !h.closed {
		h.closed = true
		close(h.quit)
	}
	for _, j := range h.jobs {
		h.end(j, ErrClosed, time.Since(h.start))
	}
	h.mu.Unlock()
	h.ended.Wait()
}

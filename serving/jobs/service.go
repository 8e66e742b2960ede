package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"gearshift/serving/admission/limits"
)

// Options are what a Service needs of the server around it. All but the Clock may be left out.
type Options struct {
	// Clock is the time since an epoch.
	Clock func() time.Duration
	Log   *slog.Logger
	// Up reports whether the replica may take requests.
	Up func(replica int) bool
	// Begin takes a place on the replica for a batch of the task; false if there is none. End
	// gives it back, with the error of the engine if it failed.
	Begin func(replica int, task string) (end func(error), ok bool)
	// Timeout bounds the time of a batch. Zero is 5 minutes.
	Timeout func() time.Duration
	// Memory is the budget that engines' answers are charged to. Nil is one of their own.
	Memory *limits.Answers
}

// Service plans jobs and has the workers' engines answer them. Its methods may be called from
// any goroutine.
type Service struct {
	options Options
	log     *slog.Logger
	models  []*model
	metrics *metrics
	memory  *limits.Answers
	quit    context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// model is one with its workers at work.
type model struct {
	*set
	wake []chan struct{} // by worker: there may be something to run

	mu     sync.Mutex // protects the set's pool, the parts of jobs, and closed
	closed bool
}

// New starts a goroutine for each worker; Close ends them.
func New(c Config, o Options) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot serve modalities: %w", err)
	}
	s := &Service{options: o, log: o.Log, metrics: newMetrics(), memory: o.Memory}
	if s.memory == nil {
		s.memory = limits.NewAnswers(limits.MemoryConfig{}.Resolve(0, 0).Answers)
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	for i := range c.Models {
		set, err := newSet(&c, &c.Models[i])
		if err != nil {
			return nil, fmt.Errorf("cannot serve modalities: %w", err)
		}
		m := &model{set: set, wake: make([]chan struct{}, len(set.Workers))}
		for w := range m.wake {
			m.wake[w] = make(chan struct{}, 1)
		}
		if o.Up != nil {
			set.pool.up = func(w int) bool {
				return !slices.ContainsFunc(set.Workers[w].Replicas, func(r int) bool { return !o.Up(r) })
			}
		}
		set.pool.evict = func(x *part) { x.of.fail(refusal(refusedFull)) }
		s.models = append(s.models, m)
	}
	s.quit, s.stop = context.WithCancel(context.Background())
	for _, m := range s.models {
		for w := range m.Workers {
			s.workers.Go(func() { s.run(m, w) })
		}
	}
	return s, nil
}

// On reports whether there are models.
func (s *Service) On() bool { return s != nil && len(s.models) > 0 }

// Close ends all jobs, and waits for the workers.
func (s *Service) Close() {
	s.stop()
	for _, m := range s.models {
		m.mu.Lock()
		m.closed = true
		for _, st := range m.pool.stations {
			for _, x := range st.waiting {
				x.of.fail(refusal(refusedClosed))
				m.pool.remove(x)
			}
		}
		m.mu.Unlock()
	}
	s.workers.Wait()
}

// now is the planner's time.
func (s *Service) now() float64 { return milliseconds(s.options.Clock()) }

// work is a client's job on its way.
type work struct {
	*Job
	model    *model
	arrived  time.Duration
	parts    []*part
	open     int           // parts that are not answered yet
	done     chan struct{} // closed once all are, or one has failed
	cancel   context.CancelFunc
	ctx      context.Context // of its batches
	err      error
	answered []answered // by request
	promised float64    // sum of the qualities planned for it
	worked   *commit    // the last that was committed of it, for the explanation
	at       float64    // when that was
	on       int        // the worker that ran it
	batches  int
	failures int
	busy     []Busy
	usage    int   // tokens that engines have counted
	first    any   // what the first answer of an engine has beyond its rows
	held     int64 // bytes of the budget of answers
}

// answered is how a request was answered.
type answered struct {
	row    any // as the form has it
	option int // of the planner
}

// fail ends the job, unless it has ended. The caller holds the model's mutex.
func (w *work) fail(err error) {
	if !w.ended() {
		w.err = err
		w.cancel()
		close(w.done)
	}
}

// ended reports whether the job has. The caller holds the model's mutex.
func (w *work) ended() bool { return w.err != nil || w.open == 0 }

// do has the job answered.
func (s *Service) do(ctx context.Context, j *Job) (*work, error) {
	m := j.model
	w := &work{Job: j, model: m, arrived: s.options.Clock(), done: make(chan struct{}), answered: make([]answered, len(j.there))}
	w.ctx, w.cancel = context.WithCancel(ctx)
	defer w.cancel()
	m.mu.Lock()
	err := s.enter(m, w)
	m.mu.Unlock()
	if err != nil {
		return w, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	w.fail(context.Cause(ctx)) // if nothing else has ended it
	for _, x := range w.parts {
		m.pool.remove(x)
	}
	return w, w.err
}

// enter has the parts of the job wait. The caller holds the model's mutex.
func (s *Service) enter(m *model, w *work) error {
	if m.closed {
		return refusal(refusedClosed)
	}
	w.parts = w.split(milliseconds(w.arrived + w.Total))
	for _, x := range w.parts {
		x.of = w
		m.pool.last++
		x.id = strconv.FormatUint(m.pool.last, 10)
	}
	now := milliseconds(w.arrived)
	for i, x := range w.parts {
		if err := m.pool.place(x, now, false); err != nil {
			for _, placed := range w.parts[:i] {
				m.pool.remove(placed)
			}
			return refusalOf(err)
		}
		w.open++
	}
	for _, x := range w.parts {
		m.signal(x.worker)
	}
	return nil
}

// signal says to the worker that there may be something to run.
func (m *model) signal(worker int) {
	select {
	case m.wake[worker] <- struct{}{}:
	default:
	}
}

// run is a worker's loop: each turn runs what is committed.
func (s *Service) run(m *model, worker int) {
	for s.quit.Err() == nil {
		if c := s.next(m, worker); c != nil {
			s.serve(m, worker, c)
			continue
		}
		select {
		case <-m.wake[worker]:
		case <-s.quit.Done():
		}
	}
}

// next plans what the worker runs now.
func (s *Service) next(m *model, worker int) *commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	waiting := m.pool.stations[worker].waiting
	for _, x := range waiting {
		if x.of.ctx.Err() != nil { // its client has left, and is about to say so
			m.pool.remove(x)
		}
	}
	begun := s.options.Clock()
	if len(waiting) == 0 && !m.pool.takeOver(worker, milliseconds(begun)) {
		return nil
	}
	c, dropped := m.pool.next(worker, milliseconds(begun))
	s.metrics.planned.Observe((s.options.Clock() - begun).Seconds())
	for _, x := range dropped {
		x.of.fail(refusal(refusedDropped))
	}
	waits := m.pool.waits()
	for i, st := range m.pool.stations { // for parts that wait elsewhere now, or that it may take over
		if i != worker && (len(st.waiting) > 0 || waits && st.running == nil) {
			m.signal(i)
		}
	}
	if c != nil {
		if !c.begun { // what it is promised first counts
			c.begun, c.of.promised = true, c.of.promised+c.quality*float64(len(c.rows))
		}
		c.of.worked, c.of.at, c.of.on = c, milliseconds(begun), worker
	}
	return c
}

// serve has the worker's engine answer the batches, and reports how that went.
func (s *Service) serve(m *model, worker int, c *commit) {
	var failure error
	for i := range c.batches {
		b := &c.batches[i]
		begun := s.options.Clock()
		r, err := s.ask(m, worker, c, b)
		now := s.options.Clock()
		m.mu.Lock()
		over := c.of.ended()
		if c.of.batches++; err == nil {
			m.pool.ran(worker, b, milliseconds(now-begun))
			if list := m.Workers[worker].Replicas; list != nil {
				c.of.busy = append(c.of.busy, Busy{list[m.entries[b.option].option], now - begun})
			}
			if over {
				s.memory.Give(r.held)
			} else {
				c.answer(m.set, b, r)
			}
		}
		m.mu.Unlock()
		if failure = err; err != nil || over {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s.settle(m, worker, c, failure)
}

// settle ends what the worker was given. The caller holds the model's mutex.
func (s *Service) settle(m *model, worker int, c *commit, failure error) {
	var atFault *fault
	w, now := c.of, s.now()
	blamed := failure != nil && !w.ended() && w.ctx.Err() == nil && !asFault(failure, &atFault)
	m.pool.ended(worker, blamed, now)
	switch {
	case w.ended():
	case atFault != nil:
		w.fail(atFault.refusal)
	case blamed && s.quit.Err() != nil:
		w.fail(refusal(refusedClosed))
	case blamed:
		w.failures++
		s.metrics.failures.WithLabelValues(m.Name, m.Workers[worker].Name).Inc()
		s.log.Warn("an engine failed at a job", "model", m.Name, "worker", m.Workers[worker].Name, "error", failure)
		if err := m.pool.again(c.part, worker, now); err != nil {
			w.fail(failed(m.Workers[worker].Name, failure, err))
			return
		}
		m.signal(c.worker)
	case len(c.rows) == 0:
		if w.open--; w.open == 0 {
			close(w.done)
		}
	}
}

// answer notes the answers to a batch: what is left of the part has to make up for them.
func (c *commit) answer(s *set, b *batch, r *reply) {
	c.of.usage, c.of.held = c.of.usage+r.tokens, c.of.held+r.held
	if c.of.first == nil {
		c.of.first = r.rest
	}
	e := s.entries[b.option]
	quality := s.Tasks[e.task].Quality[s.Options[e.option].Variant]
	for i, row := range b.rows {
		c.of.answered[row] = answered{r.rows[i], b.option}
	}
	n, answeredNow := float64(len(c.rows)), float64(len(b.rows))
	c.part.rows = c.rows[len(b.rows):]
	if left := n - answeredNow; left > 0 {
		c.floor = max(0, (c.floor*n-quality*answeredNow)/left)
	}
}

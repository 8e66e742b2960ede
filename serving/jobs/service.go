package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	rm "gearshift/router/modality"
	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/proxy"
)

// Options are what a Service needs of the server around it. All are required.
type Options struct {
	// Clock is the time since an epoch.
	Clock func() time.Duration
	// Up reports whether the replica may take requests.
	Up func(replica int) bool
	// Host names the host of a replica.
	Host func(replica int) string
	// Send has the replica that is planned for a batch of the task answer it, or another of its
	// variant. The error is [ErrDown], or one of [proxy.Proxy.Ask].
	Send func(ctx context.Context, replica int, task string, b *proxy.Batch) (Sent, error)
	// Get asks a replica's engine a question, as [proxy.Proxy.Get].
	Get func(ctx context.Context, replica int, path func(model string) string, most int64) (text []byte, status int, err error)
	// Memory is the budget that engines' answers are charged to.
	Memory *limits.Answers
}

// Sent is how a batch went: the replica that was asked last, and those that have failed.
type Sent struct {
	Replica int
	Failed  []int
}

// ErrDown reports that the replica of a batch takes no requests.
var ErrDown = errors.New("it takes no requests now")

// Service plans jobs and has the workers' engines answer them. Its methods may be called from
// any goroutine.
type Service struct {
	Options
	models  []*model
	metrics *metrics
	quit    context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}

// New starts a goroutine for each worker; Close ends them.
func New(c Config, o Options) (*Service, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("cannot serve modalities: %w", err)
	}
	s := &Service{Options: o, metrics: newMetrics()}
	for i := range c.Models {
		m, err := newModel(&c, &c.Models[i])
		if err != nil {
			return nil, fmt.Errorf("cannot serve modalities: %w", err)
		}
		m.pool.Up = func(w int) bool {
			return !slices.ContainsFunc(m.Workers[w].Replicas, func(r int) bool { return !o.Up(r) })
		}
		m.pool.Evict = func(x *rm.Entry) { partOf(x).of.fail(refusal(refusedFull)) }
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
		m.pool.Each(func(x *rm.Entry) {
			partOf(x).of.fail(refusal(refusedClosed))
			m.pool.Remove(x)
		})
		m.mu.Unlock()
	}
	s.workers.Wait()
}

// now is the planner's time.
func (s *Service) now() float64 { return milliseconds(s.Clock()) }

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
	worked   *rm.Commit // the last that was committed of it, for the explanation
	at       float64    // when that was
	host     string     // that answered last
	batches  int
	failures int
	busy     []Busy
	usage    int   // tokens that engines have counted
	first    any   // what the first answer of an engine has beyond its rows
	held     int64 // bytes of the budget of answers
}

// part is some requests of a job that may use the same options, or what is left of them.
type part struct {
	rm.Entry
	of    *work
	rows  []int // of the job's requests, in order
	begun bool  // it has been committed before
}

func partOf(x *rm.Entry) *part { return x.Of.(*part) }

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
	w := &work{Job: j, model: m, arrived: s.Clock(), done: make(chan struct{}), answered: make([]answered, len(j.there))}
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
		m.pool.Remove(&x.Entry)
	}
	return w, w.err
}

// enter has the parts of the job wait. The caller holds the model's mutex.
func (s *Service) enter(m *model, w *work) error {
	if m.closed {
		return refusal(refusedClosed)
	}
	w.parts = w.split(milliseconds(w.arrived + w.Total))
	now := milliseconds(w.arrived)
	for i, x := range w.parts {
		x.of, x.Tenant = w, w.Tenant
		if err := m.pool.Add(&x.Entry, now); err != nil {
			for _, placed := range w.parts[:i] {
				m.pool.Remove(&placed.Entry)
			}
			return refusalOf(err)
		}
		w.open++
	}
	for _, x := range w.parts {
		m.signal(x.Worker)
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
func (s *Service) next(m *model, worker int) *rm.Commit {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool.Each(func(x *rm.Entry) {
		if partOf(x).of.ctx.Err() != nil { // its client has left, and is about to say so
			m.pool.Remove(x)
		}
	})
	if !m.pool.Waits() {
		return nil
	}
	begun := s.Clock()
	c, dropped := m.pool.Next(worker, milliseconds(begun))
	s.metrics.planned.Observe((s.Clock() - begun).Seconds())
	for _, x := range dropped {
		partOf(x).of.fail(refusal(refusedDropped))
	}
	waits := m.pool.Waits()
	for i, w := range m.pool.Workers { // for parts that wait elsewhere now, or that it may take over
		if i != worker && (w.Waiting() > 0 || waits && w.Running == nil) {
			m.signal(i)
		}
	}
	if c != nil {
		x := partOf(c.Entry)
		if !x.begun { // what it is promised first counts
			x.begun, x.of.promised = true, x.of.promised+c.Quality*float64(len(x.rows))
		}
		x.of.worked, x.of.at = c, milliseconds(begun)
	}
	return c
}

// serve has the worker's engine answer the batches, and ends what the worker was given.
func (s *Service) serve(m *model, worker int, c *rm.Commit) {
	x, err := partOf(c.Entry), error(nil)
	for option, n := range c.Batches {
		if n == 0 {
			continue
		}
		m.mu.Lock()
		over := x.of.ended()
		m.mu.Unlock()
		if over {
			break
		}
		if err = s.send(m, worker, x, batch{option, x.rows[:n]}); err != nil {
			break
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.pool.Ended(worker, s.now())
	switch w := x.of; {
	case w.ended():
	case errors.Is(err, ErrDown):
		if why := m.pool.Elsewhere(&x.Entry, s.now()); why != nil {
			w.fail(refusal(refusedNoneUp))
			return
		}
		m.signal(x.Worker)
	case err != nil:
		w.fail(err)
	case len(x.rows) == 0:
		if w.open--; w.open == 0 {
			close(w.done)
		}
	}
}

// batch is requests that an engine answers together by one of the planner's options.
type batch struct {
	option int
	rows   []int
}

// reply is an engine's answer to a batch.
type reply struct {
	rows   []any
	tokens int
	rest   any   // what it has beyond its rows
	held   int64 // bytes of the budget of answers
}

// The bounds of an engine's answer to a batch, in bytes: for each row and for the whole of it, and the
// share of the budget of answers, as a divisor, that no answer exceeds.
const (
	rowAnswer   = 4 << 20
	wholeAnswer = 64 << 10
	answerShare = 8
)

// send has a batch answered. The error is [ErrDown], or why the job ends.
func (s *Service) send(m *model, worker int, x *part, b batch) (err error) {
	var r reply
	w, option := x.of, m.entries[b.option].Option
	q := proxy.Batch{
		Endpoint: w.form.endpoint(), Header: w.Header,
		Most: min(wholeAnswer+int64(len(b.rows))*rowAnswer, s.Memory.Usage().Limit/answerShare),
		Compose: func(model string) (string, http.Header, []byte, error) {
			return w.form.request(model, b.rows, m.masks[option])
		},
		Take: func(h http.Header, body []byte) (err error) {
			if r.rows, r.tokens, r.rest, err = w.form.answer(h, body, len(b.rows)); err != nil {
				return err
			}
			more := weight(r.rows)
			if !s.Memory.Take(more) {
				return proxy.ErrMemory
			}
			r.held = int64(cap(body)) + more
			return nil
		},
	}
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	defer context.AfterFunc(s.quit, cancel)()
	begun := s.Clock()
	sent, err := s.Send(ctx, m.Workers[worker].Replicas[option], m.Tasks[w.task].Name, &q)
	took := s.Clock() - begun
	m.mu.Lock()
	defer m.mu.Unlock()
	w.batches, w.failures = w.batches+len(sent.Failed), w.failures+len(sent.Failed)
	for _, replica := range sent.Failed {
		s.metrics.failures.WithLabelValues(m.Name, s.Host(replica)).Inc()
	}
	if err != nil {
		return s.why(w, &b, sent, err)
	}
	if len(sent.Failed) == 0 && sent.Replica == m.Workers[worker].Replicas[option] {
		m.pool.Workers[worker].Ran(b.option, len(b.rows), milliseconds(took))
	}
	w.batches, w.host, w.busy = w.batches+1, s.Host(sent.Replica), append(w.busy, Busy{sent.Replica, took})
	if w.ended() {
		s.Memory.Give(r.held)
		return nil
	}
	x.answer(m, &b, &r)
	return nil
}

// why is the error of a job of which a batch is not answered.
func (s *Service) why(w *work, b *batch, sent Sent, err error) error {
	var refused *proxy.BatchRefused
	switch {
	case errors.Is(err, ErrDown), w.ctx.Err() != nil: // in which case its client has left
		return err
	case s.quit.Err() != nil:
		return refusal(refusedClosed)
	case errors.Is(err, proxy.ErrMemory):
		return refusal(refusedMemory)
	case errors.As(err, &refused):
		if r := w.form.fault(refused.Status, refused.Body, b.rows); r != nil {
			return r
		}
	}
	return failed(s.Host(sent.Replica), err)
}

// answer notes the answers to a batch: what is left of the part has to make up for them.
func (x *part) answer(m *model, b *batch, r *reply) {
	w := x.of
	if w.usage, w.held = w.usage+r.tokens, w.held+r.held; w.first == nil {
		w.first = r.rest
	}
	e := m.entries[b.option]
	quality := m.Tasks[e.Task].Quality[m.Options[e.Option].Variant]
	for i, row := range b.rows {
		w.answered[row] = answered{r.rows[i], b.option}
	}
	x.rows = x.rows[len(b.rows):]
	x.Answered(len(b.rows), quality)
}

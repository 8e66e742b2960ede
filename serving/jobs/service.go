package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"gearshift/router/fleet"
	rm "gearshift/router/modality"
	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/proxy"
)

// Options are what a Service needs of the server around it. All are required.
type Options struct {
	// Clock is the time since an epoch.
	Clock func() time.Duration
	// Takes reports whether the replica may take requests.
	Takes func(replica int) bool
	// Host names the host of a replica.
	Host func(replica int) string
	// Send has the replica that is planned for a batch of the task answer it, or another of its
	// variant. The error is [ErrDown], or one of [proxy.Proxy.Ask].
	Send func(ctx context.Context, replica int, task string, b *proxy.Batch) (Sent, error)
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
			return !slices.ContainsFunc(m.Workers[w].Replicas, func(r int) bool { return !o.Takes(r) })
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
		m.pool.Each(func(x *rm.Entry) {
			partOf(x).of.fail(refusal(refusedClosed))
			m.pool.Remove(x)
		})
		m.changed.Broadcast()
		m.mu.Unlock()
	}
	s.workers.Wait()
}

// now is the planner's time.
func (s *Service) now() float64 { return fleet.Milliseconds(s.Clock()) }

// part is some requests of a job that may use the same options, or what is left of them.
type part struct {
	rm.Entry
	of    *Job
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
func (j *Job) fail(err error) {
	if !j.ended() {
		j.err = err
		j.cancel()
		close(j.done)
	}
}

// ended reports whether the job has. The caller holds the model's mutex.
func (j *Job) ended() bool { return j.err != nil || j.open == 0 }

// do has the job answered.
func (s *Service) do(ctx context.Context, j *Job) error {
	m := j.model
	j.arrived, j.done, j.answered = s.Clock(), make(chan struct{}), make([]answered, len(j.there))
	j.ctx, j.cancel = context.WithCancel(ctx)
	defer j.cancel()
	m.mu.Lock()
	err := j.enter()
	m.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case <-j.done:
	case <-ctx.Done():
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	j.fail(context.Cause(ctx)) // if nothing else has ended it
	for _, x := range j.parts {
		m.pool.Remove(&x.Entry)
	}
	return j.err
}

// enter has the parts of the job wait. The caller holds the model's mutex.
func (j *Job) enter() error {
	m := j.model
	if j.service.quit.Err() != nil {
		return refusal(refusedClosed)
	}
	j.parts = j.split(fleet.Milliseconds(j.arrived + j.Total))
	for i, x := range j.parts {
		x.of, x.Tenant = j, j.Tenant
		if err := m.pool.Add(&x.Entry, fleet.Milliseconds(j.arrived)); err != nil {
			for _, placed := range j.parts[:i] {
				m.pool.Remove(&placed.Entry)
			}
			return refusalOf(err)
		}
		j.open++
	}
	m.changed.Broadcast()
	return nil
}

// run is a worker's loop: each turn runs what is committed.
func (s *Service) run(m *model, worker int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for s.quit.Err() == nil {
		if c := s.next(m, worker); c != nil {
			s.serve(m, worker, c)
		} else {
			m.changed.Wait()
		}
	}
}

// next plans what the worker runs now. The caller holds the model's mutex.
func (s *Service) next(m *model, worker int) *rm.Commit {
	m.pool.Each(func(x *rm.Entry) {
		if partOf(x).of.ctx.Err() != nil { // its client has left, and is about to say so
			m.pool.Remove(x)
		}
	})
	if !m.pool.Waits() {
		return nil
	}
	begun, waited := s.Clock(), m.pool.Workers[worker].Waiting()
	c, dropped := m.pool.Next(worker, fleet.Milliseconds(begun))
	s.metrics.planned.Observe((s.Clock() - begun).Seconds())
	for _, x := range dropped {
		partOf(x).of.fail(refusal(refusedDropped))
	}
	if c != nil || m.pool.Workers[worker].Waiting() != waited { // others may have more to do, or something to take over
		m.changed.Broadcast()
	}
	if c != nil {
		x := partOf(c.Entry)
		if !x.begun { // what it is promised first counts
			x.begun, x.of.promised = true, x.of.promised+c.Quality*float64(len(x.rows))
		}
		x.of.worked, x.of.at = c, fleet.Milliseconds(begun)
	}
	return c
}

// serve has the worker's engine answer the batches, and ends what the worker was given. The caller holds the
// model's mutex.
func (s *Service) serve(m *model, worker int, c *rm.Commit) {
	x, err := partOf(c.Entry), error(nil)
	for option, n := range c.Batches {
		if n > 0 && err == nil && !x.of.ended() {
			err = s.send(m, worker, x, batch{option, x.rows[:n]})
		}
	}
	m.pool.Ended(worker, s.now())
	switch j := x.of; {
	case j.ended():
	case errors.Is(err, ErrDown):
		if m.pool.Elsewhere(&x.Entry, s.now()) != nil {
			j.fail(refusal(refusedNoneUp))
		}
		m.changed.Broadcast()
	case err != nil:
		j.fail(err)
	case len(x.rows) == 0:
		if j.open--; j.open == 0 {
			close(j.done)
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

// send has a batch answered. The error is [ErrDown], or why the job ends. The caller holds the model's mutex,
// which is free meanwhile.
func (s *Service) send(m *model, worker int, x *part, b batch) (err error) {
	var r reply
	j, option := x.of, m.entries[b.option].Option
	q := proxy.Batch{
		Endpoint: j.form.endpoint(), Header: j.Header,
		Most: min(wholeAnswer+int64(len(b.rows))*rowAnswer, s.Memory.Usage().Limit/answerShare),
		Compose: func(model string) (string, http.Header, []byte, error) {
			return j.form.request(model, b.rows, m.masks[option])
		},
		Take: func(h http.Header, body []byte) (err error) {
			if r.rows, r.tokens, r.rest, err = j.form.answer(h, body, len(b.rows)); err != nil {
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
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	defer context.AfterFunc(s.quit, cancel)()
	begun := s.Clock()
	m.mu.Unlock()
	sent, err := s.Send(ctx, m.Workers[worker].Replicas[option], m.Tasks[j.task].Name, &q)
	m.mu.Lock()
	took := s.Clock() - begun
	j.batches, j.failures = j.batches+len(sent.Failed), j.failures+len(sent.Failed)
	for _, replica := range sent.Failed {
		s.metrics.failures.WithLabelValues(m.Name, s.Host(replica)).Inc()
	}
	if err != nil {
		return s.why(j, &b, sent, err)
	}
	if len(sent.Failed) == 0 && sent.Replica == m.Workers[worker].Replicas[option] {
		m.pool.Workers[worker].Ran(b.option, len(b.rows), fleet.Milliseconds(took))
	}
	j.batches, j.host, j.busy = j.batches+1, s.Host(sent.Replica), append(j.busy, Busy{sent.Replica, took})
	if j.ended() {
		s.Memory.Give(r.held)
		return nil
	}
	x.answer(m, &b, &r)
	return nil
}

// why is the error of a job of which a batch is not answered.
func (s *Service) why(j *Job, b *batch, sent Sent, err error) error {
	var refused *proxy.BatchRefused
	switch {
	case errors.Is(err, ErrDown), j.ctx.Err() != nil: // in which case its client has left
		return err
	case s.quit.Err() != nil:
		return refusal(refusedClosed)
	case errors.Is(err, proxy.ErrMemory):
		return refusal(refusedMemory)
	case errors.As(err, &refused):
		if r := j.form.fault(refused.Status, refused.Body, b.rows); r != nil {
			return r
		}
	}
	return failed(s.Host(sent.Replica), err)
}

// answer notes the answers to a batch: what is left of the part has to make up for them.
func (x *part) answer(m *model, b *batch, r *reply) {
	j := x.of
	j.usage, j.size, j.held = j.usage+r.tokens, j.size+r.held, j.held+r.held
	if j.first == nil {
		j.first = r.rest
	}
	e := m.entries[b.option]
	quality := m.Tasks[e.Task].Quality[m.Options[e.Option].Variant]
	for i, row := range b.rows {
		j.answered[row] = answered{r.rows[i], b.option}
	}
	x.rows = x.rows[len(b.rows):]
	x.Answered(len(b.rows), quality)
}

// Package agents passes to engines what controllers decide: it loads, unloads, puts to sleep and
// wakes their models in the dialect of each kind of engine, asks them for the states of their
// models, and wakes controllers when they are due. It also defines what the agent of an engine and a
// router send each other: registrations, heartbeats, and files of models.
package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Order is what an engine is to do with one model.
type Order struct {
	Verb control.Verb
	// Level is that of a sleep, and of the one that a wake ends; 0 if it is not known.
	Level int
}

// Replica is what the actuator knows of one: where its engine is, and by which dialect it
// is driven. Without a dialect nothing drives it.
type Replica struct {
	// Name is that of the replica, and Host the index of its host.
	Name string
	Host int
	// Engine has the replica's model under the name Model.
	Engine  Engine
	Model   string
	Dialect Dialect
	// Named returns the name of the model, where that changes with its version; empty if the
	// replica has none yet. It is called from any goroutine. Nil: it is Model.
	Named func() string
	// Server is equal for replicas behind one server, which is asked once for all of them.
	Server string
}

// model is the name of the replica's model now.
func (r *Replica) model() string {
	if r.Named != nil {
		return r.Named()
	}
	return r.Model
}

// Config is how engines are driven.
type Config struct {
	// PollInterval is how often engines are asked for the states of their models, after
	// the first time. Zero asks no more.
	PollInterval time.Duration `yaml:"poll_interval"`
	// PollTimeout bounds such a question.
	PollTimeout time.Duration `yaml:"poll_timeout"`
	// LoadTimeout bounds a load, and ActionTimeout any other order to an engine.
	LoadTimeout   time.Duration `yaml:"load_timeout"`
	ActionTimeout time.Duration `yaml:"action_timeout"`
	// WarmUp has a model answer one token after a load or a wake, before requests get there: the first
	// answer of an engine takes longer, and with it all requests that were sent there meanwhile.
	WarmUp bool `yaml:"warm_up,omitempty"`
}

// DefaultConfig suits models of some ten gigabytes.
func DefaultConfig() Config {
	return Config{PollInterval: 5 * time.Second, PollTimeout: 2 * time.Second, LoadTimeout: 10 * time.Minute, ActionTimeout: 2 * time.Minute}
}

// Validate names every fault of the configuration, by its YAML key.
func (c Config) Validate() error {
	var found faults.List
	found.If(c.PollInterval < 0, "poll_interval: %v is negative; want a time such as 5s, or 0s to ask engines for their states at the start alone", c.PollInterval)
	for _, x := range []struct {
		key  string
		time time.Duration
	}{{"poll_timeout", c.PollTimeout}, {"load_timeout", c.LoadTimeout}, {"action_timeout", c.ActionTimeout}} {
		found.If(x.time <= 0, "%s: %v; want a positive time such as 10s", x.key, x.time)
	}
	return found.Err()
}

// limit bounds an action.
func (c Config) limit(v control.Verb) time.Duration {
	if v == control.Load {
		return c.LoadTimeout
	}
	return c.ActionTimeout
}

// Options is what an Actuator is made of.
type Options struct {
	Config   Config
	Replicas []Replica // in the table's order
	// Clock gives events their times.
	Clock func() time.Duration
	// Placed is the state that the router takes the replica to be placed in.
	Placed func(replica int) fleet.State
	// Observe gets each event, from any goroutine.
	Observe func(control.Event)
	// Ended is called with how each action ended, and how long it took. It may be nil.
	Ended func(a control.Action, took time.Duration, err error)
	// Polled is called with how each question for states ended. It may be nil.
	Polled func(replicas []int, err error)
}

// Actuator has engines do what controllers decide. It implements [control.Actuator].
type Actuator struct {
	options Options
	ctx     context.Context
	stop    context.CancelFunc
	work    sync.WaitGroup
	servers []server

	stamp Stamp // nil: orders carry none

	mu       sync.Mutex // protects what follows
	stopped  bool
	replicas []acting
}

var _ control.Actuator = (*Actuator)(nil)

// acting is what an Actuator remembers of a replica.
type acting struct {
	server *server // nil if nothing drives it
	epoch  uint64  // the newest that an action came with
	busy   bool
	cut    context.CancelCauseFunc // ends the action under way
	verb   control.Verb            // of the action under way
	turns  uint64                  // actions that began or ended
	asked  int                     // level that the next sleep is to have; 0 is 1
	note   string                  // of the last reading, or why there is none
}

// New makes an Actuator. It polls from [Actuator.Start] on.
func New(o Options) *Actuator {
	a := &Actuator{options: o, replicas: make([]acting, len(o.Replicas)), servers: serversOf(o.Replicas)}
	for i := range a.servers {
		for _, r := range a.servers[i].replicas {
			a.replicas[r].server = &a.servers[i]
		}
	}
	a.ctx, a.stop = context.WithCancel(context.Background())
	if a.options.Ended == nil {
		a.options.Ended = func(control.Action, time.Duration, error) {}
	}
	if a.options.Polled == nil {
		a.options.Polled = func([]int, error) {}
	}
	return a
}

// Stop ends the polling and cuts off the actions under way, whose engines go on by
// themselves. It returns once no goroutine of the actuator is left.
func (a *Actuator) Stop() {
	a.mu.Lock()
	a.stopped = true
	a.mu.Unlock()
	a.stop()
	a.work.Wait()
}

// SetLevel has the replica's next sleeps be of that level.
func (a *Actuator) SetLevel(replica, level int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.replicas[replica].asked = level
}

// Level returns the level at which the replica's engine was put to sleep; 0 if it was not, or if that is
// not known.
func (a *Actuator) Level(replica int) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.serverOf(replica); s != nil {
		return s.level
	}
	return 0
}

// Slept has the replica's engine count as put to sleep at a level, as an earlier run did.
func (a *Actuator) Slept(replica, level int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if s := a.serverOf(replica); s != nil && level > 0 {
		s.level = level
	}
}

// Note says in words what is to be known of the replica's state, such as why its engine
// has not reported it; empty if there is nothing.
func (a *Actuator) Note(replica int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.replicas[replica].note
}

// SetStamp has each order carry the replica's stamp: an epoch in the header X-Gearshift-Epoch, with the
// term in its upper half and the number of the placement in the lower one, and the fleet's secret. It is
// called before the first action.
func (a *Actuator) SetStamp(stamp Stamp) { a.stamp = stamp }

// errAbandoned is why an action was cut off.
var errAbandoned = errors.New("its host is lost")

// Abandon cuts off the actions under way on the replicas, which fail. Their engines may still carry
// them out.
func (a *Actuator) Abandon(replicas []int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, i := range replicas {
		if at := &a.replicas[i]; at.busy {
			at.cut(errAbandoned)
		}
	}
}

// Driven reports whether the replica has a dialect.
func (a *Actuator) Driven(replica int) bool { return a.options.Replicas[replica].Dialect != nil }

// Refuses says why the replica's engine cannot do the verb at all, whatever its state is;
// nil if it can.
func (a *Actuator) Refuses(replica int, o Order) error {
	r := &a.options.Replicas[replica]
	if r.Dialect == nil {
		return fmt.Errorf("nothing drives the engine of replica %s: set serving.upstreams.%s.lifecycle to %s", r.Name, r.Name, oneOf(Dialects()))
	}
	return r.Dialect.Refuses(o)
}

// Act implements [control.Actuator].
func (a *Actuator) Act(x control.Action) error {
	r := &a.options.Replicas[x.Replica]
	a.mu.Lock()
	defer a.mu.Unlock()
	at := &a.replicas[x.Replica]
	o := a.order(x)
	if err := a.Refuses(x.Replica, o); err != nil {
		return err
	}
	switch {
	case a.stopped:
		return errors.New("the router is ending")
	case x.Epoch < at.epoch:
		return fmt.Errorf("replica %s: the action is of placement %d, and one of placement %d has been seen", r.Name, x.Epoch, at.epoch)
	case at.busy:
		return fmt.Errorf("replica %s: its engine is busy with another action, %v", r.Name, at.verb)
	}
	ctx, cut := context.WithCancelCause(a.ctx)
	at.epoch, at.busy, at.verb, at.cut = x.Epoch, true, x.Verb, cut
	at.turns++
	a.work.Go(func() { a.act(ctx, x, o) })
	return nil
}

// order is the verb with the level that it has on the replica. The lock is held.
func (a *Actuator) order(x control.Action) Order {
	o := Order{Verb: x.Verb}
	switch s := a.serverOf(x.Replica); {
	case x.Verb == control.Sleep:
		o.Level = max(1, a.replicas[x.Replica].asked)
	case x.Verb == control.Wake && s != nil:
		o.Level = s.level
	}
	return o
}

// act carries an action out, and says how it ended.
func (a *Actuator) act(ctx context.Context, x control.Action, o Order) {
	r := &a.options.Replicas[x.Replica]
	began := a.options.Clock()
	ctx, cancel := context.WithTimeout(ctx, a.options.Config.limit(x.Verb))
	model := r.model()
	err := r.Dialect.Do(ctx, a.stamped(x.Replica, x.Epoch), model, o)
	if err == nil {
		err = a.confirm(ctx, r, model, x.Verb.State())
	}
	if err == nil && a.options.Config.WarmUp && x.Verb.State() == fleet.Up {
		warmUp(ctx, r.Engine, model)
	}
	cancel()
	now := a.options.Clock()
	a.mu.Lock()
	at := &a.replicas[x.Replica]
	at.busy = false
	at.cut(nil)
	at.turns++
	s := a.serverOf(x.Replica)
	if u := (*unfit)(nil); errors.As(err, &u) {
		s.unfit = err.Error()
	}
	if err == nil {
		at.note = ""
		if s.level, s.unfit = 0, ""; x.Verb == control.Sleep {
			s.level = o.Level
		}
	}
	stopped := a.stopped
	a.mu.Unlock()
	if stopped {
		return
	}
	a.options.Ended(x, now-began, err)
	e := control.Event{At: now, Kind: x.Verb.Done(), Replica: x.Replica, Host: r.Host, Action: x}
	if err != nil {
		e.Kind, e.Reason = control.ActionFailed, err.Error()
	}
	a.options.Observe(e)
	if err != nil { // what the engine has now is for it to say
		a.Poll(x.Replica)
	}
}

// warmUp has the model answer one token. An engine that does not is up all the same.
func warmUp(ctx context.Context, e Engine, model string) {
	_ = ask(ctx, e, http.MethodPost, "/v1/completions", map[string]any{"model": model, "prompt": "1", "max_tokens": 1}, nil)
}

// confirming is how often an engine that has answered is asked whether it is done: Triton
// unloads, and vLLM's older servers sleep, after they have answered.
const confirming = 100 * time.Millisecond

// confirm returns once the engine says that the model is in the state.
func (a *Actuator) confirm(ctx context.Context, r *Replica, model string, want fleet.State) error {
	for {
		readings, err := r.Dialect.States(ctx, r.Engine, []string{model})
		if err != nil {
			return err
		}
		switch r := readings[0]; {
		case r.State == want:
			return nil
		case want == fleet.Up && r.State == fleet.Cold && r.Note != "":
			return fmt.Errorf("the engine has not loaded the model: %s", r.Note)
		}
		select {
		case <-time.After(confirming):
		case <-ctx.Done():
			return fmt.Errorf("the engine has taken the order, and its model is still %v", readings[0].State)
		}
	}
}

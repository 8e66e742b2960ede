// Package work is what the server does with one request from its arrival to its end: it
// takes a place on a replica, moves to another one, and is worth something when it ends.
package work

import (
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
)

// Router chooses where a request goes: what a Server needs of a [router.Core].
type Router interface {
	// Route routes a request whose arrival the ledger has counted: to the variant,
	// or where the policy decides if that is below zero. It shows the observer, if
	// there is one, what the choice is based on.
	Route(variant int, r *fleet.Request, now time.Duration, w router.Observer) (router.Choice, error)
	// Spare takes a place on the variant for a request of the router's own, if there is room.
	Spare(variant int, r *fleet.Request, now time.Duration) (lease fleet.Lease, replica int, ok bool)
	PolicyName() string
	// Doubt has another decide instead of policies that choose by forecasts, or not; Doubted reports
	// whether it does.
	Doubt(doubted bool)
	Doubted() bool
	Ledger() *fleet.Ledger
	Table() *fleet.Table
}

// Clock is the time since an epoch. It never runs back.
type Clock func() time.Duration

// WallClock counts real time from now on.
func WallClock() Clock {
	start := time.Now()
	return func() time.Duration { return time.Since(start) }
}

// Auto stands for the policy's own choice where a variant is asked for.
const Auto = -1

// Adapter joins the clock to the router: it stamps what happens with the time
// at which it happened, and reckons what each request was worth when it ends.
// It knows no HTTP. Its methods may be called from any goroutine.
type Adapter struct {
	router Router
	clock  Clock
	held   []atomic.Int64  // by replica: tokens that its requests hold
	hidden []atomic.Int64  // by replica: its requests whose progress is not seen, see Work.Hide
	bounds []router.Bounds // by replica
	// Events are by replica.
	Events []Events
	// Sign is called with the replica of each new token, if set.
	Sign func(replica int)
	// Hide, if set, returns replicas that the request is not to be given when it is routed. Where the
	// replica that it is given fails, it may go to them all the same.
	Hide func(r *fleet.Request) []int
	// Drift compares answers with profiles. It may be nil.
	Drift *drift.Monitor
	// Prompts correct the lengths of prompts, by task.
	Prompts Prompts

	replicas []int // all indices
	last     atomic.Uint64
}

// NewAdapter makes an Adapter.
func NewAdapter(r Router, clock Clock) *Adapter {
	n := len(r.Table().Replicas)
	a := &Adapter{router: r, clock: clock, held: make([]atomic.Int64, n), hidden: make([]atomic.Int64, n), bounds: make([]router.Bounds, n), Events: make([]Events, n), Prompts: make(Prompts, len(r.Table().Tasks))}
	for i := range a.held {
		a.replicas = append(a.replicas, i)
	}
	return a
}

// Held implements fleet.Holder.
func (a *Adapter) Held(replica int) int { return int(a.held[replica].Load()) }

// AddHidden adds the requests whose progress is not seen to the counts by replica.
func (a *Adapter) AddHidden(counts []int) {
	for i := range counts {
		counts[i] += int(a.hidden[i].Load())
	}
}

// Tightest implements fleet.Bounder.
func (a *Adapter) Tightest(replica int) time.Duration { return a.bounds[replica].Tightest() }

// keep has a request's deadline kept on the replica, until its release.
func (a *Adapter) keep(replica int, deadline time.Duration) time.Duration {
	a.bounds[replica].Add(deadline)
	return deadline
}

func (a *Adapter) release(replica int, deadline time.Duration) { a.bounds[replica].Remove(deadline) }

// Arrive stamps the request's arrival and number, and notes the arrival, once. The
// work has no place yet: it is to Begin, and only then to End.
func (a *Adapter) Arrive(r fleet.Request) *Work {
	w := &Work{Request: r, adapter: a}
	w.Request.ID, w.Request.Arrival = a.last.Add(1), a.clock()
	a.router.Ledger().Arrive(w.Request.Arrival)
	return w
}

// Place makes work of what has been planned for the replica, by a plan of that name, rather than
// routed. Where all places are taken it takes one more, and waits in the engine. It reports false if
// the replica takes no requests.
func (a *Adapter) Place(r fleet.Request, replica int, plan string) (*Work, bool) {
	ledger := a.router.Ledger()
	lease, ok := ledger.Begin(replica, r.Task)
	for v := new(fleet.View); !ok; {
		if ledger.View(a.clock(), v); !v.Uncapped(replica) {
			return nil, false
		}
		lease, ok = ledger.BeginOver(v, fleet.Lease{}, replica, r.Task)
	}
	w := &Work{Request: r, adapter: a, late: true, Tokenless: true}
	w.Choice = router.Choice{Replica: replica, Variant: ledger.Table().Replicas[replica].Variant, Policy: plan, Lease: lease}
	w.Request.ID, w.Request.Arrival, w.Chosen = a.last.Add(1), a.clock(), w.Variant
	return w, true
}

// Spare takes a place on the variant for a request of the router's own, which is no work of a client's
// and does not wait: it reports false without room for it. The request is expected to hold so many
// tokens there. The reservation is to be ended.
func (a *Adapter) Spare(r *fleet.Request, variant, tokens int) (*Reservation, bool) {
	a.router.Ledger().HoldEach(a.replicas, a)
	lease, replica, ok := a.router.Spare(variant, r, a.clock())
	if !ok {
		return nil, false
	}
	p := &Reservation{adapter: a, lease: lease, Variant: variant, Replica: replica}
	p.hold(tokens)
	return p, true
}

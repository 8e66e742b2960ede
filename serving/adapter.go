package serving

import (
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/serving/keys"
	"gearshift/serving/wire"
)

// Router chooses where a request goes: what a Server needs of a [router.Core].
type Router interface {
	// Route routes a request of whose arrival the ledger has heard: to the variant,
	// or where the policy decides if that is below zero. It shows the witness what it
	// went by, if there is one.
	Route(variant int, r *fleet.Request, now time.Duration, w router.Observer) (router.Choice, error)
	PolicyName() string
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
	held   []atomic.Int64    // by replica: tokens that its requests hold
	bounds []router.Bounds   // by replica
	events []events          // by replica
	sign   func(replica int) // is told of new tokens, if set
	drift  *drift.Monitor    // may be nil
	// prompts are by task
	prompts prompts

	replicas []int // all indices
	last     atomic.Uint64
}

// NewAdapter makes an Adapter.
func NewAdapter(r Router, clock Clock) *Adapter {
	n := len(r.Table().Replicas)
	a := &Adapter{router: r, clock: clock, held: make([]atomic.Int64, n), bounds: make([]router.Bounds, n), events: make([]events, n), prompts: make(prompts, len(r.Table().Tasks))}
	for i := range a.held {
		a.replicas = append(a.replicas, i)
	}
	return a
}

// Held implements fleet.Holder.
func (a *Adapter) Held(replica int) int { return int(a.held[replica].Load()) }

// Tightest implements fleet.Bounder.
func (a *Adapter) Tightest(replica int) time.Duration { return a.bounds[replica].Tightest() }

// keep has a request's deadline kept on the replica, until its release.
func (a *Adapter) keep(replica int, deadline time.Duration) time.Duration {
	a.bounds[replica].Add(deadline)
	return deadline
}

func (a *Adapter) release(replica int, deadline time.Duration) { a.bounds[replica].Remove(deadline) }

// Work is a routed request until its End.
type Work struct {
	router.Choice
	Request fleet.Request
	// FirstToken is from arrival to the first token of the answer, or to the
	// beginning of an answer in one piece; zero without one.
	FirstToken time.Duration
	// Chosen is the variant that the request was routed to. [Choice.Variant] is the
	// one that has the work now: another, if no replica of the chosen one answered.
	Chosen int
	// Attempts counts the replicas that were asked.
	Attempts int
	// Waited is from arrival to the place on a replica.
	Waited time.Duration

	adapter *Adapter
	account *Account      // of the request that it is for; nil if none is kept
	prompt  wire.Prompt   // as estimated, before correction
	held    int           // tokens on the replica
	unseen  int           // tokens that it is taken to hold beside those that were seen
	bound   time.Duration // that it keeps there; see router.Bounds
	stay    drift.Stay    // among those that decode there
	streams bool          // its tokens are seen as they come
	spend   keys.Spend    // of its key's token budgets
	told    bool          // its end is what its caller says of it
	// tokenless says that its answer has no output tokens, so that none are not unknown.
	tokenless bool
	whole     time.Duration // when its client had all of the answer; zero if that is not known
	tried     bool
	ended     atomic.Bool
}

// Arrive stamps the request's arrival and number, and notes the arrival, once. The
// work has no place yet: it is to Begin, and only then to End.
func (a *Adapter) Arrive(r fleet.Request) *Work {
	w := &Work{Request: r, adapter: a}
	w.Request.ID, w.Request.Arrival = a.last.Add(1), a.clock()
	a.router.Ledger().Arrive(w.Request.Arrival)
	return w
}

// Begin routes work that has arrived to the variant, or where the policy decides if
// that is [Auto]: at first at the moment of its arrival. The witness, if there is one,
// is shown what that went by. After an error, which is the router's, it may be tried
// again, at the moment that is then. It must not be called at the same time as itself.
func (w *Work) Begin(variant int, witness router.Observer) (err error) {
	a := w.adapter
	now := w.Request.Arrival
	if w.tried {
		now = a.clock()
	}
	w.tried = true
	a.router.Ledger().HoldEach(a.replicas, a)
	if w.Choice, err = a.router.Route(variant, &w.Request, now, witness); err != nil {
		return err
	}
	w.Chosen, w.Waited = w.Variant, now-w.Request.Arrival
	w.hold(w.Request.PromptTokens + w.unseen)
	w.bound = a.keep(w.Replica, router.Promise(w.task(), &w.Request, w.Pace))
	w.joins(now)
	return nil
}

// Progress notes how many tokens of the answer have come so far. It must not
// be called at the same time as Move, End or itself.
func (w *Work) Progress(generated int) {
	if generated > 0 {
		w.Begun()
	}
	if w.adapter.sign != nil && w.Request.PromptTokens+generated > w.held {
		w.adapter.sign(w.Replica)
	}
	w.hold(w.Request.PromptTokens + generated)
	w.decodes(generated)
}

// Begun notes that the answer has begun, if that is not known yet.
func (w *Work) Begun() {
	if w.FirstToken == 0 {
		w.FirstToken = w.adapter.clock() - w.Request.Arrival
	}
}

// Delivered notes that the client has all of the answer, though the replica has not ended
// it yet.
func (w *Work) Delivered() {
	if w.whole == 0 {
		w.whole = w.adapter.clock()
	}
}

// hold makes the request hold so many tokens on its replica.
func (w *Work) hold(tokens int) {
	w.adapter.held[w.Replica].Add(int64(tokens - w.held))
	w.held = tokens
}

// Outcome is how work ended.
type Outcome uint8

// The outcomes.
const (
	// Panicked is the zero value: work that nobody gave another outcome.
	Panicked Outcome = iota
	// Completed: the answer went out whole.
	Completed
	// Refused: the upstream found fault with the request (4xx).
	Refused
	// Failed: the upstream failed, or could not be reached.
	Failed
	// TimedOut: the upstream took too long.
	TimedOut
	// Cancelled: the client left.
	Cancelled
	// Expired: the holder of a lease never came back.
	Expired
)

var outcomes = [...]string{"panicked", "completed", "refused", "failed", "timed out", "cancelled", "expired"}

// String is the outcome as metrics and logs have it.
func (o Outcome) String() string { return outcomes[o] }

// Result is what ended work was worth.
type Result struct {
	Outcome Outcome
	// Tokens is the length of the answer, as far as it came; zero if unknown.
	Tokens int
	// Latency is from arrival to finish, PerToken the same divided by the
	// output tokens; zero unless completed with a known number of tokens.
	Latency, PerToken time.Duration
	// Judged says that the deadline was met or missed. A client's own doing
	// (a faulty request, a cancel) and an unknown length are not judged; an
	// answer that never came is a miss.
	Judged, Met bool
	// Utility is zero unless completed.
	Utility float64
	// Told says that the router saw none of the answer: the end and its length are
	// what the holder of a lease said of them.
	Told bool
}

// End gives the place back and reckons the result. Tokens is the length of the
// answer, zero if unknown. Only the first call counts; later ones report false.
func (w *Work) End(outcome Outcome, tokens int) (Result, bool) {
	if !w.ended.CompareAndSwap(false, true) {
		return Result{}, false
	}
	a := w.adapter
	w.leaves(outcome, tokens)
	w.hold(0)
	a.release(w.Replica, w.bound)
	finish := a.clock()
	if outcome == Completed && w.whole > 0 {
		finish = w.whole
	}
	r := w.result(outcome, tokens, finish)
	if r.Judged {
		w.Lease.Settle(w.task().Shortfall(r.Utility))
	}
	w.Lease.End() // last, since it tells those who wait for room
	return r, true
}

// result reckons what the work was worth that ended at finish.
func (w *Work) result(outcome Outcome, tokens int, finish time.Duration) Result {
	r := Result{Outcome: outcome, Tokens: tokens, Latency: finish - w.Request.Arrival, Told: w.told}
	switch outcome {
	case Failed, TimedOut, Panicked:
		r.Judged = true
	case Completed:
		w.judge(&r)
	}
	return r
}

// judge holds a whole answer against its deadlines. One whose length is not known cannot
// be held against one per token; one without output tokens need not be, where there is
// another for its end.
func (w *Work) judge(r *Result) {
	task := w.task()
	deadlines := task.Deadlines(&w.Request)
	if w.tokenless {
		deadlines = deadlines.Of(0)
	}
	if r.Tokens < 1 && deadlines.PerToken > 0 {
		return
	}
	// Several answers of one prompt come side by side: each has its share of the tokens.
	took := fleet.Took(w.FirstToken, r.Latency, max(1, r.Tokens/max(1, w.Request.Answers)))
	if r.Tokens > 0 {
		r.PerToken = took.PerToken
	}
	r.Utility = task.Utility(w.Variant, took, deadlines)
	r.Judged, r.Met = true, deadlines.Met(took)
}

func (w *Work) task() *fleet.Task { return &w.adapter.router.Table().Tasks[w.Request.Task] }

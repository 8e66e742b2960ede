package work

import (
	"slices"
	"sync/atomic"
	"time"

	"gearshift/router"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

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
	// Overhead is what the router took of the time from the whole body to the first
	// attempt, Waited left out; zero if it made none.
	Overhead time.Duration

	// Prompt is as estimated, before its correction.
	Prompt wire.Prompt
	// Unseen is how many tokens it is taken to hold in addition to those that were seen.
	Unseen int
	// Streams says that its tokens are seen as they come.
	Streams bool
	// Spend is of the token budgets of its key.
	Spend access.Spend
	// Reported says that its end is what its caller reports.
	Reported bool
	// Tokenless says that its answer has no output tokens, so that none are not unknown.
	Tokenless bool
	// Ticket names it to feedback; 0 is none.
	Ticket uint64
	// Candidate says that the predictor on trial has predicted its quality.
	Candidate bool
	// Ending is called at its end, if it is not nil.
	Ending Ending

	adapter *Adapter
	held    int           // tokens on the replica
	hidden  bool          // its progress is not seen
	bound   time.Duration // that it keeps there; see router.Bounds
	stay    drift.Stay    // among those that decode there
	whole   time.Duration // when its client had all of the answer; zero if that is not known
	late    bool          // it no longer begins at the moment of its arrival
	ended   atomic.Bool
}

// Ending is called at the end of work.
type Ending interface {
	Over(r Result)
}

// Held is how many tokens it holds on its replica.
func (w *Work) Held() int { return w.held }

// Delay notes that time has passed since the arrival, which Begin then no longer takes for now.
func (w *Work) Delay() { w.late = true }

// Begin routes work that has arrived to the variant, or where the policy decides if
// that is [Auto]: at first at the moment of its arrival. The observer, if there is one,
// is shown what that is based on. After an error, which is the router's, it may be tried
// again, at the moment that is then. It must not be called at the same time as itself.
func (w *Work) Begin(variant int, observer router.Observer) (err error) {
	a := w.adapter
	now := w.Request.Arrival
	if w.late {
		now = a.clock()
	}
	w.late = true
	a.router.Ledger().HoldEach(a.replicas, a)
	if a.Hide != nil && w.Request.Only == 0 {
		defer w.without(a.Hide(&w.Request))()
	}
	if w.Choice, err = a.router.Route(variant, &w.Request, now, observer); err != nil {
		return err
	}
	w.Chosen, w.Waited = w.Variant, now-w.Request.Arrival
	w.hold(w.Request.PromptTokens + w.Unseen)
	w.bound = a.keep(w.Replica, router.Promise(w.task(), &w.Request, w.Pace))
	w.joins(now)
	return nil
}

// without keeps the request from replicas until the function is called that it returns.
func (w *Work) without(replicas []int) (restore func()) {
	if len(replicas) == 0 {
		return func() {}
	}
	own := w.Request.Without
	if w.Request.Without = replicas; len(own) > 0 {
		w.Request.Without = slices.Concat(own, replicas)
	}
	return func() { w.Request.Without = own }
}

// Progress notes how many tokens of the answer have come so far. It must not
// be called at the same time as Move, End or itself.
func (w *Work) Progress(generated int) {
	if generated > 0 {
		w.Begun()
	}
	if w.adapter.Sign != nil && w.Request.PromptTokens+generated > w.held {
		w.adapter.Sign(w.Replica)
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

// Hide notes that the progress of the answer is not seen until its end, so that a replica that shows none with it is not
// silent. It must not be called at the same time as Move, End or itself.
func (w *Work) Hide() {
	if !w.hidden {
		w.hidden = true
		w.adapter.hidden[w.Replica].Add(1)
	}
}

// show ends that, before the work leaves its replica.
func (w *Work) show() (hidden bool) {
	if hidden = w.hidden; hidden {
		w.hidden = false
		w.adapter.hidden[w.Replica].Add(-1)
	}
	return hidden
}

// hold makes the request hold so many tokens on its replica.
func (w *Work) hold(tokens int) {
	w.adapter.held[w.Replica].Add(int64(tokens - w.held))
	w.held = tokens
}

// Forecast estimates the duration of an answer of this many tokens: at the pace forecast when the work was routed, or
// else at the pace that its task allows.
func (w *Work) Forecast(tokens int) time.Duration {
	pace := float64(w.task().Allowed(w.Request.Deadline))
	if w.Pace > 0 {
		pace *= w.Pace
	}
	return time.Duration(float64(tokens) / float64(max(1, w.Request.Answers)) * pace)
}

// End gives the place back and reckons the result. Tokens is the length of the
// answer, zero if unknown. Only the first call counts; later ones report false.
func (w *Work) End(outcome Outcome, tokens int) (Result, bool) {
	if !w.ended.CompareAndSwap(false, true) {
		return Result{}, false
	}
	a := w.adapter
	w.show()
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
	w.Lease.End() // last, since it wakes those that wait for room
	return r, true
}

// result reckons what the work was worth that ended at finish.
func (w *Work) result(outcome Outcome, tokens int, finish time.Duration) Result {
	r := Result{Outcome: outcome, Tokens: tokens, Latency: finish - w.Request.Arrival, Reported: w.Reported}
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
	if w.Tokenless {
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

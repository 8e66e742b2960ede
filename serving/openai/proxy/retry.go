package proxy

import (
	"net/http"
	"sync"
	"time"

	"gearshift/router/health"
	"gearshift/serving/config"
)

// failure is how a replica failed a request.
type failure = health.Failure

// The failures. What a client did, by leaving or by asking for something
// impossible, is none.
const (
	failedConnect = health.Connect
	failedBroken  = health.Broken
	failedStatus  = health.ServerError
	failedTimeout = health.Timeout
)

// failedBusy is the reason for a retry that is no failure of the replica: it has
// enough to do (429).
const failedBusy failure = "busy"

// statusOverloaded is Anthropic's.
const statusOverloaded = 529

// refusal reports whether the replica has refused the request before it worked on it.
func (a *answer) refusal() bool {
	if a.response == nil {
		return false
	}
	switch a.status() {
	case http.StatusTooManyRequests, http.StatusServiceUnavailable, statusOverloaded:
		return true
	}
	return false
}

// failedContext is the reason for a retry on a longer context.
const failedContext failure = "context"

// budgetSlices is into how many slices the window of a budget falls. The oldest
// leaves it as a whole.
const budgetSlices = 10

// budget grants further attempts: a share of the requests of the last window,
// but never fewer than the minimum.
type budget struct {
	mu      sync.Mutex // protects all below
	share   float64
	minimum int
	slice   time.Duration
	slices  [budgetSlices]spending
	now     int64 // the number of the present slice
}

// spending counts what happened in one slice.
type spending struct{ requests, retries int }

func (s *spending) add(o spending) {
	s.requests += o.requests
	s.retries += o.retries
}

func newBudget(r config.Retries) *budget {
	b := &budget{slice: 1}
	b.set(r, 0)
	return b
}

// set changes what is granted. What has been counted stays, as far back as the new
// window reaches: a slice counts from its beginning.
func (b *budget) set(r config.Retries, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.present(now)
	before, last, length := b.slices, b.now, b.slice
	b.share, b.minimum, b.slice = r.BudgetPercent/100, r.BudgetMin, max(1, r.BudgetWindow/budgetSlices)
	b.slices = [budgetSlices]spending{}
	b.now = int64(max(now, time.Duration(last)*length) / b.slice)
	for at := max(0, last-budgetSlices+1); at <= last; at++ {
		if began := int64(time.Duration(at) * length / b.slice); began > b.now-budgetSlices {
			b.slices[began%budgetSlices].add(before[at%budgetSlices])
		}
	}
}

// request pays in for a request.
func (b *budget) request(now time.Duration) {
	b.mu.Lock()
	b.present(now).requests++
	b.mu.Unlock()
}

// take takes out one retry. It reports false if there is none.
func (b *budget) take(now time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	present := b.present(now)
	var sum spending
	for _, s := range b.slices {
		sum.add(s)
	}
	if float64(sum.retries+1) > max(float64(b.minimum), b.share*float64(sum.requests)) {
		return false
	}
	present.retries++
	return true
}

// giveBack undoes a take that has come to nothing.
func (b *budget) giveBack(now time.Duration) {
	b.mu.Lock()
	b.present(now).retries--
	b.mu.Unlock()
}

// present is the slice of the time now. Those that have passed begin again. The
// caller holds b.mu.
func (b *budget) present(now time.Duration) *spending {
	at := max(b.now, int64(now/b.slice)) // a caller may come late to the lock
	for passed := max(b.now, at-budgetSlices) + 1; passed <= at; passed++ {
		b.slices[passed%budgetSlices] = spending{}
	}
	b.now = at
	return &b.slices[at%budgetSlices]
}

// Reasons are those for further attempts, as metrics have them.
var Reasons = []string{string(failedConnect), string(failedBroken), string(failedStatus), string(failedTimeout), string(failedBusy), string(failedContext), string(failedLost), string(health.ErrorAlone)}

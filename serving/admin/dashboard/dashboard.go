// Package dashboard is the page that the router serves to its operators: what the
// fleet does now, how it did in the last minutes, and why requests went where they
// did. Everything it needs is in the binary.
package dashboard

import (
	"sync"
	"time"

	"golang.org/x/time/rate"

	"gearshift/router/fleet"
	"gearshift/serving"
)

// About is what the page says of the router besides its status.
type About struct {
	Version  string `json:"version"`
	Scenario string `json:"scenario"`
	// Addr is where clients ask.
	Addr string `json:"addr"`
}

// Dashboard keeps the last minutes, second by second, and some of the last
// decisions, in bounded memory. It implements [serving.Module].
type Dashboard struct {
	// Failover, if set, is how applications stand that survive their hosts, to be encoded as JSON.
	// It is called from any goroutine.
	Failover func() any
	// Tail, if set, is how busy the busiest hosts are, in the same way.
	Tail func() any
	// Quality, if set, is what predicts the quality of answers, and what came of it, in the same way.
	Quality func() any
	// Learned, if set, returns the values that no file declares, in the same way.
	Learned func() any
	// Streams, if set, is how streaming clients are served, in the same way.
	Streams func() any

	table *fleet.Table
	about About
	boot  int64 // distinguishes one run of the router from the next
	now   func() time.Time

	explained *rate.Limiter // decisions kept with their explanation
	faults    *rate.Limiter // requests kept because they were not completed

	mu        sync.Mutex // protects all below
	seconds   seconds
	decisions decisions
}

const (
	// kept is how many seconds, and recent how many decisions, there are to see.
	kept   = 15 * 60
	recent = 200
	// explainedPerSecond bounds the decisions that are explained for the page, and
	// faultsPerSecond those kept because something went wrong.
	explainedPerSecond = 5
	faultsPerSecond    = 5
)

// New makes a Dashboard. Now is time.Now if nil.
func New(t *fleet.Table, about About, now func() time.Time) *Dashboard {
	if now == nil {
		now = time.Now
	}
	return &Dashboard{
		table: t, about: about, boot: now().UnixMilli(), now: now,
		explained: rate.NewLimiter(explainedPerSecond, 2*explainedPerSecond),
		faults:    rate.NewLimiter(faultsPerSecond, 2*faultsPerSecond),
		seconds:   newSeconds(len(t.Variants)),
		decisions: newDecisions(),
	}
}

// Curious implements [serving.Observer].
func (d *Dashboard) Curious() bool { return d.explained.AllowN(d.now(), 1) }

// Routed implements [serving.Observer].
func (d *Dashboard) Routed(a *serving.Account) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seconds.at(now).Chosen[a.Work.Variant]++
	if a.Explanation != nil {
		d.decisions.add(a.Work.Request.ID, d.decision(a))
	}
}

// Over implements [serving.Observer].
func (d *Dashboard) Over(a *serving.Account) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seconds.at(now).over(a, d.table)
	if a.Work != nil && d.decisions.update(a.Work.Request.ID, d.decision(a)) {
		return
	}
	if amiss(a) && d.faults.AllowN(now, 1) {
		d.decisions.add(0, d.decision(a))
	}
}

// amiss says that an operator may want to know of the request: it is the router or
// its replicas that did not do their part.
func amiss(a *serving.Account) bool {
	if a.Job != nil && a.Job.Answered() {
		return !a.Job.Kept
	}
	if a.Work == nil {
		return a.Outcome() != serving.OutcomeRefused
	}
	return a.Result.Judged && !a.Result.Met || a.Work.Fallback
}

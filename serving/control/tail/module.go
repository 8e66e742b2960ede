// Package tail shows how busy the busiest hosts of a router are. Requests are turned away, and time
// out, where there is no room, so that the busiest hosts, and not the mean, say how much capacity a
// fleet has left.
package tail

import (
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/work"
)

// Options are what a Module is made of.
type Options struct {
	Table *fleet.Table
	// Target is the utilisation up to which the busiest hosts are to be used.
	Target float64
	// Takes is how much of its time the replica's host needs for an answer of so many tokens, in as
	// large batches as it can compute in time.
	Takes func(replica, tokens int) time.Duration
	// Moves are replicas that are being moved, and Versions those of models, to be shown with the
	// hosts. Nil is none.
	Moves, Versions func() any
}

// Module measures how busy hosts are, by the requests that they have answered. It implements
// [serving.Module], and joins one server.
type Module struct {
	options Options
	clock   func() time.Duration
	placed  func(replica int) fleet.State

	mu      sync.Mutex // protects all below
	buckets []bucket   // a ring, by the number of their time
}

// bucket is the seconds of work that each host has answered in one interval.
type bucket struct {
	number int64
	busy   []float64
}

const (
	// interval is that of a bucket, and window how many of them a utilisation is the mean of.
	interval = 10 * time.Second
	window   = 6
	// kept is how many utilisations there are to see: those of 15 minutes.
	kept = 90
)

// New makes a Module.
func New(o Options) (*Module, error) {
	if !(o.Target > 0 && o.Target <= 1) {
		return nil, fmt.Errorf("cannot show the tail: a target of %v; want more than 0 and at most 1", o.Target)
	}
	m := &Module{options: o, buckets: make([]bucket, kept+window)}
	for i := range m.buckets {
		m.buckets[i] = bucket{number: -1, busy: make([]float64, len(o.Table.Hosts))}
	}
	return m, nil
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.clock, m.placed = s.Clock(), s.Engines().Placed
	return serving.Parts{Observer: m, Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/tail", Access: serving.AdminRead, About: "how busy the busiest hosts are, and what capacity that asks for", Handler: m.serve},
	}}
}

// Curious implements [serving.Observer].
func (m *Module) Curious() bool { return false }

// Routed implements [serving.Observer].
func (m *Module) Routed(*serving.Account) {}

// Over implements [serving.Observer]: it counts what was answered. A job's batches have kept engines at work
// for as long as each took.
func (m *Module) Over(a *serving.Account) {
	if a.Job != nil {
		for _, b := range a.Job.Busy {
			m.count(b.Replica, b.Took, m.clock())
		}
		return
	}
	if w := a.Work; w != nil && a.Result.Outcome == work.Completed {
		m.count(w.Replica, m.options.Takes(w.Replica, a.Result.Tokens), m.clock())
	}
}

// count enters work that a replica has done.
func (m *Module) count(replica int, took, now time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.at(int64(now / interval)).busy[m.options.Table.Replicas[replica].Host] += took.Seconds()
}

// at is the bucket of a number, emptied if it was that of an earlier time.
func (m *Module) at(number int64) *bucket {
	b := &m.buckets[number%int64(len(m.buckets))]
	if b.number != number {
		b.number = number
		clear(b.busy)
	}
	return b
}

// used appends the utilisation of each host over the window before a bucket.
func (m *Module) used(before int64, buf []float64) []float64 {
	buf = append(buf, make([]float64, len(m.options.Table.Hosts))...)
	used := buf[len(buf)-len(m.options.Table.Hosts):]
	whole := min(window, before)
	for n := before - whole; n < before; n++ {
		if b := &m.buckets[n%int64(len(m.buckets))]; b.number == n {
			for h, x := range b.busy {
				used[h] += x
			}
		}
	}
	for h := range used {
		used[h] /= max(1, float64(whole)) * interval.Seconds()
	}
	return buf
}

// tailOf is what a distribution says: its middle, its twentieth-highest share, and the mean of the
// busiest twentieth, of one host at least.
func tailOf(used []float64) (t Tail) {
	if len(used) == 0 {
		return t
	}
	sorted := slices.Sorted(slices.Values(used))
	n := len(sorted)
	t.P50, t.P95 = sorted[(n-1)/2], sorted[min(n-1, (n*95+99)/100-1)]
	top := sorted[n-max(1, n/20):]
	for _, u := range top {
		t.Top += u / float64(len(top))
	}
	for _, u := range sorted {
		t.Mean += u / float64(n)
	}
	return t
}

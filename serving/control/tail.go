package control

import (
	"fmt"
	"net/http"
	"slices"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving"
)

// TailOptions are what a [Tail] is made of.
type TailOptions struct {
	Table *fleet.Table
	Busy  *signals.Busy
	// Target is the utilisation up to which the busiest hosts are to be used.
	Target float64
	// Moves are replicas that are being moved, Versions those of models, and Counts those of replicas, to be shown
	// with the hosts. Nil is none.
	Moves, Versions, Counts func() any
	// Placement is the layouts of hosts, likewise.
	Placement func() any
}

// Tail shows how busy the busiest hosts are, by the requests that they have answered. Requests are
// turned away, and time out, where there is no room, so that these, and not the mean, say how much
// capacity a fleet has left. It implements [serving.Module], and joins one server.
type Tail struct {
	options TailOptions
	clock   func() time.Duration
	placed  func(replica int) fleet.State
}

const (
	// interval is how far apart the utilisations are that are shown, and window is what they are the mean of.
	interval = 10 * time.Second
	window   = time.Minute
	// kept is how many utilisations there are to see: those of 15 minutes.
	kept = 90
)

// NewTail makes the module.
func NewTail(o TailOptions) (*Tail, error) {
	if !(o.Target > 0 && o.Target <= 1) {
		return nil, fmt.Errorf("cannot show the tail: a target of %v; want more than 0 and at most 1", o.Target)
	}
	return &Tail{options: o}, nil
}

// Join implements [serving.Module].
func (m *Tail) Join(s *serving.Server) serving.Parts {
	m.clock, m.placed = s.Clock(), s.Engines().Placed
	return serving.Parts{Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/tail", Access: serving.AdminRead, About: "how busy the busiest hosts are, and what capacity that asks for", Handler: m.serve},
	}}
}

// used returns the utilisation of each host over the window before a time.
func (m *Tail) used(now time.Duration) []float64 {
	used := make([]float64, len(m.options.Table.Hosts))
	for h := range used {
		used[h] = m.options.Busy.Host(h, window, now).Answered
	}
	return used
}

// tailOf is what a distribution says: its middle, its twentieth-highest share, and the mean of the
// busiest twentieth, of one host at least.
func tailOf(used []float64) (t Utilisations) {
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

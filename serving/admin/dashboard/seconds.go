package dashboard

import (
	"slices"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/work"
)

// second counts what happened in one second, and is what the page gets of it.
type second struct {
	At     int64    `json:"at"` // Unix time
	Chosen []uint32 `json:"chosen"`
	// Requests that ended: their deadlines met and missed, those that the router
	// or its replicas failed, and those that the router turned away for want of
	// room.
	Met      uint32  `json:"met"`
	Missed   uint32  `json:"missed"`
	Failed   uint32  `json:"failed"`
	Rejected uint32  `json:"rejected"`
	Utility  float64 `json:"utility"`
}

// seconds is a ring of the last ones.
type seconds struct {
	ring []second
	last int64
}

func newSeconds(variants int) seconds {
	s := seconds{ring: make([]second, kept)}
	for i := range s.ring {
		s.ring[i].Chosen = make([]uint32, variants)
	}
	return s
}

// at is the second of a time. One before the last, by a clock that was set back,
// counts as the last.
func (s *seconds) at(now time.Time) *second {
	t := max(now.Unix(), s.last)
	s.last = t
	x := &s.ring[t%kept]
	if x.At != t {
		clear(x.Chosen)
		*x = second{At: t, Chosen: x.Chosen}
	}
	return x
}

// over counts a request that is over, or the requests of a job.
func (x *second) over(a *serving.Account, t *fleet.Table) {
	if r := a.Job; r != nil && r.Answered() {
		x.Utility += r.Utility
		for name, n := range r.Strategy {
			if v := t.VariantIndex(name); v >= 0 {
				x.Chosen[v] += uint32(n)
			}
		}
		if r.Kept {
			x.Met += uint32(r.Inputs)
		} else {
			x.Missed += uint32(r.Inputs)
		}
		return
	}
	if a.Work == nil {
		switch a.Outcome() {
		case serving.OutcomeRejected:
			x.Rejected++
		case work.Failed.String():
			x.Failed++
		}
		return
	}
	x.Utility += a.Result.Utility
	switch {
	case a.Result.Met:
		x.Met++
	case a.Result.Judged:
		x.Missed++
	}
	switch a.Result.Outcome {
	case work.Failed, work.TimedOut, work.Panicked:
		x.Failed++
	}
}

// since lists the seconds from a time on in which anything happened.
func (s *seconds) since(from int64, now time.Time) []second {
	list := []second{}
	end := max(now.Unix(), s.last)
	for t := max(from, end-kept+1); t <= end; t++ {
		x := &s.ring[t%kept]
		if x.At != t {
			continue
		}
		copied := *x
		copied.Chosen = slices.Clone(x.Chosen)
		list = append(list, copied)
	}
	return list
}

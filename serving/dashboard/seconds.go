package dashboard

import (
	"time"

	"gearshift/serving"
	"gearshift/serving/work"
)

// second counts what happened in one second.
type second struct {
	at     int64 // Unix time
	chosen []uint32
	// Requests that ended: their deadlines met and missed, those that the router
	// or its replicas failed, and those that the router turned away for want of
	// room.
	met, missed, failed, rejected uint32
	utility                       float64
}

// seconds is a ring of the last ones.
type seconds struct {
	ring []second
	last int64
}

func newSeconds(variants int) seconds {
	s := seconds{ring: make([]second, kept)}
	for i := range s.ring {
		s.ring[i].chosen = make([]uint32, variants)
	}
	return s
}

// at is the second of a time. One before the last, by a clock that was set back,
// counts as the last.
func (s *seconds) at(now time.Time) *second {
	t := max(now.Unix(), s.last)
	s.last = t
	x := &s.ring[t%kept]
	if x.at != t {
		clear(x.chosen)
		*x = second{at: t, chosen: x.chosen}
	}
	return x
}

// over counts a request that is over.
func (x *second) over(a *serving.Account) {
	if a.Job != nil && a.Job.Answered() {
		if a.Job.Kept {
			x.met++
		} else {
			x.missed++
		}
		return
	}
	if a.Work == nil {
		switch a.Outcome() {
		case serving.OutcomeRejected:
			x.rejected++
		case work.Failed.String():
			x.failed++
		}
		return
	}
	x.utility += a.Result.Utility
	switch {
	case a.Result.Met:
		x.met++
	case a.Result.Judged:
		x.missed++
	}
	switch a.Result.Outcome {
	case work.Failed, work.TimedOut, work.Panicked:
		x.failed++
	}
}

// secondData is a second as the page gets it.
type secondData struct {
	At       int64    `json:"at"`
	Chosen   []uint32 `json:"chosen"`
	Met      uint32   `json:"met"`
	Missed   uint32   `json:"missed"`
	Failed   uint32   `json:"failed"`
	Rejected uint32   `json:"rejected"`
	Utility  float64  `json:"utility"`
}

// since lists the seconds from a time on in which anything happened.
func (s *seconds) since(from int64, now time.Time) []secondData {
	list := []secondData{}
	end := max(now.Unix(), s.last)
	for t := max(from, end-kept+1); t <= end; t++ {
		x := &s.ring[t%kept]
		if x.at != t {
			continue
		}
		list = append(list, secondData{
			At: t, Chosen: append([]uint32(nil), x.chosen...),
			Met: x.met, Missed: x.missed, Failed: x.failed, Rejected: x.rejected, Utility: x.utility,
		})
	}
	return list
}

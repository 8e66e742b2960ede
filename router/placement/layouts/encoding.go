package layouts

import (
	"math"
	"slices"
	"time"
)

// EncodingVersion numbers what the numbers of an [Encoder] mean. A network of another version decides nothing.
const EncodingVersion = 1

// Shared counts the numbers that all rows of an [Encoder] have in common, and Own those of each row.
const (
	Shared = 20
	Own    = 14
)

// Interval is the time between decisions while the load stays. A change of the logarithm of the load by shift
// makes one due at once.
const (
	Interval = 5 * time.Second
	shift    = 0.3
)

// bound is the largest magnitude of a number.
const bound = 1.5

// averages are the times over which loads are averaged.
var averages = [...]time.Duration{5 * time.Second, 20 * time.Second, time.Minute, 5 * time.Minute}

// remembers is the time constant by which the peak of the load is forgotten.
const remembers = 10 * time.Minute

// Encoder describes situations by numbers without units, for networks that value changes one by one. Row 0 is to stay.
// Each other row is for the hosts of a kind that are in one layout to get to another, so that there are few rows. An
// encoder follows one sequence of situations: it remembers loads.
type Encoder struct {
	kinds    []kind
	kindOf   []int // by host
	rows     []change
	most     float64 // capacity of all hosts in their largest layouts
	finest   float64 // quality
	averages [len(averages)]float64
	peak     float64
	spread   float64 // mean square of how far rates are from their average, relative to it
	last     time.Duration
	begun    bool
	decided  struct {
		any, changed bool
		at           time.Duration
		rate         float64
	}
	used     float64 // of the situation: forecast load over capacity
	capacity float64
	expected float64
}

// kind is hosts with the same replicas, which answer alike.
type kind struct {
	layouts, first int // row
	hosts          []int
	present        []int // hosts by layout
}

// change describes the change of a layout that a row stands for. Host is the least busy host that may make it; −1 is none.
type change struct{ kind, from, to, host int }

// NewEncoder returns an encoder of situations like this one.
func NewEncoder(s *Situation) *Encoder {
	e := &Encoder{kindOf: make([]int, len(s.Hosts)), rows: []change{{host: -1}}}
	for h := range s.Hosts {
		at := slices.IndexFunc(e.kinds, func(k kind) bool { return s.alike(h, k.hosts[0]) })
		if at < 0 {
			at = len(e.kinds)
			n := len(s.Hosts[h].Layouts)
			e.kinds = append(e.kinds, kind{layouts: n, first: len(e.rows), present: make([]int, n)})
			for from := range n {
				for to := range n {
					if from != to {
						e.rows = append(e.rows, change{at, from, to, -1})
					}
				}
			}
		}
		e.kinds[at].hosts = append(e.kinds[at].hosts, h)
		e.kindOf[h] = at
	}
	return e
}

// alike reports whether two hosts have the same replicas and answer alike.
func (s *Situation) alike(a, b int) bool {
	x, y, t := &s.Hosts[a], &s.Hosts[b], s.Table
	if t.Hosts[a].Memory != t.Hosts[b].Memory || len(x.Layouts) != len(y.Layouts) || !slices.Equal(x.Capacity, y.Capacity) || !slices.Equal(x.Quality, y.Quality) {
		return false
	}
	for i := range x.Layouts {
		same := slices.EqualFunc(x.Layouts[i].Up, y.Layouts[i].Up, func(p, q int) bool {
			return t.Replicas[p].Variant == t.Replicas[q].Variant && t.MemoryOf(p) == t.MemoryOf(q)
		})
		if !same {
			return false
		}
	}
	return true
}

// Rows returns the number of rows.
func (e *Encoder) Rows() int { return len(e.rows) }

// Dim returns the length of an observation: the shared numbers, and those of each row.
func (e *Encoder) Dim() int { return Shared + len(e.rows)*Own }

// Change returns what a row stands for in the last situation that was encoded.
func (e *Encoder) Change(row int) Change {
	x := &e.rows[row]
	if x.host < 0 {
		return Change{Host: -1}
	}
	return Change{Host: x.host, Layout: x.to}
}

// Due reports whether a decision is due: some row but the first is open, and either nothing has been decided for
// [Interval], or the load has changed since, or the last decision was a change.
func (e *Encoder) Due() bool {
	if !slices.ContainsFunc(e.rows[1:], func(x change) bool { return x.host >= 0 }) {
		return false
	}
	off := math.Abs(math.Log(max(e.averages[0], 0.1) / max(e.decided.rate, 0.1)))
	return !e.decided.any || e.decided.changed || e.last-e.decided.at >= Interval || off > shift
}

// Decided follows a decision for a row.
func (e *Encoder) Decided(row int) {
	e.decided.any, e.decided.changed, e.decided.at, e.decided.rate = true, row > 0, e.last, e.averages[0]
}

// Encode writes the situation into dst, of length Dim. It is called for each situation of the sequence, once.
func (e *Encoder) Encode(dst []float32, s *Situation) {
	clear(dst)
	e.remember(s)
	busy, moving, quality := e.assign(s)
	e.shared(dst[:Shared], s, busy, moving, quality)
	best := 0.0
	for row := range e.rows {
		own := dst[Shared+row*Own:][:Own]
		best = max(best, e.own(own, s, row, quality))
	}
	put(dst[:Shared], 19, 10*best)
}

// remember follows the load.
func (e *Encoder) remember(s *Situation) {
	rate := 0.0
	for i := range s.Loads {
		rate += s.Loads[i].Rate
	}
	passed := s.Now - e.last
	if !e.begun {
		for i := range e.averages {
			e.averages[i] = rate
		}
		e.begun, passed = true, 0
	}
	e.last = s.Now
	for i, over := range averages {
		keep := math.Exp(-passed.Seconds() / over.Seconds())
		e.averages[i] = keep*e.averages[i] + (1-keep)*rate
	}
	e.peak = max(e.averages[0], e.peak*math.Exp(-passed.Seconds()/remembers.Seconds()))
	off := rate/max(e.averages[2], 1e-3) - 1
	keep := math.Exp(-passed.Seconds() / averages[3].Seconds())
	e.spread = keep*e.spread + (1-keep)*min(off*off, 16)
}

// assign finds the host of each row, and sums up the hosts.
func (e *Encoder) assign(s *Situation) (busy, moving, quality float64) {
	for row := range e.rows {
		e.rows[row].host = -1
	}
	e.most, e.finest, e.capacity, e.expected = 0, 1e-9, 0, s.Expected()
	for k := range e.kinds {
		clear(e.kinds[k].present)
	}
	for h := range s.Hosts {
		x, k := &s.Hosts[h], &e.kinds[e.kindOf[h]]
		busy += x.Busy
		if x.Moving {
			moving++
		}
		if len(x.Layouts) == 0 {
			continue
		}
		e.most += slices.Max(x.Capacity)
		e.finest = max(e.finest, slices.Max(x.Quality))
		if x.Present < 0 {
			continue
		}
		e.capacity += x.Capacity[x.Present]
		quality += x.Quality[x.Present]
		k.present[x.Present]++
		for to := range x.Layouts {
			if to == x.Present || x.Moving || x.Barred[to] != "" {
				continue
			}
			if row := &e.rows[k.row(x.Present, to)]; row.host < 0 || x.Busy < s.Hosts[row.host].Busy {
				row.host = h
			}
		}
	}
	n := float64(len(s.Hosts))
	return busy / n, moving / n, quality
}

// row returns the number of the row of a change.
func (k *kind) row(from, to int) int {
	if to > from {
		to--
	}
	return k.first + from*(k.layouts-1) + to
}

// shared writes what all rows have in common.
func (e *Encoder) shared(dst []float32, s *Situation, busy, moving, quality float64) {
	rate, n := max(e.averages[0], 1e-3), float64(len(s.Hosts))
	e.used = e.expected / max(e.capacity, 1e-9)
	held := 0
	for _, x := range s.Held {
		held += x
	}
	put(dst, 0, e.used/2)
	put(dst, 1, math.Log(max(e.used, 1e-4))/4)
	for i, x := range e.averages[1:] {
		put(dst, 2+i, math.Log(max(x, 1e-3)/rate)/2)
	}
	put(dst, 5, math.Log(max(e.expected, 1e-3)/rate)/2)
	put(dst, 6, e.expected/max(e.most, 1e-9)/2)
	put(dst, 7, math.Log(max(e.expected, 1e-3)/max(e.most, 1e-9))/4)
	put(dst, 8, busy)
	put(dst, 9, moving)
	put(dst, 10, quality/n/e.finest)
	put(dst, 11, e.capacity/max(e.most, 1e-9))
	put(dst, 12, s.Worth/max(e.expected, 1e-9)/e.finest)
	put(dst, 13, float64(held)/(rate+1))
	put(dst, 14, 1/n)
	put(dst, 15, math.Sqrt(e.spread)/2)
	put(dst, 16, e.peak/max(e.most, 1e-9))
	put(dst, 17, math.Log(e.peak/rate+1e-3)/4)
	put(dst, 18, e.averages[3]/max(e.most, 1e-9))
}

// own writes the numbers of a row, the first of which is 0 of one that is not open. It returns the share of a request's
// best utility that the row gains by the estimate.
func (e *Encoder) own(dst []float32, s *Situation, row int, quality float64) (gain float64) {
	x := &e.rows[row]
	if row == 0 {
		dst[0], dst[1] = 1, 1
		put(dst, 5, e.used/2)
		put(dst, 6, math.Log(max(e.used, 1e-4))/4)
		return 0
	}
	if x.host < 0 {
		return 0
	}
	h, k, n := &s.Hosts[x.host], &e.kinds[x.kind], float64(len(s.Hosts))
	more := h.Capacity[x.to] - h.Capacity[x.from]
	used := e.expected / max(e.capacity+more, 1e-9)
	gain = (h.Worth[x.to] - s.Worth) / max(e.expected, 1e-9) / e.finest
	dst[0] = 1
	put(dst, 2, 10*gain)
	put(dst, 3, more/max(e.capacity, 1e-9))
	put(dst, 4, 4*(h.Quality[x.to]-h.Quality[x.from])/e.finest)
	put(dst, 5, used/2)
	put(dst, 6, math.Log(max(used, 1e-4))/4)
	put(dst, 7, math.Log1p(h.Takes[x.to].Seconds())/4)
	put(dst, 8, float64(k.present[x.from])/n)
	put(dst, 9, float64(k.present[x.to])/n)
	put(dst, 10, math.Log1p((s.Now-h.Since).Seconds())/6)
	put(dst, 11, h.Busy)
	put(dst, 12, h.Capacity[x.to]/max(slices.Max(h.Capacity), 1e-9))
	put(dst, 13, h.Quality[x.to]/e.finest)
	return gain
}

// put writes a bounded number.
func put(dst []float32, at int, x float64) {
	if !(x < bound) { // also of no number
		x = bound
	}
	dst[at] = float32(max(-bound, x))
}

package bands

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/control"
)

// replicas is a fleet in memory, whose replicas use what they use wherever they are.
type replicas struct {
	t       *testing.T
	o       Options
	hosts   []Bin
	models  [][]float64 // what a replica of each uses
	state   map[int]state
	least   []int // how many replicas of each model take requests at least
	noise   float64
	random  *rand.Rand
	fails   int // one of so many loads fails; zero: none
	refuses int // one of so many loads is not begun
	events  []control.Event
	loads   int
	takes   time.Duration
	now     time.Duration
}

type state struct {
	there, up, drained bool
	leaves             bool // it is being unloaded
}

func (f *replicas) Replica(model, host int) int { return model*len(f.hosts) + host }
func (f *replicas) Act(a control.Action) error {
	s := f.state[a.Replica]
	switch {
	case a.Verb == control.Load && !s.there && !s.leaves:
		if f.loads++; f.refuses > 0 && f.loads%f.refuses == 0 {
			return errors.New("it does not want to")
		}
		s.there = true
		kind := control.Loaded
		if f.fails > 0 && f.loads%f.fails == 0 {
			kind, s.there = control.ActionFailed, false
		}
		f.events = append(f.events, control.Event{At: f.now + f.takes, Kind: kind, Replica: a.Replica, Action: a})
	case a.Verb == control.Unload && s.there: // once its requests have ended
		s.drained, s.leaves = true, true
		f.events = append(f.events, control.Event{At: f.now + 150*time.Millisecond, Kind: control.Unloaded, Replica: a.Replica, Action: a})
	case a.Verb == control.Unload && !s.there:
		return errors.New("it is cold")
	default:
		f.t.Errorf("%v of %+v", a, s)
	}
	f.state[a.Replica] = s
	f.check()
	return nil
}

// check holds what must hold at any time: memory is enough, and models have their replicas.
func (f *replicas) check() {
	f.t.Helper()
	active := make([]int, len(f.models))
	for h := range f.hosts {
		used := 0.0
		for m, use := range f.models {
			s := f.state[f.Replica(m, h)]
			if s.there {
				used += use[1]
			}
			if s.up && !s.drained {
				active[m]++
			}
		}
		if used > f.hosts[h].Capacity[1] {
			f.t.Errorf("host %d: %v of %v memory is taken", h, used, f.hosts[h].Capacity[1])
		}
	}
	for m, n := range active {
		if n < f.least[m] {
			f.t.Errorf("model %d has %d replicas that take requests, want %d", m, n, f.least[m])
		}
	}
}

func (f *replicas) Measure() *Measurement {
	x := &Measurement{Problem: Problem{Bins: f.hosts}}
	for m, use := range f.models {
		for h := range f.hosts {
			number := f.Replica(m, h)
			s := f.state[number]
			if !s.there {
				continue
			}
			r := Item{Model: m, Host: h, Use: []float64{0, use[1], 0}}
			if s.up {
				r.Use[0], r.Use[2] = use[0]*(1+f.noise*f.random.NormFloat64()), use[2]
			}
			x.Problem.Items, x.Numbers = append(x.Problem.Items, r), append(x.Numbers, number)
			x.Moving = append(x.Moving, !s.up || s.drained)
		}
	}
	return x
}

// play wakes the controller for a time.
func (f *replicas) play(c control.Controller, until time.Duration) {
	for f.now < until {
		next := min(c.Wake(f.now), until)
		for _, e := range f.events {
			next = min(next, max(e.At, f.now))
		}
		f.now = next
		var later []control.Event
		for _, e := range f.events {
			if e.At <= f.now {
				switch s := f.state[e.Replica]; {
				case e.Kind == control.Unloaded:
					f.state[e.Replica] = state{}
				case e.Kind == control.Loaded && s.there:
					s.up = true
					f.state[e.Replica] = s
				}
				c.Observe(e)
			} else {
				later = append(later, e)
			}
		}
		f.events = later
	}
}

// uneven is a fleet of six hosts whose first two have too much.
func uneven(t *testing.T) *replicas {
	f := &replicas{t: t, o: DefaultOptions(), state: map[int]state{}, random: rand.New(rand.NewPCG(1, 2)), takes: 20 * time.Second}
	for range 6 {
		f.hosts = append(f.hosts, Bin{Capacity: []float64{16, 100, 100}, Other: []float64{0, 0, 0}})
	}
	for m := range 12 {
		f.models = append(f.models, []float64{2 + float64(m%3), 10, 5 + 10*float64(m%2)})
		for _, h := range []int{m % 2, m % 6} {
			if n := f.Replica(m, h); !f.state[n].up {
				f.state[n] = state{there: true, up: true}
				f.least = append(f.least, 0)[:m+1]
				f.least[m]++
			}
		}
	}
	return f
}

// TestHostsComeWithinBands: hosts that have too much give it to others, while no model has
// fewer replicas than before, no memory is passed and, once all is even, nothing moves.
func TestHostsComeWithinBands(t *testing.T) {
	for _, x := range []struct {
		name           string
		noise          float64
		fails, refuses int
	}{{"as measured", 0, 0, 0}, {"with noise", 0.05, 0, 0}, {"loads that fail", 0, 3, 0}, {"loads that are refused", 0, 0, 3}} {
		t.Run(x.name, func(t *testing.T) {
			f := uneven(t)
			f.noise, f.fails, f.refuses = x.noise, x.fails, x.refuses
			c := New(f, Settings{Options: f.o})
			o := f.o
			before := f.Measure().Problem
			if before.Excess(&o, nil) < 0.05 {
				t.Fatal("the fleet is even from the start")
			}
			f.play(c, 30*time.Minute)
			after := f.Measure().Problem
			if e := after.Excess(&o, nil); e > 0.02 {
				t.Errorf("%.4f beyond bands after half an hour; %+v", e, c.Status())
			}
			moved := c.Status().Moved
			if moved == 0 || (x.fails+x.refuses > 0) != (c.Status().Failed > 0) {
				t.Errorf("%+v", c.Status())
			}
			f.play(c, 3*time.Hour)
			if more := c.Status().Moved - moved; more > 2 || len(c.Status().Moves) != 0 {
				t.Errorf("%d moves in two and a half hours in which nothing changed", more)
			}
		})
	}
}

// TestLoadsThatNeverEnd: a move whose load has no end is given up, and others go on.
func TestLoadsThatNeverEnd(t *testing.T) {
	f := uneven(t)
	f.takes = 1000 * time.Hour
	c := New(f, Settings{Options: f.o, ActionTimeout: 5 * time.Minute})
	f.play(c, 4*time.Minute)
	if s := c.Status(); len(s.Moves) != DefaultAtOnce || s.Failed != 0 {
		t.Fatalf("%+v", s)
	}
	f.play(c, time.Hour)
	if s := c.Status(); s.Failed < 4 || s.Moved != 0 {
		t.Errorf("%+v, want moves to be given up", s)
	}
}

// TestAThresholdLeavesIdleFleetsAlone: where there is little to do, bands do not matter.
func TestAThresholdLeavesIdleFleetsAlone(t *testing.T) {
	f := uneven(t)
	for _, use := range f.models {
		use[0], use[2] = use[0]/10, use[2]/10
	}
	c := New(f, Settings{Options: f.o, Threshold: 0.3})
	if f.play(c, time.Hour); c.Status().Moved+len(c.Status().Moves) != 0 {
		t.Errorf("%+v, want no moves", c.Status())
	}
}

// TestOthersStandIn: a replica that could not be measured counts as the mean of the model's
// others.
func TestOthersStandIn(t *testing.T) {
	f := uneven(t)
	c := New(f, Settings{Options: f.o})
	m := f.Measure()
	m.Unknown = make([]bool, len(m.Numbers))
	for i := range m.Problem.Items {
		if r := &m.Problem.Items[i]; r.Model == 2 && r.Host == 2 {
			m.Unknown[i], r.Use = true, []float64{0, 10, 0}
			c.standIn(m)
			if r.Use[0] != f.models[2][0] || r.Use[1] != 10 || r.Use[2] != f.models[2][2] {
				t.Errorf("%v stands in, want %v", r.Use, f.models[2])
			}
			return
		}
	}
	t.Fatal("there is no such replica")
}

// TestTwoControllersDoNotChaseEachOther: two routers that move replicas of one fleet, at the same
// time or in turn, bring it within bands and then leave it.
func TestTwoControllersDoNotChaseEachOther(t *testing.T) {
	for _, later := range []time.Duration{0, 10 * time.Second, 30 * time.Second} {
		f := uneven(t)
		f.noise = 0.03
		a, b := New(f, Settings{Options: f.o}), New(f, Settings{Options: f.o})
		b.due += later
		both := control.NewSet(a, b)
		f.play(both, time.Hour)
		p, o := f.Measure().Problem, f.o
		moved := a.Status().Moved + b.Status().Moved
		if e := p.Excess(&o, nil); e > 0.02 || moved == 0 || moved > 30 {
			t.Errorf("%v later: %.4f beyond bands after %d moves; %+v and %+v", later, e, moved, a.Status(), b.Status())
		}
		f.play(both, 4*time.Hour)
		if more := a.Status().Moved + b.Status().Moved - moved; more > 4 {
			t.Errorf("%v later: %d moves in three hours in which nothing changed, after %d", later, more, moved)
		}
	}
}

package fluid_test

import (
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/fluid"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// TestAPoolCountsLazily: what a pool has had does not depend on how often it is read.
func TestAPoolCountsLazily(t *testing.T) {
	play := func(each time.Duration) fluid.Total {
		p := pool()
		p.Turn(0, fleet.Up, 0)
		p.Turn(1, fleet.Loading, 0)
		for now := each; now <= 100*time.Second; now += each {
			p.Count(now)
		}
		return p.Count(time.Hour)
	}
	once, often := play(100*time.Second), play(time.Second)
	if once.Refused != often.Refused || once.Held != 200 || often.Held != 200 {
		t.Errorf("%+v, read each second %+v", once, often)
	}
	// Of 8 a second 5 are answered, and 10 wait at the end.
	if once.Arrived != 800 || once.Refused != 800-500-10 || once.Used != 100 || once.Asked != 160 {
		t.Errorf("%+v", once)
	}
}

// pool is one of which each replica answers 5 a second, and 8 arrive.
func pool() *fluid.Pool {
	return &fluid.Pool{Arrivals: slices.Repeat([]float64{16}, 100), Share: 0.5, Capacity: 5, Patience: 2 * time.Second}
}

// once acts at a time.
type once struct {
	control.Actuator
	at   time.Duration
	verb control.Verb
	err  error
}

func (o *once) Observe(control.Event) {}

func (o *once) Wake(now time.Duration) time.Duration {
	if now < o.at {
		return o.at
	}
	if o.at != control.Never {
		o.at, o.err = control.Never, o.Act(control.Action{Verb: o.verb, Replica: 1})
	}
	return o.at
}

// TestPoolsFollowTheSimulator: replicas answer once they have been loaded, for as long as their host is not lost.
func TestPoolsFollowTheSimulator(t *testing.T) {
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: time.Second, Quality: []float64{1}}}, []fleet.Variant{{Name: "v"}},
		[]fleet.Host{{Name: "h"}, {Name: "other"}}, []fleet.Replica{{Name: "a", Initial: fleet.Up}, {Name: "b", Initial: fleet.Cold}, {Name: "c", Host: 1}})
	if err != nil {
		t.Fatal(err)
	}
	p := pool()
	act := &once{at: 10 * time.Second, verb: control.Load}
	c := &env.Config{Table: table, Laws: func() []env.Law { return []env.Law{p, pool()} }, LoadTimes: []time.Duration{1, 20 * time.Second, 1},
		Losses: []env.HostLoss{{Host: 0, From: 50 * time.Second, To: 60 * time.Second}},
		Controllers: func(a env.ControlAccess) []control.Controller {
			act.Actuator = a.Actuator
			return []control.Controller{act}
		}}
	sim, err := env.NewSimulator(c)
	if err != nil {
		t.Fatal(err)
	}
	sim.Follow(c, fleet.NewLedger(table), 0, nobody{})
	at := func(s time.Duration) fluid.Total {
		if _, err := sim.Advance(s*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		return p.Count(s * time.Second)
	}
	start, loading, up, lost, back := at(9), at(30), at(50), at(60), at(100)
	if act.err != nil {
		t.Fatal(act.err)
	}
	if start.Held != 9 || loading.Held != 10+2*20 || loading.Refused != 30*3-10 {
		t.Errorf("%+v, then %+v", start, loading)
	}
	if x := up.Less(loading); x.Held != 40 || x.Refused != 0 || x.Asked != 20*.8 {
		t.Errorf("with two replicas %+v", x)
	}
	if x := lost.Less(up); x.Held != 0 || x.Refused != 80 {
		t.Errorf("while the host is lost %+v", x)
	}
	if x := back.Less(lost); x.Held != 80 || x.Refused != 0 {
		t.Errorf("when it is back %+v", x)
	}
}

// nobody follows a simulator without single requests.
type nobody struct{}

func (nobody) Ended(uint64, time.Duration) error { return nil }
func (nobody) Broken(uint64, time.Duration)      {}
func (nobody) Turned(int)                        {}
func (nobody) Measure(time.Duration)             {}

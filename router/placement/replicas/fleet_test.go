package replicas_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/replicas"
	"gearshift/router/signals"
)

// plant is replicas of one variant, each on a host of its own, whose engines take a minute to load. It is the
// actuator of their lifecycles, and [lifecycle.Engines].
type plant struct {
	ledger *fleet.Ledger
	busy   *signals.Busy
	owner  *lifecycle.Controller
	counts *replicas.Replicas
	set    *control.Set
	ends   map[time.Duration][]control.Action
	now    time.Duration
	failed []error
}

func (p *plant) Act(a control.Action) error {
	at := p.now + time.Second
	if a.Verb == control.Load {
		at = p.now + time.Minute
	}
	p.ends[at] = append(p.ends[at], a)
	return nil
}

func (p *plant) Driven(int) bool { return true }

func (p *plant) Ordered(_ control.Action, err error) {
	if err != nil {
		p.failed = append(p.failed, err)
	}
}

// newPlant has so many replicas, of which the first and those of up are up.
func newPlant(t *testing.T, n int, up ...int) *plant {
	t.Helper()
	var hosts []fleet.Host
	var list []fleet.Replica
	for i := range n {
		hosts = append(hosts, fleet.Host{Name: fmt.Sprint("h", i)})
		list = append(list, fleet.Replica{Name: fmt.Sprint("m@h", i), Host: i, Initial: fleet.Cold})
	}
	for _, i := range append(up, 0) {
		list[i].Initial = fleet.Up
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "m"}}, hosts, list, fleet.Model{Name: "m"})
	if err != nil {
		t.Fatal(err)
	}
	p := &plant{ledger: fleet.NewLedger(table), ends: map[time.Duration][]control.Action{}}
	p.busy = signals.NewBusy(p.ledger, signals.BusyOptions{})
	p.owner = lifecycle.New(p.ledger, p, lifecycle.Options{})
	p.counts, err = replicas.NewReplicas([]replicas.Counted{{Least: 1, Plan: replicas.Plan{
		Forecast: replicas.Forecast{Season: 96, Seasons: 3, Level: 12, Recent: 3, Trend: 3}, Interval: time.Minute,
		Capacity: 1, WarmUp: 3 * time.Minute, Target: 0.8, Quantile: 0.5, Guard: 1, Stabilisation: 2 * time.Minute, Least: 1,
	}}}, 30*time.Second, p.ledger, p.busy, p)
	if err != nil {
		t.Fatal(err)
	}
	p.counts.Claim(p.owner.Claim)
	p.set = control.NewSet(p.owner, p.counts)
	return p
}

// pass has a second pass in which requests would keep so many hosts busy, and returns how many replicas are up.
func (p *plant) pass(load float64) (up int) {
	p.now += time.Second
	for _, a := range p.ends[p.now] {
		p.set.Observe(control.Event{At: p.now, Kind: a.Verb.Done(), Replica: a.Replica, Action: a})
	}
	for i := range p.ledger.Table().Replicas {
		if p.ledger.State(i) == fleet.Up {
			up++
		}
	}
	for i := range p.ledger.Table().Replicas {
		if p.ledger.State(i) == fleet.Up {
			p.busy.Worked(i, time.Duration(min(1, load/float64(up))*float64(time.Second)), p.now)
		}
	}
	p.set.Rouse(p.now)
	p.set.Wake(p.now)
	return up
}

// peak is the load of a day of 96 minutes: it rises from .6 within ten, to 2.2 from minute 48 to 60.
func peak(second int) float64 {
	minute := float64(second%(96*60)) / 60
	if minute >= 60 {
		return 0.6
	}
	return min(2.2, max(0.6, 0.6+0.16*(minute-38)))
}

// TestReplicasComeUpBeforeThePeak: on the second day replicas are up before the load that needs them, which they are
// not on the first, and are unloaded after it.
func TestReplicasComeUpBeforeThePeak(t *testing.T) {
	p := newPlant(t, 5)
	var short [2]int // seconds, by day
	for second := range 2 * 96 * 60 {
		load, minute := peak(second), second/60
		up := p.pass(load)
		if float64(up) < load {
			short[minute/96]++
		}
		if (minute == 96+30 || minute == 96+75) && up != 1 {
			t.Fatalf("minute %d of the second day: %d replicas are up at a load of .6", minute-96, up)
		}
	}
	if short[0] == 0 || short[1] > 0 {
		t.Errorf("replicas are too few for %d s of the first day and %d s of the second; want some, and none", short[0], short[1])
	}
	if len(p.failed) > 0 {
		t.Errorf("orders that failed: %v", p.failed)
	}
}

// TestForecastsGoOn: a router that starts again before the second peak, ten minutes after the last one has ended, has
// the replicas up that it needs if it has the loads of before, and only then if they are of a day at most and of as
// long intervals.
func TestForecastsGoOn(t *testing.T) {
	first := newPlant(t, 5)
	for second := range (96 + 20) * 60 {
		first.pass(peak(second))
	}
	text, err := json.Marshal(first.counts.History())
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		ago, interval time.Duration
		known         int
		short         bool
	}{{10 * time.Minute, time.Minute, 96 + 19 + 10, false}, {97 * time.Minute, time.Minute, 0, true}, {0, time.Hour, 0, true}} {
		var h replicas.History
		if err := json.Unmarshal(text, &h); err != nil {
			t.Fatal(err)
		}
		h.Interval = x.interval
		p, short := newPlant(t, 5), 0
		if p.counts.Resume(h, x.ago); p.counts.Known() != x.known {
			t.Errorf("%v ago: %d intervals are known, want %d", x.ago, p.counts.Known(), x.known)
		}
		for second := (96 + 30) * 60; second < 2*96*60; second++ {
			if load := peak(second); float64(p.pass(load)) < load {
				short++
			}
		}
		if short > 0 != x.short {
			t.Errorf("%v ago, intervals of %v: replicas are too few for %d s", x.ago, x.interval, short)
		}
	}
}

// TestWhatFailoverHoldsIsNotStopped: what a higher rank holds is neither unloaded nor loaded, and counts if it is up.
func TestWhatFailoverHoldsIsNotStopped(t *testing.T) {
	p := newPlant(t, 4, 2)
	p.owner.Claim(lifecycle.Failover, func(control.Event) {}).Hold([]int{2, 3}, nil)
	for second := range 20 * 60 {
		load := 0.6
		if second > 300 {
			load = 4 // more than all answer
		}
		p.pass(load)
		if second == 299 && (p.ledger.State(0) != fleet.Cold || p.ledger.State(2) != fleet.Up) {
			t.Errorf("at a load of .6 the first is %v, what failover has up %v; want that alone up", p.ledger.State(0), p.ledger.State(2))
		}
	}
	for i, want := range []fleet.State{fleet.Up, fleet.Up, fleet.Up, fleet.Cold} {
		if is := p.ledger.State(i); is != want {
			t.Errorf("at a load of 4 replica %d is %v, want %v", i, is, want)
		}
	}
	if s := p.counts.Status()[0]; s.Up != 3 || s.Wanted < 4 || s.Load < 2.9 || s.Expected < 2.9 {
		t.Errorf("%+v", s)
	}
}

// TestAnOperatorsOrderComesFirst: a replica that an operator unloads is replaced by another after a period, and its
// load is not counted as failed.
func TestAnOperatorsOrderComesFirst(t *testing.T) {
	p := newPlant(t, 3)
	for range 90 {
		p.pass(0.5)
	}
	if err := p.owner.Want(0, fleet.Cold, lifecycle.Order{}); err != nil {
		t.Fatal(err)
	}
	for range 180 {
		p.pass(0.5)
	}
	up := 0
	for i := range 3 {
		if p.ledger.State(i) == fleet.Up {
			up++
		}
	}
	if up != 1 || len(p.failed) > 0 {
		t.Errorf("%d replicas are up, want 1; failed: %v", up, p.failed)
	}
}

// TestBusyHostsComeLast: a replica is started on the least busy host, and the one on the busiest is stopped.
func TestBusyHostsComeLast(t *testing.T) {
	p := newPlant(t, 3)
	play := func(seconds int, load float64, busy int) {
		for range seconds {
			p.busy.Worked(busy, 500*time.Millisecond, p.now) // which its host has to do
			p.pass(load)
		}
	}
	play(300, 0.9, 1)
	if p.ledger.State(1) != fleet.Cold || p.ledger.State(2) != fleet.Up {
		t.Errorf("on the busy host the replica is %v, on the idle one %v; want that alone up", p.ledger.State(1), p.ledger.State(2))
	}
	play(1200, 0.1, 0)
	if is := p.ledger.State(0); is != fleet.Cold || p.counts.Status()[0].Up != 1 {
		t.Errorf("on the host that is busy by now the replica is %v, and %d are up; want another alone up", is, p.counts.Status()[0].Up)
	}
}

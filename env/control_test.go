package env_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/envtest"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/router/lifecycle"
)

// script acts at given times and notes what it observes. It places what it acts on.
type script struct {
	env.ControlAccess
	acts   map[time.Duration]control.Action
	refuse map[time.Duration]string // errors that are expected
	seen   []string
	t      *testing.T
}

func (c *script) Observe(e control.Event) {
	if e.Kind == control.Answered {
		return
	}
	c.seen = append(c.seen, fmt.Sprintf("%v %v of %d", e.At.Truncate(time.Millisecond), e.Kind, e.Replica))
	switch e.Kind {
	case control.Loaded, control.Woken:
		c.Ledger.Place(e.Replica, fleet.Up)
	case control.Changed:
		c.Ledger.Place(e.Replica, e.State)
	}
}

func (c *script) Wake(now time.Duration) time.Duration {
	next := control.Never
	for at, a := range c.acts {
		if at > now {
			next = min(next, at)
			continue
		}
		delete(c.acts, at)
		err := c.Actuator.Act(a)
		if want := c.refuse[at]; want != "" || err != nil {
			if err == nil || want == "" || !strings.Contains(err.Error(), want) {
				c.t.Errorf("at %v %v: %v, want %q", at, a, err, want)
			}
			continue
		}
		switch a.Verb {
		case control.Unload:
			c.Ledger.Place(a.Replica, fleet.Cold)
		case control.Sleep:
			c.Ledger.Place(a.Replica, fleet.Warm)
		default:
			c.Ledger.Place(a.Replica, fleet.Loading)
		}
	}
	return next
}

// scripted is the small fleet under a script; the controller is that of the last episode.
func scripted(t *testing.T, acts map[time.Duration]control.Action, refuse map[time.Duration]string) (env.Config, func() *script) {
	t.Helper()
	var last *script
	c := twoByTwo(t)
	c.LoadTimes = []time.Duration{time.Second, time.Second, 3 * time.Second, 3 * time.Second}
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		last = &script{ControlAccess: w, acts: map[time.Duration]control.Action{}, refuse: refuse, t: t}
		for at, a := range acts {
			last.acts[at] = a
		}
		return []control.Controller{last}
	}
	return c, func() *script { return last }
}

// What runs on an engine that is unloaded breaks there and then. It takes requests again
// once it is loaded, which takes its time; policies see all of it.
func TestUnloadAndLoad(t *testing.T) {
	from, load, up := 10*time.Second, 14*time.Second, 17*time.Second
	c, controller := scripted(t, map[time.Duration]control.Action{from: {Verb: control.Unload, Replica: 3}, load: {Verb: control.Load, Replica: 3}}, nil)
	var failed, after int
	for _, o := range playLosses(t, c, func(e *env.Environment) {
		at := e.Arrival().At
		if down := at >= from && at < up; e.View().Down[3] != down {
			t.Fatalf("at %v down: %t, want %t", at, e.View().Down[3], down)
		}
	}) {
		switch at := o.Request.Arrival; {
		case o.Failed:
			failed++
			if o.Replica != 3 || o.Finished != from || at > from {
				t.Errorf("failed: %+v", o)
			}
		case o.Replica == 3 && at < from && o.Finished > from, o.Replica == 3 && at >= from && at < up:
			t.Errorf("answered by what was not loaded: %+v", o)
		case o.Replica == 3 && at >= up:
			after++
		}
	}
	if failed < 3 || after < 3 {
		t.Errorf("%d failed, %d were answered after the load: the test lost its pressure", failed, after)
	}
	want := []string{"10s unloaded of 3", "17s loaded of 3"}
	var got []string
	for _, s := range controller().seen {
		if !strings.Contains(s, "broken") {
			got = append(got, s)
		}
	}
	if fmt.Sprint(got) != fmt.Sprint(want) || len(controller().seen) != failed+2 {
		t.Errorf("observed %q, want %q and %d broken", controller().seen, want, failed)
	}
}

// Sleep and wake take a twentieth of a load.
func TestSleepAndWake(t *testing.T) {
	c, controller := scripted(t, map[time.Duration]control.Action{
		8 * time.Second: {Verb: control.Sleep, Replica: 2}, 9 * time.Second: {Verb: control.Wake, Replica: 2},
	}, nil)
	playLosses(t, c, func(e *env.Environment) {
		at := e.Arrival().At
		if down := at >= 8*time.Second && at < 9150*time.Millisecond; e.View().Down[2] != down {
			t.Fatalf("at %v down: %t, want %t", at, e.View().Down[2], down)
		}
	})
	var got []string
	for _, s := range controller().seen {
		if !strings.Contains(s, "broken") {
			got = append(got, s)
		}
	}
	if want := "[8.15s slept of 2 9.15s woken of 2]"; fmt.Sprint(got) != want {
		t.Errorf("observed %q, want %q", got, want)
	}
}

// A model's own times replace a twentieth of its load, and the first answer after a wake is slower by its time, or the
// wake where a router warms the engine up.
func TestModelsHaveTimesOfTheirOwn(t *testing.T) {
	play := func(first time.Duration, warm bool, want string) (answered time.Duration) {
		c, controller := scripted(t, map[time.Duration]control.Action{
			8 * time.Second: {Verb: control.Sleep, Replica: 2}, 9 * time.Second: {Verb: control.Wake, Replica: 2},
		}, nil)
		c.Table.Models = []fleet.Model{{Name: "weights", Load: time.Minute, Sleep: 250 * time.Millisecond, Wake: 500 * time.Millisecond, FirstAnswer: first}}
		c.Table.Variants[0].Model, c.WarmUp = -1, warm // only large has one
		answered = control.Never
		for _, o := range playLosses(t, c, func(*env.Environment) {}) {
			if o.Replica == 2 && !o.Failed && o.Request.Arrival > 9*time.Second {
				answered = min(answered, o.FirstToken)
			}
		}
		var got []string
		for _, s := range controller().seen {
			if !strings.Contains(s, "broken") {
				got = append(got, s)
			}
		}
		if fmt.Sprint(got) != want {
			t.Errorf("observed %q, want %q", got, want)
		}
		return answered
	}
	play(3*time.Second, true, "[8.25s slept of 2 12.5s woken of 2]")
	const woken = "[8.25s slept of 2 9.5s woken of 2]"
	if with, without := play(3*time.Second, false, woken), play(0, false, woken); with != without+3*time.Second {
		t.Errorf("the first token after the wake came at %v, and at %v without a slower first answer", with, without)
	}
}

// What cannot be begun is refused, and leaves all as it was.
func TestActuatorRefuses(t *testing.T) {
	s := time.Second
	c, _ := scripted(t, map[time.Duration]control.Action{
		1 * s: {Verb: control.Load, Replica: 0}, 2 * s: {Verb: control.Wake, Replica: 1}, 3 * s: {Verb: control.Load, Replica: 9},
		4 * s: {Verb: control.Notify, Replica: 0}, 5 * s: {Verb: control.Sleep, Replica: 1, Epoch: 7},
		6 * s: {Verb: control.Wake, Replica: 1, Epoch: 6}, 7 * s: {Verb: control.Unload, Replica: 2},
		8 * s: {Verb: control.Load, Replica: 2}, 9 * s: {Verb: control.Unload, Replica: 2}, 13 * s: {Verb: control.Unload, Replica: 3},
	}, map[time.Duration]string{
		1 * s: "cannot load small@a: it is up", 2 * s: "cannot wake small@b: it is up", 3 * s: "there is no replica 9: the fleet has 4, counted from 0",
		4 * s: "cannot notify small@a: simulated engines know load, unload, sleep and wake alone", 6 * s: "the order is of epoch 6, and one of 7 came before it",
		9 * s: "cannot unload large@a: load is under way there", 13 * s: "cannot unload large@b: host b cannot be reached",
	})
	c.Losses = []env.HostLoss{{Host: 1, From: 12 * s, To: 15 * s}}
	playLosses(t, c, func(*env.Environment) {})
}

// A host that is lost takes with it what loads and sleeps there: it is cold when the host is
// back, and a load begins again.
func TestALossEndsLoads(t *testing.T) {
	s := time.Second
	c, controller := scripted(t, map[time.Duration]control.Action{
		7 * s: {Verb: control.Unload, Replica: 3}, 8 * s: {Verb: control.Load, Replica: 3}, 7500 * time.Millisecond: {Verb: control.Sleep, Replica: 1},
		13 * s: {Verb: control.Load, Replica: 3},
	}, nil)
	c.Losses = []env.HostLoss{{Host: 1, From: 10 * s, To: 12 * s}}
	playLosses(t, c, func(e *env.Environment) {
		if at := e.Arrival().At; at >= 16*s && (e.View().Down[3] || !e.View().Down[1]) {
			t.Fatalf("at %v down are %v; only what slept is", at, e.View().Down)
		}
	})
	got := strings.Join(controller().seen, ", ")
	for _, want := range []string{"10s action failed of 3", "10s changed of 1", "16s loaded of 3"} {
		if !strings.Contains(got, want) {
			t.Errorf("observed %s, want %s", got, want)
		}
	}
	if strings.Contains(got, "11s loaded") {
		t.Errorf("a load outlived its host: %s", got)
	}
}

// orders has the lifecycle's controller follow an order at a time.
type orders struct {
	*lifecycle.Controller
	at     time.Duration
	target fleet.State
}

// Wake implements [control.Controller].
func (o *orders) Wake(now time.Duration) time.Duration {
	if now < o.at {
		return min(o.Controller.Wake(now), o.at)
	}
	if o.at > 0 {
		o.at = 0
		if err := o.Want(1, o.target, lifecycle.Order{Force: true}); err != nil {
			panic(err)
		}
	}
	return o.Controller.Wake(now)
}

// A host that is lost while a replica there falls asleep or wakes leaves it cold, and the
// ledger knows: no request goes there once the host is back.
func TestALossDuringAnActionLeavesTheReplicaCold(t *testing.T) {
	s := time.Second
	for _, x := range []struct{ initial, target fleet.State }{{fleet.Up, fleet.Warm}, {fleet.Warm, fleet.Up}} {
		c := twoByTwo(t)
		c.Initial = []fleet.State{fleet.Up, x.initial, fleet.Up, fleet.Up}
		c.WakeTimes = []time.Duration{s, s, s, s}
		c.Losses = []env.HostLoss{{Host: 1, From: 10 * s, To: 12 * s}}
		var ledger *fleet.Ledger
		c.Controllers = func(w env.ControlAccess) []control.Controller {
			ledger = w.Ledger
			return []control.Controller{&orders{lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{}), 9500 * time.Millisecond, x.target}}
		}
		for _, o := range playLosses(t, c, func(e *env.Environment) {
			if at := e.Arrival().At; at > 12*s && !e.View().Down[1] {
				t.Fatalf("from %v to %v: at %v it takes requests", x.initial, x.target, at)
			}
		}) {
			if o.Failed && o.Request.Arrival > 12*s {
				t.Errorf("from %v to %v: failed after the loss: %+v", x.initial, x.target, o)
			}
		}
		if placed := ledger.Placed(1); placed != fleet.Cold {
			t.Errorf("from %v to %v: it is placed %v, and nothing is loaded", x.initial, x.target, placed)
		}
	}
}

// A load that exceeds the host's memory is refused with what is missing.
func TestLoadsKeepToMemory(t *testing.T) {
	s := time.Second
	c, _ := scripted(t, map[time.Duration]control.Action{s: {Verb: control.Load, Replica: 2}, 2 * s: {Verb: control.Unload, Replica: 0}, 3 * s: {Verb: control.Load, Replica: 2}},
		map[time.Duration]string{s: "cannot load large@a: its host lacks 10 bytes of memory"})
	table, err := fleet.NewTable(c.Table.Tasks, []fleet.Variant{{Name: "small"}, {Name: "large", Model: 1}},
		[]fleet.Host{{Name: "a", Memory: 100}, {Name: "b"}}, c.Table.Replicas, fleet.Model{Name: "s", Memory: 40}, fleet.Model{Name: "l", Memory: 70, Load: s})
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Encoder = table, nil
	c.Initial = []fleet.State{fleet.Up, fleet.Up, fleet.Cold, fleet.Up}
	playLosses(t, c, func(e *env.Environment) {
		v, at := e.View(), e.Arrival().At
		if v.Down[2] != (at < 4*s) || v.Down[0] != (at >= 2*s) {
			t.Fatalf("at %v down are %v", at, v.Down)
		}
	})
}

// A replica that sleeps leaves its memory to others, and wakes once there is room for it.
func TestSleepersGiveTheirMemoryBack(t *testing.T) {
	s := time.Second
	c, _ := scripted(t, map[time.Duration]control.Action{s: {Verb: control.Wake, Replica: 2}, 2 * s: {Verb: control.Sleep, Replica: 0}, 4 * s: {Verb: control.Wake, Replica: 2}},
		map[time.Duration]string{s: "cannot wake large@a: its host lacks 10 bytes of memory"})
	table, err := fleet.NewTable(c.Table.Tasks, []fleet.Variant{{Name: "small"}, {Name: "large", Model: 1}},
		[]fleet.Host{{Name: "a", Memory: 100}, {Name: "b"}}, c.Table.Replicas, fleet.Model{Name: "s", Memory: 40}, fleet.Model{Name: "l", Memory: 70})
	if err != nil {
		t.Fatal(err)
	}
	c.Table, c.Encoder = table, nil
	c.WakeTimes = []time.Duration{s, s, s, s}
	c.Initial = []fleet.State{fleet.Up, fleet.Up, fleet.Warm, fleet.Up}
	playLosses(t, c, func(e *env.Environment) {
		v, at := e.View(), e.Arrival().At
		if v.Down[2] != (at < 5*s) || v.Down[0] != (at >= 2*s) {
			t.Fatalf("at %v down are %v", at, v.Down)
		}
	})
}

// The environment keeps its contract under controllers: requests end once, the same seed
// repeats, and the invariants hold.
func TestContractWithControllers(t *testing.T) {
	for _, limit := range []int{0, 150} {
		c, _ := scripted(t, map[time.Duration]control.Action{
			5 * time.Second: {Verb: control.Unload, Replica: 3}, 8 * time.Second: {Verb: control.Load, Replica: 3}, 6 * time.Second: {Verb: control.Sleep, Replica: 0},
		}, nil)
		c.Limit, c.Marginal = limit, true
		c.Losses = []env.HostLoss{{Host: 1, From: 9 * time.Second, To: 15 * time.Second}}
		if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

// connect is how long a connection to a lost host takes to fail.
const connect = 300 * time.Millisecond

// witnessed is the small fleet in which the loss of a host is known by evidence.
func witnessed(t *testing.T, from, to time.Duration) (env.Config, *[]string) {
	t.Helper()
	log := new([]string)
	c := twoByTwo(t)
	c.Losses = []env.HostLoss{{Host: 1, From: from, To: to}}
	c.Evidence = env.Evidence{Probe: 2 * time.Second, Connect: connect}
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		config := health.DefaultConfig()
		config.Failures, config.FailureShare = 0, 0 // what broke at the loss is no evidence; what finds nobody is
		m := health.New(config, w.Ledger, make([]string, len(c.Table.Replicas)), w.Seed)
		return []control.Controller{&health.Controller{Monitor: m, OnChange: func(x health.Change, now time.Duration) {
			*log = append(*log, fmt.Sprintf("%d %v at %v", x.Replica, x.To, now.Truncate(time.Second)))
		}}}
	}
	return c, log
}

// Nobody knows of a loss before there is evidence of it: requests go to the lost host
// until one that breaks, or a probe, shows it. Then none do, until it is back and trials
// have succeeded.
func TestLossesAreKnownByEvidence(t *testing.T) {
	from, to := 10*time.Second, 20*time.Second
	c, log := witnessed(t, from, to)
	first := time.Duration(0)
	var sent, back int
	for _, o := range playLosses(t, c, func(e *env.Environment) {
		if at := e.Arrival().At; e.View().Down[3] && first == 0 {
			first = at
		} else if at > from && at < to && first != 0 && !e.View().Down[3] {
			t.Errorf("at %v the lost host is up", at)
		}
	}) {
		switch at := o.Request.Arrival; {
		case o.Replica == 3 && at >= from && at < to:
			sent++
			if !o.Failed || o.Finished != at+connect {
				t.Errorf("sent to the lost host: %+v", o)
			}
			if at > first {
				t.Errorf("sent at %v, when it was known since %v", at, first)
			}
		case o.Replica == 3 && at >= to && !o.Failed:
			back++
		}
	}
	if sent == 0 || back == 0 || first <= from || first > from+4*time.Second {
		t.Errorf("%d sent to the lost host, %d answered there later, known at %v; changes %q", sent, back, first, *log)
	}
	if err := envtest.Check(make2(t, c), 11, 1000); err != nil {
		t.Error(err)
	}
}

func TestControllersThatCannotBe(t *testing.T) {
	for want, change := range map[string]func(c *env.Config){
		"not on those of 3":              func(c *env.Config) { c.Routers.Number = 3 },
		"neither may be negative":        func(c *env.Config) { c.Evidence.Probe = -1 },
		"1 initial states":               func(c *env.Config) { c.Initial = []fleet.State{fleet.Up} },
		"evidence of failures needs":     func(c *env.Config) { c.Evidence.Probe, c.Controllers = 1, nil },
		"0 load times and 2 wake times":  func(c *env.Config) { c.LoadTimes, c.WakeTimes = nil, make([]time.Duration, 2) },
		"3 load times and 0 wake times ": func(c *env.Config) { c.LoadTimes = make([]time.Duration, 3) },
	} {
		c, _ := scripted(t, nil, nil)
		change(&c)
		if _, err := env.New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// wanter wants states of replicas at given times, by the claims of a rank, and notes how that ends.
type wanter struct {
	claims *lifecycle.Claims
	wants  map[time.Duration]lifecycle.Want
	seen   []string
}

func (c *wanter) Observe(control.Event) {}

func (c *wanter) Wake(now time.Duration) time.Duration {
	next := control.Never
	for at, w := range c.wants {
		if at > now {
			next = min(next, at)
			continue
		}
		delete(c.wants, at)
		if _, err := c.claims.Propose(w); err != nil {
			c.seen = append(c.seen, fmt.Sprintf("%v %v", now, err))
		}
	}
	return next
}

// Controllers of two ranks want states of one simulated fleet, and the owner of states arbitrates: the lower one
// does not get what the higher one holds, and is told when the higher one takes what it is about to have.
func TestControllersOfTwoRanks(t *testing.T) {
	const s = time.Second
	c := twoByTwo(t)
	c.Initial = []fleet.State{fleet.Up, fleet.Cold, fleet.Up, fleet.Cold}
	c.LoadTimes = []time.Duration{s, s, 3 * s, 3 * s}
	var first, second *wanter
	c.Controllers = func(w env.ControlAccess) []control.Controller {
		var set control.Set
		owner := lifecycle.New(w.Ledger, w.Actuator, lifecycle.Options{Nudge: func() { set.Rouse(0) }})
		join := func(r lifecycle.Rank, wants map[time.Duration]lifecycle.Want) *wanter {
			x := &wanter{wants: wants}
			x.claims = owner.Claim(r, func(e control.Event) {
				x.seen = append(x.seen, fmt.Sprintf("%v %v of %d", e.At.Truncate(time.Millisecond), e.Kind, e.Replica))
			})
			return x
		}
		first = join(lifecycle.Failover, map[time.Duration]lifecycle.Want{s: {Replica: 1, State: fleet.Up}, 6 * s: {Replica: 3, State: fleet.Cold}})
		first.claims.Hold([]int{0}, nil)
		second = join(lifecycle.Balancing, map[time.Duration]lifecycle.Want{2 * s: {Replica: 0, State: fleet.Cold}, 5 * s: {Replica: 3, State: fleet.Up}})
		set.Add(owner)
		set.Add(first)
		set.Add(second)
		return []control.Controller{&set}
	}
	playLosses(t, c, func(*env.Environment) {})
	if got, want := fmt.Sprint(first.seen), "[2s loaded of 1 8s unloaded of 3]"; got != want {
		t.Errorf("the higher rank: %s, want %s", got, want)
	}
	if got, want := fmt.Sprint(second.seen), "[2s small@a is held by failover 6s evicted of 3]"; got != want {
		t.Errorf("the lower rank: %s, want %s", got, want)
	}
}

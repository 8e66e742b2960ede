package layouts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/layouts"
	"gearshift/router/signals"
)

// rates lists the requests per second that a replica answers in time, by its memory and size.
func rates(t *fleet.Table) layouts.Work {
	return layouts.Work{
		Rate: func(r, _ int, _ float64) float64 {
			x := &t.Replicas[r]
			return map[int]float64{0: 20, 1: 6, 2: 1}[x.Variant] * map[bool]float64{true: 2, false: 1}[x.Variant == 1 && x.Memory > 50]
		},
		Duty: func(int) float64 { return 0 },
	}
}

// plant simulates hosts whose engines take two seconds to wake and one to sleep. It is the actuator of their lifecycles, and
// [lifecycle.Engines].
type plant struct {
	t        *testing.T
	table    *fleet.Table
	ledger   *fleet.Ledger
	owner    *lifecycle.Controller
	placing  *layouts.Controller
	set      *control.Set
	ends     map[time.Duration][]control.Action
	now      time.Duration
	id       float64
	undone   map[int]bool // replicas whose wakes fail
	undriven map[int]bool
	log      []string
	least    map[string]int // by variant, how few were up at a time
}

func (p *plant) Act(a control.Action) error {
	at := p.now + time.Second
	if a.Verb == control.Wake || a.Verb == control.Load {
		at += time.Second
	}
	p.ends[at] = append(p.ends[at], a)
	return nil
}

func (p *plant) Driven(r int) bool { return !p.undriven[r] }

func (p *plant) Ordered(a control.Action, err error) {
	line := fmt.Sprintf("%s %s", a.Verb, p.table.Replicas[a.Replica].Name)
	if err != nil {
		line += ": " + err.Error()
	}
	p.log = append(p.log, line)
}

// newPlant returns a plant with the sizes on so many hosts, with options that change the default ones.
func newPlant(t *testing.T, hosts int, change func(*layouts.Options)) *plant {
	t.Helper()
	p := &plant{t: t, table: table(t, hosts, three), ends: map[time.Duration][]control.Action{}, undone: map[int]bool{}, undriven: map[int]bool{}, least: map[string]int{}}
	p.ledger = fleet.NewLedger(p.table)
	rule, err := layouts.Parse("worth:0.002,5,20,1")
	if err != nil {
		t.Fatal(err)
	}
	o := layouts.Options{Rule: rule, Work: rates(p.table), Shares: []float64{1}, Rest: func(int) fleet.State { return fleet.Warm }}
	if change != nil {
		change(&o)
	}
	p.owner = lifecycle.New(p.ledger, p, lifecycle.Options{})
	if p.placing, err = layouts.New(o, p.ledger, signals.NewBusy(p.ledger, signals.BusyOptions{}), p); err != nil {
		t.Fatal(err)
	}
	p.placing.Claim(p.owner.Claim)
	p.set = control.NewSet(p.owner, p.placing)
	return p
}

// pass lets so many seconds pass, each with this many requests.
func (p *plant) pass(seconds int, perSecond float64) {
	p.t.Helper()
	for range seconds {
		p.now += time.Second
		for _, a := range p.ends[p.now] {
			e := control.Event{At: p.now, Kind: a.Verb.Done(), Replica: a.Replica, Action: a}
			if p.undone[a.Replica] && a.Verb == control.Wake {
				e.Kind, e.Reason = control.ActionFailed, "out of memory"
			}
			p.set.Observe(e)
		}
		for p.id += perSecond; p.id >= 1; p.id-- {
			p.ledger.Arrive(p.now)
		}
		p.set.Rouse(p.now)
		p.set.Wake(p.now)
		count := map[string]int{}
		for _, r := range p.table.Replicas {
			count[p.table.Variants[r.Variant].Name] += 0
		}
		for i, r := range p.table.Replicas {
			if p.ledger.State(i) == fleet.Up {
				count[p.table.Variants[r.Variant].Name]++
			}
		}
		for name, n := range count {
			if least, seen := p.least[name]; !seen || n < least {
				p.least[name] = n
			}
		}
	}
}

// up names what is up on a host.
func (p *plant) up(host int) string {
	var names []string
	for _, r := range p.table.ReplicasOn(host) {
		if p.ledger.State(r) == fleet.Up {
			name, _, _ := strings.Cut(p.table.Replicas[r].Name, "@")
			names = append(names, name)
		}
	}
	return strings.Join(names, "+")
}

const (
	large = "tiny+small+large"
	many  = "tiny+small-large"
)

// TestMemoryGoesToWhatTheLoadNeeds: the large size gives its memory to a larger share of the small one as the load
// rises, and has it back later; a small one answers throughout.
func TestMemoryGoesToWhatTheLoadNeeds(t *testing.T) {
	p := newPlant(t, 1, nil)
	for _, x := range []struct {
		rate float64
		want string
	}{{2, large}, {11, many}, {2, large}, {11, many}} {
		if p.pass(60, x.rate); p.up(0) != x.want {
			t.Errorf("at %v requests/s %s is up, want %s; %v", x.rate, p.up(0), x.want, p.log)
		}
	}
	if p.least["small"] < 1 || p.least["tiny"] < 1 {
		t.Errorf("at some time %v were up, want one of small and tiny always", p.least)
	}
	if changes, failed := p.placing.Ended(); changes != 3 || failed != 0 {
		t.Errorf("%d changes and %d failures, want 3 and none", changes, failed)
	}
}

// TestASizeExplainsWhyItSleeps: what is not up has a time, a reason, and what it would change to have it up.
func TestASizeExplainsWhyItSleeps(t *testing.T) {
	p := newPlant(t, 1, nil)
	p.pass(60, 11)
	for _, r := range p.placing.Status().Replicas {
		if p.table.Replicas[r.Replica].Name != "large@h0" {
			continue
		}
		if r.Up || r.Since == 0 || !strings.Contains(r.Reason, "requests/s are expected, of which each gains") || !r.Choice || r.Gain >= 0 {
			t.Errorf("%+v", r)
		}
	}
}

// TestRequestsEndFirst: a size sleeps once its requests have ended, and is not put to sleep if they do not end in time.
func TestRequestsEndFirst(t *testing.T) {
	p := newPlant(t, 1, func(o *layouts.Options) { o.Drain = time.Minute })
	lease, _ := p.ledger.Begin(2, 0)
	if p.pass(50, 11); p.up(0) != "tiny+small" || p.ledger.Placed(2) != fleet.Up {
		t.Errorf("%s is up and the large one is placed %v, want it to drain", p.up(0), p.ledger.Placed(2))
	}
	lease.End()
	if p.pass(20, 11); p.up(0) != many {
		t.Errorf("%s is up after its requests have ended, want %s", p.up(0), many)
	}
	p = newPlant(t, 1, func(o *layouts.Options) { o.Drain = 10 * time.Second })
	p.ledger.Begin(2, 0)
	p.pass(25, 11)
	if _, failed := p.placing.Ended(); failed == 0 || !slices.ContainsFunc(p.log, func(s string) bool { return strings.Contains(s, "have not ended after 10s") }) {
		t.Errorf("%d failures, %v", failed, p.log)
	}
}

// TestAFailureIsWaitedOut: an engine that does not wake is tried three times, later each time, and then the host goes
// back.
func TestAFailureIsWaitedOut(t *testing.T) {
	p := newPlant(t, 1, nil)
	p.undone[3] = true
	if p.pass(60, 11); p.up(0) != large {
		t.Errorf("%s is up after three failures, want %s; %v", p.up(0), large, p.log)
	}
	if s := p.placing.Status(); s.Failed != 3 || s.Changes < 1 {
		t.Errorf("%d failures in %d changes, want 3", s.Failed, s.Changes)
	}
}

// TestLimits: nothing is changed that an operator's limits exclude.
func TestLimits(t *testing.T) {
	for about, x := range map[string]struct {
		change func(*layouts.Options)
		hosts  int
		want   string
		bars   string
	}{
		"pinned":   {func(o *layouts.Options) { o.Pinned = func(r int) bool { return r == 2 } }, 1, large, "it has one layout"},
		"a shadow": {func(o *layouts.Options) { o.Shadow = true }, 1, large, ""},
		"another hour": {func(o *layouts.Options) {
			o.Hours, o.Midnight = []layouts.Hours{{From: 22 * time.Hour, To: 6 * time.Hour}}, 10*time.Hour
		}, 1, large, "it is not the time of the day for changes"},
		"the right hour": {func(o *layouts.Options) {
			o.Hours, o.Midnight = []layouts.Hours{{From: 22 * time.Hour, To: 6 * time.Hour}}, 23*time.Hour
		}, 1, many, ""},
	} {
		p := newPlant(t, x.hosts, x.change)
		p.pass(60, 11)
		if p.up(0) != x.want {
			t.Errorf("%s: %s is up, want %s", about, p.up(0), x.want)
		}
		if s := p.placing.Status(); x.bars != "" && s.Hosts[0].Barred[0] != x.bars {
			t.Errorf("%s: it is barred since %q, want %q", about, s.Hosts[0].Barred[0], x.bars)
		}
		if changes, _ := p.placing.Ended(); about == "a shadow" && changes != 1 {
			t.Errorf("a shadow counts %d changes, want the one that it would make", changes)
		}
	}
}

// TestChangesPerMinute: of four hosts that would change, as many do within a minute as may.
func TestChangesPerMinute(t *testing.T) {
	p := newPlant(t, 4, func(o *layouts.Options) { o.PerMinute = 2 })
	changed := func() (n int) {
		for h := range 4 {
			if p.up(h) == many {
				n++
			}
		}
		return n
	}
	p.pass(30, 44)
	if n := changed(); n != 2 {
		t.Errorf("%d hosts have changed, want 2", n)
	}
	p.pass(60, 44)
	if n := changed(); n != 4 {
		t.Errorf("%d hosts have changed a minute later, want 4", n)
	}
}

// TestHigherRanksComeFirst: what failover holds, what is down and what nothing drives stays as it is.
func TestHigherRanksComeFirst(t *testing.T) {
	p := newPlant(t, 1, nil)
	p.owner.Claim(lifecycle.Failover, func(control.Event) {}).Hold([]int{2}, nil)
	if p.pass(60, 11); p.up(0) != large {
		t.Errorf("%s is up where failover holds the large one", p.up(0))
	}
	p = newPlant(t, 1, nil)
	p.undriven[3] = true
	if p.pass(60, 11); p.up(0) != large {
		t.Errorf("%s is up where nothing drives the second small one", p.up(0))
	}
	p = newPlant(t, 2, nil)
	p.ledger.SetUp(4, false) // large@h0
	if p.pass(60, 22); p.up(1) != many || p.ledger.Placed(4) != fleet.Up {
		t.Errorf("%s is up on the second host, and on the first, which is down, the large one is %v", p.up(1), p.ledger.Placed(4))
	}
}

// TestATaskKeepsAnAnswer: a host whose change would leave a task without any replica stays as it is.
func TestATaskKeepsAnAnswer(t *testing.T) {
	list := []sized{{"large", 2, 95, fleet.Up}, {"small", 1, 95, fleet.Warm}}
	p := newPlant(t, 1, nil)
	p.table = table(t, 1, list)
	p.ledger = fleet.NewLedger(p.table)
	p.owner = lifecycle.New(p.ledger, p, lifecycle.Options{})
	rule, _ := layouts.Parse("worth:0.002,5,20,1")
	var err error
	if p.placing, err = layouts.New(layouts.Options{Rule: rule, Work: rates(p.table), Shares: []float64{1}}, p.ledger, signals.NewBusy(p.ledger, signals.BusyOptions{}), p); err != nil {
		t.Fatal(err)
	}
	p.placing.Claim(p.owner.Claim)
	p.set = control.NewSet(p.owner, p.placing)
	p.pass(60, 11)
	if s := p.placing.Status(); p.up(0) != "large" || !slices.Contains(s.Hosts[0].Barred, "nothing would answer chat meanwhile") {
		t.Errorf("%s is up, barred by %q", p.up(0), s.Hosts[0].Barred)
	}
}

// TestBandsFollowUtilisation: above the band the layout that answers more, below it that of the higher quality.
func TestBandsFollowUtilisation(t *testing.T) {
	rule, err := layouts.Parse("bands:0.4,0.2,20,5")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlant(t, 1, func(o *layouts.Options) { o.Rule = rule })
	for _, x := range []struct {
		rate float64
		want string
	}{{5, large}, {20, many}, {9, many}, {2, large}} {
		if p.pass(60, x.rate); p.up(0) != x.want {
			t.Errorf("at %v requests/s %s is up, want %s", x.rate, p.up(0), x.want)
		}
	}
}

// TestHeldRequestsHaveASizeWoken: a size that requests wait for is woken whatever the load is.
func TestHeldRequestsHaveASizeWoken(t *testing.T) {
	p := newPlant(t, 1, nil)
	p.pass(60, 11)
	p.ledger.Await(2, 3)
	p.pass(8, 11)
	if s := p.placing.Status(); p.up(0) != large || s.Hosts[0].Reason != "3 requests wait for large" {
		t.Errorf("%s is up, want %s: %q", p.up(0), large, s.Hosts[0].Reason)
	}
}

// TestSlowEnginesFollowLoadsThatLast: where a change takes a minute, a burst is over before it would pay, and a load that
// lasts is followed once what was missed is worth the change.
func TestSlowEnginesFollowLoadsThatLast(t *testing.T) {
	for seconds, want := range map[int]int{30: 0, 600: 1} {
		p := newPlant(t, 1, func(o *layouts.Options) {
			o.Rule, _ = layouts.Parse("worth:0.002,5,20,1,0.05")
			o.Takes = func(int, bool) time.Duration { return 10 * time.Minute }
		})
		p.pass(seconds, 12)
		p.pass(30, 1)
		if changes, _ := p.placing.Ended(); changes != want {
			t.Errorf("%d changes after %d s of load, want %d", changes, seconds, want)
		}
	}
}

func TestBadRules(t *testing.T) {
	for text, want := range map[string]string{
		"most":              `unknown rule "most"; want bands:`,
		"worth:a":           `"a" in "worth:a" is not a number`,
		"bands:0.3,0.5":     "has a low of 0.5 from its high of 0.3 on; want less",
		"worth:1,2,3,0":     "has a headroom of 0, with which no load is expected; want 1 or more",
		"worth:1,2,3,4,5,6": "has 6 numbers",
	} {
		if _, err := layouts.Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %q", text, err, want)
		}
	}
}

// TestAChangeTakesTheTimesOfModels: without times of its own the controller uses those of the table's models.
func TestAChangeTakesTheTimesOfModels(t *testing.T) {
	p := newPlant(t, 1, nil)
	p.table.Models = []fleet.Model{{Name: "m", Load: time.Minute, Wake: 2 * time.Second, FirstAnswer: 500 * time.Millisecond}}
	p.pass(1, 1)
	takes := p.placing.Status().Hosts[0].Takes
	slices.Sort(takes)
	if want := []time.Duration{0, 2500 * time.Millisecond}; !slices.Equal(takes, want) {
		t.Errorf("the layouts take %v, want none for the present one and a wake for the other: %v", takes, want)
	}
}

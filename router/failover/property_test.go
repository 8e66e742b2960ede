package failover_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
	"gearshift/router/fleet"
	"gearshift/router/placement"
	"gearshift/router/profile"
)

// drawnProblem is a random problem of which the primaries take about the share of all memory.
func drawnProblem(rng *rand.Rand, applications, hosts, resources int, share float64) *failover.Problem {
	s := &failover.Problem{Resources: []string{"memory", "compute"}[:resources], Shared: rng.IntN(3) == 0}
	full := make([]float64, resources)
	for i := range applications {
		a := failover.Application{Name: fmt.Sprintf("a%d", i), Primary: -1, Full: -1, Critical: rng.IntN(2) == 0, Rate: 0.5 + rng.Float64()}
		quality, size := 0.6+0.2*rng.Float64(), 10+40*rng.Float64()
		family := rng.IntN(4)
		for v := range 2 + rng.IntN(3) {
			w := failover.Variant{Alternative: placement.Alternative{Name: fmt.Sprintf("v%d", v), Quality: quality, Latency: profile.Duration(size / 10)}}
			for range resources {
				w.Demand = append(w.Demand, size*(0.8+0.4*rng.Float64()))
			}
			if s.Shared {
				w.Model, w.Demand[0] = fmt.Sprintf("m%d-%d", family, v), float64(20*(family+1)*(v+1))
			}
			w.Load = loadTime(w.Demand[0])
			quality, size = quality+(1-quality)*rng.Float64()*0.5, size*(1.3+rng.Float64())
			a.Variants = append(a.Variants, w)
		}
		for r, d := range a.Variants[len(a.Variants)-1].Demand {
			full[r] += d
		}
		if rng.IntN(8) == 0 {
			a.Excluded = []int{rng.IntN(hosts)}
		}
		s.Applications = append(s.Applications, a)
	}
	for i := range hosts {
		var capacity []float64
		for _, d := range full {
			capacity = append(capacity, d/share/float64(hosts)*(0.8+0.4*rng.Float64()))
		}
		s.Hosts, s.Capacity = append(s.Hosts, fleet.Host{Name: fmt.Sprintf("s%d", i), Site: fmt.Sprintf("site%d", i/2)}), append(s.Capacity, capacity)
	}
	return s
}

// history is a random history of a system.
type history struct {
	*fake
	options failover.Options
}

// histories is how many are played: 40, or as many as the variable GEARSHIFT_HISTORIES says.
var histories = func() int {
	if n, err := strconv.Atoi(os.Getenv("GEARSHIFT_HISTORIES")); err == nil && n > 0 {
		return n
	}
	return 40
}()

// TestHistories has hosts die and return, heartbeats stop for a while, loads fail and take
// long, applications arrive, operators drill, and the controller die and be resumed, in any
// order. Nothing is loaded twice, no host's capacity is exceeded, epochs never run back, and
// each application is answered by an assignment that is loaded on a living host, or listed
// with a reason. In the end, all is as it was in the beginning.
func TestHistories(t *testing.T) {
	histories, failovers, alarms, recovered := histories, 0, 0, 0
	if testing.Short() {
		histories = 10
	}
	for seed := range uint64(max(histories, traced+1)) {
		if traced >= 0 && seed != uint64(traced) {
			continue
		}
		rng := rand.New(rand.NewPCG(seed, 9))
		o := failover.Options{Term: 1, Policy: failover.Policies[seed%5], Alpha: 0.1, Headroom: 0.2 + 0.3*rng.Float64(), SiteIndependent: rng.IntN(3) == 0,
			Backups: 1 + rng.IntN(2), Loaders: 1 + rng.IntN(4), Sweep: time.Duration(rng.IntN(2)) * 100 * time.Millisecond}
		s := drawnProblem(rng, 6+rng.IntN(10), 3+rng.IntN(4), 1+rng.IntN(2), 0.4+0.3*rng.Float64())
		h := &history{fake: newFake(t, s, o), options: o}
		h.seed = seed
		h.rng = rng
		h.fail = func(failover.Order) bool { return h.rng.IntN(12) == 0 }
		h.slow = func(failover.Assignment) time.Duration {
			if h.rng.IntN(30) == 0 {
				return 40 * time.Second
			}
			return time.Duration(h.rng.IntN(300)) * time.Millisecond
		}
		for step := range 150 {
			h.step()
			h.dump()
			h.audit(step)
		}
		h.calm()
		counts := h.c.Status().Counts
		failovers, alarms, recovered = failovers+counts.Failovers, alarms+counts.FalseAlarms, recovered+counts.Recovered
	}
	t.Logf("%d failovers, %d false alarms, %d recoveries", failovers, alarms, recovered)
	if traced < 0 && (failovers < 5*histories || alarms < histories || recovered < 5*histories) {
		t.Error("too little happened: the test lost its load")
	}
}

func (h *history) step() {
	i := h.rng.IntN(len(h.dead))
	switch h.rng.IntN(14) {
	case 0, 1:
		if !h.dead[i] {
			h.kill(i)
		}
	case 2, 3, 4:
		if h.dead[i] {
			h.revive(i)
		}
	case 5:
		h.mute[i] = !h.dead[i]
	case 6, 7:
		if h.mute[i] {
			h.unmute(i)
		}
	case 8:
		h.evidence(i)
	case 9:
		h.die()
	case 10:
		if h.rng.IntN(3) == 0 {
			_ = h.c.Drill(i)
		}
	case 11:
		h.c.Failback(h.now)
	case 12:
		if h.rng.IntN(5) == 0 {
			h.place()
		}
	}
	h.wake()
	h.advance(h.now + []time.Duration{time.Millisecond, 30 * time.Millisecond, 300 * time.Millisecond, 3 * time.Second, 20 * time.Second}[h.rng.IntN(5)])
}

// evidence has requests fail on the host, as they do if it is dead, and now and then else.
func (h *history) evidence(i int) {
	if h.dead[i] || h.rng.IntN(4) == 0 {
		kind := []control.Kind{control.Broken, control.Refused}[h.rng.IntN(2)]
		h.observe(control.Event{At: h.now, Kind: kind, Replica: -1, Host: i, Began: h.now})
	}
}

// place adds an application like one of those that are there.
func (h *history) place() {
	a := h.problem.Applications[h.rng.IntN(len(h.problem.Applications))]
	a.Name, a.Primary = fmt.Sprintf("a%d", len(h.problem.Applications)), -1
	if _, err := h.c.Place(a); err != nil {
		h.t.Fatal(err)
	}
	h.active = append(h.active, failover.Nowhere)
}

// die ends the controller, and has another one go on from its state.
func (h *history) die() {
	text, err := json.Marshal(h.c.State())
	if err != nil {
		h.t.Fatal(err)
	}
	h.absent, h.next = true, control.Never
	h.advance(h.now + time.Duration(h.rng.IntN(3000))*time.Millisecond)
	if i := h.rng.IntN(len(h.dead)); h.rng.IntN(3) == 0 && !h.dead[i] {
		h.kill(i)
	}
	h.absent = false
	h.options.Term++
	h.start(h.options)
	var s failover.State
	if err := json.Unmarshal(text, &s); err != nil {
		h.t.Fatal(err)
	}
	if err := h.c.Resume(s); err != nil {
		h.t.Fatal(err)
	}
	for i := range h.dead {
		if !h.dead[i] && !h.mute[i] {
			h.register(i)
		}
	}
	h.wake()
}

// audit holds what the controller says against the system.
func (h *history) audit(step int) {
	h.t.Helper()
	s := h.c.Status()
	for i := range h.dead {
		h.capacity(i)
	}
	for i, a := range s.Applications {
		if a.Active == failover.Nowhere {
			h.check(a.Unrecovered != "", "%s has no active instance, and no reason", a.Name)
			continue
		}
		host := a.Active.Host
		h.check(s.Hosts[host].Condition != "lost", "%s is active on a lost server", a.Name)
		if !h.dead[host] && !h.mute[host] {
			h.check(h.holds[host][a.Active], "%s is active on %s, where it is not loaded", a.Name, h.name(a.Active))
			h.check(h.active[i] == a.Active, "%s is active by %d, and really by %d", a.Name, a.Active, h.active[i])
		}
		h.check(len(a.Backups) >= h.options.Backups || a.Unprotected != "", "%s has %d backups, and no reason", a.Name, len(a.Backups))
	}
	if h.broken != "" {
		h.t.Fatalf("seed %d, %s, step %d: %s", h.seed, h.options.Policy, step, h.broken)
	}
}

// calm has all hosts be well, and all end.
func (h *history) calm() {
	h.t.Helper()
	h.fail, h.slow = nil, nil
	for i := range h.dead {
		if h.mute[i] {
			h.unmute(i)
		}
		if h.dead[i] {
			h.revive(i)
		}
	}
	h.c.Failback(h.now)
	h.wake()
	h.advance(h.now + 200*time.Second)
	h.audit(-1)
	s := h.c.Status()
	if s.Open {
		h.t.Errorf("seed %d, %s: the failover has no end", h.seed, h.options.Policy)
	}
	for i, a := range s.Applications {
		if a.Primary >= 0 && (a.Active != failover.Assignment{App: i, Variant: full(&h.problem.Applications[i]), Host: a.Primary}) {
			h.t.Errorf("seed %d, %s: %s is not back on its primary: %+v", h.seed, h.options.Policy, a.Name, a)
		}
	}
	for i := range h.dead {
		if n := len(h.resident(i)); n != s.Hosts[i].Loaded || s.Hosts[i].Loading > 0 {
			h.t.Errorf("seed %d, %s: %d instances on server %d, the controller knows of %d", h.seed, h.options.Policy, n, i, s.Hosts[i].Loaded)
		}
	}
}

// full is the application's best variant.
func full(a *failover.Application) int {
	best := 0
	for v := range a.Variants {
		if a.Variants[v].Quality > a.Variants[best].Quality {
			best = v
		}
	}
	return best
}

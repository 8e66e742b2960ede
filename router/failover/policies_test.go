package failover_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

// TestPolicies: what each policy holds ready, and what it loads after a loss (FL-2, 15).
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy    failover.Policy
		backups   string // of A and C, which are critical, and B and D
		recovered int
		outage    time.Duration // of all
	}{
		{failover.Gearshift, "+ + + +", 2, 0},
		{failover.FailLite, "+ - + -", 2, loadTime(158)},
		{failover.FullWarm, "L L L -", 2, 0},
		{failover.FullCold, "- - - -", 2, 2 * loadTime(806)},
		{failover.FullWarmK, "L - L -", 2, loadTime(806)},
	} {
		// A and B are lost. Of the full variants the headroom holds two on S2, one on S3.
		s := problem([]int{0, 0, 1, 1}, 3900, 2*4030, 4030)
		f := newFake(t, s, failover.Options{Term: 1, Policy: c.policy, Alpha: 0})
		f.advance(20 * time.Second)
		var got []string
		for i, a := range f.c.Status().Applications {
			switch {
			case len(a.Backups) == 0:
				got = append(got, "-")
			case strings.Contains(c.backups, "L"):
				v := a.Backups[0].Variant
				got = append(got, s.Applications[i].Variants[v].Name)
			default:
				got = append(got, "+")
			}
		}
		if strings.Join(got, " ") != c.backups {
			t.Errorf("%s: backups %s, want %s", c.policy, strings.Join(got, " "), c.backups)
		}
		f.kill(0)
		f.observe(control.Event{At: f.now, Kind: control.Refused, Host: 0, Replica: -1, Began: f.now})
		f.advance(f.now + 30*time.Second)
		if n := f.c.Status().Counts; n.Recovered != c.recovered || n.Outage != c.outage {
			t.Errorf("%s: %d recovered, %v in all; want %d and %v", c.policy, n.Recovered, n.Outage, c.recovered, c.outage)
		}
	}
}

// TestSitesAndExclusions: backups are on other sites, on as many hosts as asked for, and not
// on those that an application excludes (FL-13).
func TestSitesAndExclusions(t *testing.T) {
	s := problem([]int{0, 2}, 4000, 4000, 4000, 4000, 4000, 4000)
	s.Applications[1].Excluded = []int{0, 4}
	f := newFake(t, s, failover.Options{Term: 1, SiteIndependent: true, Backups: 2})
	f.advance(20 * time.Second)
	sites := func(i int) (list []string) {
		for _, id := range f.c.Status().Applications[i].Backups {
			host := id.Host
			if i == 1 && (host == 0 || host == 4) {
				t.Errorf("a backup is on the excluded server %d", host)
			}
			list = append(list, s.Hosts[host].Site)
		}
		return list
	}
	for i, own := range []string{"site0", "site1"} {
		if got := sites(i); len(got) != 2 || got[0] == got[1] || got[0] == own || got[1] == own {
			t.Errorf("application %d on %s has backups on %v", i, own, got)
		}
	}
	// A site is all there is.
	s = problem([]int{0, 1}, 4000, 4000)
	f = newFake(t, s, failover.Options{Term: 1, SiteIndependent: true})
	f.advance(20 * time.Second)
	if a := f.c.Status().Applications[0]; a.Unprotected != "no host is on another site than site0" {
		t.Errorf("the only site: %+v", a)
	}
}

// TestNoRoom: an application of which no variant fits anywhere is listed with the reason.
func TestNoRoom(t *testing.T) {
	s := problem([]int{0, 1}, 4000, 4000)
	for v := range s.Applications[1].Variants {
		s.Applications[1].Variants[v].Demand = []float64{3000}
		s.Applications[1].Variants[v].Latency = 30 * time.Millisecond
	}
	f := newFake(t, s, failover.Options{Term: 1})
	f.advance(20 * time.Second)
	if a := f.c.Status().Applications; a[1].Unprotected != "no variant fits what any host has free without other backups" || a[0].Unprotected != "" {
		t.Errorf("%+v", a)
	}
	s.Applications[1].MaxLatency = 20 * time.Millisecond
	f = newFake(t, s, failover.Options{Term: 1, Policy: failover.FailLite})
	f.advance(20 * time.Second)
	f.kill(1)
	f.advance(40 * time.Second)
	if a := f.c.Status().Applications[1]; a.Unrecovered != "no variant answers within 20 ms" {
		t.Errorf("%+v", a)
	}
}

// TestTheLossOfAllServers: the failover ends with how many applications have no answer, and not as recovered; lost
// hosts have no models.
func TestTheLossOfAllServers(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000), failover.Options{Term: 1})
	f.advance(20 * time.Second)
	f.kill(0)
	f.kill(1)
	f.advance(40 * time.Second)
	over := f.of(failover.StepOver)
	if len(over) == 0 || over[len(over)-1].Reason != "applications without an answer: 2" || f.steps[len(f.steps)-1].Kind == failover.StepRecovered {
		t.Errorf("%+v", over)
	}
	if s := f.c.Status(); s.Unrecovered != 2 || s.Hosts[0].Models != 0 || s.Hosts[1].Models != 0 {
		t.Errorf("%+v", s)
	}
}

// TestResume: a controller that dies in the middle of a failover goes on from its state, under
// a higher term (FL-11).
func TestResume(t *testing.T) {
	o := failover.Options{Term: 1, Policy: failover.FullCold}
	f := newFake(t, problem([]int{0, 1}, 4000, 4000, 5000), o)
	f.advance(5 * time.Second)
	f.kill(0)
	f.advance(6 * time.Second)
	text, err := json.Marshal(f.c.State())
	if err != nil {
		t.Fatal(err)
	}
	before := f.newest
	var s failover.State
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	o.Term = 2
	f.start(o)
	if err := f.c.Resume(s); err != nil {
		t.Fatal(err)
	}
	f.wake()
	if f.newest>>32 != 2 || before>>32 != 1 {
		t.Errorf("epoch %x after %x", f.newest, before)
	}
	f.advance(20 * time.Second)
	// 40 ms until it was detected, and the load went on meanwhile.
	if n := f.of(failover.StepNotified); len(n) != 1 || n[0].Took != loadTime(806) || answering(f) != "L@S3 L@S2" {
		t.Errorf("%s: %+v", answering(f), n)
	}
	again, err := failover.New(f.problem, failover.Options{Term: 1}, f)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Resume(s); err == nil || !strings.Contains(err.Error(), "term 1") {
		t.Errorf("resumed under the same term: %v", err)
	}
}

// TestDrill: a host is treated as lost until its applications are called back, without a
// reload there.
func TestDrill(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000, 4000), failover.Options{Term: 1})
	f.advance(10 * time.Second)
	if err := f.c.Drill(0); err != nil {
		t.Fatal(err)
	}
	f.wake()
	if n := f.of(failover.StepNotified); len(n) != 1 || n[0].Took != 0 || n[0].Host == 0 {
		t.Fatalf("%+v", n)
	}
	f.advance(30 * time.Second)
	if err := f.c.Drill(0); err == nil {
		t.Error("drilled twice")
	}
	f.c.Failback(f.now)
	f.wake()
	if n := f.of(failover.StepFailedBack); len(n) != 1 || f.c.Status().Counts.FalseAlarms != 0 {
		t.Errorf("%+v", n)
	}
	if err := f.c.Drill(7); err == nil {
		t.Error("drilled a server that is not there")
	}
}

// TestLoaders: a host has no more loads under way than it has loaders.
func TestLoaders(t *testing.T) {
	s := problem([]int{0, 0, 0, 0, 0, 0}, 6000, 6000)
	f := newFake(t, s, failover.Options{Term: 1, Policy: failover.Gearshift, Loaders: 2})
	most := 0
	for f.now < 10*time.Second {
		f.advance(f.now + 10*time.Millisecond)
		most = max(most, f.c.Status().Hosts[1].Loading)
	}
	if most != 2 || f.c.Status().Hosts[1].Loaded < 5 {
		t.Errorf("%d at a time, %d loaded", most, f.c.Status().Hosts[1].Loaded)
	}
}

// TestBadInput names what is wrong.
func TestBadInput(t *testing.T) {
	for name, change := range map[string]func(*failover.Problem, *failover.Options){
		`policy: "cold"`:         func(_ *failover.Problem, o *failover.Options) { o.Policy = "cold" },
		"alpha: 1.5":             func(_ *failover.Problem, o *failover.Options) { o.Alpha = 1.5 },
		"no host 9":              func(s *failover.Problem, _ *failover.Options) { s.Applications[0].Primary = 9 },
		"capacity":               func(s *failover.Problem, _ *failover.Options) { s.Capacity[0] = nil },
		"take 806 of its memory": func(s *failover.Problem, _ *failover.Options) { s.Capacity[0][0] = 500 },
		"there twice":            func(s *failover.Problem, _ *failover.Options) { s.Hosts[1].Name = "S1" },
	} {
		s, o := problem([]int{0, 1}, 4000, 4000), failover.Options{}
		change(s, &o)
		if _, err := failover.New(s, o, &instant{}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

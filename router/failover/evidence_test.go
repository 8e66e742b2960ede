package failover_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

// detection returns how long after the kill the first host was lost.
func detection(t *testing.T, f *fake, killed time.Duration) time.Duration {
	t.Helper()
	lost := f.of(failover.StepLost)
	if len(lost) != 1 || lost[0].Host != 0 {
		t.Fatalf("lost: %+v", lost)
	}
	return lost[0].At - killed
}

// TestDetection: two heartbeats of 20 ms that do not come are noticed 20 to 40 ms after a
// crash; with the paper's sweep each 100 ms after 20 to 140 ms, 80 in the mean (FL-9).
func TestDetection(t *testing.T) {
	for _, c := range []struct {
		sweep             time.Duration
		least, most, mean float64 // ms
	}{{0, 20, 40, 30}, {100 * time.Millisecond, 20, 140, 80}, {70 * time.Millisecond, 20, 110, 65}} {
		rng := rand.New(rand.NewPCG(1, 2))
		var sum float64
		const n = 1500
		f := newFake(t, problem([]int{0, 1}, 4000, 4000), failover.Options{Term: 1, Policy: failover.FullCold, Sweep: c.sweep})
		for range n {
			f.steps = nil
			killed := f.now + 3*time.Second + time.Duration(rng.Int64N(int64(2100*time.Millisecond)))
			f.advance(killed)
			f.kill(0)
			f.advance(killed + 200*time.Millisecond)
			took := detection(t, f, killed).Seconds() * 1e3
			if sum += took; took < c.least-1e-6 || took > c.most+1e-6 {
				t.Fatalf("sweep %v: %v ms, want %v to %v", c.sweep, took, c.least, c.most)
			}
			f.revive(0)
			f.c.Failback(f.now)
			f.wake()
		}
		if mean := sum / n; mean < c.mean-2.5 || mean > c.mean+2.5 {
			t.Errorf("sweep %v: %.1f ms in the mean, want %v", c.sweep, mean, c.mean)
		}
	}
}

// TestEvidence: a refused connection is enough; a broken one is while a heartbeat is overdue;
// neither is a heartbeat that comes late once.
func TestEvidence(t *testing.T) {
	at := func(kind control.Kind, when, began time.Duration) control.Event {
		return control.Event{At: when, Kind: kind, Host: 0, Replica: -1, Began: began}
	}
	start := func() *fake {
		f := newFake(t, problem([]int{0, 1}, 4000, 4000), failover.Options{Term: 1})
		f.advance(1005 * time.Millisecond) // the last heartbeat was at 1000 ms
		return f
	}
	f := start()
	f.observe(at(control.Refused, f.now, 900*ms))
	if n := f.of(failover.StepLost); len(n) > 0 {
		t.Errorf("lost by a request that was sent before the last heartbeat: %+v", n)
	}
	f.observe(at(control.Refused, f.now, f.now))
	if got := detection(t, f, f.now); got != 0 {
		t.Errorf("refused: %v", got)
	}
	f = start()
	f.observe(at(control.Broken, f.now, 900*ms))
	f.advance(2 * time.Second)
	if n := f.of(failover.StepLost); len(n) > 0 {
		t.Errorf("lost by a broken request, while heartbeats come: %+v", n)
	}
	f = start()
	f.kill(0)
	f.observe(at(control.Broken, f.now, 900*ms))
	f.advance(2 * time.Second)
	if got := detection(t, f, 1005*ms); got != 20*ms {
		t.Errorf("broken: %v, want 20ms", got)
	}
	f = start()
	f.mute[0] = true
	f.advance(1035 * ms)
	f.unmute(0)
	f.advance(2 * time.Second)
	if n := f.of(failover.StepLost); len(n) > 0 {
		t.Errorf("lost by one heartbeat that was late: %+v", n)
	}
}

// TestHostsWithoutAgents are lost by probes, and what comes back after a refusal is another
// process.
func TestHostsWithoutAgents(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000), failover.Options{Term: 1})
	f.quiet = true
	f.advance(10 * time.Second)
	probe := func(kind control.Kind) {
		f.advance(f.now + 100*time.Millisecond)
		f.observe(control.Event{At: f.now, Kind: kind, Host: 0, Replica: -1})
	}
	probe(control.ProbeFailed)
	probe(control.ProbePassed)
	probe(control.ProbeFailed)
	if n := f.of(failover.StepLost); len(n) > 0 {
		t.Fatalf("lost by one failed probe in a row: %+v", n)
	}
	probe(control.ProbeFailed)
	probe(control.ProbePassed)
	if s := f.c.Status(); s.Counts.FalseAlarms != 1 || s.Hosts[0].Loaded == 0 {
		t.Fatalf("after two: %+v", s)
	}
	f.advance(f.now + 5*time.Second)
	f.kill(0)
	f.dead[0] = false // another process
	f.observe(control.Event{At: f.now, Kind: control.Refused, Host: 0, Replica: -1, Began: f.now})
	probe(control.ProbePassed)
	f.advance(f.now + 20*time.Second)
	if s := f.c.Status(); s.Counts.FalseAlarms != 1 || s.Applications[0].Active != (failover.Assignment{App: 0, Variant: 3, Host: 0}) || len(f.of(failover.StepLoadBegun)) < 3 {
		t.Errorf("after a refusal: %+v", s.Applications)
	}
}

// TestFalseAlarm: a host that was silent for a while is used again without a reload, once it
// has been well for ReturnAfter (FL-33).
func TestFalseAlarm(t *testing.T) {
	f := newFake(t, problem([]int{0, 1}, 4000, 4000, 4000), failover.Options{Term: 1, ReturnAfter: time.Second})
	f.advance(10 * time.Second)
	loads := f.c.Status().Counts.Loads
	f.mute[0] = true
	f.advance(10*time.Second + 100*time.Millisecond)
	if f.c.Status().Applications[0].Active == (failover.Assignment{App: 0, Variant: 3, Host: 0}) {
		t.Fatal("nothing was noticed")
	}
	f.unmute(0)
	f.advance(f.now + 900*time.Millisecond)
	if n := f.of(failover.StepFailedBack); len(n) > 0 {
		t.Fatalf("moved back too early: %+v", n)
	}
	f.advance(f.now + 5*time.Second)
	s := f.c.Status()
	back := f.of(failover.StepFailedBack)
	if s.Counts.FalseAlarms != 1 || len(back) != 1 || s.Applications[0].Active != (failover.Assignment{App: 0, Variant: 3, Host: 0}) {
		t.Fatalf("%d false alarms, back: %+v", s.Counts.FalseAlarms, back)
	}
	for _, x := range f.of(failover.StepLoadBegun) {
		if x.Host == 0 && x.At > 10*time.Second {
			t.Errorf("%s was loaded again", f.name(failover.Assignment{App: x.Application, Variant: x.Variant, Host: x.Host}))
		}
	}
	t.Logf("%d loads in all, %d before", s.Counts.Loads, loads)
}

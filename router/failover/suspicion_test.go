package failover_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/failover"
)

const (
	confirm = 30 * time.Millisecond
	ms      = time.Millisecond
)

// suspicious is a system of four hosts, whose controller confirms losses. Answer is what a host
// that is asked observes at once; nil where nothing answers.
func suspicious(t *testing.T, answer func(f *fake, host int)) *fake {
	var f *fake
	f = newFake(t, problem([]int{0, 1}, 4000, 4000, 4000, 4000), failover.Options{Term: 1, Confirm: confirm, Ask: func(host int) {
		if answer != nil {
			answer(f, host)
		}
	}})
	f.advance(5 * time.Second)
	f.steps = nil
	return f
}

// passes and refuses are answers to a controller that asks.
func passes(f *fake, host int) {
	f.tell(control.Event{At: f.now, Kind: control.ProbePassed, Replica: -1, Host: host, Began: f.now})
}

func refuses(f *fake, host int) {
	f.tell(control.Event{At: f.now, Kind: control.Refused, Replica: -1, Host: host, Began: f.now})
}

// whole fails the test if a host was lost.
func (f *fake) whole(when string) {
	f.t.Helper()
	if n := f.of(failover.StepLost); len(n) > 0 {
		f.t.Errorf("%s: lost %+v", when, n)
	}
}

// stall has the controller's process stand still. What the hosts send meanwhile is read late, a few
// milliseconds after the controller has been woken.
func (f *fake) stall(d time.Duration) {
	f.now += d
	f.wake()
	for i := range f.beats {
		f.beats[i] = f.now + time.Duration(1+2*i)*ms
	}
}

// TestConfirmedLosses: a host without a sign of life is lost 30 ms later than by its heartbeats
// alone, 50 to 70 ms after a crash, whether it stands still or its link is cut. One whose port
// refuses is lost as soon as it is asked.
func TestConfirmedLosses(t *testing.T) {
	for _, c := range []struct {
		name              string
		answer            func(f *fake, host int)
		least, most, mean float64 // ms
	}{{"no answer", nil, 50, 70, 60}, {"refuses", refuses, 20, 40, 30}} {
		rng := rand.New(rand.NewPCG(1, 2))
		f := suspicious(t, c.answer)
		sum := 0.0
		const n = 500
		for range n {
			f.steps = nil
			killed := f.now + 10*time.Second + time.Duration(rng.Int64N(int64(100*ms)))
			f.advance(killed)
			f.kill(0)
			f.advance(killed + 200*ms)
			took := detection(t, f, killed).Seconds() * 1e3
			if sum += took; took < c.least-1e-6 || took > c.most+1e-6 {
				t.Fatalf("%s: lost after %v ms, want %v to %v", c.name, took, c.least, c.most)
			}
			f.revive(0)
			f.c.Failback(f.now)
			f.wake()
		}
		if mean := sum / n; mean < c.mean-1 || mean > c.mean+1 {
			t.Errorf("%s: %.1f ms in the mean, want %v", c.name, mean, c.mean)
		}
	}
}

// TestStallsOfTheController: a process that stood still takes nobody for lost by what it has not read
// yet, for however long it stood still, and neither if some hosts are heard before others.
func TestStallsOfTheController(t *testing.T) {
	f := suspicious(t, nil)
	for _, d := range []time.Duration{15 * ms, 45 * ms, 200 * ms, 3 * time.Second, 70 * ms} {
		f.stall(d)
		f.advance(f.now + 137*ms)
		f.whole(d.String())
	}
	// It stands still as a suspicion is looked at, again and again.
	f.mute[0] = true
	f.advance(f.now + 45*ms)
	for range 2 {
		f.now += 500 * ms
		f.wake()
	}
	f.unmute(0)
	f.advance(f.now + time.Second)
	f.whole("stalls while one is suspected")
	if n := f.c.Status().Counts.Suspicions; n == 0 {
		t.Error("no server was suspected")
	}
}

// TestALossWithinAStall: a host that dies while the controller stands still is lost 30 ms after the
// first heartbeat that is read after the stall, and no other is.
func TestALossWithinAStall(t *testing.T) {
	f := suspicious(t, nil)
	f.kill(0)
	f.stall(200 * ms)
	end := f.now
	f.advance(end + time.Second)
	if took := detection(t, f, end); took > confirm+5*ms {
		t.Errorf("lost %v after the stall, want %v at most", took, confirm+5*ms)
	}
}

// TestLateHeartbeats: a link that drops what is sent for up to 40 ms, again and again, and a host
// whose heartbeats are late as long, cost nothing. One that is silent for longer is a false alarm.
func TestLateHeartbeats(t *testing.T) {
	f := suspicious(t, nil)
	flap := func(d time.Duration) {
		f.mute[1] = true
		f.advance(f.now + d)
		f.unmute(1)
		f.advance(f.now + 50*ms)
	}
	loads := f.c.Status().Counts.Loads
	for i := range 200 {
		flap(time.Duration(i%40) * ms)
	}
	f.whole("a link that flaps")
	if s := f.c.Status().Counts; s.Loads != loads || s.Suspicions == 0 {
		t.Errorf("%d loads after %d, %d suspicions", s.Loads, loads, s.Suspicions)
	}
	flap(100 * ms)
	if s := f.c.Status().Counts; s.FalseAlarms != 1 {
		t.Errorf("%d false alarms, want one", s.FalseAlarms)
	}
}

// TestSlack: a host whose heartbeats were late is waited for half as long again as it was silent, and
// as long as ever after some minutes.
func TestSlack(t *testing.T) {
	f := suspicious(t, nil)
	silent := func(d time.Duration) time.Duration { // how long it is waited for
		f.steps = nil
		f.advance(f.now - f.now%heartbeat + heartbeat)
		from := f.now
		f.mute[1] = true
		f.advance(from + d)
		f.unmute(1)
		f.advance(f.now + time.Second)
		if n := f.of(failover.StepLost); len(n) > 0 {
			return n[0].At - from
		}
		return 0
	}
	if took := silent(59 * ms); took != 0 {
		t.Errorf("lost after %v of 60 ms", took)
	}
	if took := silent(79 * ms); took != 0 {
		t.Errorf("lost after %v of 80 ms, having been silent for 60", took)
	}
	f.advance(f.now + 5*time.Minute)
	if took := silent(time.Second); took < 70*ms || took > 71*ms {
		t.Errorf("lost after %v, five minutes later", took)
	}
}

// TestHeartbeatsAreLost: a host whose heartbeats do not come, and which answers when it is asked, is
// suspected and keeps its applications. It is lost once it does not answer any more.
func TestHeartbeatsAreLost(t *testing.T) {
	answers := true
	f := suspicious(t, func(f *fake, host int) {
		if answers {
			passes(f, host)
		}
	})
	was := f.c.Status().Applications
	f.mute[0] = true
	f.advance(f.now + 10*time.Second)
	f.whole("it answers")
	s := f.c.Status()
	if s.Counts.Suspicions < 100 || s.Applications[0].Active != was[0].Active || len(f.of(failover.StepLoadBegun)) > 0 {
		t.Errorf("%d suspicions, %+v", s.Counts.Suspicions, s.Applications[0])
	}
	answers = false
	silent := f.now
	f.advance(silent + time.Second)
	if took := detection(t, f, silent); took > 2*heartbeat+confirm {
		t.Errorf("lost after %v", took)
	}
	answers = true
	passes(f, 0) // a lost host is back with its heartbeats
	f.advance(f.now + time.Second)
	if c := f.c.Status().Hosts[0].Condition; c != failover.Lost.String() {
		t.Errorf("the server is %s, by an answer to nobody's question", c)
	}
}

// TestNobodyIsHeard: where no agent is heard at all, the controller seems cut off, and waits for five
// heartbeats. The first that is heard has the others be waited for again.
func TestNobodyIsHeard(t *testing.T) {
	f := suspicious(t, nil)
	all := func(mute bool) {
		for i := range f.mute {
			if mute {
				f.mute[i] = true
			} else {
				f.unmute(i)
			}
		}
	}
	all(true)
	f.advance(f.now + 110*ms)
	f.unmute(2)
	f.advance(f.now + 25*ms)
	all(false)
	f.advance(f.now + time.Second)
	f.whole("all are heard again")
	all(true)
	silent := f.now
	f.advance(silent + time.Second)
	lost := f.of(failover.StepLost)
	if len(lost) != 4 || lost[0].At-silent > 2*heartbeat+5*heartbeat || lost[0].At-silent < 6*heartbeat {
		t.Errorf("lost: %+v after %v", lost, silent)
	}
	all(false)
}

// TestSilentLoaders: a host is suspected for longer while a model is being loaded there, which may
// keep its agent from reporting, and lost in the end.
func TestSilentLoaders(t *testing.T) {
	f := suspicious(t, nil)
	f.slow = func(failover.Assignment) time.Duration { return 5 * time.Second }
	f.kill(0)
	f.advance(f.now + 500*ms)
	begun := f.of(failover.StepLoadBegun)
	if len(begun) == 0 {
		t.Fatal("nothing is loaded after a loss")
	}
	loader := begun[0].Host
	f.steps = nil
	f.mute[loader] = true
	f.advance(f.now + 180*ms)
	f.whole("while it loads")
	f.unmute(loader)
	f.advance(f.now + 100*ms)
	f.mute[loader] = true
	silent := f.now
	f.advance(silent + 600*ms)
	if n := f.of(failover.StepLost); len(n) != 1 || n[0].Host != loader || n[0].At-silent > 22*heartbeat {
		t.Errorf("lost: %+v, silent since %v", n, silent)
	}
}

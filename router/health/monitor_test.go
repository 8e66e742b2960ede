package health_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/health"
)

// rig is a monitor over replicas of one variant, one to a host, and a clock that
// the test moves.
type rig struct {
	*health.Monitor
	t      *testing.T
	ledger *fleet.Ledger
	now    time.Duration
	next   time.Duration // when Advance is due; 0 if never
	log    []string
}

func newRig(t *testing.T, replicas int, change ...func(*health.Config)) *rig {
	return rigAt(t, make([]string, replicas), change...)
}

func rigAt(t *testing.T, addresses []string, change ...func(*health.Config)) *rig {
	t.Helper()
	hosts, list := []fleet.Host{}, []fleet.Replica{}
	for i := range addresses {
		hosts = append(hosts, fleet.Host{Name: fmt.Sprint("host", i)})
		list = append(list, fleet.Replica{Name: fmt.Sprint("r", i), Host: i, Limit: 100})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "model"}}, hosts, list)
	if err != nil {
		t.Fatal(err)
	}
	c := health.DefaultConfig()
	for _, f := range change {
		f(&c)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	l := fleet.NewLedger(table)
	return &rig{Monitor: health.New(c, l, addresses, 1), t: t, ledger: l, now: time.Hour}
}

// saw writes down changes and does what is due.
func (r *rig) saw(changes []health.Change) {
	more, next, ok := r.Advance(r.now)
	for _, c := range append(changes, more...) {
		verb := c.To.String()
		if c.Spared {
			verb = "spared"
		}
		r.log = append(r.log, strings.TrimSpace(fmt.Sprint(c.Replica, " ", verb, " ", c.Why)))
	}
	if r.next = next; !ok {
		r.next = 0
	}
}

func (r *rig) fail(replica int, why health.Failure, times int) {
	for range times {
		r.saw(r.Failed(replica, why, r.now, r.now))
	}
}

func (r *rig) succeed(replica, times int) {
	for range times {
		r.saw(r.Succeeded(replica, r.now, r.now))
	}
}

func (r *rig) probe(replica int, f health.Finding) { r.saw(r.Probed(replica, f, r.now)) }

// pass lets time go by, and all happen that falls due.
func (r *rig) pass(d time.Duration) {
	for end := r.now + d; r.now < end; {
		if r.now = end; r.next > 0 && r.next < end {
			r.now = r.next
		}
		r.saw(nil)
	}
}

// want compares the changes since the last call.
func (r *rig) want(changes ...string) {
	r.t.Helper()
	if fmt.Sprint(r.log) != fmt.Sprint(changes) {
		r.t.Errorf("changes %q, want %q", r.log, changes)
	}
	r.log = nil
}

// takes says how many more requests the replica would get.
func (r *rig) takes(replica int) (n int) {
	var leases []fleet.Lease
	for {
		lease, ok := r.ledger.Begin(replica, 0)
		if !ok {
			break
		}
		leases = append(leases, lease)
	}
	for _, lease := range leases {
		lease.End()
	}
	return len(leases)
}

func TestARefusedConnectionEjectsAtOnce(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Connect, 1)
	r.want("0 ejected connect")
	if r.takes(0) != 0 || r.takes(1) != 100 {
		t.Errorf("they take %d and %d", r.takes(0), r.takes(1))
	}
	r.fail(0, health.Connect, 3) // of requests sent before
	r.want()
}

func TestAReplicaComesBackByDegrees(t *testing.T) {
	r := newRig(t, 2)
	for range 40 {
		if _, ok := r.ledger.Begin(1, 0); !ok {
			t.Fatal("no place")
		}
	}
	r.fail(0, health.Connect, 1)
	r.pass(3900 * time.Millisecond)
	r.want("0 ejected connect")
	r.pass(1100 * time.Millisecond) // jitter only shortens
	r.want("0 half_open connect")
	if n := r.takes(0); n != 2 {
		t.Errorf("on trial it takes %d requests, want 2", n)
	}
	r.succeed(0, 1)
	r.want()
	r.succeed(0, 1)
	r.want("0 slow_start connect")
	for _, c := range []struct {
		after time.Duration
		takes int
	}{{0, 2}, {time.Second, 4}, {4 * time.Second, 20}, {4900 * time.Millisecond, 40}} {
		r.pass(c.after)
		if n := r.takes(0); n < c.takes-1 || n > c.takes+1 {
			t.Errorf("after %v more it takes %d requests, want about %d of the other's 40", c.after, n, c.takes)
		}
	}
	r.pass(time.Second)
	r.want("0 up")
	if n := r.takes(0); n != 100 {
		t.Errorf("up again it takes %d", n)
	}
	if r.next != 0 {
		t.Errorf("something is still due at %v", r.next)
	}
}

func TestTrialsThatFailTakeTwiceAsLong(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Connect, 1)
	for _, cooldown := range []time.Duration{5, 10, 20, 40, 60, 60} {
		r.want("0 ejected connect")
		r.pass(cooldown*time.Second*4/5 - time.Millisecond)
		r.want()
		r.pass(cooldown*time.Second/5 + time.Millisecond)
		r.want("0 half_open connect")
		r.fail(0, health.Connect, 1)
	}
	// After a good while it is as if nothing had been.
	r.pass(time.Minute)
	r.succeed(0, 2)
	r.pass(10*time.Second + time.Minute + 1)
	r.log = nil
	r.fail(0, health.Connect, 1)
	r.pass(5 * time.Second)
	r.want("0 ejected connect", "0 half_open connect")
}

func TestCooldownsDifferByChanceAndSeed(t *testing.T) {
	until := func() (all []time.Duration) {
		r := newRig(t, 4)
		for i := range 4 {
			changes := r.Failed(i, health.Connect, 0, 0)
			all = append(all, changes[0].Cooldown)
		}
		return all
	}
	a, b := until(), until()
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("the same seed gives %v and %v", a, b)
	}
	for i, d := range a {
		if d < 4*time.Second || d > 5*time.Second || i > 0 && d == a[i-1] {
			t.Errorf("cooldowns %v, want different ones from 4s to 5s", a)
		}
	}
}

func TestFailuresInARowEject(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.ServerError, 4)
	r.succeed(0, 1)
	r.fail(0, health.Broken, 4)
	r.want()
	r.fail(0, health.ServerError, 1)
	r.want("0 ejected failures")
	r.pass(5 * time.Second)
	r.fail(0, health.ServerError, 1) // one suffices on trial
	r.want("0 half_open failures", "0 ejected failures")
}

func TestTimeoutsInARowAreSilence(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Timeout, 5)
	r.want("0 ejected silent")
}

func TestAShareOfFailuresEjects(t *testing.T) {
	r := newRig(t, 2)
	for range 9 {
		r.fail(0, health.ServerError, 1)
		r.succeed(0, 1)
	}
	r.want() // too few to tell
	r.pass(40 * time.Second)
	for range 6 { // those before are forgotten
		r.succeed(0, 1)
		r.fail(0, health.ServerError, 1)
	}
	r.want()
	r.fail(0, health.ServerError, 3)
	for range 3 {
		r.succeed(0, 1)
		r.fail(0, health.ServerError, 1)
	}
	r.want("0 ejected failure_share")
}

// What all replicas answer alike is hardly the fault of each: some stay, and
// their errors reach the clients. One that cannot be reached is of no use.
func TestSomeStayUnlessTheyCannotBeReached(t *testing.T) {
	r := newRig(t, 4)
	for i := range 4 {
		r.fail(i, health.ServerError, 12)
	}
	r.want("0 ejected failures", "1 ejected failures", "2 spared failures", "3 spared failures")
	r.fail(2, health.Connect, 1)
	r.fail(3, health.Connect, 1)
	r.want("2 ejected connect", "3 ejected connect")
	one := newRig(t, 1)
	one.fail(0, health.ServerError, 20)
	one.want("0 spared failures")
}

func TestReplicasOfOneAddressGoTogether(t *testing.T) {
	r := rigAt(t, []string{"gpu0:8000", "gpu1:8000", "gpu0:8000", "gpu0:8001"})
	r.fail(2, health.Connect, 1)
	r.want("2 ejected connect", "0 ejected connect")
	r = rigAt(t, []string{"gpu0:8000", "gpu0:8000", "", ""})
	r.fail(0, health.ServerError, 5) // its own affair
	r.fail(2, health.Connect, 1)
	r.want("0 ejected failures", "2 ejected connect")
}

func TestProbesTakeDownAndBringBack(t *testing.T) {
	r := newRig(t, 2)
	r.probe(0, health.Well)
	r.probe(0, health.Refused)
	r.want("0 ejected connect")
	r.pass(time.Minute)
	r.want() // the wait alone does not bring it back
	r.probe(0, health.Errored)
	r.want()
	r.probe(0, health.Well)
	r.want("0 half_open connect")
	// A replica that goes again soon has to wait as well.
	r.probe(0, health.Refused)
	r.pass(time.Second)
	r.probe(0, health.Well)
	r.want("0 ejected connect")
	r.pass(9 * time.Second)
	r.want("0 half_open connect")
}

func TestProbesThatFailNowAndThenDoNoHarm(t *testing.T) {
	r := newRig(t, 2)
	for _, f := range []health.Finding{health.Late, health.Errored} {
		r.probe(0, f)
		r.probe(0, f)
		r.probe(0, health.Well)
		r.want()
		r.probe(0, f)
		r.probe(0, f)
		r.probe(0, f)
		r.want("0 ejected probe")
		r.probe(0, health.Well)
		r.succeed(0, 2)
		r.pass(2 * time.Minute)
		r.log = nil
	}
	// A server whose answers come is busy, not dead; but it must accept.
	for range 10 {
		r.Sign(0)
		r.probe(0, health.Late)
		r.Sign(0)
		r.probe(0, health.Unconnected)
	}
	r.want()
	r.probe(0, health.Unconnected)
	r.want("0 ejected connect")
}

func TestAProbeDoesNotExcuseWhatRequestsFound(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.ServerError, 5)
	r.probe(0, health.Well)
	r.want("0 ejected failures")
	r.pass(5 * time.Second)
	r.want("0 half_open failures")
}

// Without others of its variant, a replica's limit grows: nobody else would take
// what it does not.
func TestALoneReplicaComesBackByItsLimit(t *testing.T) {
	r := newRig(t, 1)
	r.fail(0, health.Connect, 1)
	r.pass(5 * time.Second)
	r.succeed(0, 2)
	r.pass(5 * time.Second)
	if n := r.takes(0); n < 49 || n > 51 {
		t.Errorf("half way it takes %d, want half of 100", n)
	}
}

// What was sent before the trials began says nothing of how the replica is now,
// and takes no trial's place.
func TestRequestsFromBeforeAreNoTrials(t *testing.T) {
	r := newRig(t, 2)
	before := r.now
	for range 7 {
		if _, ok := r.ledger.Begin(0, 0); !ok {
			t.Fatal("no place")
		}
	}
	r.fail(0, health.ServerError, 5)
	r.pass(5 * time.Second)
	r.want("0 ejected failures", "0 half_open failures")
	if n := r.takes(0); n != 2 {
		t.Errorf("it takes %d trials beside the 7 from before, want 2", n)
	}
	r.saw(r.Failed(0, health.Timeout, before, r.now))
	r.saw(r.Failed(0, health.Connect, before, r.now))
	r.saw(r.Succeeded(0, before, r.now))
	r.want()
	if standing := r.Statuses()[0]; standing.Cap != 4+2 {
		t.Errorf("cap %d with 4 left from before, want 6", standing.Cap)
	}
	r.succeed(0, 2)
	r.saw(r.Failed(0, health.Timeout, before, r.now))
	r.want("0 slow_start failures")
}

func TestNoSlowStart(t *testing.T) {
	r := newRig(t, 1, func(c *health.Config) { c.SlowStart = 0 })
	r.fail(0, health.Connect, 1)
	r.pass(5 * time.Second)
	r.succeed(0, 2)
	r.want("0 ejected connect", "0 half_open connect", "0 up")
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	c := health.Config{Failures: -1, FailureShare: 2, MaxEjected: -1, SlowStart: -1, Cooldown: time.Second, ProbePath: "health"}
	err := c.Validate()
	for _, want := range []string{
		"failures: -1 must be at least 0", "failure_share: 2 must be from 0 to 1", "max_ejected: -1", "window_requests: 0 must be at least 1",
		"trials: 0", "probe_failures: 0", "slow_start: -1ns", "window: 0s must be positive", "max_cooldown: 0s must be at least the cooldown, 1s",
		"probe_timeout: 0s", `probe_path: "health" must begin with /`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

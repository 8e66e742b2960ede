package health_test

import (
	"testing"
	"time"

	"gearshift/router/health"
)

// set changes the configuration from the default one.
func (r *rig) set(change func(*health.Config)) {
	c := health.DefaultConfig()
	change(&c)
	r.Set(c)
	r.saw(nil)
}

func TestOtherBoundsEject(t *testing.T) {
	r := newRig(t, 4)
	r.fail(0, health.ServerError, 3)
	r.set(func(c *health.Config) { c.Failures = 4 })
	r.want()
	r.fail(0, health.ServerError, 1)
	r.want("0 ejected failures")

	r.set(func(c *health.Config) { c.Failures, c.FailureShare, c.WindowRequests = 0, 0.3, 10 })
	r.succeed(1, 6)
	r.fail(1, health.ServerError, 4)
	r.want("1 ejected failure_share")

	r.set(func(c *health.Config) { c.MaxEjected = 0.9; c.ProbeFailures = 1 })
	r.probe(2, health.Errored)
	r.want("2 ejected probe")
}

// A window of another length begins anew: its parts are others.
func TestAnotherWindowBeginsAnew(t *testing.T) {
	r := newRig(t, 2)
	never := func(c *health.Config) { c.Failures = 0 }
	r.set(never)
	r.succeed(0, 1)
	r.fail(0, health.ServerError, 18)
	for _, window := range []time.Duration{time.Hour, time.Second, 30 * time.Second} {
		r.set(func(c *health.Config) { never(c); c.Window = window })
		r.fail(0, health.ServerError, 18)
		r.want()
	}
	r.set(func(c *health.Config) { never(c); c.Trials = 9 }) // nothing of the window
	r.fail(0, health.ServerError, 2)
	r.want("0 ejected failure_share")
}

func TestAnotherCooldown(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Connect, 1)
	r.set(func(c *health.Config) { c.Cooldown, c.MaxCooldown = time.Minute, time.Hour })
	r.pass(5 * time.Second)
	r.want("0 ejected connect", "0 half_open connect") // as was meant when it went
	r.fail(0, health.Connect, 1)
	r.pass(95 * time.Second)
	r.want("0 ejected connect") // twice a minute, less a fifth at most
	r.pass(26 * time.Second)
	r.want("0 half_open connect")
}

func TestTrialsAndSlowStartWhileAReplicaComesBack(t *testing.T) {
	r := newRig(t, 2)
	for range 40 {
		r.ledger.Begin(1, 0)
	}
	r.fail(0, health.Connect, 1)
	r.pass(5 * time.Second)
	r.want("0 ejected connect", "0 half_open connect")
	r.set(func(c *health.Config) { c.Trials = 7 })
	if n := r.takes(0); n != 7 {
		t.Errorf("on trial it takes %d, want 7", n)
	}
	r.succeed(0, 6)
	r.want()
	r.set(func(c *health.Config) { c.Trials = 1 })
	r.succeed(0, 1)
	r.want("0 slow_start connect")
	r.set(func(c *health.Config) { c.SlowStart = time.Hour })
	r.pass(30 * time.Minute)
	if n := r.takes(0); n < 19 || n > 21 {
		t.Errorf("half the way it takes %d, want about 20", n)
	}
	r.set(func(c *health.Config) { c.SlowStart = 0 })
	r.want("0 up")
	if n := r.takes(0); n != 100 {
		t.Errorf("up again it takes %d", n)
	}
}

// Where nobody probes any more, no probe has to pass before a replica comes back.
func TestProbesThatEndKeepNobodyOut(t *testing.T) {
	r := newRig(t, 2)
	r.probe(0, health.Refused)
	r.pass(time.Minute)
	r.want("0 ejected connect")
	r.set(func(c *health.Config) { c.ProbeInterval = 0 })
	r.want("0 half_open connect")
}

func TestAnotherSilenceEjects(t *testing.T) {
	r := newRig(t, 2)
	listen := func(d time.Duration) {
		for range d / time.Second {
			r.now += time.Second
			r.Sign(1)
			r.saw(r.CheckSilence([]int{1, 1}, []int{0, 0}, r.now, time.Second))
		}
	}
	listen(10 * time.Second)
	r.set(func(c *health.Config) { c.SilentAfter = 0 })
	listen(time.Minute)
	r.want()
	r.set(func(c *health.Config) { c.SilentAfter = 20 * time.Second })
	listen(9 * time.Second) // nobody has listened for the minute
	r.want()
	listen(3 * time.Second)
	r.want("0 ejected silent")
}

package health_test

import (
	"strings"
	"testing"
	"time"

	"gearshift/router/health"
)

// Who waits for room is begun as soon as there is any: a replica that comes back must
// not be without a bound even for a moment.
func TestThoseWhoWaitAreNoBurstOnAReplicaThatComesBack(t *testing.T) {
	r := newRig(t, 2)
	for range 40 {
		r.ledger.Begin(1, 0)
	}
	r.fail(0, health.Connect, 1)
	took := 0
	r.ledger.OnRoom(func() {
		for {
			if _, ok := r.ledger.Begin(0, 0); !ok {
				return
			}
			took++
		}
	})
	r.pass(5 * time.Second)
	r.succeed(0, 2)
	if took == 0 || took > 2 {
		t.Errorf("%d at once on a replica that just came back, want 2", took)
	}
}

// A gateway that hides answers gives trials no end but an estimated one.
func TestTrialsWithoutAnswersToSee(t *testing.T) {
	r := newRig(t, 2)
	r.fail(0, health.Connect, 1)
	before := r.now
	r.probe(0, health.Well)
	r.want("0 ejected connect", "0 half_open connect")
	r.pass(time.Second)
	r.saw(r.Unseen(0, before-time.Millisecond, r.now))
	r.saw(r.Unseen(0, r.now, r.now))
	r.want() // the first was sent before the trials
	r.saw(r.Unseen(0, r.now, r.now))
	r.want("0 slow_start connect")
	r.saw(r.Unseen(0, r.now, r.now))
	r.pass(10 * time.Second)
	r.want("0 up")
	if r.Answers(0, r.now) {
		t.Error("an answer that is not seen counts as one")
	}
}

// Servers that died often and are back wait for their cooldown only while enough others take requests.
func TestTooManyThatAreBackDoNotWait(t *testing.T) {
	r := newRig(t, 4)
	for i := range 4 {
		r.probe(i, health.Refused)
		r.probe(i, health.Well)
	}
	r.log = nil
	for i := range 3 {
		r.probe(i, health.Refused)
	}
	r.want("0 ejected connect", "1 ejected connect", "2 ejected connect")
	r.probe(2, health.Well)
	r.want("2 half_open connect") // three of four were out, and half may be
	r.probe(1, health.Well)
	r.pass(time.Second)
	r.want()
	r.probe(3, health.Refused)
	r.want("3 ejected connect", "1 half_open connect")
}

// The replicas of one server come back together, so that small sizes do not come before large ones.
func TestAServerIsBackWithAllItsReplicas(t *testing.T) {
	r := rigAt(t, []string{"a:80", "b:80", "c:80", "a:80", "b:80", "c:80"})
	for _, i := range []int{0, 1, 2} {
		for range 2 {
			for _, j := range []int{i, i + 3} {
				r.probe(j, health.Refused)
			}
			for _, j := range []int{i, i + 3} {
				r.probe(j, health.Well)
			}
		}
	}
	r.log = nil
	var states []string
	for _, s := range r.Statuses() {
		states = append(states, s.State.String())
	}
	if got, want := strings.Join(states, " "), "half_open half_open ejected half_open half_open ejected"; got != want {
		t.Errorf("states %s, want %s: of six replicas three may wait", got, want)
	}
	r.pass(10 * time.Second)
	r.want("5 half_open connect", "2 half_open connect")
}

package health_test

import (
	"testing"
	"time"

	"gearshift/router/health"
)

// erred has the replica answer a request with an error, so many times.
func (r *rig) erred(replica int, fault bool, times int) {
	r.t.Helper()
	for range times {
		r.now++
		changes, _ := r.Erred(replica, fault, r.now, r.now)
		r.saw(changes)
	}
}

func (r *rig) agreed(replica int, sent time.Duration) {
	r.t.Helper()
	r.saw(r.Agreed(replica, sent, r.now))
}

// The third error in a row is worth asking another replica, whatever kind the errors are of; of a
// replica on trial the first.
func TestErrorsInARowAreDoubted(t *testing.T) {
	r := newRig(t, 2)
	for i, fault := range []bool{true, false} {
		if r.Doubted(0) {
			t.Errorf("it is doubted after %d", i)
		}
		r.erred(0, fault, 1)
	}
	if !r.Doubted(0) || r.Doubted(1) {
		t.Error("want the first doubted after two errors, and the second not")
	}
	r.succeed(0, 1)
	if r.Doubted(0) {
		t.Error("it is doubted after an answer")
	}
	r.fail(0, health.Connect, 1)
	r.pass(6 * time.Second)
	if !r.Doubted(0) {
		t.Error("it is not doubted on trial")
	}
}

// Errors that only the replica gives count, and give the reason; those of requests do not.
func TestAReplicaThatAloneErrsIsEjected(t *testing.T) {
	r := newRig(t, 2)
	r.erred(1, false, 50)
	r.want()
	r.erred(0, false, 2)
	r.fail(0, health.ErrorAlone, 5)
	r.want("0 ejected error_alone")
}

// Once another gives the same error, those that nobody compared do not count for ten seconds; those
// that another did not give do.
func TestAnErrorThatOthersGiveIsTheRequests(t *testing.T) {
	r := newRig(t, 2)
	r.erred(0, true, 4)
	r.agreed(0, r.now)
	r.erred(0, true, 30)
	r.want()
	r.fail(0, health.ErrorAlone, 5)
	r.want("0 ejected error_alone")
	r = newRig(t, 2)
	r.agreed(0, r.now)
	r.pass(10 * time.Second)
	r.erred(0, true, 5)
	r.want("0 ejected failures")
}

// Requests that come at once may eject a replica before any of them has been tried elsewhere.
func TestAnEjectionByARequestsErrorsIsTakenBack(t *testing.T) {
	r := newRig(t, 2)
	sent := r.now
	r.erred(0, true, 5)
	r.agreed(0, sent)
	r.want("0 ejected failures", "0 up")
	if n := r.takes(0); n != 100 {
		t.Errorf("it takes %d", n)
	}
	r.fail(0, health.Connect, 1)
	r.agreed(0, sent)
	r.want("0 ejected connect")
}

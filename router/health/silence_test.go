package health_test

import (
	"testing"
	"time"
)

// listen lets time go by in steps of a second. Work is, by replica, how many
// requests wait there; those named make progress.
func (r *rig) listen(d time.Duration, work []int, progress ...int) {
	for range d / time.Second {
		for _, i := range progress {
			r.Sign(i)
		}
		r.pass(time.Second)
		r.saw(r.CheckSilence(work, make([]int, len(work)), r.now, time.Second))
	}
}

func TestAReplicaThatKeepsWorkAndAnswersNothingIsSilent(t *testing.T) {
	r := newRig(t, 3)
	r.listen(30*time.Second, []int{4, 4, 0}, 1)
	r.want()
	r.listen(2*time.Second, []int{4, 4, 0}, 1)
	r.want("0 ejected silent")
}

// Clients that give up hide nothing: the work went, but no answer came.
func TestSilenceIsSummedOverRequestsThatWereGivenUp(t *testing.T) {
	r := newRig(t, 2)
	for range 4 {
		r.listen(10*time.Second, []int{1, 1}, 1)
		r.listen(30*time.Second, []int{0, 1}, 1)
	}
	r.want("0 ejected silent", "0 half_open silent")
}

func TestNobodyIsSilentAlone(t *testing.T) {
	r := newRig(t, 2)
	r.listen(time.Minute, []int{4, 0}) // nothing to compare with
	r.listen(time.Minute, []int{4, 4}) // all hang
	r.listen(10*time.Minute, []int{0, 4}, 1)
	r.log = nil
	idle := newRig(t, 2)
	idle.listen(10*time.Minute, []int{0, 4}, 1)
	idle.want()
}

// Whole answers that nobody streams may take long: a silence that ended in an
// answer is learnt from, and soon made good.
func TestSilencesThatWereWorkAreLearntFrom(t *testing.T) {
	r := newRig(t, 2)
	r.listen(33*time.Second, []int{1, 4}, 1)
	r.want("0 ejected silent")
	r.listen(time.Second, []int{1, 4}, 0, 1)
	r.want("0 half_open silent")
	r.succeed(0, 2)
	r.pass(10 * time.Second)
	r.want("0 slow_start silent", "0 up")
	for range 5 {
		r.listen(45*time.Second, []int{1, 4}, 1)
		r.listen(time.Second, []int{1, 4}, 0, 1)
	}
	r.want()
	r.listen(3*time.Minute, []int{1, 4}, 1) // but not without end
	if r.log[0] != "0 ejected silent" {
		t.Errorf("changes %q", r.log)
	}
}

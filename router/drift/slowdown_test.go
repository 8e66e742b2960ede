package drift_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/drift"
)

// An engine that becomes three times as slow is reckoned with after some of its
// streams' stretches, and no longer once it is as it was. Its neighbour on the host,
// which it slows no more than before, is left alone.
func TestASlowReplicaIsReckonedWith(t *testing.T) {
	const scheduler = engine.PrefillFirst
	rates := [2]float64{2, 0.3}
	b := newBench(t, scheduler)
	b.engines(t, scheduler, 1)
	b.run(40, rates, 1)
	b.engines(t, scheduler, 3)
	b.run(8, rates, 1)
	for i, factor := range b.slow {
		if math.Abs(factor/3-1) > 0.15 || b.Slowdown(i) != factor {
			t.Errorf("replica %d: told of a slowdown of %.2f, reckoned with %.2f, want 3", i, factor, b.Slowdown(i))
		}
	}
	b.engines(t, scheduler, 1)
	b.run(12, rates, 1)
	if b.slow != [2]float64{1, 1} {
		t.Errorf("told of slowdowns of %v of engines that have recovered", b.slow)
	}
	b.Fade(b.now + time.Minute) // it has been over for so long
	if slow, over := strings.Count(b.log.String(), "replica is slow"), strings.Count(b.log.String(), "no longer"); slow != 2 || over != 2 {
		t.Errorf("said %d and %d times, want 2: %s", slow, over, &b.log)
	}
}

// An engine that is a tenth slower than its profile all the time is reckoned with too.
func TestALastingSlownessIsReckonedWith(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		b := newBench(t, scheduler)
		b.engines(t, scheduler, 1.1)
		b.run(200, [2]float64{4, 0.5}, 1)
		for i, factor := range b.slow {
			if math.Abs(factor/1.1-1) > 0.05 {
				t.Errorf("%s, replica %d: told of a slowdown of %.3f, want 1.1", scheduler, i, factor)
			}
		}
		b.engines(t, scheduler, 1)
		b.run(200, [2]float64{4, 0.5}, 1)
		if b.slow != [2]float64{1, 1} {
			t.Errorf("%s: told of slowdowns of %v of engines that have recovered", scheduler, b.slow)
		}
	}
}

// What is believed of a replica that nobody is sent to fades, so that it is tried
// again; a stretch that is as slow as before brings it back, one that is not does not.
func TestSlownessFades(t *testing.T) {
	for _, recovered := range []bool{false, true} {
		b := newBench(t, engine.PrefillFirst)
		for range 10 {
			b.answer(4)
		}
		if math.Abs(b.slow[1]-4) > 0.2 || b.slow[0] != 0 {
			t.Fatalf("told of slowdowns of %v, want 4 of the second", b.slow)
		}
		b.Fade(b.now + time.Minute)
		if math.Abs(b.slow[1]-4) > 0.2 {
			t.Errorf("%v after a minute without an answer", b.slow[1])
		}
		b.Fade(b.now + 4*time.Minute)
		if math.Abs(b.slow[1]-2) > 0.2 {
			t.Errorf("%v after four minutes, want half as many doublings", b.slow[1])
		}
		b.now += 10 * time.Minute
		if b.Fade(b.now); b.slow[1] != 1 || b.Slowdown(1) != 1 {
			t.Errorf("%v after ten minutes", b.slow[1])
		}
		if recovered {
			for range 3 {
				b.answer(1)
			}
		} else {
			for range 3 {
				b.answer(4)
			}
		}
		if slow := b.slow[1] > 1.5; slow == recovered {
			t.Errorf("recovered %v: told %v after three answers", recovered, b.slow[1])
		}
	}
}

// Few stretches, and some that are far off, such as of clients that stop reading, make
// no replica slow; nor is more believed than eight times.
func TestWhatIsNotSlow(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for range 2 {
		b.answer(3) // of three stretches
	}
	if b.slow != [2]float64{} {
		t.Errorf("told %v of six stretches", b.slow)
	}
	b = newBench(t, engine.PrefillFirst)
	for n := range 100 {
		b.answer([]float64{1, 1, 1, 20}[n%4])
	}
	if b.slow[1] > 1.8 {
		t.Errorf("told %v of a replica of whose streams one in four stalls", b.slow)
	}
	for range 100 {
		b.answer(20)
	}
	if math.Abs(b.slow[1]-8) > 0.4 {
		t.Errorf("told %v of one that hardly moves", b.slow)
	}
	// No more than that has to be forgotten.
	for range 12 {
		b.answer(1)
	}
	if b.slow[1] != 1 {
		t.Errorf("told %v of one that has recovered", b.slow)
	}
}

// Tokens that take minutes tell too: nothing fades while a stretch is under way.
func TestStretchesThatTakeMinutes(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for range 20 {
		b.answer(1000)
	}
	if b.slow[1] < 7 {
		t.Errorf("told %v of an engine that takes some twenty seconds for a token", b.slow)
	}
}

// Engines that are others begin anew.
func TestSlownessIsForgotten(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for range 10 {
		b.answer(4)
	}
	if b.Forget(); b.slow[1] != 1 || b.Slowdown(1) != 1 {
		t.Errorf("told %v after it was forgotten", b.slow[1])
	}
	b.answer(1)
	if b.slow[1] != 1 {
		t.Errorf("told %v of an engine that keeps to its profile", b.slow[1])
	}
}

// What nobody wants to reckon with any more is taken back at once, and found anew when
// it is wanted again.
func TestSlownessMayBeLeftOut(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for range 10 {
		b.answer(4)
	}
	b.Correct(false)
	if b.slow[1] != 1 || b.Slowdown(1) != 1 {
		t.Errorf("told %v when it is no longer wanted", b.slow[1])
	}
	for range 10 {
		b.answer(4)
	}
	if b.Fade(b.now); b.slow[1] != 1 {
		t.Errorf("told %v, which nobody wants", b.slow[1])
	}
	b.Correct(true)
	for range 10 {
		b.answer(4)
	}
	if math.Abs(b.slow[1]-4) > 0.2 {
		t.Errorf("told %v when it is wanted again", b.slow[1])
	}
}

// A Monitor that nobody asks for slowness keeps none.
func TestSlownessIsOptional(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	b.OnSlow = nil
	for range 20 {
		b.answer(4)
	}
	b.Fade(b.now)
	var none *drift.Monitor
	if b.Slowdown(1) != 1 || none.Slowdown(1) != 1 || strings.Contains(b.log.String(), "reckon") {
		t.Errorf("%v of a replica whose slowness nobody asked for: %s", b.Slowdown(1), &b.log)
	}
}

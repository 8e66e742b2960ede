package drift_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env/engine"
)

// doubting extends a bench by a record of its doubts.
func doubting(t *testing.T) (b *bench, reported *[]bool) {
	t.Helper()
	b, reported = newBench(t, engine.PrefillFirst), new([]bool)
	b.OnDoubt = func(doubted bool) { *reported = append(*reported, doubted) }
	return b, reported
}

// Policies are doubted while forecasts are off, and until they have been right for a minute. Forecasts
// that allow for slow replicas are not off.
func TestDoubt(t *testing.T) {
	for _, correct := range []bool{false, true} {
		b, reported := doubting(t)
		b.Correct(correct)
		for range 100 {
			b.answer(1.25)
		}
		if b.Fade(b.now); b.Doubted() == correct || (len(*reported) == 0) != correct {
			t.Fatalf("corrected %v: doubted is %v, reported %v", correct, b.Doubted(), *reported)
		}
		if correct {
			continue
		}
		b.Doubt(true) // as it is
		right := b.now
		for b.now < right+10*time.Minute && b.Doubted() {
			b.answer(1)
			b.Fade(b.now)
		}
		if took := b.now - right; took < time.Minute {
			t.Errorf("trusted after %v of right forecasts", took)
		}
		if b.Doubted() || !slices.Equal(*reported, []bool{true, false}) {
			t.Errorf("doubted is %v ten minutes after, reported %v", b.Doubted(), *reported)
		}
		if log := b.log.String(); strings.Count(log, "the policy is doubted") != 1 || strings.Count(log, "trusted again") != 1 {
			t.Error(log)
		}
	}
}

// Engines that keep to their profiles raise no doubt.
func TestWhatIsNotDoubted(t *testing.T) {
	b, reported := doubting(t)
	b.engines(t, engine.PrefillFirst, 1)
	b.run(400, [2]float64{4, 0.5}, 1)
	if b.Fade(b.now); b.Doubted() || len(*reported) > 0 {
		t.Errorf("engines that keep to their profiles are doubted: %v", *reported)
	}
}

// Doubt ends when it is turned off, and where engines have been replaced.
func TestDoubtMayBeLeftOut(t *testing.T) {
	b, reported := doubting(t)
	b.Correct(false)
	raise := func() {
		for range 100 {
			b.answer(1.4)
		}
		b.Fade(b.now)
	}
	raise()
	b.Forget()
	raise()
	b.Doubt(false)
	raise()
	if b.Doubted() || !slices.Equal(*reported, []bool{true, false, true, false}) {
		t.Errorf("doubted is %v, reported %v", b.Doubted(), *reported)
	}
}

package limits_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gearshift/serving/admission/limits"
)

// senders remembers who was cut off.
type senders map[string]bool

func (s senders) cut(sender any) { s[sender.(string)] = true }

func grow(t *testing.T, b *limits.Body, now time.Duration, arrived, size int64, want error) {
	t.Helper()
	if err := b.Grow(now, arrived, size); !errors.Is(err, want) {
		t.Fatalf("Grow to %d: %v, want %v", size, err, want)
	}
}

const kib, mib = 1 << 10, 1 << 20

func TestLargeBodiesLeaveTheReserve(t *testing.T) {
	b := limits.NewBodies(64*mib, senders{}.cut)
	large := b.Begin(0, "large")
	grow(t, large, 0, 0, 48*mib, nil)
	grow(t, b.Begin(0, "more"), 0, 0, mib, limits.ErrFull)
	grow(t, b.Begin(0, "small"), 0, 0, 64*kib, nil)
	if u := b.Usage(limits.SmallBodies); u.Held != 64*kib || u.Limit != 16*mib {
		t.Errorf("small bodies: %+v", u)
	}
	if u := b.Usage(limits.LargeBodies); u.Held != 48*mib || u.Full != 1 {
		t.Errorf("large bodies: %+v", u)
	}
	large.Free()
	if u := b.Usage(limits.LargeBodies); u.Held != 0 {
		t.Errorf("%d bytes held by nobody", u.Held)
	}
}

// What large bodies leave is no less for small ones: the reserve is not their bound.
func TestSmallBodiesHaveAllOfIt(t *testing.T) {
	cut := senders{}
	b := limits.NewBodies(4*mib, cut.cut)
	var bodies []*limits.Body
	for range 64 {
		x := b.Begin(0, "small")
		grow(t, x, 0, 0, 4*kib, nil)
		grow(t, x, 0, 4*kib, 64*kib, nil)
		bodies = append(bodies, x)
	}
	if small, large := b.Usage(limits.SmallBodies), b.Usage(limits.LargeBodies); small.Held != mib || large.Held != 3*mib {
		t.Errorf("%+v of the reserve, %+v beyond it", small, large)
	}
	grow(t, b.Begin(0, "one more"), 0, 0, kib, limits.ErrFull)
	if u := b.Usage(limits.SmallBodies); u.Full != 1 || len(cut) != 0 {
		t.Errorf("%+v, cut off %v", u, cut)
	}
	for _, x := range bodies {
		x.Free()
	}
	if small, large := b.Usage(limits.SmallBodies).Held, b.Usage(limits.LargeBodies).Held; small != 0 || large != 0 {
		t.Errorf("%d and %d bytes held by nobody", small, large)
	}
}

func TestABodyThatGrowsLeavesTheReserve(t *testing.T) {
	b := limits.NewBodies(64*mib, senders{}.cut)
	x := b.Begin(0, "x")
	grow(t, x, 0, 0, 32*kib, nil)
	grow(t, x, 0, 32*kib, 128*kib, nil)
	if small, large := b.Usage(limits.SmallBodies).Held, b.Usage(limits.LargeBodies).Held; small != 0 || large != 128*kib {
		t.Errorf("held %d of the reserve and %d beyond, want 0 and %d", small, large, 128*kib)
	}
	x.Free()
}

func TestSlowSendersMakeRoom(t *testing.T) {
	cut := senders{}
	b := limits.NewBodies(32*mib, cut.cut) // 24 MiB for large ones
	stalled, slow, quick := b.Begin(0, "stalled"), b.Begin(0, "slow"), b.Begin(0, "quick")
	for _, x := range []struct {
		body    *limits.Body
		arrived int64
	}{{stalled, kib}, {slow, 100 * kib}, {quick, 7 * mib}} {
		grow(t, x.body, 0, 0, 8*mib, nil)
		x.body.Arrived(x.arrived)
	}
	grow(t, b.Begin(time.Second/2, "early"), time.Second/2, 0, 8*mib, limits.ErrFull) // no sender has had its grace

	const now = 2 * time.Second
	next := b.Begin(now, "next")
	grow(t, next, now, 32*kib, 8*mib, nil)
	if !cut["stalled"] || len(cut) != 1 {
		t.Fatalf("cut off: %v, want the stalled sender", cut)
	}
	next.Arrived(4 * mib)
	grow(t, b.Begin(now, "another"), now, 32*kib, 8*mib, nil)
	if !cut["slow"] || len(cut) != 2 {
		t.Fatalf("cut off: %v, want the slow sender as well", cut)
	}
	// Those that are left are not clearly slower than one that has just begun.
	grow(t, b.Begin(now, "last"), now, 32*kib, 8*mib, limits.ErrFull)

	if stalled.Whole() {
		t.Error("a sender that was cut off counts as whole")
	}
	grow(t, stalled, now, kib, 8*mib, limits.ErrSlow)
	stalled.Free()
	if u := b.Usage(limits.LargeBodies); u.Held != 24*mib || u.Slow != 2 || u.Full != 2 {
		t.Errorf("%+v", u)
	}
}

func TestWholeBodiesStay(t *testing.T) {
	cut := senders{}
	b := limits.NewBodies(16*mib, cut.cut)
	whole := b.Begin(0, "whole")
	grow(t, whole, 0, kib, 12*mib, nil)
	if !whole.Whole() {
		t.Fatal("was cut off")
	}
	grow(t, b.Begin(time.Hour, "next"), time.Hour, 0, mib, limits.ErrFull)
	if len(cut) != 0 {
		t.Errorf("cut off: %v", cut)
	}
}

// TestBodiesAddUp: random operations against a plain sum.
func TestBodiesAddUp(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	const limit = 10 * mib
	held := map[any]int64{}
	b := limits.NewBodies(limit, func(sender any) { held[sender] = 0 })
	open := map[int]*limits.Body{}
	for i := range 20_000 {
		now := time.Duration(i) * 10 * time.Millisecond
		n := rng.IntN(40)
		x := open[n]
		switch {
		case x == nil:
			open[n] = b.Begin(now, n)
		case rng.IntN(4) == 0:
			x.Free()
			delete(open, n)
			delete(held, n)
		case rng.IntN(4) == 0:
			x.Whole()
		default:
			size := held[n] + rng.Int64N(mib)
			if x.Grow(now, rng.Int64N(size+1), size) == nil {
				held[n] = size
			}
		}
		var sum int64
		for _, h := range held {
			sum += h
		}
		small, large := b.Usage(limits.SmallBodies), b.Usage(limits.LargeBodies)
		if small.Held+large.Held != sum || small.Held > small.Limit || large.Held > large.Limit || small.Limit+large.Limit != limit {
			t.Fatalf("after %d operations: %+v and %+v for bodies of %d bytes", i+1, small, large, sum)
		}
	}
}

func TestAnswers(t *testing.T) {
	a := limits.NewAnswers(10 * mib)
	if !a.Keep(4*mib) || a.Keep(2*mib) {
		t.Error("what is kept of answers is not bounded by half of the budget")
	}
	if !a.Take(6*mib) || a.Take(1) {
		t.Error("the budget is not what was asked for")
	}
	a.Give(6 * mib)
	a.Drop(4 * mib)
	if u := a.Usage(); u != (limits.AnswersUsage{Limit: 10 * mib, Full: 1, Unread: 1}) {
		t.Errorf("%+v", u)
	}
}

func TestBudgetsByDefault(t *testing.T) {
	for _, x := range []struct {
		config  limits.MemoryConfig
		known   int64
		maxBody int64
		want    limits.MemoryConfig
	}{
		{limits.MemoryConfig{}, 1 << 30, 8 * mib, limits.MemoryConfig{Limit: 1 << 30, Bodies: 256 * mib, Answers: 128 * mib}},
		{limits.MemoryConfig{}, 0, 8 * mib, limits.MemoryConfig{Limit: 1 << 30, Bodies: 256 * mib, Answers: 128 * mib}},
		{limits.MemoryConfig{Limit: 512 * mib}, 1 << 40, 8 * mib, limits.MemoryConfig{Limit: 512 * mib, Bodies: 128 * mib, Answers: 64 * mib}},
		{limits.MemoryConfig{Bodies: 100 * mib, Answers: mib}, 1 << 30, 8 * mib, limits.MemoryConfig{Limit: 1 << 30, Bodies: 100 * mib, Answers: mib}},
	} {
		if got := x.config.Resolve(x.known, x.maxBody); got != x.want {
			t.Errorf("%+v of %d: %+v, want %+v", x.config, x.known, got, x.want)
		}
	}
	// However little memory there is, one body of the largest size fits.
	tiny := limits.MemoryConfig{}.Resolve(1, 8*mib)
	grow(t, limits.NewBodies(tiny.Bodies, senders{}.cut).Begin(0, ""), 0, 0, 8*mib+1, nil)
	if err := (limits.MemoryConfig{Bodies: tiny.Bodies}).Validate(8 * mib); err != nil {
		t.Error(err)
	}
}

func TestFaultyBudgetsAreNamed(t *testing.T) {
	for key, config := range map[string]limits.MemoryConfig{
		"memory.limit: ":   {Limit: 16 * mib, Bodies: 12 * mib, Answers: 8 * mib},
		"memory.bodies: ":  {Bodies: 8 * mib},
		"memory.answers: ": {Answers: kib},
	} {
		if err := config.Validate(8 * mib); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%+v: %v, want a fault of %s", config, err, key)
		}
	}
}

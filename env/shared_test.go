package env_test

import (
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/router/profile"
)

// host returns a host of one core with two slots, whose requests use .6 and .8 of its bandwidth.
func host(turns bool) *env.SharedHost {
	return env.NewSharedHost(env.SharedOptions{Cores: 1, Bandwidth: 1, Stalls: env.NewStalls(profile.Bandwidth{Knee: 1}), Uses: []float64{0.6, 0.8}, Turns: turns, Until: time.Hour})
}

func submit(h *env.SharedHost, slot int, id uint64, work, now time.Duration) {
	h.Submit(slot, engine.Sequence{ID: id, Work: work, Expected: work, Since: now}, now)
}

// ends has the host end all that it has, and returns the IDs with the seconds at which they end.
func ends(h *env.SharedHost) (ids []uint64, at []float64) {
	for _, busy := h.Next(); busy; _, busy = h.Next() {
		for _, e := range h.Step(nil) {
			ids, at = append(ids, e.ID), append(at, e.At.Round(time.Millisecond).Seconds())
		}
	}
	return ids, at
}

// TestRequestsShareACore: three requests get a third of it each; where a slot runs one at a time, its
// second waits, and the two that run get a half.
func TestRequestsShareACore(t *testing.T) {
	for turns, want := range map[bool][]float64{false: {3, 3, 4}, true: {2, 2, 4}} {
		h := host(turns)
		submit(h, 0, 1, time.Second, 0)
		submit(h, 0, 2, 2*time.Second, 0)
		submit(h, 1, 3, time.Second, 0)
		ids, at := ends(h)
		if !slices.Equal(ids, []uint64{1, 3, 2}) || !slices.Equal(at, want) {
			t.Errorf("turns %v: %v end at %v s, want %v", turns, ids, at, want)
		}
		if c := h.Counters(0); c.Host != 0 || c.Work != 0 || h.Busy < 3.999 || h.Busy > 4.001 {
			t.Errorf("turns %v: %+v are left, and the core was busy for %.3f s, want 4", turns, c, h.Busy)
		}
	}
}

// TestALoadSharesTheCore: it takes as long as a request of as much work, and no client sees it.
func TestALoadSharesTheCore(t *testing.T) {
	h := host(false)
	h.Load(1, time.Second, 0)
	submit(h, 0, 1, time.Second, 0)
	if c := h.Counters(1); c.Model != 0 || c.Host != 1 {
		t.Errorf("%+v while a replica is loaded, want one request on the host", c)
	}
	kinds := map[engine.EventKind]time.Duration{}
	for range 2 {
		for _, e := range h.Step(nil) {
			kinds[e.Kind] = e.At.Round(time.Millisecond)
		}
	}
	if kinds[engine.Loaded] != 2*time.Second || kinds[engine.Finished] != 2*time.Second {
		t.Errorf("they end at %v, want 2 s both", kinds)
	}
}

// TestBreak: of a slot, what runs and what waits leaves, and the rest gets on faster; of a host, all
// does.
func TestBreak(t *testing.T) {
	for slot, want := range map[int][]uint64{0: {1, 2}, -1: {1, 2, 3}} {
		h := host(true)
		submit(h, 0, 1, time.Second, 0)
		submit(h, 0, 2, time.Second, 0)
		submit(h, 1, 3, time.Second, 0)
		var each, broken []uint64
		h.Each(0, func(id uint64, _ int) { each = append(each, id) })
		h.Break(slot, time.Second, func(id uint64) { broken = append(broken, id) })
		slices.Sort(broken)
		if !slices.Equal(each, []uint64{1, 2}) || !slices.Equal(broken, want) {
			t.Errorf("slot %d: it has %v, and %v break; want %v", slot, each, broken, want)
		}
		ids, at := ends(h)
		if slot == 0 && (!slices.Equal(ids, []uint64{3}) || at[0] != 1.5) || slot < 0 && len(ids) > 0 {
			t.Errorf("slot %d: %v end later, at %v s", slot, ids, at)
		}
	}
}

// TestCancel: a request that is cancelled never ends, and no longer counts.
func TestCancel(t *testing.T) {
	h := host(false)
	submit(h, 0, 1, time.Second, 0)
	submit(h, 0, 2, time.Second, 0)
	h.Cancel(1, time.Second)
	if c := h.Counters(0); c.Model != 1 || c.Work != time.Second {
		t.Errorf("%+v is left, want one request", c)
	}
	if ids, at := ends(h); !slices.Equal(ids, []uint64{2}) || at[0] != 1.5 {
		t.Errorf("%v end at %v s, want the other at 1.5", ids, at)
	}
}

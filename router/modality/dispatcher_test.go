package modality

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

func dispatcher(t *testing.T, table *Table) *Dispatcher {
	t.Helper()
	p, err := NewPlanner(table, PrefixSafe)
	if err != nil {
		t.Fatal(err)
	}
	return NewDispatcher(table, p)
}

// TestDispatcherCommitsOneByOne: what comes later may go first, but for what is committed;
// what cannot be saved any more is dropped at the next plan.
func TestDispatcherCommitsOneByOne(t *testing.T) {
	d := dispatcher(t, table(t, figure2(), Mixed, 4))
	d.Add(job("1", 2, 0.5, 1000), 0)
	next, dropped, ok := d.Next(0)
	if got := fmt.Sprint(next.Job.ID, next.Batches, next.Quality, next.Expect, len(dropped), ok); got != "1[0 0 2] 0.8 120 0 true" {
		t.Errorf("first: %s", got)
	}
	d.Add(job("2", 2, 0.5, 1000), 0)
	d.Add(job("3", 1, 0.5, 130), 0)
	d.Add(job("4", 1, 0.5, 200), 0)
	next, dropped, ok = d.Next(120)
	if got := fmt.Sprint(next.Job.ID, next.Batches, ok); got != "4[0 0 1] true" || !slices.Equal(dropped, []Job{job("3", 1, 0.5, 130)}) {
		t.Errorf("second: %s, dropped %v", got, dropped)
	}
	if next, _, _ = d.Next(180); next.Job.ID != "2" || d.Waiting() != 0 {
		t.Errorf("third: %s, %d wait", next.Job.ID, d.Waiting())
	}
	if _, _, ok = d.Next(300); ok {
		t.Error("something is committed of an empty buffer")
	}
}

// TestDispatcherCorrectsItsEstimates: batches take twice as long as the table has it, and
// plans follow.
func TestDispatcherCorrectsItsEstimates(t *testing.T) {
	d := dispatcher(t, table(t, figure2(), Mixed, 1))
	for range 100 {
		d.Ran(2, 1, 120)
	}
	if math.Abs(d.Slowness()-2) > 1e-3 {
		t.Fatalf("slowness %v after batches that took twice as long", d.Slowness())
	}
	d.Add(job("1", 1, 0.5, 100), 0) // both takes 120 now, video 60
	next, _, _ := d.Next(0)
	if got := fmt.Sprint(next.Batches); got != "[0 1 0]" || math.Abs(next.Expect-60) > 0.1 {
		t.Errorf("%s, expected to take %v", got, next.Expect)
	}
}

func TestDispatcherDoesNotAllocate(t *testing.T) {
	d := dispatcher(t, table(t, figure2(), Mixed, 4))
	run := func() {
		for i := range 20 {
			d.Add(job("x", 1+i%4, 0.5, float64(100+40*i)), 0)
		}
		for now := 0.0; d.Waiting() > 0; {
			next, _, ok := d.Next(now)
			if !ok {
				break
			}
			now += next.Expect
		}
	}
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestDispatcherMeasuresSpread: batches take half or one and a half times as long, by turns.
func TestDispatcherMeasuresSpread(t *testing.T) {
	seen := &spreadSeen{}
	table := table(t, figure2(), Mixed, 1)
	d := NewDispatcher(table, seen)
	for i := range 400 {
		d.Ran(0, 1, 20*(0.5+float64(i%2)))
	}
	d.Add(Job{ID: "1", Size: 1, MinQuality: 0.5, Deadline: 1e6}, 0)
	d.Next(0)
	if math.Abs(seen.spread-0.5) > 0.03 {
		t.Errorf("spread %.3f, want about 0.5", seen.spread)
	}
}

type spreadSeen struct{ spread float64 }

func (s *spreadSeen) Foresee(a Arrivals)               { s.spread = a.Spread }
func (s *spreadSeen) Plan(_ float64, _ []Job, _ *Plan) {}

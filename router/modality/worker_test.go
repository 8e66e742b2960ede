package modality

import (
	"fmt"
	"math"
	"testing"
)

func worker(t *testing.T, table *Table) *Worker {
	t.Helper()
	p, err := NewPlanner(table, PrefixSafe)
	if err != nil {
		t.Fatal(err)
	}
	return NewWorker(table, p)
}

// TestWorkerCommitsOneByOne: what comes later may go first, but for what is committed;
// what cannot be saved any more is dropped at the next plan.
func TestWorkerCommitsOneByOne(t *testing.T) {
	d := worker(t, table(t, figure2(), Mixed, 4))
	d.add(&Entry{Job: job("1", 2, 0.5, 1000)}, 0)
	next, dropped := d.next(0)
	if got := fmt.Sprint(next.Job.ID, next.Batches, next.Quality, next.Expect, len(dropped)); got != "1[0 0 2] 0.8 120 0" {
		t.Errorf("first: %s", got)
	}
	d.add(&Entry{Job: job("2", 2, 0.5, 1000)}, 0)
	d.add(&Entry{Job: job("3", 1, 0.5, 130)}, 0)
	d.add(&Entry{Job: job("4", 1, 0.5, 200)}, 0)
	next, dropped = d.next(120)
	if got := fmt.Sprint(next.Job.ID, next.Batches); got != "4[0 0 1]" || len(dropped) != 1 || dropped[0].ID != "3" {
		t.Errorf("second: %s, dropped %v", got, dropped)
	}
	if next, _ = d.next(180); next.Job.ID != "2" || d.Waiting() != 0 {
		t.Errorf("third: %s, %d wait", next.Job.ID, d.Waiting())
	}
	if next, _ = d.next(300); next != nil {
		t.Error("something is committed of an empty buffer")
	}
}

// TestWorkerCorrectsItsEstimates: batches take twice as long as the table has it, and
// plans follow.
func TestWorkerCorrectsItsEstimates(t *testing.T) {
	d := worker(t, table(t, figure2(), Mixed, 1))
	for range 100 {
		d.Ran(2, 1, 120)
	}
	if math.Abs(d.Slowness()-2) > 1e-3 {
		t.Fatalf("slowness %v after batches that took twice as long", d.Slowness())
	}
	d.add(&Entry{Job: job("1", 1, 0.5, 100)}, 0) // both takes 120 now, video 60
	next, _ := d.next(0)
	if got := fmt.Sprint(next.Batches); got != "[0 1 0]" || math.Abs(next.Expect-60) > 0.1 {
		t.Errorf("%s, expected to take %v", got, next.Expect)
	}
}

func TestPlansOfAWorkerDoNotAllocate(t *testing.T) {
	d := worker(t, table(t, figure2(), Mixed, 4))
	for i := range 20 {
		d.add(&Entry{Job: job("x", 1+i%4, 0.5, float64(100+40*i))}, 0)
	}
	run := func() { d.Plan(0) }
	run()
	if n := testing.AllocsPerRun(20, run); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestWorkerMeasuresSpread: batches take half or one and a half times as long, by turns.
func TestWorkerMeasuresSpread(t *testing.T) {
	seen := &spreadSeen{}
	table := table(t, figure2(), Mixed, 1)
	d := NewWorker(table, seen)
	for i := range 400 {
		d.Ran(0, 1, 20*(0.5+float64(i%2)))
	}
	d.add(&Entry{Job: Job{ID: "1", Size: 1, MinQuality: 0.5, Deadline: 1e6}}, 0)
	d.next(0)
	if math.Abs(seen.spread-0.5) > 0.03 {
		t.Errorf("spread %.3f, want about 0.5", seen.spread)
	}
}

type spreadSeen struct{ spread float64 }

func (s *spreadSeen) Foresee(a Arrivals)               { s.spread = a.Spread }
func (s *spreadSeen) Plan(_ float64, _ []Job, _ *Plan) {}

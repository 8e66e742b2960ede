package modality

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/router/solve"
)

// TestTheTableWithinSomeOptions: strategies of some options are those of a table that has no
// others, and options keep their indices.
func TestTheTableWithinSomeOptions(t *testing.T) {
	options := figure2()
	whole := table(t, options, Mixed, 4)
	for allowed := uint64(1); allowed < 8; allowed++ {
		var some []Option
		var indices []int
		for i, o := range options {
			if allowed>>i&1 == 1 {
				some, indices = append(some, o), append(indices, i)
			}
		}
		want, got := table(t, some, Mixed, 4), whole.Within(allowed)
		for size := 1; size <= 4; size++ {
			if !slices.EqualFunc(got.Front(size), want.Front(size), func(a, b solve.Point) bool {
				return math.Abs(a.Cost-b.Cost) < 1e-9 && math.Abs(a.Value-b.Value) < 1e-9
			}) {
				t.Errorf("allowed %b, size %d: %v, want %v", allowed, size, got.Front(size), want.Front(size))
			}
			for s := range got.Front(size) {
				batches, alone := got.Batches(size, s, nil), want.Batches(size, s, nil)
				for k, i := range indices {
					if batches[i] != alone[k] {
						t.Errorf("allowed %b, size %d, strategy %d: %v, want %v", allowed, size, s, batches, alone)
					}
				}
			}
		}
	}
	if first, again := whole.Within(2), whole.Within(2); whole.Within(7) != whole || whole.Within(0) != whole || first != again {
		t.Error("a table that is there is made again")
	}
}

// TestJobsKeepToTheOptionsAllowed: under every policy, and in checks.
func TestJobsKeepToTheOptionsAllowed(t *testing.T) {
	options := table(t, figure2(), Mixed, 4) // audio, video, both
	planner, err := NewPlanner(options, PrefixSafe)
	if err != nil {
		t.Fatal(err)
	}
	literal, err := NewPlanner(options, Literal)
	if err != nil {
		t.Fatal(err)
	}
	j := job("1", 2, 0.6, 1000)
	j.Allowed = 0b011
	for name, p := range map[string]Policy{"planner": planner, "literal": literal, "aggressive": NewAggressive(options), "agnostic": NewAgnostic(options), "foresight": NewForesighted(options, 2)} {
		d := NewWorker(options, p)
		d.add(&Entry{Job: j}, 0)
		next, _ := d.next(0)
		want := "[0 2 0]"
		if name == "aggressive" {
			want = "[2 0 0]"
		}
		if got := fmt.Sprint(next.Batches); got != want {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	j.MinQuality = 0.75
	if err := options.Check(&j); err == nil || !strings.Contains(err.Error(), "the best has 0.7") {
		t.Errorf("a floor that no allowed option reaches: %v", err)
	}
	j.MinQuality, j.Allowed = 0, 0b1000
	if err := options.Check(&j); err == nil || !strings.Contains(err.Error(), "0x8") {
		t.Errorf("an option that there is not: %v", err)
	}
}

// TestPreviewRemoveBacklog: a preview changes nothing, and what is removed is planned no more.
func TestPreviewRemoveBacklog(t *testing.T) {
	d := worker(t, table(t, figure2(), Mixed, 4))
	d.add(&Entry{Job: job("1", 2, 0.71, 140)}, 20)
	preview := func(free float64, j Job) string {
		p := d.Preview(20, free, j)[0]
		return fmt.Sprint(p.Batches, p.Finish, p.Kept)
	}
	if got := preview(20, job("2", 2, 0.68, 150)); got != "[1 1 0] 150 true" {
		t.Errorf("a preview of Figure 2's third job: %s", got)
	}
	if got := preview(50, job("2", 1, 0.8, 250)); got != "[0 0 1] 200 true" {
		t.Errorf("a worker that is free later: %s", got)
	}
	if got := preview(20, job("2", 2, 0.71, 99)); got != "[] 0 false" {
		t.Errorf("a preview of a job that would be late: %s", got)
	}
	if both := d.Preview(20, 20, job("2", 1, 0.67, 300), job("3", 1, 0.67, 160)); !both[0].Kept || !both[1].Kept || both[0].Finish < both[1].Finish {
		t.Errorf("a preview of two jobs: %+v", both)
	}
	if d.Waiting() != 1 || d.Backlog() != 80 {
		t.Errorf("%d wait, of %v; want 1 of 80", d.Waiting(), d.Backlog())
	}
	if (&Pool{Workers: []*Worker{d}}).Remove(d.waiting[0]); d.Waiting() != 0 || d.Backlog() != 0 {
		t.Errorf("%d wait once the only one is removed", d.Waiting())
	}
}

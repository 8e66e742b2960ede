package modality

import (
	"fmt"
	"strings"
	"testing"
)

// pooled is a pool of so many workers that are all alike, for each of which two jobs may wait.
func pooled(t *testing.T, workers int, policy string) *Pool {
	t.Helper()
	p := &Pool{Most: 2}
	for range workers {
		table, err := NewTable([]Option{
			{"image", 0.8, []float64{10, 15, 20, 25}}, {"audio", 0.88, []float64{20, 30, 40, 50}}, {"both", 0.96, []float64{40, 60, 80, 100}},
		}, Mixed, 4)
		if err != nil {
			t.Fatal(err)
		}
		named, err := Named(policy, table, nil)
		if err != nil {
			t.Fatal(err)
		}
		p.Workers = append(p.Workers, NewWorker(table, named))
	}
	return p
}

func entry(size int, floor, deadline float64) *Entry {
	return &Entry{Job: Job{Size: size, MinQuality: floor, Deadline: deadline}}
}

// TestJobsGoToTheSmallestBacklog: what runs, as far as it is expected to last, and what waits.
func TestJobsGoToTheSmallestBacklog(t *testing.T) {
	p := pooled(t, 2, "aggressive")
	var all []*Entry
	for i, want := range []int{0, 1, 0} {
		x := entry(1, 0, 1000)
		if all = append(all, x); p.Add(x, 0) != nil || x.Worker != want {
			t.Errorf("job %d waits for worker %d; want %d", i, x.Worker, want)
		}
	}
	c, dropped := p.Next(0, 0)
	if c == nil || c.Entry != all[0] || c.Expect != 10 || len(dropped) != 0 || c.Waiting != 1 {
		t.Fatalf("%+v, %v", c, dropped)
	}
	if got := p.Workers[0].Expected(4); got != 16 {
		t.Errorf("a backlog of %v; want 6 of what runs and 10 of what waits", got)
	}
	for i, want := range []int{1, 0} { // the second finds worker 1 full
		if x := entry(1, 0, 1000); p.Add(x, 4) != nil || x.Worker != want {
			t.Errorf("job %d waits for worker %d; want %d", 3+i, x.Worker, want)
		}
	}
	if err := p.Add(entry(1, 0, 1000), 4); err != ErrFull {
		t.Errorf("all are full: %v", err)
	}
	p.Remove(all[1])
	if x := entry(1, 0, 1000); p.Add(x, 4) != nil || x.Worker != 1 {
		t.Errorf("one has left worker 1, and the next waits for worker %d", x.Worker)
	}
}

// TestWhatHasNoTimeGoesElsewhere: a job that a plan drops waits for another worker if that keeps
// it, and is lost if not.
func TestWhatHasNoTimeGoesElsewhere(t *testing.T) {
	p := pooled(t, 2, "optimized")
	p.Workers[1].free = 500 // busy so long
	early, late := entry(4, 0.96, 600), entry(4, 0.96, 601)
	for _, x := range []*Entry{early, late} {
		if p.Add(x, 0) != nil || x.Worker != 0 {
			t.Fatalf("%s waits for worker %d", x.ID, x.Worker)
		}
	}
	if c, dropped := p.Next(0, 480); c == nil || c.Entry != early || len(dropped) != 0 || late.Worker != 1 {
		t.Errorf("%+v, dropped %v, late on worker %d", c, dropped, late.Worker)
	}
	if c, dropped := p.Next(1, 520); c != nil || len(dropped) != 1 || dropped[0] != late {
		t.Errorf("%+v, dropped %v", c, dropped)
	}
}

// TestWorkersThatAreDown: they get no jobs, and are in no preview.
func TestWorkersThatAreDown(t *testing.T) {
	p := pooled(t, 2, "aggressive")
	p.Up = func(worker int) bool { return worker == 1 }
	x := entry(2, 0, 5000)
	if err := p.Add(x, 0); err != nil || x.Worker != 1 {
		t.Fatalf("%v, on worker %d", err, x.Worker)
	}
	c, _ := p.Next(1, 0)
	p.Up = func(worker int) bool { return worker == 0 }
	if p.Ended(1, 10); p.Place(c.Entry, 10) != nil || x.Worker != 0 || x.ID != "0" {
		t.Errorf("what is left of job %s waits for worker %d", x.ID, x.Worker)
	}
	if worker, _, err := p.Preview(1500, entry(4, 0.96, 1510).Job); worker != -1 || err != ErrLate {
		t.Errorf("a preview of what is late: %d, %v", worker, err)
	}
	if worker, list, err := p.Preview(1500, entry(4, 0.96, 3000).Job); worker != 0 || err != nil || list[0].Quality != 0.96 {
		t.Errorf("a preview: %d, %+v, %v", worker, list, err)
	}
	if worker, _, err := p.Preview(1500, entry(9, 0, 3000).Job); worker != -1 || err != ErrSize {
		t.Errorf("a preview of what is too large: %d, %v", worker, err)
	}
	p.Up = func(int) bool { return false }
	if err := p.Add(entry(1, 0, 5000), 10); err != ErrNoneUp {
		t.Errorf("both are down: %v", err)
	}
}

// TestAnIdleWorkerTakesOver: of what waits for a busy worker the job that is due first, where the idle
// one would answer it in time; not while it is down.
func TestAnIdleWorkerTakesOver(t *testing.T) {
	p := pooled(t, 2, "aggressive")
	p.Up = func(worker int) bool { return worker == 0 }
	first, second, third := entry(4, 0, 500), entry(4, 0.96, 900), entry(1, 0, 800)
	for _, x := range []*Entry{first, second} {
		if err := p.Add(x, 0); err != nil || x.Worker != 0 {
			t.Fatalf("%v, job %s waits for worker %d", err, x.ID, x.Worker)
		}
	}
	if p.Up = nil; p.takeOver(1, 0) {
		t.Error("worker 0 is free, and begins what waits for it itself")
	}
	p.Up = func(worker int) bool { return worker == 0 }
	c, _ := p.Next(0, 0)
	if err := p.Add(third, 0); c == nil || c.Entry != first || err != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if p.takeOver(1, 1) {
		t.Error("a worker that is down takes over")
	}
	if p.Up = nil; p.takeOver(1, 850) {
		t.Error("what would be late is taken over")
	}
	if c, dropped := p.Next(1, 20); c == nil || c.Entry != third || len(dropped) != 0 || third.Worker != 1 || p.Workers[0].Waiting() != 1 {
		t.Errorf("worker 1 runs %+v, dropped %v", c, dropped)
	}
	if p.Ended(0, 25); !p.Waits() {
		t.Error("nothing waits")
	}
	if c, _ := p.Next(0, 25); c == nil || c.Entry != second {
		t.Errorf("worker 0 runs %+v", c)
	}
}

// TestNoTenantTakesTheQueue: where as many jobs wait as may, a tenant with fewer displaces the last one
// due of the tenant with the most; a tenant's own job gives way to one that is due earlier.
func TestNoTenantTakesTheQueue(t *testing.T) {
	p := pooled(t, 1, "aggressive")
	p.Most = 4
	var lost []string
	p.Evict = func(x *Entry) { lost = append(lost, x.Of.(string)) }
	for i, c := range []struct {
		tenant   string
		deadline float64
		err      error
		lost     string // so far
	}{
		{"a", 3000, nil, ""}, {"a", 4000, nil, ""}, {"a", 2000, nil, ""}, {"a", 1000, nil, ""},
		{"b", 9000, nil, "1"},            // the last one due of the tenant with the most
		{"b", 9001, nil, "1 0"},          // two each
		{"b", 9002, ErrFull, "1 0"},      // as many as the other tenant has, and due last
		{"b", 100, nil, "1 0 5"},         // due before its own last
		{"c", 9003, nil, "1 0 5 4"},      // of two tenants with two each, the one due last is b's
		{"a", 100, nil, "1 0 5 4 2"},     // a has the most itself
		{"", 100, nil, "1 0 5 4 2 3"},    // those without a key are one tenant
		{"d", 1, ErrFull, "1 0 5 4 2 3"}, // one each
	} {
		x := entry(1, 0, c.deadline)
		x.Tenant, x.Of = c.tenant, fmt.Sprint(i)
		if err := p.Add(x, 0); err != c.err || strings.Join(lost, " ") != c.lost {
			t.Errorf("job %d of %q: %v, evicted %v; want %v, %s", i, c.tenant, err, lost, c.err, c.lost)
		}
	}
}

package jobs

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// planned is the pool of a model on so many workers, without anything that runs.
func planned(t *testing.T, workers int, policy string) *pool {
	t.Helper()
	m := small(make([]http.RoundTripper, workers)...)
	s, err := newSet(&Config{Policy: policy, MaxWaiting: 2}, &m)
	if err != nil {
		t.Fatal(err)
	}
	return s.pool
}

func of(id string, size int, floor, deadline float64) *part {
	return &part{id: id, rows: make([]int, size), floor: floor, deadline: deadline}
}

// TestPartsGoToTheSmallestBacklog: what runs, as far as it is expected to last, and what waits.
func TestPartsGoToTheSmallestBacklog(t *testing.T) {
	p := planned(t, 2, "aggressive")
	for i, want := range []int{0, 1, 0} {
		if x := of(fmt.Sprint(i), 1, 0, 1000); p.place(x, 0, false) != nil || x.worker != want {
			t.Errorf("part %d waits for worker %d; want %d", i, x.worker, want)
		}
	}
	c, dropped := p.next(0, 0)
	if c == nil || c.id != "0" || c.expect != 10 || len(dropped) != 0 || c.waiting != 1 {
		t.Fatalf("%+v, %v", c, dropped)
	}
	if got := p.stations[0].backlog(4); got != 16 {
		t.Errorf("a backlog of %v; want 6 of what runs and 10 of what waits", got)
	}
	if x := of("3", 1, 0, 1000); p.place(x, 4, false) != nil || x.worker != 1 {
		t.Errorf("the next waits for worker %d", x.worker)
	}
	if x := of("4", 1, 0, 1000); p.place(x, 4, false) != nil || x.worker != 0 {
		t.Errorf("worker 1 has as many as may wait, and the next waits for worker %d", x.worker)
	}
	if err := p.place(of("5", 1, 0, 1000), 4, false); err != errFull {
		t.Errorf("all are full: %v", err)
	}
	p.remove(p.stations[1].waiting["1"])
	if x := of("6", 1, 0, 1000); p.place(x, 4, false) != nil || x.worker != 1 {
		t.Errorf("one has left worker 1, and the next waits for worker %d", x.worker)
	}
}

// TestWhatHasNoTimeGoesElsewhere: a part that a plan drops waits for another worker if that keeps
// it, and is lost if not.
func TestWhatHasNoTimeGoesElsewhere(t *testing.T) {
	p := planned(t, 2, "optimized")
	p.stations[1].free = 500 // busy so long
	early, late := of("early", 4, 0.96, 600), of("late", 4, 0.96, 601)
	for _, x := range []*part{early, late} {
		if p.place(x, 0, false) != nil || x.worker != 0 {
			t.Fatalf("%s waits for worker %d", x.id, x.worker)
		}
	}
	if c, dropped := p.next(0, 480); c == nil || c.part != early || len(dropped) != 0 || late.worker != 1 {
		t.Errorf("%+v, dropped %v, late on worker %d", c, dropped, late.worker)
	}
	if c, dropped := p.next(1, 520); c != nil || len(dropped) != 1 || dropped[0] != late {
		t.Errorf("%+v, dropped %v", c, dropped)
	}
}

// TestFailuresAreAvoided: a worker that has failed gets nothing for a while, where another is up, and
// never again the part that it has failed at.
func TestFailuresAreAvoided(t *testing.T) {
	p := planned(t, 2, "aggressive")
	x := of("x", 2, 0, 5000)
	if err := p.place(x, 0, false); err != nil {
		t.Fatal(err)
	}
	c, _ := p.next(0, 0)
	p.ended(0, true, 10)
	if err := p.again(c.part, 0, 10); err != nil || x.worker != 1 {
		t.Errorf("%v, on worker %d", err, x.worker)
	}
	for i, at := range []float64{20, 20, 1500} {
		y := of(fmt.Sprint(i), 1, 0, 5000)
		err := p.place(y, at, false)
		if want := []int{1, 0, 0}[i]; err != nil || y.worker != want {
			t.Errorf("at %v: %v, on worker %d; want %d", at, err, y.worker, want)
		}
	}
	p.up = func(worker int) bool { return worker == 0 }
	if err := p.again(x, 1, 1500); err != errNoneUp {
		t.Errorf("both have failed or are down: %v", err)
	}
	if worker, _, err := p.preview([]*part{of("z", 4, 0.96, 1510)}, 1500); worker != -1 || err != errLate {
		t.Errorf("a preview of what is late: %d, %v", worker, err)
	}
	if worker, list, err := p.preview([]*part{of("z", 4, 0.96, 3000)}, 1500); worker != 0 || err != nil || list[0].Quality != 0.96 {
		t.Errorf("a preview: %d, %+v, %v", worker, list, err)
	}
	if worker, _, err := p.preview([]*part{of("z", 9, 0, 3000)}, 1500); worker != -1 || err != errSize {
		t.Errorf("a preview of what is too large: %d, %v", worker, err)
	}
}

// TestAnIdleWorkerTakesOver: of what waits for a busy worker the part that is due first, where the idle
// one would answer it in time; not while it is down, or avoided, or has failed at the part.
func TestAnIdleWorkerTakesOver(t *testing.T) {
	p := planned(t, 2, "aggressive")
	p.up = func(worker int) bool { return worker == 0 }
	first, second, third := of("1", 4, 0, 500), of("2", 4, 0.96, 900), of("3", 1, 0, 800)
	for _, x := range []*part{first, second} {
		if err := p.place(x, 0, false); err != nil || x.worker != 0 {
			t.Fatalf("%v, part %s waits for worker %d", err, x.id, x.worker)
		}
	}
	if p.up = nil; p.takeOver(1, 0) {
		t.Error("worker 0 is free, and begins what waits for it itself")
	}
	p.up = func(worker int) bool { return worker == 0 }
	c, _ := p.next(0, 0)
	if err := p.place(third, 0, false); c == nil || c.part != first || err != nil {
		t.Fatalf("%+v, %v", c, err)
	}
	if p.takeOver(1, 1) {
		t.Error("a worker that is down takes over")
	}
	p.up, p.stations[1].avoided = nil, 5
	if p.takeOver(1, 1) {
		t.Error("a worker that is avoided takes over")
	}
	third.failed = map[int]bool{1: true}
	if !p.takeOver(1, 10) || second.worker != 1 || third.worker != 0 {
		t.Errorf("parts wait for workers %d and %d; want 1, and 0 for the one that worker 1 has failed at", second.worker, third.worker)
	}
	if third.failed = nil; p.takeOver(1, 850) {
		t.Error("what would be late is taken over")
	}
	if !p.takeOver(1, 20) || third.worker != 1 || len(p.stations[0].waiting) != 0 || p.stations[0].dispatcher.Waiting() != 0 {
		t.Errorf("part 3 waits for worker %d, and %d parts for worker 0", third.worker, len(p.stations[0].waiting))
	}
	if c, dropped := p.next(1, 20); c == nil || c.part != third || len(dropped) != 0 {
		t.Errorf("worker 1 runs %+v, dropped %v", c, dropped)
	}
	if p.ended(0, false, 30); !p.takeOver(0, 30) || second.worker != 0 {
		t.Errorf("worker 0 is done, and part 2 waits for worker %d", second.worker)
	}
}

// TestNoTenantTakesTheQueue: where as many parts wait as may, a tenant with fewer displaces the last one
// due of the tenant with the most; a tenant's own part gives way to one that is due earlier.
func TestNoTenantTakesTheQueue(t *testing.T) {
	p := planned(t, 1, "aggressive")
	p.most = 4
	var lost []string
	p.evict = func(x *part) { lost = append(lost, x.id) }
	for i, c := range []struct {
		tenant   string
		deadline float64
		err      error
		lost     string // IDs, so far
	}{
		{"a", 3000, nil, ""}, {"a", 4000, nil, ""}, {"a", 2000, nil, ""}, {"a", 1000, nil, ""},
		{"b", 9000, nil, "1"},            // the last one due of the tenant with the most
		{"b", 9001, nil, "1 0"},          // two each
		{"b", 9002, errFull, "1 0"},      // as many as the other tenant has, and due last
		{"b", 100, nil, "1 0 5"},         // due before its own last
		{"c", 9003, nil, "1 0 5 4"},      // of two tenants with two each, the one due last is b's
		{"a", 100, nil, "1 0 5 4 2"},     // a has the most itself
		{"", 100, nil, "1 0 5 4 2 3"},    // those without a key are one tenant
		{"d", 1, errFull, "1 0 5 4 2 3"}, // one each
	} {
		x := of(fmt.Sprint(i), 1, 0, c.deadline)
		x.of = &work{Job: &Job{Tenant: c.tenant}}
		if err := p.place(x, 0, false); err != c.err || strings.Join(lost, " ") != c.lost {
			t.Errorf("part %d of %q: %v, evicted %v; want %v, %s", i, c.tenant, err, lost, c.err, c.lost)
		}
	}
}

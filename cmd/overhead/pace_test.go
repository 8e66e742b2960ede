//go:build linux

package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Pieces are slow beside the quickest of all, also of those before the mark.
func TestPace(t *testing.T) {
	var p pace
	for _, took := range []int64{100, 90, 100, 200} {
		p.took(took)
	}
	if got := p.slowed(); got != 0.25 {
		t.Errorf("slowed for %v of the time, not a quarter", got)
	}
	p.mark()
	if got := p.slowed(); got != 0 {
		t.Errorf("slowed for %v of no time", got)
	}
	p.took(110)
	p.took(107)
	if got := p.slowed(); got != 0.5 {
		t.Errorf("slowed for %v of the time, not half", got)
	}
}

// A core is watched: the pieces that it is given are timed.
func TestPaceIsWatched(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var p pace
	if err := p.watch(ctx, []int{1 << 20}); err == nil || !strings.Contains(err.Error(), "core 1048576") {
		t.Errorf("a core that there is not is watched: %v", err)
	}
	var cores unix.CPUSet
	if err := unix.SchedGetaffinity(0, &cores); err != nil {
		t.Fatal(err)
	}
	first := 0
	for !cores.IsSet(first) {
		first++
	}
	if err := p.watch(ctx, []int{first}); err != nil {
		t.Fatal(err)
	}
	pieces := func() int {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.all
	}
	for end := time.Now().Add(10 * time.Second); pieces() < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no piece was timed")
		}
	}
}

// What was disturbed is measured again, as long as patience lasts, and the least
// disturbed counts.
func TestDisturbedMeasurementsAreTakenAgain(t *testing.T) {
	for _, test := range []struct {
		slow            []int // of ten pieces, during each try
		patience        time.Duration
		requests, tries int
	}{
		{[]int{0}, time.Minute, 1, 1},
		{[]int{9, 1}, time.Minute, 2, 2},
		{[]int{2, 9, 0}, time.Minute, 3, 3},
		{[]int{9}, 0, 1, 1},
		{[]int{2, 9}, time.Nanosecond, 1, 2}, // the first took all that was left
	} {
		l, _ := testLoop(t)
		p := plan{loop: l, cores: []int{0}, patience: test.patience}
		p.pace.took(100)
		try := 0
		m, err := p.undisturbed(t.Context(), target{}, 0, func(context.Context, target, int) (measurement, error) {
			for i := range 10 {
				took := int64(100)
				if i < test.slow[try] {
					took = 200
				}
				p.pace.took(took)
			}
			try++
			return measurement{Requests: try}, nil
		})
		if err != nil || m.Requests != test.requests || m.Tries != test.tries || !m.Watched {
			t.Errorf("slow %v, patience %v: %+v, %v; want the one of %d requests after %d tries", test.slow, test.patience, m, err, test.requests, test.tries)
		}
	}
}

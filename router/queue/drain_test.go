package queue_test

import (
	"math"
	"testing"
	"time"

	"gearshift/router/queue"
)

func TestDrainRate(t *testing.T) {
	var d queue.Drain
	var now time.Duration
	for n := range 100 {
		rate, ok := d.Rate(now)
		if ok != (n >= 4) || ok && math.Abs(rate-10*float64(min(n, 32)-1)/float64(min(n, 32))) > 1e-9 {
			t.Fatalf("after %d turns 0.1 s apart: %v, %v", n, rate, ok)
		}
		d.Served(now)
		now += 100 * time.Millisecond
	}
	// Where nobody is served any more, the rate falls.
	if rate, _ := d.Rate(now + 28*time.Second); math.Abs(rate-31.0/31.2) > 0.01 {
		t.Errorf("28 s later: %v", rate)
	}
	if wait, ok := d.Wait(20, now); !ok || (wait-2*time.Second).Abs() > 100*time.Millisecond {
		t.Errorf("20 take %v, %v", wait, ok)
	}
	d.Reset()
	if _, ok := d.Wait(20, now); ok {
		t.Error("a new queue is known to be served")
	}
}

func TestRetryAfterIsWholeSecondsWithinBounds(t *testing.T) {
	var d queue.Drain
	const least, most = time.Second, time.Minute
	if got := d.RetryAfter(1000, 0, least, most); got != least {
		t.Errorf("unknown rate: %v", got)
	}
	var now time.Duration
	for range 40 {
		now += 500 * time.Millisecond
		d.Served(now)
	}
	for ahead, want := range map[int]time.Duration{0: time.Second, 9: 5 * time.Second, 10: 6 * time.Second, 10_000: most} {
		if got := d.RetryAfter(ahead, now, least, most); got != want {
			t.Errorf("%d ahead at 2 a second: %v, want %v", ahead, got, want)
		}
	}
	if got := d.RetryAfter(math.MaxInt-1, now, 90*time.Second, 90*time.Second); got != 90*time.Second {
		t.Errorf("beyond counting: %v", got)
	}
}

//go:build linux

package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// pace tells when others slow the processors down. Two hyperthreads share a core;
// where one of them is another virtual machine's, work on the other takes up to
// twice as long while that works, and nothing that the system counts says so. How long
// a fixed piece of arithmetic takes does.
type pace struct {
	mu       sync.Mutex // protects all below
	quickest int64      // that it ever took
	all      int        // pieces since the mark
	slow     int        // of these
}

const (
	pieceEvery = 10 * time.Millisecond
	pieceSteps = 40_000 // some 30 µs
	// slowFrom is how many times as long as the quickest a slow piece takes.
	slowFrom = 1.2
	// mostSlow is the share of slow pieces above which a measurement is disturbed.
	mostSlow = 0.1
)

// watch times a piece again and again on each of the cores, until the context ends.
func (p *pace) watch(ctx context.Context, cores []int) error {
	failed := make(chan error, len(cores))
	for _, core := range cores {
		go func() {
			runtime.LockOSThread() // and never unlocked, so that the thread ends with this
			var only unix.CPUSet
			only.Set(core)
			err := unix.SchedSetaffinity(0, &only)
			failed <- err
			if err != nil {
				return
			}
			for every := time.NewTicker(pieceEvery); ctx.Err() == nil; <-every.C {
				before := ownTime()
				runtime.KeepAlive(arithmetic(pieceSteps))
				p.took(ownTime() - before)
			}
		}()
	}
	for _, core := range cores {
		if err := <-failed; err != nil {
			return fmt.Errorf("cannot watch core %d: %w", core, err)
		}
	}
	return nil
}

// took notes a piece.
func (p *pace) took(t int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quickest == 0 || t < p.quickest {
		p.quickest = t
	}
	p.all++
	if float64(t) > slowFrom*float64(p.quickest) {
		p.slow++
	}
}

// mark begins a stretch of time.
func (p *pace) mark() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all, p.slow = 0, 0
}

// slowed is the share of slow pieces since the mark.
func (p *pace) slowed() float64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return float64(p.slow) / float64(max(1, p.all))
}

// ownTime is what this thread has had of a processor, in nanoseconds: a wait for one
// is not in it.
func ownTime() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t)
	return t.Nano()
}

// arithmetic keeps a core's units busy, and its memory not at all.
//
//go:noinline
func arithmetic(steps int) uint64 {
	var a, b, c, d, e, f uint64 = 1, 2, 3, 4, 5, 6
	for i := range uint64(steps) {
		a += i
		b ^= i
		c -= i
		d += i
		e ^= i
		f -= i
	}
	return a ^ b ^ c ^ d ^ e ^ f
}

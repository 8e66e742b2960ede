//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"
)

// flow is what one client saw of streams, in nanoseconds.
type flow struct {
	first []int64 // from the request to the first event
	// gaps are between events as they arrived, less the same as they were sent.
	gaps []int64
}

// streams asks for one stream after the other.
func streams(ctx context.Context, addr netip.AddrPort, request []byte, d time.Duration) (f flow, err error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoad(addr, request, 1)
	if err != nil {
		return f, err
	}
	defer l.close()
	c := l.free[0]
	for end := now() + int64(d); now() < end && ctx.Err() == nil; {
		if err := l.send(c, now()); err != nil {
			return f, err
		}
		if err := l.watch(c, &f); err != nil {
			return f, err
		}
	}
	return f, ctx.Err()
}

// watch follows one stream to its end.
func (l *load) watch(c *client, f *flow) error {
	var seen, whole int
	var sent, arrived int64 // the last event
	for whole == 0 {
		if _, err := l.wait(1000); err != nil {
			return err
		}
		if err := c.flush(); err != nil {
			return err
		}
		if err := c.fill(); err != nil {
			return err
		}
		at := now()
		if seen == 0 { // header fields may hold the mark, too
			if seen, _ = frame(c.in); seen == 0 {
				continue
			}
		}
		for {
			stamp, end := stampAfter(c.in, seen)
			if end == 0 {
				break
			}
			if seen = end; sent == 0 {
				f.first = append(f.first, at-c.start)
			} else {
				f.gaps = append(f.gaps, (at-arrived)-(stamp-sent))
			}
			sent, arrived = stamp, at
		}
		if at-c.start > int64(5*time.Second) {
			return fmt.Errorf("the stream did not end: %.600s", c.in)
		}
		_, whole = frame(c.in)
	}
	if sent == 0 {
		return fmt.Errorf("no event with a time: %.600s", c.in)
	}
	c.take(whole)
	return nil
}

// stampAfter finds the next @nanoseconds@ and where it ends; zero if there is none.
func stampAfter(b []byte, from int) (stamp int64, end int) {
	start := bytes.IndexByte(b[from:], '@')
	if start < 0 {
		return 0, 0
	}
	start += from + 1
	length := bytes.IndexByte(b[start:], '@')
	if length < 0 {
		return 0, 0
	}
	stamp, err := strconv.ParseInt(string(b[start:start+length]), 10, 64)
	if err != nil {
		return 0, 0
	}
	return stamp, start + length + 1
}

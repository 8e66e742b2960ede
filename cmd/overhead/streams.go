//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"net/netip"
	"strconv"
	"time"
)

// flow is what one client saw of streams, in nanoseconds.
type flow struct {
	first []int64 // from the request to the first event
	// gaps are between events as they arrived, less the same as they were sent.
	gaps []int64
}

// streamed asks for one stream after the other.
func (l *loop) streamed(ctx context.Context, addr netip.AddrPort, request []byte, d time.Duration) (f flow, err error) {
	o, err := l.newLoad(addr, request, 1)
	if err != nil {
		return f, err
	}
	defer o.close()
	var w watch
	o.seen = func(c *client) { w.look(c, &f) }
	if err := o.warm(ctx); err != nil {
		return f, err
	}
	f = flow{}
	for end := now() + int64(d); now() < end && err == nil; {
		w = watch{}
		if err = o.begin(); err == nil {
			err = o.finish(ctx, now())
		}
		if err == nil && w.sent == 0 {
			err = errors.New("a stream without an event that has a time")
		}
	}
	return f, err
}

// watch follows one stream.
type watch struct {
	until         int   // how far the answer has been read
	sent, arrived int64 // the last event
}

// look notes the events that have come.
func (w *watch) look(c *client, f *flow) {
	at := now()
	if w.until == 0 { // header fields may hold the mark, too
		if w.until, _ = frame(c.in); w.until == 0 {
			return
		}
	}
	for {
		stamp, end := stampAfter(c.in, w.until)
		if end == 0 {
			return
		}
		if w.until = end; w.sent == 0 {
			f.first = append(f.first, at-c.start)
		} else {
			f.gaps = append(f.gaps, (at-w.arrived)-(stamp-w.sent))
		}
		w.sent, w.arrived = stamp, at
	}
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

//go:build linux

package main

import (
	"context"
	"fmt"
	"net/netip"
	"time"
)

// loop is the one thread that is the clients and the upstream of all that is
// measured. It never sleeps: whoever writes to a sleeper pays for waking it, on a
// virtual machine as much as for the writing, and a proxy that is slower would pay
// for each of its writes what a quicker one, whose clients are always busy, does not.
type loop struct {
	*poller
	upstream *upstream
	clients  map[int]*client
	within   time.Duration // answers come beyond the end of a measurement; answerWithin
}

func newLoop(addr netip.AddrPort) (*loop, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	u, err := newUpstream(p, addr)
	if err != nil {
		return nil, err
	}
	return &loop{poller: p, upstream: u, clients: map[int]*client{}, within: answerWithin}, nil
}

// close ends the upstream and all who are connected with it.
func (l *loop) close() {
	l.upstream.close()
	l.poller.close()
}

// turn deals with what has changed.
func (l *loop) turn() error {
	events, err := l.changed()
	if err != nil {
		return err
	}
	for _, e := range events {
		if c := l.clients[int(e.Fd)]; c != nil {
			err = c.load.pump(c)
		} else {
			err = l.upstream.turn(int(e.Fd))
		}
		if err != nil {
			return err
		}
	}
	l.upstream.tick()
	return nil
}

// rest is the upstream alone for so long.
func (l *loop) rest(d time.Duration) error {
	for end := now() + int64(d); now() < end; {
		if err := l.turn(); err != nil {
			return err
		}
	}
	return nil
}

// answered asks again and again until the target answers as it should.
func (l *loop) answered(ctx context.Context, t target) error {
	const patience = 30 * time.Second
	for end := now() + int64(patience); ; {
		_, err := l.closed(ctx, t.addr, t.request(64, false), 1, time.Millisecond)
		if err == nil || ctx.Err() != nil {
			return err
		}
		if now() > end {
			return fmt.Errorf("%s does not answer: %w", t.name, err)
		}
		if err := l.rest(100 * time.Millisecond); err != nil {
			return err
		}
	}
}

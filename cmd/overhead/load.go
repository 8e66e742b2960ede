//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// load sends one request again and again over many connections, from one thread.
type load struct {
	*poller
	request []byte
	clients map[int]*client
	free    []*client // without a request under way
	taken   []int64   // nanoseconds that each request took
	// next is called when a client's answer has come.
	next func(*client) error
}

type client struct {
	pipe
	start int64 // when its request was due
}

func newLoad(addr netip.AddrPort, request []byte, clients int) (*load, error) {
	p, err := newPoller()
	if err != nil {
		return nil, err
	}
	l := &load{poller: p, request: request, clients: map[int]*client{}}
	for range clients {
		fd, err := dial(addr)
		if err == nil {
			err = p.add(fd)
		}
		if err != nil {
			l.close()
			return nil, err
		}
		c := &client{pipe: pipe{fd: fd}}
		l.clients[fd] = c
		l.free = append(l.free, c)
	}
	return l, nil
}

func (l *load) close() {
	for fd := range l.clients {
		unix.Close(fd)
	}
	l.poller.close()
}

// send begins a request that was due at the given time.
func (l *load) send(c *client, due int64) error {
	c.start, c.out = due, l.request
	return c.flush()
}

// pump moves what can move on the client's connection.
func (l *load) pump(c *client) error {
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.fill(); err != nil {
		return err
	}
	_, whole := frame(c.in)
	if whole == 0 {
		return nil
	}
	if len(c.in) < 12 || string(c.in[9:12]) != "200" {
		return fmt.Errorf("not the expected answer: %.600s", c.in)
	}
	l.taken = append(l.taken, now()-c.start)
	c.take(whole)
	return l.next(c)
}

// turn waits for changes, at most so long, and deals with them.
func (l *load) turn(milliseconds int) error {
	events, err := l.wait(milliseconds)
	if err != nil {
		return err
	}
	for _, e := range events {
		if c := l.clients[int(e.Fd)]; c != nil {
			if err := l.pump(c); err != nil {
				return err
			}
		}
	}
	return nil
}

// closed keeps every client asking, each as soon as its last answer has come.
func closed(ctx context.Context, addr netip.AddrPort, request []byte, clients int, d time.Duration) ([]int64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoad(addr, request, clients)
	if err != nil {
		return nil, err
	}
	defer l.close()
	begin := now()
	l.next = func(c *client) error { return l.send(c, now()) }
	for _, c := range l.free {
		if err := l.send(c, begin); err != nil {
			return nil, err
		}
	}
	for end := begin + int64(d); now() < end && ctx.Err() == nil; {
		if err := l.turn(100); err != nil {
			return nil, err
		}
	}
	return l.taken, ctx.Err()
}

// open sends requests at random times of the given mean rate a second, whether
// or not earlier ones have been answered. What a request takes counts from the
// moment that it was due. The last are waited for: the slowest are among them.
func open(ctx context.Context, addr netip.AddrPort, request []byte, clients int, rate float64, d time.Duration) ([]int64, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	l, err := newLoad(addr, request, clients)
	if err != nil {
		return nil, err
	}
	defer l.close()
	alarm, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	defer unix.Close(alarm)
	if err := l.add(alarm); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	l.next = func(c *client) error {
		l.free = append(l.free, c)
		return nil
	}
	due := now()
	for end := due + int64(d); due < end && ctx.Err() == nil; {
		for len(l.free) > 0 && due <= now() {
			c := l.free[len(l.free)-1]
			l.free = l.free[:len(l.free)-1]
			if err := l.send(c, due); err != nil {
				return nil, err
			}
			due += int64(random.ExpFloat64() / rate * 1e9)
		}
		at := unix.ItimerSpec{Value: unix.NsecToTimespec(due)}
		if err := unix.TimerfdSettime(alarm, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
			return nil, err
		}
		if err := l.turn(100); err != nil {
			return nil, err
		}
	}
	for patience := now() + int64(5*time.Second); len(l.free) < clients && now() < patience && ctx.Err() == nil; {
		if err := l.turn(100); err != nil {
			return nil, err
		}
	}
	if len(l.free) < clients && ctx.Err() == nil {
		return nil, fmt.Errorf("%d of %d requests have no answer after 5 s", clients-len(l.free), len(l.taken)+clients-len(l.free))
	}
	return l.taken, ctx.Err()
}

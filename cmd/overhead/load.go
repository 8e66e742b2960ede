//go:build linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// load sends one request again and again over many connections.
type load struct {
	*loop
	request []byte
	all     []*client
	free    []*client // without a request under way
	taken   []int64   // nanoseconds that each request took
	sent    int       // requests
	before  int       // what the upstream had been asked before
	// next is called when a client's answer has come, and seen, if there is one,
	// whenever some of it has.
	next func(*client) error
	seen func(*client)
}

type client struct {
	pipe
	*load
	start int64 // when its request was due
}

func (l *loop) newLoad(addr netip.AddrPort, request []byte, clients int) (*load, error) {
	o := &load{loop: l, request: request, taken: make([]int64, 0, 1<<16), before: l.upstream.asked}
	o.next = func(c *client) error {
		o.free = append(o.free, c)
		return nil
	}
	for range clients {
		fd, err := dial(addr)
		if err == nil {
			err = l.add(fd)
		}
		if err != nil {
			o.close()
			return nil, err
		}
		c := &client{pipe: pipe{fd: fd}, load: o}
		l.clients[fd] = c
		o.all = append(o.all, c)
	}
	o.free = append(o.free, o.all...)
	return o, nil
}

func (o *load) close() {
	for _, c := range o.all {
		unix.Close(c.fd)
		delete(o.clients, c.fd)
	}
}

// send begins a request that was due at the given time.
func (o *load) send(c *client, due int64) error {
	o.sent++
	c.start, c.out = due, o.request
	return c.flush()
}

// pump moves what can move on the client's connection.
func (o *load) pump(c *client) error {
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.fill(); err != nil {
		return err
	}
	if o.seen != nil {
		o.seen(c)
	}
	_, whole := frame(c.in)
	if whole == 0 {
		return nil
	}
	if len(c.in) < 12 || string(c.in[9:12]) != "200" {
		return fmt.Errorf("not the expected answer: %.600s", c.in)
	}
	o.taken = append(o.taken, now()-c.start)
	c.take(whole)
	return o.next(c)
}

// begin sends from every connection.
func (o *load) begin() error {
	o.free = o.free[:0]
	for _, c := range o.all {
		if err := o.send(c, now()); err != nil {
			return err
		}
	}
	return nil
}

// warm has every connection ask once: nobody is to connect while it counts.
func (o *load) warm(ctx context.Context) error {
	if err := o.begin(); err != nil {
		return err
	}
	if err := o.finish(ctx, now()); err != nil {
		return err
	}
	o.taken = o.taken[:0]
	return nil
}

// unanswered says that a proxy has left requests without an answer.
type unanswered struct {
	requests int
	sent     int // with those
	reached  int // the upstream, of all that were sent
	within   time.Duration
}

func (u unanswered) Error() string {
	return fmt.Sprintf("%d of %d requests have no answer after %v; %d had reached the upstream, which answers each", u.requests, u.sent, u.within, u.reached)
}

// answerWithin is how long answers are waited for beyond the end of a measurement.
const answerWithin = 5 * time.Second

// finish waits until nothing is under way, and that not long beyond the given time.
func (o *load) finish(ctx context.Context, end int64) error {
	for patience := end + int64(o.within); len(o.free) < len(o.all); {
		if err := ctx.Err(); err != nil {
			return err
		}
		if now() > patience {
			return unanswered{len(o.all) - len(o.free), o.sent, o.upstream.asked - o.before, o.within}
		}
		if err := o.turn(); err != nil {
			return err
		}
	}
	return nil
}

// closed keeps every client asking, each as soon as its last answer has come.
func (l *loop) closed(ctx context.Context, addr netip.AddrPort, request []byte, clients int, d time.Duration) ([]int64, error) {
	o, err := l.newLoad(addr, request, clients)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.warm(ctx); err != nil {
		return nil, err
	}
	end := now() + int64(d)
	stop := o.next
	o.next = func(c *client) error {
		if at := now(); at < end {
			return o.send(c, at)
		}
		o.taken = o.taken[:len(o.taken)-1] // after the end
		return stop(c)
	}
	if err := o.begin(); err != nil {
		return nil, err
	}
	err = o.finish(ctx, end)
	return o.taken, err
}

// open sends requests at random times of the given mean rate a second, whether
// or not earlier ones have been answered. What a request takes counts from the
// moment that it was due. The last are waited for: the slowest are among them.
func (l *loop) open(ctx context.Context, addr netip.AddrPort, request []byte, clients int, rate float64, d time.Duration) ([]int64, error) {
	o, err := l.newLoad(addr, request, clients)
	if err != nil {
		return nil, err
	}
	defer o.close()
	if err := o.warm(ctx); err != nil {
		return nil, err
	}
	random := rand.New(rand.NewPCG(1, 2))
	due := now()
	for end := due + int64(d); due < end; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		for len(o.free) > 0 && due <= now() {
			c := o.free[len(o.free)-1]
			o.free = o.free[:len(o.free)-1]
			if err := o.send(c, due); err != nil {
				return nil, err
			}
			due += int64(random.ExpFloat64() / rate * 1e9)
		}
		if err := o.turn(); err != nil {
			return nil, err
		}
	}
	err = o.finish(ctx, now())
	return o.taken, err
}

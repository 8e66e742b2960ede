//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// What the upstream answers: a completion at once, or a stream whose events
// each say when they were sent, as @nanoseconds@.
const (
	completion = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one two three four five six seven eight"},"logprobs":null,"finish_reason":"stop"}],"usage":{"prompt_tokens":9,"completion_tokens":8,"total_tokens":17}}`
	event      = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{"content":"@%d@"},"logprobs":null,"finish_reason":null}]}` + "\n\n"
	lastEvents = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"

	streamEvents = 10
	streamGap    = time.Millisecond
)

var answer = []byte("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(completion)) + "\r\n\r\n" + completion)

// upstream answers whoever connects.
type upstream struct {
	*poller
	listener int
	pipes    map[int]*pipe
	streams  []*stream
	asked    int // requests that have arrived
}

func newUpstream(p *poller, addr netip.AddrPort) (*upstream, error) {
	l, err := listen(addr)
	if err == nil {
		err = p.add(l)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %v: %w", addr, err)
	}
	return &upstream{poller: p, listener: l, pipes: map[int]*pipe{}}, nil
}

func (u *upstream) close() {
	unix.Close(u.listener)
	for fd := range u.pipes {
		unix.Close(fd)
	}
}

// turn deals with a socket that changed. One that fails is closed: whoever asked tells.
func (u *upstream) turn(fd int) error {
	if fd == u.listener {
		return u.accept()
	}
	if c := u.pipes[fd]; c != nil && u.respond(c) != nil {
		unix.Close(fd)
		delete(u.pipes, fd)
		u.streams = slices.DeleteFunc(u.streams, func(s *stream) bool { return s.pipe == c })
	}
	return nil
}

func listen(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := unix.Bind(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		return 0, err
	}
	return fd, unix.Listen(fd, 1024)
}

func (u *upstream) accept() error {
	for {
		fd, _, err := unix.Accept4(u.listener, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EAGAIN {
			return nil
		}
		if err == nil {
			err = errors.Join(prepare(fd), u.add(fd))
		}
		if err != nil {
			return fmt.Errorf("cannot accept: %w", err)
		}
		u.pipes[fd] = &pipe{fd: fd}
	}
}

// respond answers what has arrived on the connection.
func (u *upstream) respond(c *pipe) error {
	if err := c.flush(); err != nil {
		return err
	}
	if err := c.fill(); err != nil {
		return err
	}
	for {
		_, whole := frame(c.in)
		if whole == 0 {
			return nil
		}
		u.asked++
		if bytes.Contains(c.in[:min(whole, 2048)], []byte(`"stream":true`)) {
			u.streams = append(u.streams, &stream{pipe: c, next: now()})
		} else {
			c.out = answer // clients wait for it before they send more
			if err := c.flush(); err != nil {
				return err
			}
		}
		c.take(whole)
	}
}

// stream is one under way: events at their pace.
type stream struct {
	*pipe
	sent int
	next int64 // when the next event is due
}

// tick sends the events that are due.
func (u *upstream) tick() {
	u.streams = slices.DeleteFunc(u.streams, func(s *stream) bool { return s.tick() })
}

// tick reports whether the stream has ended. Whoever has gone closes the
// connection, which is seen there.
func (s *stream) tick() (ended bool) {
	if now() < s.next {
		return false
	}
	var text string
	if s.sent == 0 {
		text = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	}
	text += chunk(fmt.Sprintf(event, now()))
	s.sent++
	s.next += int64(streamGap)
	if s.sent == streamEvents {
		text += chunk(lastEvents) + "0\r\n\r\n"
	}
	_, err := unix.Write(s.fd, []byte(text))
	return err != nil || s.sent == streamEvents
}

func chunk(text string) string {
	return strconv.FormatInt(int64(len(text)), 16) + "\r\n" + text + "\r\n"
}

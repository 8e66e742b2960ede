//go:build linux

package main

import (
	"errors"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// poller watches sockets from one thread. Goroutines would cost about as much
// as what is measured, and are on the other side of the comparison.
type poller struct {
	fd     int
	events [128]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("cannot poll: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) close() { unix.Close(p.fd) }

// add watches for changes of the socket, which must not block.
func (p *poller) add(fd int) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET&0xffffffff, Fd: int32(fd),
	})
}

// changed returns the sockets that changed, and does not wait for any.
func (p *poller) changed() ([]unix.EpollEvent, error) {
	n, err := unix.EpollWait(p.fd, p.events[:], 0)
	if err == unix.EINTR {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot poll: %w", err)
	}
	return p.events[:n], nil
}

// dial connects a socket that does not block.
func dial(addr netip.AddrPort) (int, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return 0, err
	}
	if err := unix.Connect(fd, &unix.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		unix.Close(fd)
		return 0, fmt.Errorf("cannot connect to %v: %w", addr, err)
	}
	return fd, prepare(fd)
}

// prepare makes the socket send at once and never block.
func prepare(fd int) error {
	return errors.Join(unix.SetNonblock(fd, true), unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1))
}

// pipe is one side's buffers on a socket.
type pipe struct {
	fd  int
	in  []byte // arrived
	out []byte // not yet sent
}

var errClosed = errors.New("the connection was closed")

// flush sends as much as goes.
func (p *pipe) flush() error {
	for len(p.out) > 0 {
		n, err := unix.Write(p.fd, p.out)
		switch err {
		case nil:
			p.out = p.out[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return nil
		default:
			return err
		}
	}
	return nil
}

// fill reads what has arrived. A read that comes back short has taken all, and
// the next change is told of.
func (p *pipe) fill() error {
	for {
		if cap(p.in)-len(p.in) < 16<<10 {
			p.in = append(make([]byte, 0, max(64<<10, 2*cap(p.in))), p.in...)
		}
		free := p.in[len(p.in):cap(p.in)]
		n, err := unix.Read(p.fd, free)
		switch {
		case err == unix.EINTR:
		case err == unix.EAGAIN:
			return nil
		case err != nil:
			return err
		case n == 0:
			return errClosed
		default:
			if p.in = p.in[:len(p.in)+n]; n < len(free) {
				return nil
			}
		}
	}
}

// take drops the first n bytes that arrived.
func (p *pipe) take(n int) { p.in = p.in[:copy(p.in, p.in[n:])] }

// now is the time on a clock that all processes share, in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return t.Nano()
}

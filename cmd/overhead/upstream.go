//go:build linux

package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"runtime"
	"strconv"
	"time"

	"github.com/spf13/cobra"
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

func newUpstreamCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "upstream ADDR",
		Short: "Answer completions at once, and streams at a steady pace",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			addr, err := netip.ParseAddrPort(args[0])
			if err != nil {
				return err
			}
			return answerAll(addr)
		},
	}
}

// answerAll serves until the process ends.
func answerAll(addr netip.AddrPort) error {
	runtime.LockOSThread()
	p, err := newPoller()
	if err != nil {
		return err
	}
	l, err := listen(addr)
	if err != nil {
		return fmt.Errorf("cannot listen on %v: %w", addr, err)
	}
	if err := p.add(l); err != nil {
		return err
	}
	pipes := map[int]*pipe{}
	for {
		events, err := p.wait(-1)
		if err != nil {
			return err
		}
		for _, e := range events {
			if int(e.Fd) == l {
				if err := accept(p, l, pipes); err != nil {
					return err
				}
			} else if c := pipes[int(e.Fd)]; c != nil && respond(c) != nil {
				unix.Close(c.fd)
				delete(pipes, c.fd)
			}
		}
	}
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

func accept(p *poller, l int, pipes map[int]*pipe) error {
	for {
		fd, _, err := unix.Accept4(l, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
		if err == unix.EAGAIN {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot accept: %w", err)
		}
		if err := prepare(fd); err != nil {
			return err
		}
		pipes[fd] = &pipe{fd: fd}
		if err := p.add(fd); err != nil {
			return err
		}
	}
}

// respond answers what has arrived on the connection.
func respond(c *pipe) error {
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
		if bytes.Contains(c.in[:min(whole, 2048)], []byte(`"stream":true`)) {
			if err := stream(c.fd); err != nil {
				return err
			}
		} else {
			c.out = answer // clients wait for it before they send more
			if err := c.flush(); err != nil {
				return err
			}
		}
		c.take(whole)
	}
}

// stream sends events at their pace. It holds the loop: streams are measured
// one at a time.
func stream(fd int) error {
	start := now()
	text := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	for i := range streamEvents {
		pause := unix.NsecToTimespec(start + int64(i)*int64(streamGap) - now())
		if pause.Nano() > 0 {
			_ = unix.Nanosleep(&pause, nil)
		}
		text += chunk(fmt.Sprintf(event, now()))
		if _, err := unix.Write(fd, []byte(text)); err != nil {
			return err
		}
		text = ""
	}
	_, err := unix.Write(fd, []byte(chunk(lastEvents)+"0\r\n\r\n"))
	return err
}

func chunk(text string) string {
	return strconv.FormatInt(int64(len(text)), 16) + "\r\n" + text + "\r\n"
}

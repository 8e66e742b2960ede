//go:build unix

package backend

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"syscall"
	"testing"
)

// What a server says on a connection that waits, or its end, is nobody's answer.
func TestPlainTakesNothingLateForAnAnswer(t *testing.T) {
	for name, late := range map[string]string{
		"closed":          "",
		"closed, and why": "HTTP/1.1 408 Request Timeout\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}",
		"another's":       "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{\"old\":1}",
	} {
		t.Run(name, func(t *testing.T) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			answered, heard := make(chan struct{}), make(chan int, 9)
			go func() {
				for n := 0; ; n++ {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					in := bufio.NewReader(conn)
					if _, err := hear(in); err == nil {
						heard <- n
						_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
					}
					if n == 0 {
						<-answered
						_, _ = io.WriteString(conn, late)
						if late != "" { // it waits for the router's end, so that none of it is thrown away
							_, _ = in.ReadByte()
						}
					}
					conn.Close()
				}
			}()
			var conns []net.Conn
			p := newPlain(func(ctx context.Context, network, addr string) (net.Conn, error) {
				conn, err := new(net.Dialer).DialContext(ctx, network, addr)
				conns = append(conns, conn)
				return conn, err
			}, carrierTo(l.Addr().String()))
			defer p.CloseIdleConnections()
			for i := range 2 {
				r := plainRequest(t.Context(), "{}")
				r.GetBody = nil // what is sent again could hide it
				status, _, body, err := whole(p, r)
				if err != nil || status != http.StatusOK || body != "{}" {
					t.Fatalf("request %d: status %d, %q, %v", i, status, body, err)
				}
				if i == 0 {
					close(answered)
					arrived(t, conns[0])
				}
				if n := <-heard; n != i {
					t.Errorf("request %d came on connection %d", i, n)
				}
			}
		})
	}
}

// arrived waits until something has come on the connection, and leaves it there.
func arrived(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK)
		return err != syscall.EAGAIN
	}); err != nil {
		t.Fatal(err)
	}
}

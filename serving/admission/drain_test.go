//go:build linux

package admission

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Those who have connected before the end are accepted, and nobody after it.
func TestEndLosesNobody(t *testing.T) {
	for _, waits := range []bool{false, true} { // for a connection, when it ends
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := NewDrainListener(inner)
		accepted, ended := make(chan net.Conn, 16), make(chan error, 1)
		accept := func() {
			for {
				c, err := l.Accept()
				if err != nil {
					ended <- err
					return
				}
				accepted <- c
			}
		}
		const clients = 10
		if waits {
			go accept()
			dial(t, l)
			(<-accepted).Close()
		} else {
			for range clients {
				c := dial(t, l)
				if _, err := io.WriteString(c, "request"); err != nil {
					t.Fatal(err)
				}
			}
		}
		l.End()
		if !waits {
			go accept()
			for range clients {
				c := <-accepted
				text := make([]byte, len("request"))
				if _, err := io.ReadFull(c, text); err != nil || string(text) != "request" {
					t.Errorf("%q, %v", text, err)
				}
				c.Close()
			}
		}
		if err := <-ended; !errors.Is(err, net.ErrClosed) {
			t.Errorf("it ended with %v", err)
		}
		if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
			c.Close()
			t.Error("it takes connections after the end")
		}
	}
}

func dial(t *testing.T, l *DrainListener) net.Conn {
	t.Helper()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestWrapLeavesOtherListeners(t *testing.T) {
	l, err := net.Listen("unix", t.TempDir()+"/socket")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if NewDrainListener(l) != nil {
		t.Error("a listener that is none of TCP was wrapped")
	}
}

// However many connect as the listener ends, who has connected is accepted: a client is either
// refused or answered.
func TestEndUnderLoad(t *testing.T) {
	for range 5 {
		inner, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		l := NewDrainListener(inner)
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer c.Close()
					var b [1]byte
					if _, err := c.Read(b[:]); err == nil {
						_, _ = c.Write(b[:])
					}
				}()
			}
		}()
		var clients sync.WaitGroup
		var answered atomic.Int64
		for range 8 {
			clients.Go(func() {
				for {
					c, err := net.DialTimeout("tcp", l.Addr().String(), 300*time.Millisecond)
					if err != nil {
						return
					}
					b := [1]byte{'x'}
					if _, err = c.Write(b[:]); err == nil {
						_, err = c.Read(b[:])
					}
					c.Close()
					if err != nil {
						t.Error(err)
						return
					}
					answered.Add(1)
				}
			})
		}
		for answered.Load() < 100 {
			time.Sleep(time.Millisecond)
		}
		l.End()
		clients.Wait()
	}
}

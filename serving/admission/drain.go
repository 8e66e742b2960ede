package admission

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"time"
)

// DrainListener is a TCP listener that ends without losing who has connected already. A system
// completes connections before a server accepts them, and resets those that have not been accepted
// when the listener closes: their clients may have sent a request, which is lost.
type DrainListener struct {
	*net.TCPListener
	ending atomic.Bool
}

// NewDrainListener makes a DrainListener of a TCP listener. It returns nil for others.
func NewDrainListener(l net.Listener) *DrainListener {
	if tcp, ok := l.(*net.TCPListener); ok {
		return &DrainListener{TCPListener: tcp}
	}
	return nil
}

// settles is how long connections that have been begun may take to be complete.
const settles = 100 * time.Millisecond

// End has Accept return the connections that have been begun, and then close the listener and
// fail. New ones are refused meanwhile, where the system allows it. It does not wait.
func (l *DrainListener) End() {
	if raw, err := l.SyscallConn(); err == nil {
		_ = raw.Control(refuseNew)
	}
	l.ending.Store(true)
	_ = l.SetDeadline(time.Now().Add(settles))
}

// Accept implements [net.Listener]. After End the error is [net.ErrClosed].
func (l *DrainListener) Accept() (net.Conn, error) {
	c, err := l.TCPListener.Accept()
	if err == nil || !l.ending.Load() || !errors.Is(err, os.ErrDeadlineExceeded) {
		return c, err
	}
	if c := l.complete(); c != nil {
		return c, nil
	}
	_ = l.Close()
	return nil, net.ErrClosed
}

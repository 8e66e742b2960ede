package failover

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"time"

	"gearshift/router/control"
	"gearshift/serving/engines/address"
)

// asking bounds a question to an engine that has not been heard.
const asking = 250 * time.Millisecond

// ask asks the servers of a host whether they are there, without waiting for it: the heartbeats of
// its agent do not come, or its connection broke. That a process answers is a sign of life that does
// not depend on the agent's connections, and a port that refuses shows that it is gone.
func (m *Module) ask(host int) {
	for _, replica := range m.evidence.all[host] {
		m.asks.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), asking)
			defer cancel()
			began := m.clock()
			err := m.greet(ctx, m.evidence.addresses[replica])
			e := control.Event{At: m.clock(), Kind: control.ProbePassed, Replica: replica, Host: host, Began: began}
			if errors.Is(err, syscall.ECONNREFUSED) {
				e.Kind = control.Refused
			} else if err != nil {
				return // which says nothing: heartbeats are waited for
			}
			m.engines.Observe(e, true)
		})
	}
}

// greet sends a request and waits for the first bytes of the answer. A process that is about to end
// may accept a connection that it then closes: it is asked again.
func (m *Module) greet(ctx context.Context, address string) (err error) {
	for range 3 {
		if err = m.greetOnce(ctx, address); err == nil || errors.Is(err, syscall.ECONNREFUSED) || ctx.Err() != nil {
			break
		}
	}
	return err
}

// errGateway is the answer of something else than the engine.
var errGateway = errors.New("a server error, as of a proxy before the engine")

func (m *Module) greetOnce(ctx context.Context, address string) error {
	conn, err := m.options.Dial(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	if end, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(end)
	}
	if _, err := io.WriteString(conn, "HEAD /health HTTP/1.0\r\n\r\n"); err != nil {
		return err
	}
	var status [len("HTTP/1.0 2")]byte
	if _, err := io.ReadFull(conn, status[:]); err != nil {
		return err
	}
	if status[len(status)-1] >= '5' {
		return errGateway
	}
	return nil
}

func dial(ctx context.Context, network, at string) (net.Conn, error) {
	return address.Dialer(new(net.Dialer).DialContext)(ctx, network, at)
}

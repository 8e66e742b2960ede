package streams

import (
	"context"
	"io"
	"net/http"
)

// connection carries the messages of one client, over whatever transport.
type connection interface {
	// listen hands each message to take, JSON (text) or a frame, until the client has gone or take refuses one. Take reads
	// the message to its end. Frames may be taken at the same time as JSON.
	listen(take func(text bool, r io.Reader) error)
	// send sends a message, whose JSON is text.
	send(ctx context.Context, d *Down, text []byte) error
	// close ends the connection once the client has what it was sent, or does not take it.
	close(s status)
	// abort ends the connection at once.
	abort()
}

// status is the code with which a connection is closed: that of WebSockets (RFC 6455), whatever the transport. 0 is none.
type status int

const (
	statusEnding   status = 1001 // the router is
	statusWrong    status = 1008 // what the client said, or that it said nothing
	statusTooLarge status = 1009
	statusFull     status = 1013 // try again later
)

// accept answers a client that comes by one of the transports, or says what is wrong. Pinged is called when it pings, and reports whether it is to be answered.
func (m *Module) accept(w http.ResponseWriter, r *http.Request, pinged func() bool) (connection, error) {
	if r.Method == http.MethodConnect {
		return m.acceptWebTransport(w, r)
	}
	return acceptWebSocket(w, r, pinged)
}

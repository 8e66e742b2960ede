// Package picker chooses endpoints for a gateway, such as Envoy, by the external processor's protocol (ext_proc) as the
// Endpoint Picker Protocol of the Gateway API Inference Extension uses it. A gateway's request passes the router's own
// handlers. Where these would send it to a replica, the gateway does (see [proxy.Carrier]). So queue, keys, ledger,
// health, experience and metrics treat it like a request that comes to the router directly.
package picker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/experimental"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"gearshift/serving/openai/proxy"
)

// Options connect a [Picker] to its server. All except Passes and Credentials are required.
type Options struct {
	// Handler serves the endpoints of the clients' port.
	Handler http.Handler
	// Replicas counts the replicas, and Address returns a replica's IP:PORT; empty if it cannot be reached now.
	Replicas int
	Address  func(replica int) string
	// Passes reports whether requests to a path that the handler does not know go to a replica. Nil: none.
	Passes func(path string) bool
	// Unready returns why the router should get no requests, or "".
	Unready func() string
	// Credentials encrypt connections. Nil: no encryption.
	Credentials credentials.TransportCredentials
	Log         *slog.Logger
}

// Picker is an external processor. Its methods may be called from any goroutine.
type Picker struct {
	pb.UnimplementedExternalProcessorServer
	Options
	server   *grpc.Server
	health   *health
	metrics  *pickerMetrics
	answered atomic.Bool // a gateway has shown an answer
	lines    *rate.Limiter
}

// New makes a Picker.
func New(o Options) *Picker { return newPicker(o, newMetrics()) }

func newPicker(o Options, m *pickerMetrics) *Picker {
	p := &Picker{Options: o, metrics: m, lines: rate.NewLimiter(rate.Every(time.Minute), 1)}
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(mostMessage), grpc.ReadBufferSize(connectionBuffer), grpc.WriteBufferSize(connectionBuffer), experimental.BufferPool(buffers),
		// A gateway multiplexes all requests on few connections.
		grpc.MaxConcurrentStreams(1 << 20), grpc.InitialWindowSize(streamWindow), grpc.InitialConnWindowSize(connectionWindow),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
	}
	if o.Credentials != nil {
		options = append(options, grpc.Creds(o.Credentials))
	}
	p.server = grpc.NewServer(options...)
	p.health = newHealth(o.Unready)
	pb.RegisterExternalProcessorServer(p.server, p)
	p.health.register(p.server)
	reflection.Register(p.server)
	return p
}

const (
	// mostMessage bounds a message of a gateway: a chunk of a body, and the header.
	mostMessage = 16 << 20
	// The flow-control windows of HTTP/2 exceed Envoy's chunks, so that gateways can send ahead.
	streamWindow, connectionWindow = 1 << 20, 4 << 20
)

// connectionBuffer sizes a connection's buffers: two pieces of a body per system call.
const connectionBuffer = 128 << 10

// buffers hold messages, in sizes for pieces of bodies. In gRPC's default pool a piece of 62,000 bytes takes a buffer
// of 1 MiB, which is cleared each time.
var buffers = func() mem.BufferPool {
	pool, err := mem.NewBinaryTieredBufferPool(8, 10, 12, 14, 15, 16, 17, 20)
	if err != nil { // the sizes are powers of two
		panic(err)
	}
	return pool
}()

// Serve answers gateways until the context ends, then finishes open streams for up to within, and closes l.
func (p *Picker) Serve(ctx context.Context, l net.Listener, within func() time.Duration) error {
	watching, stop := context.WithCancel(context.Background())
	defer stop()
	go p.health.watch(watching)
	failed := make(chan error, 1)
	go func() { failed <- p.server.Serve(l) }()
	select {
	case err := <-failed:
		return fmt.Errorf("cannot serve gateways on %q: %w", l.Addr(), err)
	case <-ctx.Done():
	}
	late := time.AfterFunc(within(), p.server.Stop)
	defer late.Stop()
	p.server.GracefulStop()
	<-failed
	return nil
}

// Process implements the external processor's service: one stream is one request.
func (p *Picker) Process(stream pb.ExternalProcessor_ProcessServer) (err error) {
	first, err := stream.Recv()
	if err != nil {
		return nil // an empty stream
	}
	ctx, cancel := context.WithCancelCause(stream.Context())
	defer cancel(nil)
	x := &exchange{picker: p, stream: stream, frames: make(chan frame, framesAhead), config: first.ProtocolConfig, hint: first.MetadataContext, cancel: cancel, late: deadline{over: make(chan struct{})}}
	defer x.late.set(time.Time{})
	r, err := x.request(proxy.WithCarrier(ctx, x), first)
	if err != nil {
		p.metrics.exchanges.WithLabelValues(resultMalformed).Inc()
		if p.lines.Allow() {
			p.Log.Warn("cannot answer a gateway", "error", status.Convert(err).Message())
		}
		return err
	}
	go x.receive(ctx)
	defer func() {
		value := recover()
		switch {
		case value == nil:
		case value == http.ErrAbortHandler: // part of an answer has gone out, and the rest will not come
			err = status.Error(codes.Aborted, "the answer broke off")
		default:
			p.Log.Error("panic", "value", value, "path", r.URL.Path, "stack", string(debug.Stack()))
			err = status.Error(codes.Internal, "the router failed on this request; its log says why")
		}
		p.metrics.exchanges.WithLabelValues(x.result(err)).Inc()
	}()
	w := &writer{exchange: x, header: http.Header{}}
	p.Handler.ServeHTTP(w, r)
	return w.finish()
}

// errLeft reports that the gateway has reset the request's stream.
var errLeft = errors.New("the gateway ended the stream")

package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync/atomic"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/engines"
	"gearshift/serving/engines/agents"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/proxy"
)

// upstream is where a replica answers, for now.
type upstream struct {
	replica string
	current atomic.Pointer[backend.Upstream]
	address atomic.Pointer[string]
}

// slot is the upstream of a replica whose engines come and go. Without an engine it has no address.
type slot struct {
	upstream
	count  uint64        // of engines so far
	engine atomic.Uint64 // number of the present engine; 0: none
}

// enter makes another engine answer from now on, and leave removes it. Calls come one at a time.
func (u *slot) enter(next *backend.Upstream) {
	u.use(next)
	u.count++
	u.engine.Store(u.count)
}

func (u *slot) leave() {
	u.engine.Store(0)
	u.use(nil)
}

// Engine implements [engines.Slot].
func (u *slot) Engine() uint64 { return u.engine.Load() }

var _ interface {
	engines.Server
	serving.Forwarder
	agents.Engine
	gauges.Reader
	proxy.Preparer
} = (*upstream)(nil)

var _ engines.Slot = (*slot)(nil)

// errAbsent fails requests to a slot without an engine, like a connection that is refused.
var errAbsent = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("the slot has no engine")}

// RoundTrip implements [http.RoundTripper]. A request ends where it began.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	if b := u.current.Load(); b != nil {
		return b.RoundTrip(r)
	}
	return nil, errAbsent
}

// Get implements [engines.Server].
func (u *upstream) Get(ctx context.Context, path string) (*http.Response, error) {
	return u.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Read implements [gauges.Reader].
func (u *upstream) Read(ctx context.Context, path string) (*http.Response, error) {
	if b := u.current.Load(); b != nil {
		return b.Read(ctx, path)
	}
	return nil, errAbsent
}

// Ask implements [agents.Engine].
func (u *upstream) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	if b := u.current.Load(); b != nil {
		return b.Ask(ctx, method, path, header, body)
	}
	return nil, errAbsent
}

// Prepare implements [proxy.Preparer].
func (u *upstream) Prepare(r *http.Request) (to url.URL, h http.Header, ok bool) {
	if b := u.current.Load(); b != nil {
		return b.Prepare(r)
	}
	return url.URL{}, nil, false
}

// Base implements [engines.Server].
func (u *upstream) Base() *url.URL {
	if b := u.current.Load(); b != nil {
		return b.Base()
	}
	return &url.URL{}
}

// API returns where its OpenAI endpoints lie.
func (u *upstream) API() *url.URL {
	if b := u.current.Load(); b != nil {
		return b.API()
	}
	return &url.URL{}
}

// ForwardsAuthorization implements [serving.Forwarder].
func (u *upstream) ForwardsAuthorization() bool {
	b := u.current.Load()
	return b != nil && b.ForwardsAuthorization()
}

// remote is the transport of a replica in another process: an [upstream] or a [slot].
type remote interface {
	http.RoundTripper
	at() *upstream
}

func (u *upstream) at() *upstream { return u }

// Address returns the server's address, host:port; empty without a server.
func (u *upstream) Address() string {
	if at := u.address.Load(); at != nil {
		return *at
	}
	return ""
}

// use has requests from now on go elsewhere.
func (u *upstream) use(next *backend.Upstream) {
	at := ""
	if next != nil {
		at = engines.AddressOf(next)
	}
	u.address.Store(&at)
	if before := u.current.Swap(next); before != nil {
		before.Close()
	}
}

// upstreamConfig returns that of a replica's server, with the time to connect.
func upstreamConfig(s *scenario.Scenario, endpoint scenario.Endpoint) backend.UpstreamConfig {
	config := endpoint.UpstreamConfig
	config.ConnectTimeout = endpoint.Timeouts.Or(s.Serving.Server.Timeouts.PhaseTimeouts).Connect
	return config
}

// upstreamsOf returns the transports of backends that are elsewhere.
func upstreamsOf(backends []serving.Backend) (list []*upstream) {
	for _, b := range backends {
		if u, ok := b.Transport.(remote); ok {
			list = append(list, u.at())
		}
	}
	return list
}

// newUpstreams makes what answers for each replica, elsewhere.
func newUpstreams(s *scenario.Scenario, t *fleet.Table) (list []remote, closeAll func(), err error) {
	closeAll = func() {
		for _, u := range list {
			if b := u.at().current.Load(); b != nil {
				b.Close()
			}
		}
	}
	slots := s.Slots()
	for _, r := range t.Replicas {
		if _, comes := slots[r.Name]; comes {
			list = append(list, &slot{upstream: upstream{replica: r.Name}})
			continue
		}
		b, err := backend.NewUpstream(upstreamConfig(s, s.Serving.Upstreams[r.Name]))
		if err != nil {
			closeAll()
			return nil, nil, fmt.Errorf("replica %s: %w", r.Name, err)
		}
		u := &upstream{replica: r.Name}
		u.use(b)
		list = append(list, u)
	}
	return list, closeAll, nil
}

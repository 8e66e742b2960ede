package app

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"sync/atomic"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/engines"
	"gearshift/serving/engines/agents"
	"gearshift/serving/openai/proxy"
)

// upstream is where a replica answers, for now.
type upstream struct {
	replica string
	current atomic.Pointer[backend.Upstream]
	address atomic.Pointer[string]
}

var _ interface {
	engines.Server
	serving.Forwarder
	agents.Engine
	proxy.Preparer
} = (*upstream)(nil)

// RoundTrip implements [http.RoundTripper]. A request ends where it began.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.current.Load().RoundTrip(r)
}

// Get implements [engines.Server].
func (u *upstream) Get(ctx context.Context, path string) (*http.Response, error) {
	return u.current.Load().Get(ctx, path)
}

// Ask implements [agents.Engine].
func (u *upstream) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	return u.current.Load().Ask(ctx, method, path, header, body)
}

// Prepare implements [proxy.Preparer].
func (u *upstream) Prepare(r *http.Request) (to url.URL, h http.Header) {
	return u.current.Load().Prepare(r)
}

// Base implements [engines.Server].
func (u *upstream) Base() *url.URL { return u.current.Load().Base() }

// API returns where its OpenAI endpoints lie.
func (u *upstream) API() *url.URL { return u.current.Load().API() }

// ForwardsAuthorization implements [serving.Forwarder].
func (u *upstream) ForwardsAuthorization() bool { return u.current.Load().ForwardsAuthorization() }

// Address returns where its server is reached, host:port.
func (u *upstream) Address() string { return *u.address.Load() }

// use has requests from now on go elsewhere.
func (u *upstream) use(next *backend.Upstream) {
	at := engines.AddressOf(next)
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
		if u, ok := b.Transport.(*upstream); ok {
			list = append(list, u)
		}
	}
	return list
}

// newUpstreams makes what answers for each replica, elsewhere.
func newUpstreams(s *scenario.Scenario, t *fleet.Table) (list []*upstream, closeAll func(), err error) {
	closeAll = func() {
		for _, u := range list {
			u.current.Load().Close()
		}
	}
	for _, r := range t.Replicas {
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

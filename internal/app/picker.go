package app

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"

	"golang.org/x/sync/errgroup"

	"gearshift/internal/scenario"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/engines/address"
	"gearshift/serving/picker"
)

// newPicker returns the module that picks endpoints for gateways; nil if it is off.
func (x *assembly) newPicker() (*picker.Module, error) {
	c := *scenario.Of[picker.Config](x.s)
	c.Addr = cmp.Or(x.o.ExtProc, c.Addr)
	if !c.On() {
		if x.config.Addr == config.AdminOff {
			return nil, fmt.Errorf("--addr %s leaves no port for requests; want --extproc ADDR for a gateway", config.AdminOff)
		}
		if c.TLS != "" || len(c.Pass) > 0 {
			x.log.Warn("no gateway can ask where requests go: serving.picker has no addr", "want", "addr, or --extproc ADDR")
		}
		return nil, nil
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("serving.picker.%w", err)
	}
	if x.s.Serving.Backend != scenario.Upstream {
		return nil, fmt.Errorf("a gateway cannot reach engines of serving.backend: %s, which are within the router; want %s", x.s.Serving.Backend, scenario.Upstream)
	}
	backends := slices.Clone(x.options.Backends)
	engine := func(replica int) *upstream { return backends[replica].Transport.(remote).at() }
	at := func(replica int) string { return engine(replica).Address() }
	for i, r := range x.routing.core.Table().Replicas {
		if at := at(i); at != "" && !picker.Reachable(at) {
			return nil, fmt.Errorf("replica %s: a gateway sends to addresses IP:PORT alone, not to names or sockets, and its engine is at %s; want http://IP:PORT in serving.upstreams", r.Name, address.Readable(engine(i).Base().String()))
		}
	}
	return picker.NewModule(c, len(backends), at, x.log), nil
}

// listenForGateways listens for gateways, and returns the function that serves them; nil without a picker.
func (x *assembly) listenForGateways(ctx context.Context) (serve func(context.Context) error, err error) {
	if x.picker == nil {
		return nil, nil
	}
	return x.picker.Listen(ctx)
}

// serveClients serves the clients' port, and gateways for as long as that takes connections. Then both finish their
// requests.
func serveClients(ctx context.Context, server *serving.Server, clients net.Listener, gateways func(context.Context) error) error {
	if gateways == nil {
		return server.Serve(ctx, clients)
	}
	both, ctx := errgroup.WithContext(ctx)
	ends, end := context.WithCancel(context.WithoutCancel(ctx))
	both.Go(func() error {
		defer end()
		return server.Serve(ctx, clients)
	})
	both.Go(func() error { return gateways(ends) })
	both.Go(func() error {
		select {
		case <-server.Closing():
			end()
		case <-ends.Done():
		}
		return nil
	})
	return both.Wait()
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"gearshift/internal/scenario"
	"gearshift/serving/config"
	"gearshift/serving/config/setting"
	"gearshift/serving/engineserver"
)

// agentOptions are the flags of engine that are of the router that it reports to.
type agentOptions struct {
	router, tokenEnv, host string
	first                  string // of the routers
	loaders                int
	limit                  scenario.Bytes
	token                  string // from the environment
}

// flags adds them.
func (o *agentOptions) flags(f *pflag.FlagSet) {
	f.StringVar(&o.router, "agent", "", "`URL` of a router's admin listener, to report to for failover, or of several, by commas, of which one acts (default: none)")
	f.StringVar(&o.tokenEnv, "token-env", config.DefaultAdmin().FleetTokenEnv, "environment `VARIABLE` with the fleet's token, which --agent shares with the router")
	f.StringVar(&o.host, "agent-host", "", "`NAME` of this engine's host in the router's scenario (default: a scenario's host, or this machine's name)")
	f.TextVar(&o.limit, "fetch-limit", scenario.Bytes(0), "`SIZE` of the files of a model that --agent fetches, at most (default: --memory, else 16GiB)")
	f.IntVar(&o.loaders, "loaders", 0, "models that may be loaded at the same time (default: 1, with --agent 10)")
}

// The models that may be loaded at the same time, by default and with an agent: after a failure
// many are wanted at once, and small ones must not wait for large ones.
const (
	oneLoader   = 1
	manyLoaders = 10
	mostLoaders = 64
)

// check reads the token, and refuses flags that need a router where there is none.
func (o *agentOptions) check(changed func(string) bool) error {
	switch {
	case changed("loaders") && (o.loaders < 1 || o.loaders > mostLoaders):
		return fmt.Errorf("--loaders %d: want 1 to %d", o.loaders, mostLoaders)
	case o.router == "" && changed("token-env"):
		return errors.New("--token-env is for --agent URL")
	case o.router == "" && changed("agent-host"):
		return errors.New("--agent-host is for --agent URL")
	case o.router == "" && changed("fetch-limit"):
		return errors.New("--fetch-limit is for --agent URL")
	}
	if o.loaders == 0 {
		o.loaders = oneLoader
		if o.router != "" {
			o.loaders = manyLoaders
		}
	}
	if o.router == "" {
		return nil
	}
	routers, err := engineserver.ParseRouters(o.router)
	if err != nil {
		return fmt.Errorf("--agent: %w", err)
	}
	o.first = routers[0].String()
	if o.token, err = setting.Key(o.tokenEnv, "the fleet's token, which the router has too"); err != nil {
		return fmt.Errorf("--token-env: %w", err)
	}
	return nil
}

// configure has the server follow the router. Models come into the folder, if there is one.
func (o *agentOptions) configure(c *engineserver.Config, folder string) {
	c.Loaders = o.loaders
	if o.router == "" {
		return
	}
	c.Fence = &engineserver.Fence{Secret: o.token}
	if folder != "" {
		fetcher := &engineserver.Fetcher{Router: o.router, Token: o.token, Dir: folder, Limit: cmp.Or(int64(o.limit), c.Memory), Log: c.Log, Client: &http.Client{
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		}}
		c.Fetch = fetcher.Fetch
	}
}

// serve serves until the context ends, and meanwhile reports to the router, if there is one. The
// router hears of the end before the server takes no more requests.
func (o *agentOptions) serve(ctx context.Context, c engineserver.Config, server *engineserver.Server, listener net.Listener, host string) error {
	if o.router == "" {
		return server.Serve(ctx, listener)
	}
	reachable, err := reachableURL(ctx, listener.Addr(), o.first)
	if err != nil {
		return err
	}
	a, err := engineserver.NewAgent(engineserver.AgentConfig{
		Router: o.router, Token: o.token, Host: host, Version: version, Incarnation: uint64(time.Now().UnixMicro()),
		URL: reachable, Memory: c.Memory, Loaded: server.Loaded, Term: c.Fence, Log: c.Log,
	})
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	group.Go(func() error {
		defer end()
		if err := a.Run(ctx); err != nil {
			return fmt.Errorf("--agent %s, host %s: %w", o.router, host, err)
		}
		return nil
	})
	group.Go(func() error { return server.Serve(serving, listener) })
	return group.Wait()
}

// hostName is what the router knows the host by: what the flag says, the scenario's name, or
// this machine's.
func (o *agentOptions) hostName(scenario string) (string, error) {
	if o.router == "" || o.host != "" {
		return o.host, nil
	}
	if scenario != "" {
		return scenario, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("this machine has no name; want --agent-host NAME: %w", err)
	}
	return name, nil
}

// reachableURL is where the router reaches the listener: one on all addresses by that from
// which the router is reached.
func reachableURL(ctx context.Context, at net.Addr, router string) (string, error) {
	host, port, err := net.SplitHostPort(at.String())
	if err != nil {
		return "", err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		u, err := url.Parse(router)
		if err != nil {
			return "", err
		}
		to := u.Port()
		if to == "" {
			to = u.Scheme // which is a service's name too
		}
		// UDP sends nothing when it connects.
		c, err := (&net.Dialer{}).DialContext(ctx, "udp", net.JoinHostPort(u.Hostname(), to))
		if err != nil {
			return "", fmt.Errorf("--agent %s: %w", router, err)
		}
		host, _, err = net.SplitHostPort(c.LocalAddr().String())
		_ = c.Close()
		if err != nil {
			return "", err
		}
	}
	return "http://" + net.JoinHostPort(host, port), nil
}

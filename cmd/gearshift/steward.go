package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync/atomic"

	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/workloads"
)

// steward sees to the scenario's file and the store of policies of a router that
// runs. It implements [serving.Steward].
type steward struct {
	options serveOptions
	now     *scenario.Scenario // what is in force
	core    *router.Core
	maker   *policy.Maker
	source  *policies.Source
	log     *slog.Logger
	level   *slog.LevelVar // of the log
	// upstreams are by replica, none with simulated backends.
	upstreams []*upstream
	// seen is the identity of the stored policy that was last found to be wanted.
	seen string
}

func newSteward(o serveOptions, s *scenario.Scenario, core *router.Core, log *slog.Logger) (*steward, error) {
	source, err := newPolicySource(o.store, o.engine)
	if err != nil {
		return nil, err
	}
	maker, err := s.Maker(core.Table())
	if err != nil {
		return nil, err
	}
	return &steward{options: o, now: s, core: core, maker: maker, source: source, log: log}, nil
}

// config is the scenario's configuration of the server, with the command's flags.
func (o serveOptions) config(s *scenario.Scenario) serving.Config {
	config := s.Serving.Config()
	if o.addr != "" {
		config.Addr = o.addr
	}
	if o.admin != "" {
		config.Admin.Addr = o.admin
	}
	if o.keys != "" {
		config.KeysFile = o.keys
	}
	return config
}

// Files implements [serving.Steward].
func (w *steward) Files() []string {
	var list []string
	if !slices.Contains(workloads.ScenarioNames(), w.options.scenario) {
		list = append(list, w.options.scenario)
	}
	if !policy.IsRule(w.options.policy) {
		list = append(list, w.options.store)
	}
	return list
}

// Reread implements [serving.Steward].
func (w *steward) Reread() (serving.Change, error) {
	next, err := scenario.Load(w.options.scenario)
	if err != nil {
		return serving.Change{}, err
	}
	change := serving.Change{Config: w.options.config(next), Left: w.now.Differences(next)}
	moved, err := w.moved(next, &change)
	if err != nil {
		return serving.Change{}, err
	}
	change.Commit = func() {
		// What takes a restart stays what it was, for the next comparison.
		inForce := *w.now
		inForce.Serving.Server.Timeouts = next.Serving.Server.Timeouts
		inForce.Serving.Server.Overload = next.Serving.Server.Overload
		w.core.SetGate(gate(&inForce))
		w.level.Set(next.Serving.Server.Log.Least())
		inForce.Serving.Upstreams = maps.Clone(w.now.Serving.Upstreams)
		for i, u := range moved {
			w.upstreams[i].use(u)
			endpoint := inForce.Serving.Upstreams[w.upstreams[i].replica]
			endpoint.UpstreamConfig = next.Serving.Upstreams[w.upstreams[i].replica].UpstreamConfig
			inForce.Serving.Upstreams[w.upstreams[i].replica] = endpoint
		}
		w.now = &inForce
	}
	return change, nil
}

// moved makes the upstreams anew that are elsewhere than before.
func (w *steward) moved(next *scenario.Scenario, change *serving.Change) (map[int]*backend.Upstream, error) {
	made := map[int]*backend.Upstream{}
	for _, key := range []string{"variants", "hosts", "replicas", "serving.backend"} {
		if slices.Contains(change.Left, key) {
			return made, nil // the replicas are others
		}
	}
	if !w.sharesAlike(next) {
		change.Left = append(change.Left, "serving.upstreams")
		return made, nil
	}
	for i, u := range w.upstreams {
		name := u.replica
		was, is := w.now.Serving.Upstreams[name], next.Serving.Upstreams[name]
		if was.Model != is.Model {
			change.Left = append(change.Left, "serving.upstreams."+name+".model")
		}
		if was.Timeouts != is.Timeouts {
			change.Left = append(change.Left, "serving.upstreams."+name+".timeouts")
			is.Timeouts = was.Timeouts
		}
		config := upstreamConfig(next, is)
		if config == upstreamConfig(w.now, was) {
			continue
		}
		var err error
		if made[i], err = backend.NewUpstream(config); err != nil {
			return nil, fmt.Errorf("replica %s: %w", name, err)
		}
		change.Applied = append(change.Applied, "serving.upstreams."+name)
	}
	return made, nil
}

// sharesAlike says whether the replicas that share a server in one scenario do so
// in the other: probes ask a server once for all of its replicas.
func (w *steward) sharesAlike(next *scenario.Scenario) bool {
	for _, part := range []func(*url.URL) string{(*url.URL).String, (*url.URL).Hostname, func(u *url.URL) string { return u.Host }} {
		pairs := map[[2]string]bool{}
		var each [2]map[string]bool
		each[0], each[1] = map[string]bool{}, map[string]bool{}
		for _, u := range w.upstreams {
			var pair [2]string
			for i, s := range []*scenario.Scenario{w.now, next} {
				if base, err := url.Parse(s.Serving.Upstreams[u.replica].URL); err == nil { // which the check has tried
					pair[i] = part(base)
				}
				each[i][pair[i]] = true
			}
			pairs[pair] = true
		}
		if len(pairs) != len(each[0]) || len(pairs) != len(each[1]) {
			return false
		}
	}
	return true
}

// upstream is where a replica answers, for now.
type upstream struct {
	replica string
	current atomic.Pointer[backend.Upstream]
}

var _ interface {
	serving.Prober
	serving.Forwarder
} = (*upstream)(nil)

// RoundTrip implements [http.RoundTripper]. A request ends where it began.
func (u *upstream) RoundTrip(r *http.Request) (*http.Response, error) {
	return u.current.Load().RoundTrip(r)
}

// Get implements [serving.Prober].
func (u *upstream) Get(ctx context.Context, path string) (*http.Response, error) {
	return u.current.Load().Get(ctx, path)
}

// Base implements [serving.Prober].
func (u *upstream) Base() *url.URL { return u.current.Load().Base() }

// ForwardsAuthorization implements [serving.Forwarder].
func (u *upstream) ForwardsAuthorization() bool { return u.current.Load().ForwardsAuthorization() }

// use has requests from now on go elsewhere.
func (u *upstream) use(next *backend.Upstream) {
	if before := u.current.Swap(next); before != nil {
		before.Close()
	}
}

// upstreamConfig is that of a replica's server, with the time to connect.
func upstreamConfig(s *scenario.Scenario, endpoint scenario.Endpoint) backend.UpstreamConfig {
	config := endpoint.UpstreamConfig
	config.ConnectTimeout = endpoint.Timeouts.Or(s.Serving.Server.Timeouts.PhaseTimeouts).Connect
	return config
}

// upstreamsOf are the transports of backends that are elsewhere.
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

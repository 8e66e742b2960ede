package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"sync"

	"gearshift/checkpoints"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/internal/training/policies"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/modality"
	"gearshift/router/policy"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
	"gearshift/serving/config/files"
	"gearshift/serving/control"
	"gearshift/serving/engines"
	"gearshift/serving/engines/address"
	"gearshift/serving/engines/informed"
	"gearshift/workloads"
)

// Reloader reads the scenario's file and the store of policies again while a router runs. It
// implements [serving.Reloader].
type Reloader struct {
	options Options
	now     *scenario.Scenario // what is in force
	text    []byte             // of the file that was last put in force
	shared  sync.Mutex         // protects now, maker and text where they are replaced, and [Reloader.Text]
	core    *router.Core
	maker   *policy.Maker
	source  *policies.Source
	store   *guardedStore // of the source
	files   files.Guard   // of the scenario
	piped   bool          // the scenario came from a pipe or from engines, and cannot be read again
	log     *slog.Logger
	// upstreams are by replica, none with simulated backends.
	upstreams []*upstream
	fallback  fallback // that the core has
	learns    bool     // latency models are fitted to answers, and a reload leaves them as they are
	// balancer is the core's, if that chooses by what engines say of their load.
	balancer *informed.Balancer
	// tiers is what divides requests among tiers; nil without any.
	tiers *tiers.Balancer
	// seen is the identity of the stored policy that was last found to be wanted.
	seen string
	// compare has the next look compare the policy in charge with production: while the store was away, an operator
	// may have put another one in charge.
	compare bool
	// objectives may be asked for at any time.
	objectives objectives
	// states are those in which the file in force wants the replicas.
	states []fleet.State
	// stored lists the functions that run when a shared store has changed.
	stored []func() error
	// changed are called when a reload has put new values in force; see [Reloader.Watch].
	changed []func(*scenario.Scenario)
}

// Watch registers f to be called with the scenario in force after each reload. It is called
// before anything is served, for what uses values that a reload may change.
func (r *Reloader) Watch(f func(*scenario.Scenario)) { r.changed = append(r.changed, f) }

// sharing returns the module that reports whether a shared store answers; nil without a shared store.
func (r *Reloader) sharing() *control.Sharing {
	if !r.source.Store.Shared() || policy.IsRule(r.options.Policy) && r.now.Predictor() == "" && !modality.IsStored(scenario.Of[scenario.JobPlanning](r.now).Policy) {
		return nil
	}
	return &control.Sharing{}
}

// follow keeps the server up to date with a shared store, until end is called.
func (r *Reloader) follow(ctx context.Context, server *serving.Server, m *control.Sharing) (end func()) {
	if m == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	var done sync.WaitGroup
	done.Go(func() {
		err := r.source.Store.Follow(ctx, checkpoints.Follower{
			Changed: func() (err error) {
				for _, f := range r.stored {
					err = errors.Join(err, f())
				}
				return errors.Join(err, server.ReloadPolicy("store"))
			},
			Away: func(err error) {
				m.Away()
				r.log.Error("the store of policies is away: the last policy routes, and promotions are refused until it is back", "policy", r.core.PolicyName(), "error", err)
			},
			Back: func() {
				m.Back()
				server.Exclusively(func() { r.compare = true })
				r.log.Info("the store of policies is back", "store", r.options.Store)
			},
		})
		if err != nil {
			r.log.Error("the store of policies cannot be followed: promotions elsewhere go unnoticed", "store", r.options.Store, "error", err)
		}
	})
	return func() {
		cancel()
		done.Wait()
	}
}

// NewReloader returns the reloader of a core, which has no policy yet.
func NewReloader(o Options, s *scenario.Scenario, core *router.Core, log *slog.Logger) (*Reloader, error) {
	source, err := onnxruntime.Source(o.Store, o.Engine)
	if err != nil {
		return nil, err
	}
	source.Store.Warn = func(text string) { log.Warn("the store of policies is damaged", "warning", text) }
	maker, err := s.Maker(core.Table())
	if err != nil {
		return nil, err
	}
	r := &Reloader{options: o, now: s, core: core, maker: maker, source: source, store: newGuardedStore(source), piped: o.Text != nil || files.IsPipe(o.Scenario), log: log, states: s.StatesIn(s)}
	r.Watch(func(s *scenario.Scenario) { core.SetGate(s.Gate()) })
	return r, nil
}

// config returns the scenario's configuration of the server, changed by the command's flags.
func (o Options) config(s *scenario.Scenario) config.Config {
	config := s.Serving.Config()
	if o.Addr != "" {
		config.Addr = o.Addr
	}
	if o.Admin != "" {
		config.Admin.Addr = o.Admin
	}
	if o.Keys != "" {
		config.KeysFile = o.Keys
	}
	return config
}

// Files implements [serving.Reloader].
func (r *Reloader) Files() []string {
	var list []string
	if !r.piped && !slices.Contains(workloads.ScenarioNames(), r.options.Scenario) {
		list = append(list, r.options.Scenario)
	}
	if (!policy.IsRule(r.options.Policy) || r.now.Predictor() != "") && !r.source.Store.Shared() { // a shared store is followed
		list = append(list, r.options.Store)
	}
	return list
}

// reread returns the scenario as its file has it now.
func (r *Reloader) reread() (*scenario.Scenario, []byte, error) {
	name := r.options.Scenario
	switch {
	case r.piped:
		return r.now, r.text, nil
	case slices.Contains(workloads.ScenarioNames(), name):
		return scenario.LoadText(name)
	}
	text, err := r.files.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return scenario.LoadText(name) // which says what there is instead
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read scenario: %w", err)
	}
	s, err := scenario.Parse(name, text)
	return s, text, err
}

// Text returns the name and the text of the scenario in force. It may be called from any goroutine.
func (r *Reloader) Text() (name string, text []byte) {
	r.shared.Lock()
	defer r.shared.Unlock()
	return r.now.Name, r.text
}

// Reread implements [serving.Reloader].
func (r *Reloader) Reread() (serving.Change, error) {
	next, text, err := r.reread()
	if err != nil {
		return serving.Change{}, err
	}
	next.Keep(r.now)
	if r.learns {
		next.Models = r.now.Models
	}
	change := serving.Change{Config: r.options.config(next), Applied: r.now.Changed(next), Left: r.now.Differences(next)}
	states := r.placed(next, &change)
	moved, err := r.moved(next, &change)
	if err != nil {
		return serving.Change{}, err
	}
	change.Commit = func() {
		// What takes a restart stays what it was, for the next comparison.
		inForce := *r.now
		inForce.TakeOver(next)
		inForce.Serving.Upstreams = maps.Clone(r.now.Serving.Upstreams)
		for i, u := range moved {
			r.upstreams[i].use(u)
			endpoint := inForce.Serving.Upstreams[r.upstreams[i].replica]
			endpoint.UpstreamConfig = next.Serving.Upstreams[r.upstreams[i].replica].UpstreamConfig
			inForce.Serving.Upstreams[r.upstreams[i].replica] = endpoint
		}
		r.shared.Lock()
		r.now, r.states, r.text = &inForce, states, text
		r.shared.Unlock()
		for _, f := range r.changed {
			f(&inForce)
		}
	}
	return change, nil
}

// placed returns the states in which the file wants the replicas now. It adds to the change those
// that the file wants in another state than before.
func (r *Reloader) placed(next *scenario.Scenario, change *serving.Change) []fleet.State {
	states := r.now.StatesIn(next)
	for i, s := range states {
		if s != r.states[i] {
			change.Places = append(change.Places, engines.Placed{Replica: i, State: s})
			change.Applied = append(change.Applied, "replicas."+r.core.Table().Replicas[i].Name)
		}
	}
	return states
}

// moved makes new upstreams for the replicas whose server is another than before.
func (r *Reloader) moved(next *scenario.Scenario, change *serving.Change) (map[int]*backend.Upstream, error) {
	made := map[int]*backend.Upstream{}
	for _, key := range []string{"variants", "hosts", "replicas", "serving.backend"} {
		if slices.Contains(change.Left, key) {
			return made, nil // the replicas are others
		}
	}
	if !r.sharesAlike(next) {
		change.Left = append(change.Left, "serving.upstreams")
		return made, nil
	}
	slots := r.now.Slots()
	for i, u := range r.upstreams {
		name := u.replica
		was, is := r.now.Serving.Upstreams[name], next.Serving.Upstreams[name]
		if was.Model != is.Model {
			change.Left = append(change.Left, "serving.upstreams."+name+".model")
		}
		if was.Context != is.Context {
			change.Left = append(change.Left, "serving.upstreams."+name+".context")
		}
		if was.Lifecycle != is.Lifecycle {
			change.Left = append(change.Left, "serving.upstreams."+name+".lifecycle")
		}
		if was.Timeouts != is.Timeouts {
			change.Left = append(change.Left, "serving.upstreams."+name+".timeouts")
			is.Timeouts = was.Timeouts
		}
		config := upstreamConfig(next, is)
		if config == upstreamConfig(r.now, was) {
			continue
		}
		if _, comes := slots[name]; comes { // the present engine keeps its settings
			change.Left = append(change.Left, "serving.upstreams."+name)
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

// sharesAlike reports whether the replicas that share a server in one scenario share one in the
// other: probes ask a server once for all of its replicas.
func (r *Reloader) sharesAlike(next *scenario.Scenario) bool {
	for _, part := range []func(*url.URL) string{(*url.URL).String, (*url.URL).Hostname, func(u *url.URL) string { return u.Host }} {
		pairs := map[[2]string]bool{}
		var each [2]map[string]bool
		each[0], each[1] = map[string]bool{}, map[string]bool{}
		for _, u := range r.upstreams {
			var pair [2]string
			for i, s := range []*scenario.Scenario{r.now, next} {
				if server, err := address.Parse(s.Serving.Upstreams[u.replica].URL); err == nil { // which the check has tried
					pair[i] = part(&server.API)
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

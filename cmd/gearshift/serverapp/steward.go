package serverapp

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net/url"
	"slices"

	"gearshift/cmd/gearshift/onnxruntime"
	"gearshift/cmd/gearshift/policies"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/serving"
	"gearshift/serving/address"
	"gearshift/serving/backend"
	"gearshift/serving/files"
	"gearshift/workloads"
)

// Steward sees to the scenario's file and the store of policies of a router that
// runs. It implements [serving.Steward].
type Steward struct {
	options Options
	now     *scenario.Scenario // what is in force
	core    *router.Core
	maker   *policy.Maker
	source  *policies.Source
	store   *guardedStore // of the source
	files   files.Guard   // of the scenario
	piped   bool          // the scenario came from a pipe, and cannot be read again
	log     *slog.Logger
	// upstreams are by replica, none with simulated backends.
	upstreams []*upstream
	fallback  fallback // that the core has
	// seen is the identity of the stored policy that was last found to be wanted.
	seen string
	// objectives may be asked for at any time.
	objectives objectives
	// states are those in which the file in force wants the replicas.
	states []fleet.State
	// changed are called when a reload has put new values in force; see [Steward.Watch].
	changed []func(*scenario.Scenario)
}

// Watch has f called with the scenario in force after each reload, for those who use what may
// change of it. It is for the wiring, before anything is served.
func (w *Steward) Watch(f func(*scenario.Scenario)) { w.changed = append(w.changed, f) }

// NewSteward makes the steward of a core, which has no policy yet.
func NewSteward(o Options, s *scenario.Scenario, core *router.Core, log *slog.Logger) (*Steward, error) {
	source, err := onnxruntime.Source(o.Store, o.Engine)
	if err != nil {
		return nil, err
	}
	source.Store.Warn = func(text string) { log.Warn("the store of policies is damaged", "warning", text) }
	maker, err := s.Maker(core.Table())
	if err != nil {
		return nil, err
	}
	w := &Steward{options: o, now: s, core: core, maker: maker, source: source, store: newGuardedStore(source), piped: files.IsPipe(o.Scenario), log: log, states: s.StatesIn(s)}
	w.Watch(func(s *scenario.Scenario) { core.SetGate(s.Gate()) })
	return w, nil
}

// config is the scenario's configuration of the server, with the command's flags.
func (o Options) config(s *scenario.Scenario) serving.Config {
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

// Files implements [serving.Steward].
func (w *Steward) Files() []string {
	var list []string
	if !w.piped && !slices.Contains(workloads.ScenarioNames(), w.options.Scenario) {
		list = append(list, w.options.Scenario)
	}
	if !policy.IsRule(w.options.Policy) {
		list = append(list, w.options.Store)
	}
	return list
}

// reread is the scenario as it is by now.
func (w *Steward) reread() (*scenario.Scenario, error) {
	name := w.options.Scenario
	switch {
	case w.piped:
		return w.now, nil
	case slices.Contains(workloads.ScenarioNames(), name):
		return scenario.Load(name)
	}
	text, err := w.files.Read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return scenario.Load(name) // which says what there is instead
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read scenario: %w", err)
	}
	return scenario.Parse(name, text)
}

// Reread implements [serving.Steward].
func (w *Steward) Reread() (serving.Change, error) {
	next, err := w.reread()
	if err != nil {
		return serving.Change{}, err
	}
	next.Keep(w.now)
	change := serving.Change{Config: w.options.config(next), Applied: w.now.Changed(next), Left: w.now.Differences(next)}
	states := w.placed(next, &change)
	moved, err := w.moved(next, &change)
	if err != nil {
		return serving.Change{}, err
	}
	change.Commit = func() {
		// What takes a restart stays what it was, for the next comparison.
		inForce := *w.now
		inForce.TakeOver(next)
		inForce.Serving.Upstreams = maps.Clone(w.now.Serving.Upstreams)
		for i, u := range moved {
			w.upstreams[i].use(u)
			endpoint := inForce.Serving.Upstreams[w.upstreams[i].replica]
			endpoint.UpstreamConfig = next.Serving.Upstreams[w.upstreams[i].replica].UpstreamConfig
			inForce.Serving.Upstreams[w.upstreams[i].replica] = endpoint
		}
		w.now, w.states = &inForce, states
		for _, f := range w.changed {
			f(&inForce)
		}
	}
	return change, nil
}

// placed is the states in which the file wants replicas now. Those that it wants otherwise
// than before are in the change.
func (w *Steward) placed(next *scenario.Scenario, change *serving.Change) []fleet.State {
	states := w.now.StatesIn(next)
	for i, s := range states {
		if s != w.states[i] {
			change.Places = append(change.Places, serving.Placed{Replica: i, State: s})
			change.Applied = append(change.Applied, "replicas."+w.core.Table().Replicas[i].Name)
		}
	}
	return states
}

// moved makes the upstreams anew that are elsewhere than before.
func (w *Steward) moved(next *scenario.Scenario, change *serving.Change) (map[int]*backend.Upstream, error) {
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
func (w *Steward) sharesAlike(next *scenario.Scenario) bool {
	for _, part := range []func(*url.URL) string{(*url.URL).String, (*url.URL).Hostname, func(u *url.URL) string { return u.Host }} {
		pairs := map[[2]string]bool{}
		var each [2]map[string]bool
		each[0], each[1] = map[string]bool{}, map[string]bool{}
		for _, u := range w.upstreams {
			var pair [2]string
			for i, s := range []*scenario.Scenario{w.now, next} {
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

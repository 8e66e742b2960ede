package serving

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/trial"
	"gearshift/serving/config"
	"gearshift/serving/config/files"
	"gearshift/serving/engines"
	"gearshift/serving/work"
)

// Reloader has what lies beyond the server: the scenario's file, and the store
// of policies. Its methods are called one at a time.
type Reloader interface {
	trial.Source
	// Files are those whose change is worth a reload.
	Files() []string
	// Reread reads the configuration as it was at the start.
	Reread() (Change, error)
	// Newer is the policy to route by if that has changed since the start, the
	// last call and the last Record; nil if it has not. Back says that a rollback
	// elsewhere put it there: nothing leads back to what that has taken away.
	Newer() (p router.Policy, back bool, err error)
}

// Change is a configuration that was read again.
type Change struct {
	Config Config
	// Applied names what Commit puts in force in addition to Config, and Left
	// what takes a restart, by their keys.
	Applied, Left []string
	// Places are the replicas that are wanted in another state than before.
	Places []engines.Placed
	// Commit is called once all is in order; it cannot fail. Nil does nothing. Of
	// Config it puts in force what was made outside the server: the gate and the level
	// of the log.
	Commit func()
}

// Reloaded is what a reload came to.
type Reloaded struct {
	// Changed are the keys whose new values are in force, NeedRestart those whose
	// are not.
	Changed     []string `json:"changed"`
	NeedRestart []string `json:"need_restart"`
	// Policy is the one in charge.
	Policy string `json:"policy"`
}

// The parts that are reloaded, each by itself: a fault of one does not hold up
// the other.
const (
	configPart = "config"
	policyPart = "policy"
)

// byFile says that a file which changed wants a reload.
const byFile = "file"

// reloads reads again what the server was made of, and carries out orders about policies: one at a time.
type reloads struct {
	mu       sync.Mutex
	running  *config.Running
	loader   config.Loader
	reloader Reloader // may be nil
	router   work.Router
	engines  *engines.Engines
	trials   *trial.Trials
	log      *slog.Logger
	follow   func() // has the parts take over the settings in force

	total   *prometheus.CounterVec // part, result
	success *prometheus.GaugeVec   // part
}

// begin reads for the first time what the configuration names.
func (x *reloads) begin(c *Config, r prometheus.Registerer) error {
	parts := []string{configPart, policyPart}
	x.total = metrics.NewCounter("reloads_total", "Reloads that changed something, or failed.", metrics.Label{Name: "part", Values: parts}, metrics.Label{Name: "result", Values: []string{"success", "failure"}})
	x.success = prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gearshift_last_reload_success",
		Help: "Whether the last reload succeeded; at 0 the last good state is in force, which is not what the files say."}, []string{"part"})
	for _, part := range parts {
		x.success.WithLabelValues(part).Set(1)
	}
	r.MustRegister(x.total, x.success)
	first, err := x.loader.Load(*c, nil)
	if err == nil {
		err = first.Ring.RestoreUsage(c.UsageFile)
	}
	if err == nil {
		x.running.Store(first)
	}
	return err
}

// Reload reads the files again, and puts in force what has changed in them: the
// configuration, with keys and certificates, and the policy. On an error the last
// good one of the part stays. Requests in flight go on as they began. By says who
// wants it, for the log.
func (s *Server) Reload(by string) (Reloaded, error) { return s.reloads.reload(by) }

// ReloadPolicy puts the store's production policy in charge, like [Server.Reload].
func (s *Server) ReloadPolicy(by string) error {
	x := s.reloads
	x.mu.Lock()
	defer x.mu.Unlock()
	var out Reloaded
	return x.enter(policyPart, by, &out, x.reloadPolicy(&out))
}

// Exclusively calls f while no reload and no order about policies is carried out.
func (s *Server) Exclusively(f func()) {
	s.reloads.mu.Lock()
	defer s.reloads.mu.Unlock()
	f()
}

func (x *reloads) reload(by string) (Reloaded, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	out := Reloaded{Changed: []string{}, NeedRestart: []string{}}
	err := errors.Join(
		x.enter(configPart, by, &out, x.reloadConfig(&out)),
		x.enter(policyPart, by, &out, x.reloadPolicy(&out)),
	)
	out.Policy = x.router.PolicyName()
	return out, err
}

// enter enters what the reload of a part came to in log and metrics.
func (x *reloads) enter(part, by string, out *Reloaded, err error) error {
	if err != nil {
		x.total.WithLabelValues(part, "failure").Inc()
		x.success.WithLabelValues(part).Set(0)
		for fault := range strings.Lines(err.Error()) { // a file's faults are a line each
			x.log.Error("cannot reload: the last good state stays", "part", part, "by", by, "fault", strings.TrimSpace(fault))
		}
		return err
	}
	x.success.WithLabelValues(part).Set(1)
	if part == configPart {
		log := x.log.Info
		if by == byFile && len(out.Changed)+len(out.NeedRestart) == 0 {
			log = x.log.Debug
		}
		log("reloaded", "by", by, "changed", strings.Join(out.Changed, " "), "need_restart", strings.Join(out.NeedRestart, " "))
	}
	return nil
}

// reloadConfig reads the configuration and the files that it names.
func (x *reloads) reloadConfig(out *Reloaded) error {
	now := x.running.Load()
	change := Change{Config: now.Config}
	if x.reloader != nil {
		var err error
		if change, err = x.reloader.Reread(); err != nil {
			return err
		}
	}
	if err := change.Config.Validate(); err != nil {
		return err
	}
	merged, changed, left := config.Merge(now.Config, change.Config)
	next, err := x.loader.Load(merged, now)
	if err != nil {
		return err
	}
	changed = append(changed, now.Differs(next)...)
	if err := x.engines.Place(change.Places); err != nil {
		return err
	}
	x.running.Store(next)
	if (next.Ring == nil) != (now.Ring == nil) {
		x.tellKeys() // anyone may ask from now on, or no longer
	}
	if change.Commit != nil {
		change.Commit()
	}
	x.follow()
	if slices.ContainsFunc(change.Applied, func(key string) bool { return strings.HasPrefix(key, "serving.upstreams.") }) {
		x.engines.Recheck()
	}
	out.Changed = append(append(out.Changed, changed...), change.Applied...)
	out.NeedRestart = append(append(out.NeedRestart, left...), change.Left...)
	for _, list := range []*[]string{&out.Changed, &out.NeedRestart} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(out.Changed) > 0 {
		x.total.WithLabelValues(configPart, "success").Inc()
	}
	return nil
}

// reloadPolicy puts the policy in charge that should be by now.
func (x *reloads) reloadPolicy(out *Reloaded) error {
	if x.trials.Changeable() != nil {
		return nil
	}
	next, back, err := x.reloader.Newer()
	if err != nil || next == nil {
		return err
	}
	before := x.router.PolicyName()
	if err := x.trials.Replace(next, back); err != nil {
		return err
	}
	x.log.Info("another policy routes", "policy", x.router.PolicyName(), "before", before)
	x.total.WithLabelValues(policyPart, "success").Inc()
	out.Changed = slices.Insert(out.Changed, 0, policyPart)
	return nil
}

// watched are the files whose change is worth a reload.
func (x *reloads) watched() []string {
	list := x.running.Load().Files()
	if x.reloader != nil {
		list = append(list, x.reloader.Files()...)
	}
	return list
}

// watch reloads when files hold something else than before and have then stayed so for a
// period, so that none is read while it is being written. It polls
// the files: those that are links to others, as Kubernetes mounts them, and those on
// network drives, raise no events. It returns when the context ends.
func (x *reloads) watch(ctx context.Context, period time.Duration) {
	var looker files.Looker
	seen := looker.Look(ctx, x.watched())
	if period == 0 || len(seen) == 0 {
		return
	}
	tick := time.NewTicker(period)
	defer tick.Stop()
	changed := true // since they were first read, for all that is known
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := looker.Look(ctx, x.watched())
		switch {
		case !maps.Equal(now, seen):
			seen, changed = now, true
		case changed:
			changed = false
			_, _ = x.reload(byFile) // which has logged it
		}
	}
}

// orderPolicy carries out an order about policies; see [trial.Trials.Order].
func (x *reloads) orderPolicy(order, ref string, share float64, reason string) (note string, err error) {
	if err := x.trials.Changeable(); err != nil {
		return "", err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.trials.Order(order, ref, share, reason)
}

// tellKeys says who may ask.
func (x *reloads) tellKeys() {
	now := x.running.Load()
	switch {
	case now.Ring == nil:
		x.log.Warn("no keys file: anyone who can connect may ask", "to_make_one", "gearshift key new NAME --keys FILE, and serving.keys_file: FILE")
	case len(now.Ring.Holders()) == 0:
		x.log.Warn("the keys file has no keys: nobody may ask", "file", now.Config.KeysFile)
	default:
		x.log.Info("API keys are asked for", "keys", len(now.Ring.Holders()))
	}
}

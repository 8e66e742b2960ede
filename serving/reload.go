package serving

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router"
	"gearshift/serving/admin"
	"gearshift/serving/admin/trial"
	"gearshift/serving/config"
	"gearshift/serving/config/files"
	"gearshift/serving/engines"
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

// Who wants something done, where it is no signal: a file that changed, or an operator.
const (
	byFile  = "file"
	byAdmin = admin.By
)

// reloads counts what reloads came to.
type reloads struct {
	total   *prometheus.CounterVec // part, result
	success *prometheus.GaugeVec   // part
}

func newReloads(r prometheus.Registerer) *reloads {
	x := &reloads{
		total: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_reloads_total",
			Help: "Reloads that changed something, or failed."}, []string{"part", "result"}),
		success: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "gearshift_last_reload_success",
			Help: "Whether the last reload succeeded; at 0 the last good state is in force, which is not what the files say."}, []string{"part"}),
	}
	for _, part := range []string{configPart, policyPart} {
		x.success.WithLabelValues(part).Set(1)
		for _, result := range []string{"success", "failure"} {
			x.total.WithLabelValues(part, result)
		}
	}
	r.MustRegister(x.total, x.success)
	return x
}

// Reload reads the files again, and puts in force what has changed in them: the
// configuration, with keys and certificates, and the policy. On an error the last
// good one of the part stays. Requests in flight go on as they began. By says who
// wants it, for the log.
func (s *Server) Reload(by string) (Reloaded, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	out := Reloaded{Changed: []string{}, NeedRestart: []string{}}
	err := errors.Join(
		s.reloaded(configPart, by, &out, s.reloadConfig(&out)),
		s.reloaded(policyPart, by, &out, s.reloadPolicy(&out)),
	)
	out.Policy = s.router.PolicyName()
	return out, err
}

// reloaded enters what the reload of a part came to in log and metrics.
func (s *Server) reloaded(part, by string, out *Reloaded, err error) error {
	if err != nil {
		s.reloads.total.WithLabelValues(part, "failure").Inc()
		s.reloads.success.WithLabelValues(part).Set(0)
		for fault := range strings.Lines(err.Error()) { // a file's faults are a line each
			s.log.Error("cannot reload: the last good state stays", "part", part, "by", by, "fault", strings.TrimSpace(fault))
		}
		return err
	}
	s.reloads.success.WithLabelValues(part).Set(1)
	if part == configPart {
		log := s.log.Info
		if by == byFile && len(out.Changed)+len(out.NeedRestart) == 0 {
			log = s.log.Debug
		}
		log("reloaded", "by", by, "changed", strings.Join(out.Changed, " "), "need_restart", strings.Join(out.NeedRestart, " "))
	}
	return nil
}

// reloadConfig reads the configuration and the files that it names.
func (s *Server) reloadConfig(out *Reloaded) error {
	now := s.running.Load()
	change := Change{Config: now.Config}
	if s.reloader != nil {
		var err error
		if change, err = s.reloader.Reread(); err != nil {
			return err
		}
	}
	if err := change.Config.Validate(); err != nil {
		return err
	}
	merged, changed, left := config.Merge(now.Config, change.Config)
	next, err := s.loader.Load(merged, now)
	if err != nil {
		return err
	}
	changed = append(changed, now.Differs(next)...)
	if err := s.engines.Place(change.Places); err != nil {
		return err
	}
	s.running.Store(next)
	if (next.Ring == nil) != (now.Ring == nil) {
		s.tellKeys() // anyone may ask from now on, or no longer
	}
	if change.Commit != nil {
		change.Commit()
	}
	s.takeOver()
	if slices.ContainsFunc(change.Applied, func(key string) bool { return strings.HasPrefix(key, "serving.upstreams.") }) {
		s.engines.Recheck()
	}
	out.Changed = append(append(out.Changed, changed...), change.Applied...)
	out.NeedRestart = append(append(out.NeedRestart, left...), change.Left...)
	for _, list := range []*[]string{&out.Changed, &out.NeedRestart} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(out.Changed) > 0 {
		s.reloads.total.WithLabelValues(configPart, "success").Inc()
	}
	return nil
}

// takeOver passes the settings on to the parts that keep what they derived from them.
func (s *Server) takeOver() {
	s.queue.Follow()
	s.memory.Follow(s.settings())
	s.clients.Follow(s.settings())
	s.proxy.Follow()
	s.engines.Follow(s.settings().Watching(), s.settings().Gauges)
	s.engines.Corrects(corrects(s.settings()))
	s.feed.Set(s.settings().Signals)
}

// reloadPolicy puts the policy in charge that should be by now.
func (s *Server) reloadPolicy(out *Reloaded) error {
	if s.reloader == nil || policySetOf(s.router) == nil {
		return nil
	}
	next, back, err := s.reloader.Newer()
	if err != nil || next == nil {
		return err
	}
	before := s.router.PolicyName()
	if err := s.trials.Replace(next, back); err != nil {
		return err
	}
	s.log.Info("another policy routes", "policy", s.router.PolicyName(), "before", before)
	s.reloads.total.WithLabelValues(policyPart, "success").Inc()
	out.Changed = slices.Insert(out.Changed, 0, policyPart)
	return nil
}

// watched are the files whose change is worth a reload.
func (s *Server) watched() []string {
	list := s.running.Load().Files()
	if s.reloader != nil {
		list = append(list, s.reloader.Files()...)
	}
	return list
}

// watch reloads when files hold something else than before and have then stayed so for a
// period, so that none is read while it is being written. It polls
// the files: those that are links to others, as Kubernetes mounts them, and those on
// network drives, raise no events. It returns when the context ends.
func (s *Server) watch(ctx context.Context) {
	var looker files.Looker
	seen := looker.Look(ctx, s.watched())
	if s.config.Watch == 0 || len(seen) == 0 {
		return
	}
	tick := time.NewTicker(s.config.Watch)
	defer tick.Stop()
	changed := true // since they were first read, for all that is known
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := looker.Look(ctx, s.watched())
		switch {
		case !maps.Equal(now, seen):
			seen, changed = now, true
		case changed:
			changed = false
			_, _ = s.Reload(byFile) // which has logged it
		}
	}
}

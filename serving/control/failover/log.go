package failover

import (
	"maps"
	"slices"
	"strings"

	"gearshift/router/failover"
)

// tell logs a step, those that operators have to know of at a higher level.
func (m *Module) tell(s failover.Step, n Notice) {
	switch s.Kind {
	case failover.StepLost:
		m.log.Warn("a host is lost", "host", n.Host, "why", n.Reason, "failover", n.Failover)
	case failover.StepFalseAlarm:
		m.log.Warn("a host was taken for lost, and is there: false alarm", "host", n.Host)
	case failover.StepReturned, failover.StepUsable, failover.StepDrill:
		m.log.Info("failover", "step", n.Kind, "host", n.Host)
	case failover.StepNotified:
		m.log.Info("an application is answered again", "application", n.Application, "variant", n.Variant, "host", n.Host, "quality", n.Quality, "full", n.Full, "took", s.Took)
	case failover.StepUnrecovered:
		m.log.Error("nothing answers an application", "application", n.Application, "why", n.Reason)
	case failover.StepLoadFailed:
		m.log.Warn("a load for an application has failed", "application", n.Application, "variant", n.Variant, "host", n.Host, "why", n.Reason)
	case failover.StepUnprotected:
		m.log.Warn("an application has too few backups", "application", n.Application, "why", n.Reason)
	case failover.StepOver:
		m.log.Error("a failover is over, and nothing answers some applications", "failover", n.Failover, "after_ms", n.AtMS, "left", n.Reason)
	case failover.StepRecovered:
		m.log.Info("a failover is over", "failover", n.Failover, "after_ms", n.AtMS)
	default:
		m.log.Debug("failover", "step", n.Kind, "application", n.Application, "variant", n.Variant, "host", n.Host, "took", s.Took)
	}
}

// cannot is what failover has to do without, by the dialect of a host's engines.
var cannot = map[string]string{
	"":       "it is not driven: nothing is loaded there, and what it has is taken for loaded; its loss shows in refused connections and probes alone",
	"triton": "it has no agent, so that its loss shows in refused connections and probes alone, and no sleep; it takes orders of every router",
	"vllm":   "it cannot load: backups are models that it was started with, asleep until they are needed; it has no agent, so that its loss shows in refused connections and probes alone, and it takes orders of every router",
	"ollama": "it has no agent, so that its loss shows in refused connections and probes alone, and no sleep; it may drop models by itself when others are asked for, and it takes orders of every router",
}

// tellStart says in the log what is controlled, and what engines cannot do, a line for each kind.
func (m *Module) tellStart() {
	attributes := []any{"policy", m.controller.Status().Policy, "applications", len(m.problem.Applications), "hosts", len(m.problem.Hosts), "term", m.term.Load()}
	if m.store != nil {
		attributes = append(attributes, "state", m.store.Path(), "resumed", m.store.Last() != nil)
	}
	m.log.Info("failover is on", attributes...)
	if m.store == nil {
		m.log.Warn("the failover state is in no file: a router that starts again has to learn it from the engines, and nothing keeps a second controller out", "to_keep_it", "gearshift serve --state FILE")
	}
	kinds := map[string][]string{}
	for r, x := range m.options.Table.Replicas {
		kind, host := m.engines.Driven(r), m.options.Table.Hosts[x.Host].Name
		if cannot[kind] != "" && !slices.Contains(kinds[kind], host) {
			kinds[kind] = append(kinds[kind], host)
		}
	}
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		name := kind
		if name == "" {
			name = "none"
		}
		m.log.Warn("engines with less than gearshift's own can do", "lifecycle", name, "hosts", strings.Join(kinds[kind], ", "), "note", cannot[kind])
	}
}

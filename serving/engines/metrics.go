package engines

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/health"
	"gearshift/serving/admin/scrape"
)

var (
	stateDesc      = prometheus.NewDesc("gearshift_replica_state", "1 for the state that the replica is in.", []string{"replica", "variant", "state"}, nil)
	busyDesc       = prometheus.NewDesc("gearshift_replica_busy", "1 if the replica has lately refused requests for want of room, and gets fewer.", []string{"replica", "variant"}, nil)
	gaugeAgeDesc   = prometheus.NewDesc("gearshift_gauge_age_seconds", "Age of what the replica's engine last said of itself.", []string{"replica", "variant"}, nil)
	elsewhereDesc  = prometheus.NewDesc("gearshift_others_in_flight", "Requests of others on the replica, by its engine's gauges less the router's own.", []string{"replica", "variant"}, nil)
	engineKVDesc   = prometheus.NewDesc("gearshift_engine_kv_use", "Share of the replica's KV cache in use, as its engine says.", []string{"replica", "variant"}, nil)
	engineBusyDesc = prometheus.NewDesc("gearshift_engine_requests", "Requests of all routers and clients on the replica, as its engine says.", []string{"replica", "variant", "state"}, nil)
)

// metrics count what happens to engines, and show how they are.
type metrics struct {
	engines   *Engines
	ejections *prometheus.CounterVec // replica, variant, reason
	spared    *prometheus.CounterVec // replica, variant, reason
	probes    *prometheus.CounterVec // replica, variant, finding
}

func newMetrics(e *Engines) *metrics {
	counter := func(name, help string, label string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_" + name, Help: help}, []string{"replica", "variant", label})
	}
	m := &metrics{
		engines:   e,
		ejections: counter("ejections_total", "Times that the replica was taken out of the choice.", "reason"),
		spared:    counter("ejections_spared_total", "Times that the replica failed and stayed, because too many were out.", "reason"),
		probes:    counter("probes_total", "Probes of the replica's server, by what they found.", "finding"),
	}
	// What may happen once in a long time begins at zero, so that rate() sees it.
	for i := range e.table.Replicas {
		for _, why := range health.Reasons {
			m.ejections.WithLabelValues(m.labels(i, string(why))...)
			m.spared.WithLabelValues(m.labels(i, string(why))...)
		}
	}
	for _, one := range e.servers() {
		for _, f := range health.Findings {
			for _, i := range one.Replicas {
				m.probes.WithLabelValues(m.labels(i, f.String())...)
			}
		}
	}
	return m
}

func (m *metrics) labels(replica int, more ...string) []string {
	r := m.engines.table.Replicas[replica]
	return append([]string{r.Name, m.engines.table.Variants[r.Variant].Name}, more...)
}

// changed counts ejections.
func (m *metrics) changed(c health.Change) {
	switch {
	case c.Spared:
		m.spared.WithLabelValues(m.labels(c.Replica, string(c.Why))...).Inc()
	case c.Ejects():
		m.ejections.WithLabelValues(m.labels(c.Replica, string(c.Why))...).Inc()
	}
}

func (m *metrics) probed(replicas []int, f health.Finding) {
	for _, i := range replicas {
		m.probes.WithLabelValues(m.labels(i, f.String())...).Inc()
	}
}

// collectors are all of them.
func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.ejections, m.spared, m.probes,
		scrape.New(m.collect, stateDesc, busyDesc, gaugeAgeDesc, elsewhereDesc, engineKVDesc, engineBusyDesc)}
}

// collect shows the health of replicas, and what their engines report.
func (m *metrics) collect(out scrape.Metrics) {
	for i, status := range m.engines.health.monitor.Statuses() {
		for _, state := range health.States {
			out.Flag(stateDesc, state == status.State, m.labels(i, state.String())...)
		}
		out.Flag(busyDesc, status.Busy, m.labels(i)...)
	}
	now := m.engines.options.Clock()
	for i, g := range m.engines.signals.Signals() {
		if !g.Read {
			continue
		}
		out.Gauge(gaugeAgeDesc, (now - g.At).Seconds(), m.labels(i)...)
		out.Gauge(elsewhereDesc, float64(g.Others.InFlight), m.labels(i)...)
		said := func(d *prometheus.Desc, value float64, labels []string) {
			if value >= 0 && !g.Stale {
				out.Gauge(d, value, labels...)
			}
		}
		said(engineKVDesc, g.KVUse, m.labels(i))
		said(engineBusyDesc, g.Running, m.labels(i, "running"))
		said(engineBusyDesc, g.Waiting, m.labels(i, "waiting"))
	}
}

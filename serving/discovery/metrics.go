package discovery

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

var (
	slotsDesc     = prometheus.NewDesc("gearshift_discovery_slots", "Slots of the variant, by what their engines do: present, draining, or absent.", []string{"variant", "state"}, nil)
	endpointsDesc = prometheus.NewDesc("gearshift_discovery_endpoints", "Endpoints that the source of replicas lists: ready, ending, or not_ready.", []string{"state"}, nil)
	withoutDesc   = prometheus.NewDesc("gearshift_discovery_without_slot", "Engines that are ready and get no requests, since there is no slot for them.", nil, nil)
	ageDesc       = prometheus.NewDesc("gearshift_discovery_event_age_seconds", "Time since the source of replicas reported last.", nil, nil)
	reachableDesc = prometheus.NewDesc("gearshift_discovery_reachable", "1, or 0 while the source of replicas cannot be read and the known engines stay.", nil, nil)
)

// metrics count the changes of slots, and show their states.
type metrics struct {
	module  *Module
	changes *prometheus.CounterVec // variant, change
}

func newMetrics(m *Module) *metrics {
	x := &metrics{module: m, changes: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "gearshift_discovery_changes_total", Help: "Changes of the variant's slots: an engine took one, ends, is back, or left it.",
	}, []string{"variant", "change"})}
	for _, g := range m.options.Groups {
		for kind := range changeNames {
			x.changes.WithLabelValues(g.Variant, changeNames[kind])
		}
	}
	return x
}

func (x *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{x.changes, scrape.New(x.collect, slotsDesc, endpointsDesc, withoutDesc, ageDesc, reachableDesc)}
}

// collect reports the present states of the slots.
func (x *metrics) collect(out scrape.Metrics) {
	m := x.module
	m.mu.Lock()
	defer m.mu.Unlock()
	slots := map[[2]string]int{}
	for _, g := range m.options.Groups {
		for _, state := range []string{statePresent, stateDraining, stateAbsent} {
			slots[[2]string{g.Variant, state}] = 0
		}
	}
	for i := range m.slots.slots {
		s := &m.slots.slots[i]
		slots[[2]string{m.options.Groups[s.group].Variant, m.state(s)}]++
	}
	for key, n := range slots {
		out.Gauge(slotsDesc, float64(n), key[0], key[1])
	}
	endpoints := map[string]int{"ready": 0, "ending": 0, "not_ready": 0}
	for i := range m.listed {
		switch e := &m.listed[i]; {
		case e.Ending:
			endpoints["ending"]++
		case e.Ready:
			endpoints["ready"]++
		default:
			endpoints["not_ready"]++
		}
	}
	for state, n := range endpoints {
		out.Gauge(endpointsDesc, float64(n), state)
	}
	out.Gauge(withoutDesc, float64(len(m.slots.waiting)))
	reachable := 0.0
	if m.reachable() {
		reachable = 1
	}
	out.Gauge(reachableDesc, reachable)
	if m.ever {
		out.Gauge(ageDesc, (m.clock() - m.heard).Seconds())
	}
}

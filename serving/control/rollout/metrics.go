package rollout

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/rollout"
	"gearshift/serving/admin/scrape"
)

// metrics count what happens to versions.
type metrics struct {
	module  *Module
	steps   map[rollout.StepKind]*prometheus.CounterVec // model
	unsaved prometheus.Counter
}

var (
	staleDesc    = prometheus.NewDesc("gearshift_rollout_stale_seconds", "For how long another version of the model has been wanted without being everywhere; 0 if it is.", []string{"model"}, nil)
	overdueDesc  = prometheus.NewDesc("gearshift_rollout_overdue", "Whether that is longer than the bound.", []string{"model"}, nil)
	changingDesc = prometheus.NewDesc("gearshift_rollout_changing", "Replicas of the model whose version is being changed.", []string{"model"}, nil)
	versionDesc  = prometheus.NewDesc("gearshift_rollout_version", "1 for the version that the location's active replica has.", []string{"model", "host", "version"}, nil)
	shareDesc    = prometheus.NewDesc("gearshift_rollout_share", "Part of the location's requests that go to the next version.", []string{"model", "host"}, nil)
	busyDesc     = prometheus.NewDesc("gearshift_rollout_host_utilisation", "Utilisation of the host by which changes wait, from 0 to 1.", []string{"host"}, nil)
)

func newMetrics(m *Module) *metrics {
	x := &metrics{module: m, steps: map[rollout.StepKind]*prometheus.CounterVec{}, unsaved: prometheus.NewCounter(prometheus.CounterOpts{
		Name: "gearshift_rollout_state_unsaved_total", Help: "Failed writes of the state file.",
	})}
	for kind, about := range map[rollout.StepKind][2]string{
		rollout.StepOrdered: {"rolls", "Orders to replace the version of the model."},
		rollout.StepChanged: {"changes", "Replicas whose version was replaced."},
		rollout.StepFailed:  {"failures", "Attempts to replace the version of a replica that failed."},
		rollout.StepWorse:   {"rollbacks", "Times that the model went back while it was rolled, by itself or by order."},
	} {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_rollout_" + about[0] + "_total", Help: about[1]}, []string{"model"})
		for i := range m.options.Models {
			v.WithLabelValues(m.options.Models[i].Name)
		}
		x.steps[kind] = v
	}
	return x
}

func (x *metrics) collectors() []prometheus.Collector {
	list := []prometheus.Collector{x.unsaved, scrape.New(x.collect, staleDesc, overdueDesc, changingDesc, versionDesc, shareDesc, busyDesc)}
	for _, v := range x.steps {
		list = append(list, v)
	}
	return list
}

// took counts a step.
func (x *metrics) took(s rollout.Step, model string) {
	if v := x.steps[s.Kind]; v != nil {
		v.WithLabelValues(model).Inc()
	}
}

// collect shows how things are when metrics are scraped.
func (x *metrics) collect(out scrape.Metrics) {
	hosts := map[string]bool{}
	for _, v := range x.module.Versions() {
		changing := 0
		for _, at := range v.Locations {
			if at.Doing != "" {
				changing++
			}
			out.Gauge(versionDesc, 1, v.Model, at.Host, at.Version)
			out.Gauge(shareDesc, at.Share, v.Model, at.Host)
			if !hosts[at.Host] {
				hosts[at.Host] = true
				out.Gauge(busyDesc, at.Utilisation, at.Host)
			}
		}
		out.Gauge(staleDesc, v.StaleS, v.Model)
		out.Flag(overdueDesc, v.Overdue, v.Model)
		out.Gauge(changingDesc, float64(changing), v.Model)
	}
}

package failover

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/failover"
	"gearshift/serving/admin/scrape"
)

// metrics count what happens to applications.
type metrics struct {
	module   *Module
	lost     *prometheus.CounterVec // host
	alarms   *prometheus.CounterVec // host
	affected prometheus.Counter
	recovery prometheus.Histogram
	loads    *prometheus.CounterVec // result
	unsaved  prometheus.Counter
}

var (
	applicationsDesc = prometheus.NewDesc("gearshift_failover_applications", "Applications, by whether something answers them (active) or nothing does (unrecovered).", []string{"state"}, nil)
	unprotectedDesc  = prometheus.NewDesc("gearshift_failover_unprotected_applications", "Applications that have fewer living backups than they should.", nil, nil)
	qualityDesc      = prometheus.NewDesc("gearshift_failover_quality_lost", "Mean share of their full quality that answered applications lose by smaller variants.", nil, nil)
	upDesc           = prometheus.NewDesc("gearshift_failover_server_up", "Whether the server counts as there.", []string{"server"}, nil)
	agentsDesc       = prometheus.NewDesc("gearshift_failover_agents", "Agents that have sent a heartbeat lately.", nil, nil)
	gapDesc          = prometheus.NewDesc("gearshift_failover_heartbeat_longest_seconds", "Longest time so far between two heartbeats of a server's agent.", []string{"server"}, nil)
	suspectDesc      = prometheus.NewDesc("gearshift_failover_suspicions_total", "Times that heartbeats of a server were overdue. Most end with another sign of life.", nil, nil)
	termDesc         = prometheus.NewDesc("gearshift_failover_term", "Number of this run of the failover controller.", nil, nil)
	listenersDesc    = prometheus.NewDesc("gearshift_failover_subscribers", "Clients that read the events of failovers.", nil, nil)
)

func newMetrics(m *Module) *metrics {
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_failover_" + name, Help: help}, labels)
	}
	x := &metrics{
		module: m,
		lost:   vector("servers_lost_total", "Servers that were taken for lost, drills included.", "server"),
		alarms: vector("false_alarms_total", "Servers that were taken for lost and had not been.", "server"),
		affected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gearshift_failover_affected_total", Help: "Applications that lost what answered them.",
		}),
		recovery: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gearshift_failover_recovery_seconds", Help: "Time from the detection of a loss to the notice that an application is answered again. Its count is that of recoveries.",
			Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}),
		loads: vector("loads_total", "Loads for failovers and backups that have ended.", "result"),
		unsaved: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "gearshift_failover_state_unsaved_total", Help: "Failed writes of the state file.",
		}),
	}
	for i := range m.problem.Hosts {
		x.lost.WithLabelValues(m.problem.Hosts[i].Name)
		x.alarms.WithLabelValues(m.problem.Hosts[i].Name)
	}
	for _, result := range []string{"success", "failure"} {
		x.loads.WithLabelValues(result)
	}
	return x
}

func (x *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		x.lost, x.alarms, x.affected, x.recovery, x.loads, x.unsaved,
		scrape.New(x.collect, applicationsDesc, unprotectedDesc, qualityDesc, upDesc, agentsDesc, gapDesc, suspectDesc, termDesc, listenersDesc),
	}
}

// took counts a step.
func (x *metrics) took(s failover.Step) {
	host := func() string { return x.module.problem.Hosts[s.Host].Name }
	switch s.Kind {
	case failover.StepLost:
		x.lost.WithLabelValues(host()).Inc()
	case failover.StepFalseAlarm:
		x.alarms.WithLabelValues(host()).Inc()
	case failover.StepAffected:
		x.affected.Inc()
	case failover.StepNotified:
		x.recovery.Observe(s.Took.Seconds())
	case failover.StepLoaded:
		x.loads.WithLabelValues("success").Inc()
	case failover.StepLoadFailed:
		x.loads.WithLabelValues("failure").Inc()
	}
}

// collect shows how things are when metrics are scraped.
func (x *metrics) collect(out scrape.Metrics) {
	m := x.module
	s := m.Situation()
	if !s.StandsBy { // the acting router counts them
		collectApplications(out, s)
	}
	agents := 0
	for i := range s.Hosts {
		v := &s.Hosts[i]
		out.Flag(upDesc, v.State != failover.Lost.String(), v.Name)
		if v.Agent != nil {
			out.Gauge(gapDesc, v.Agent.LongestMS/1000, v.Name)
			if v.Agent.HeardMS < milliseconds(m.agents.patience()) {
				agents++
			}
		}
	}
	out.Gauge(agentsDesc, float64(agents))
	out.Counter(suspectDesc, float64(s.Counts.Suspicions))
	out.Gauge(termDesc, float64(m.term.Load()))
	out.Gauge(listenersDesc, float64(m.subscribers.Load()))
}

// collectApplications shows how applications stand.
func collectApplications(out scrape.Metrics, s *Situation) {
	active, lost := 0, 0.0
	for i := range s.Applications {
		if a := &s.Applications[i]; a.Active != "" {
			active++
			if a.Full > 0 {
				lost += 1 - a.Quality/a.Full
			}
		}
	}
	out.Gauge(applicationsDesc, float64(active), "active")
	out.Gauge(applicationsDesc, float64(s.Unrecovered), "unrecovered")
	out.Gauge(unprotectedDesc, float64(s.Unprotected))
	out.Gauge(qualityDesc, lost/float64(max(1, active)))
}

package informed

import (
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/signals"
	"gearshift/serving/admin/scrape"
)

// probeResult is what came of a question about a load.
type probeResult int

const (
	answeredProbe probeResult = iota
	failedProbe
	lateProbe
	probeResults
)

func (r probeResult) String() string { return [...]string{"answered", "failed", "late"}[r] }

// counts are those of one Feed, by replica.
type counts []replicaCounts

// Moved counts a request that went to another replica after replicas were asked.
func (f *Feed) Moved() { f.moved.Add(1) }

type replicaCounts struct {
	reports [len(signals.Sources)]atomic.Uint64
	faults  [len(signals.Sources)][len(signals.Faults) + 1]atomic.Uint64
	probes  [probeResults]atomic.Uint64
}

func newCounts(replicas int) counts { return make(counts, replicas) }

func (c counts) report(replica int, from signals.Source) { c[replica].reports[from].Add(1) }
func (c counts) fault(replica int, from signals.Source, f signals.Fault) {
	c[replica].faults[from][f].Add(1)
}
func (c counts) probe(replica int, r probeResult) { c[replica].probes[r].Add(1) }

var (
	replicaLabels = []string{"replica", "variant"}
	ageDesc       = prometheus.NewDesc("gearshift_signal_age_seconds", "Age of what is known of the replica's load, by the router's clock.", replicaLabels, nil)
	sourceDesc    = prometheus.NewDesc("gearshift_signal_source", "1 for where what is known of the replica's load comes from.", append(replicaLabels, "source"), nil)
	loadDesc      = prometheus.NewDesc("gearshift_signal_load", "What is known of the replica's load: requests of the model, requests of its host, seconds of outstanding work.", append(replicaLabels, "counter"), nil)
	reportsDesc   = prometheus.NewDesc("gearshift_signal_reports_total", "Reports of the replica's load that have come, by how they came.", append(replicaLabels, "source"), nil)
	faultsDesc    = prometheus.NewDesc("gearshift_signal_faults_total", "Reports of the replica's load with a fault, by how they came.", append(replicaLabels, "source", "fault"), nil)
	probesDesc    = prometheus.NewDesc("gearshift_signal_probes_total", "Times that the replica was asked for its load for the sake of a choice, by result.", append(replicaLabels, "result"), nil)
	movedDesc     = prometheus.NewDesc("gearshift_signal_moves_total", "Requests that went to another replica after replicas had been asked for their load.", nil, nil)
	shareDesc     = prometheus.NewDesc("gearshift_signal_counter_share", "Share of the variant's requests whose replica is compared by the counter.", []string{"variant", "counter"}, nil)
)

// Metrics are what the feed knows, and has heard.
func (f *Feed) Metrics() prometheus.Collector {
	return scrape.New(f.collect, ageDesc, sourceDesc, loadDesc, reportsDesc, faultsDesc, probesDesc, movedDesc, shareDesc)
}

func (f *Feed) collect(out scrape.Metrics) {
	if f.balancer == nil && !f.Asks() {
		return
	}
	now := f.options.Clock()
	t := f.options.Table
	f.store.Each(now, func(i int, k *signals.Known) {
		r := &t.Replicas[i]
		labels := []string{r.Name, t.Variants[r.Variant].Name}
		with := func(more ...string) []string { return append(labels[:2:2], more...) }
		for _, s := range signals.Sources {
			out.Flag(sourceDesc, k.Source == s, with(s.String())...)
		}
		if k.Source != signals.Own {
			out.Gauge(ageDesc, (now - k.At).Seconds(), labels...)
			out.Gauge(loadDesc, float64(k.Counters.Model), with("model")...)
			out.Gauge(loadDesc, float64(k.Counters.Host), with("host")...)
			out.Gauge(loadDesc, k.Counters.Work.Seconds(), with("work")...)
		}
		f.counts[i].collect(out, with)
	})
	out.Counter(movedDesc, float64(f.moved.Load()))
	for i := range t.Variants {
		f.collectShares(out, i)
	}
}

func (c *replicaCounts) collect(out scrape.Metrics, with func(...string) []string) {
	for _, s := range signals.Sources[signals.Pushed:] {
		reports := c.reports[s].Load()
		if s != signals.Piggybacked && reports == 0 { // most ways are not in use
			continue
		}
		out.Counter(reportsDesc, float64(reports), with(s.String())...)
		for _, fault := range signals.Faults {
			out.Counter(faultsDesc, float64(c.faults[s][fault].Load()), with(s.String(), fault.String())...)
		}
	}
	for r := range probeResults {
		out.Counter(probesDesc, float64(c.probes[r].Load()), with(r.String())...)
	}
}

func (f *Feed) collectShares(out scrape.Metrics, variant int) {
	if f.balancer == nil {
		return
	}
	from, to, share := f.balancer.shares(variant, f.options.Clock())
	name := f.options.Table.Variants[variant].Name
	out.Gauge(shareDesc, share, name, to.String())
	if from != to {
		out.Gauge(shareDesc, 1-share, name, from.String())
	}
}

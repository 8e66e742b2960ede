// Package scrape is for metrics that are read off something when they are scraped, so that what
// is counted is counted once.
package scrape

import "github.com/prometheus/client_golang/prometheus"

// Metrics is where a collector sends what it has found.
type Metrics chan<- prometheus.Metric

// Gauge sends the value of a gauge.
func (m Metrics) Gauge(d *prometheus.Desc, value float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

// Counter sends the value of a counter.
func (m Metrics) Counter(d *prometheus.Desc, value float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, value, labels...)
}

// Flag sends a gauge that is 1 if the condition holds, and 0 if not.
func (m Metrics) Flag(d *prometheus.Desc, condition bool, labels ...string) {
	value := 0.0
	if condition {
		value = 1
	}
	m.Gauge(d, value, labels...)
}

type collector struct {
	collect func(Metrics)
	descs   []*prometheus.Desc
}

// New is a collector of the metrics that are described, which collect sends.
func New(collect func(Metrics), descs ...*prometheus.Desc) prometheus.Collector {
	return collector{collect, descs}
}

// Describe implements [prometheus.Collector].
func (c collector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements [prometheus.Collector].
func (c collector) Collect(out chan<- prometheus.Metric) { c.collect(out) }

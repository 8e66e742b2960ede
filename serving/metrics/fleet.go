package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/work"
)

var (
	inFlightDesc = prometheus.NewDesc("gearshift_in_flight", "Requests on the replica, waiting and running.", []string{"replica", "variant"}, nil)
	upDesc       = prometheus.NewDesc("gearshift_replica_up", "Whether the replica takes new requests.", []string{"replica", "variant"}, nil)
	rateDesc     = prometheus.NewDesc("gearshift_arrival_rate", "Arrivals per second, as the policy sees them.", nil, nil)
	policyDesc   = prometheus.NewDesc("gearshift_policy_info", "The policy in charge; always 1.", []string{"policy", "version"}, nil)
)

// fleetCollector reads the ledger when metrics are scraped, so that there is
// one count of the requests in flight and it cannot drift.
type fleetCollector struct {
	router work.Router
	clock  work.Clock
}

// Describe implements [prometheus.Collector].
func (f *fleetCollector) Describe(out chan<- *prometheus.Desc) {
	out <- inFlightDesc
	out <- upDesc
	out <- rateDesc
	out <- policyDesc
}

// Collect implements [prometheus.Collector].
func (f *fleetCollector) Collect(out chan<- prometheus.Metric) {
	var v fleet.View
	f.router.Ledger().View(f.clock(), &v)
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for i, r := range v.Table.Replicas {
		variant, up := v.Table.Variants[r.Variant].Name, 1.0
		if v.Down[i] {
			up = 0
		}
		gauge(inFlightDesc, float64(v.Own(i)), r.Name, variant)
		gauge(upDesc, up, r.Name, variant)
	}
	gauge(rateDesc, v.Rate)
	name, version, _ := strings.Cut(f.router.PolicyName(), "@")
	gauge(policyDesc, 1, name, version)
}

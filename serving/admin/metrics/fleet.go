package metrics

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/work"
)

var (
	inFlightDesc = prometheus.NewDesc("gearshift_in_flight", "Requests on the replica, waiting and running.", []string{"replica", "variant"}, nil)
	upDesc       = prometheus.NewDesc("gearshift_replica_up", "Whether the replica takes new requests.", []string{"replica", "variant"}, nil)
	rateDesc     = prometheus.NewDesc("gearshift_arrival_rate", "Arrivals per second, as the policy sees them.", nil, nil)
	policyDesc   = prometheus.NewDesc("gearshift_policy_info", "The policy in charge; always 1.", []string{"policy", "version"}, nil)
)

// fleetMetrics read the ledger when metrics are scraped, so that there is one count of the
// requests in flight and it cannot drift.
func fleetMetrics(r work.Router, clock work.Clock) prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		var v fleet.View
		r.Ledger().View(clock(), &v)
		for i, r := range v.Table.Replicas {
			variant := v.Table.Variants[r.Variant].Name
			out.Gauge(inFlightDesc, float64(v.Own(i)), r.Name, variant)
			out.Flag(upDesc, !v.Down[i], r.Name, variant)
		}
		out.Gauge(rateDesc, v.Rate)
		name, version, _ := strings.Cut(r.PolicyName(), "@")
		out.Gauge(policyDesc, 1, name, version)
	}, inFlightDesc, upDesc, rateDesc, policyDesc)
}

package peers

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving/admin/scrape"
)

// metrics describe the other routers.
func (m *Module) metrics() []prometheus.Collector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("gearshift_peer_"+name, help, labels, nil)
	}
	heard := desc("heard", "1 if the router at the URL has said what it has lately, else 0.", "peer")
	age := desc("age_seconds", "Age of what the router last said.", "peer")
	inFlight := desc("in_flight", "Requests in flight of the router, as it said.", "peer")
	rate := desc("rate", "Arrivals per second at the router, as it said.", "peer")
	asked := desc("asked_total", "Answers of other routers, and failures to get one.", "result")
	return []prometheus.Collector{scrape.New(func(to scrape.Metrics) {
		for _, k := range m.Known() {
			if to.Flag(heard, k.Heard, k.URL); k.Heard {
				to.Gauge(age, k.Age.Seconds(), k.URL)
				to.Gauge(inFlight, float64(k.InFlight), k.URL)
				to.Gauge(rate, k.Rate, k.URL)
			}
		}
		m.mu.Lock()
		answered, failed := m.answered, m.failed
		m.mu.Unlock()
		to.Counter(asked, float64(answered), "answered")
		to.Counter(asked, float64(failed), "failed")
	}, heard, age, inFlight, rate, asked)}
}

package control

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/placement/bands"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// RebalancingSituation is how hosts are used, at the last measurement, and what is being moved.
type RebalancingSituation struct {
	Hosts []RebalancedHost `json:"hosts"`
	// Moves are under way; Moved and Failed count those that have ended.
	Moves  []Transfer `json:"moves"`
	Moved  int        `json:"moved"`
	Failed int        `json:"failed"`
	// Beyond is what hosts used beyond bands and limits, as a share of what all hosts have.
	Beyond float64 `json:"beyond"`
}

// RebalancedHost is what a host's replicas use of it. Busy is a share of its time.
type RebalancedHost struct {
	Name     string              `json:"name"`
	Busy     float64             `json:"busy"`
	Memory   float64             `json:"memory_bytes"`
	Read     float64             `json:"read_bytes_per_second"`
	Replicas []RebalancedReplica `json:"replicas"`
}

// RebalancedReplica is one that is loaded.
type RebalancedReplica struct {
	Name string  `json:"name"`
	Busy float64 `json:"busy"`
}

// Transfer is a replica that is being loaded for a move, or unloaded after one.
type Transfer struct {
	Replica string `json:"replica"`
	Doing   string `json:"doing"`
}

// Situation returns how hosts are used.
func (m *Rebalancing) Situation() (s RebalancingSituation) {
	m.engines.Look(func() { s = m.situation() })
	return s
}

// situation is called while the runner is locked.
func (m *Rebalancing) situation() RebalancingSituation {
	t, status := m.table, m.controller.Status()
	s := RebalancingSituation{Hosts: []RebalancedHost{}, Moves: []Transfer{}, Moved: status.Moved, Failed: status.Failed, Beyond: status.Beyond}
	for h := range t.Hosts {
		x := RebalancedHost{Name: t.Hosts[h].Name, Replicas: []RebalancedReplica{}}
		for _, i := range t.ReplicasOn(h) {
			if use, loaded := m.controller.Use(i); loaded {
				x.Busy, x.Memory, x.Read = x.Busy+use[bands.Busy], x.Memory+use[bands.Memory], x.Read+use[bands.Bandwidth]
				x.Replicas = append(x.Replicas, RebalancedReplica{t.Replicas[i].Name, use[bands.Busy]})
			}
		}
		s.Hosts = append(s.Hosts, x)
	}
	for _, a := range status.Moves {
		s.Moves = append(s.Moves, Transfer{t.Replicas[a.Replica].Name, a.Verb.String()})
	}
	return s
}

func (m *Rebalancing) serveStatus(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

var (
	rebalancedDesc = prometheus.NewDesc("gearshift_rebalancing_host_busy", "Share of its time that a host was busy in the last period, by what its answers take at its best.", []string{"host"}, nil)
	movesDesc      = prometheus.NewDesc("gearshift_rebalancing_moves_total", "Moves of replicas that have ended.", []string{"result"}, nil)
	beyondDesc     = prometheus.NewDesc("gearshift_rebalancing_beyond", "What hosts used beyond bands and limits in the last period, as a share of what all hosts have.", nil, nil)
)

// metrics are read as they are scraped.
func (m *Rebalancing) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		s := m.Situation()
		for _, h := range s.Hosts {
			out.Gauge(rebalancedDesc, h.Busy, h.Name)
		}
		out.Counter(movesDesc, float64(s.Moved), "success")
		out.Counter(movesDesc, float64(s.Failed), "failure")
		out.Gauge(beyondDesc, s.Beyond)
	}, rebalancedDesc, movesDesc, beyondDesc)}
}

package rebalancing

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/placement/bands"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// Situation is how hosts are used, at the last measurement, and what is being moved.
type Situation struct {
	Hosts []Host `json:"hosts"`
	// Moves are under way; Moved and Failed count those that have ended.
	Moves  []Transfer `json:"moves"`
	Moved  int        `json:"moved"`
	Failed int        `json:"failed"`
	// Beyond is what hosts used beyond bands and limits, as a share of what all hosts have.
	Beyond float64 `json:"beyond"`
}

// Host is what a host's replicas use of it. Busy is a share of its time.
type Host struct {
	Name     string    `json:"name"`
	Busy     float64   `json:"busy"`
	Memory   float64   `json:"memory_bytes"`
	Read     float64   `json:"read_bytes_per_second"`
	Replicas []Replica `json:"replicas"`
}

// Replica is one that is loaded.
type Replica struct {
	Name string  `json:"name"`
	Busy float64 `json:"busy"`
}

// Transfer is a replica that is being loaded for a move, or unloaded after one.
type Transfer struct {
	Replica string `json:"replica"`
	Doing   string `json:"doing"`
}

// Situation returns how hosts are used.
func (m *Module) Situation() (s Situation) {
	m.engines.Look(func() { s = m.situation() })
	return s
}

// situation is called while the runner is locked.
func (m *Module) situation() Situation {
	t, status := m.table, m.controller.Status()
	s := Situation{Hosts: []Host{}, Moves: []Transfer{}, Moved: status.Moved, Failed: status.Failed, Beyond: status.Beyond}
	for h := range t.Hosts {
		x := Host{Name: t.Hosts[h].Name, Replicas: []Replica{}}
		for _, i := range t.ReplicasOn(h) {
			if use, loaded := m.controller.Use(i); loaded {
				x.Busy, x.Memory, x.Read = x.Busy+use[bands.Busy], x.Memory+use[bands.Memory], x.Read+use[bands.Bandwidth]
				x.Replicas = append(x.Replicas, Replica{t.Replicas[i].Name, use[bands.Busy]})
			}
		}
		s.Hosts = append(s.Hosts, x)
	}
	for _, a := range status.Moves {
		s.Moves = append(s.Moves, Transfer{t.Replicas[a.Replica].Name, a.Verb.String()})
	}
	return s
}

func (m *Module) serveStatus(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

var (
	busyDesc   = prometheus.NewDesc("gearshift_rebalancing_host_busy", "Share of its time that a host was busy in the last period, by what its answers take at its best.", []string{"host"}, nil)
	movesDesc  = prometheus.NewDesc("gearshift_rebalancing_moves_total", "Moves of replicas that have ended.", []string{"result"}, nil)
	beyondDesc = prometheus.NewDesc("gearshift_rebalancing_beyond", "What hosts used beyond bands and limits in the last period, as a share of what all hosts have.", nil, nil)
)

// metrics are read as they are scraped.
func (m *Module) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		s := m.Situation()
		for _, h := range s.Hosts {
			out.Gauge(busyDesc, h.Busy, h.Name)
		}
		out.Counter(movesDesc, float64(s.Moved), "success")
		out.Counter(movesDesc, float64(s.Failed), "failure")
		out.Gauge(beyondDesc, s.Beyond)
	}, busyDesc, movesDesc, beyondDesc)}
}

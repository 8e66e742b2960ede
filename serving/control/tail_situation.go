package control

import (
	"cmp"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// Utilisations is how busy hosts are: utilisations of the middle, of the 95th percentile, of the busiest
// twentieth in the mean, and of all in the mean.
type Utilisations struct {
	P50  float64 `json:"p50"`
	P95  float64 `json:"p95"`
	Top  float64 `json:"top"`
	Mean float64 `json:"mean"`
}

// TailSituation is how busy hosts are, and what capacity that asks for.
type TailSituation struct {
	Utilisations
	// Target is the utilisation up to which the busiest hosts are to be used.
	Target float64 `json:"target"`
	// Buy is the capacity to add to every host, as a share of it, so that the busiest are used up
	// to the target; negative is how much could go. Even is what it would be if all were as busy as
	// the mean.
	Buy  float64 `json:"buy"`
	Even float64 `json:"buy_if_even"`
	// Hosts are in order of their utilisation, the busiest first.
	Hosts []TailHost `json:"hosts"`
	// History is of the last 15 minutes, the earliest first.
	History []TailPoint `json:"history"`
	// Moves, Versions, Counts and Placement are left out where there are none.
	Moves     any `json:"moves,omitempty"`
	Versions  any `json:"versions,omitempty"`
	Counts    any `json:"counts,omitempty"`
	Placement any `json:"placement,omitempty"`
}

// TailHost is one with the replicas that are loaded there.
type TailHost struct {
	Name        string   `json:"name"`
	Utilisation float64  `json:"utilisation"`
	Replicas    []string `json:"replicas"`
}

// TailPoint is the tail some seconds ago.
type TailPoint struct {
	AgoS float64 `json:"ago_s"`
	Utilisations
}

// Situation returns how busy hosts are.
func (m *Tail) Situation() TailSituation {
	s := m.measured(m.clock())
	for i := range s.Hosts {
		s.Hosts[i].Replicas = m.loaded(s.Hosts[i].Name)
	}
	if m.options.Moves != nil {
		s.Moves = m.options.Moves()
	}
	if m.options.Versions != nil {
		s.Versions = m.options.Versions()
	}
	if m.options.Counts != nil {
		s.Counts = m.options.Counts()
	}
	if m.options.Placement != nil {
		s.Placement = m.options.Placement()
	}
	return s
}

// measured is the part of the situation that is measured.
func (m *Tail) measured(now time.Duration) TailSituation {
	used := m.used(now)
	s := TailSituation{Utilisations: tailOf(used), Target: m.options.Target, Hosts: []TailHost{}, History: []TailPoint{}}
	s.Buy, s.Even = s.Top/s.Target-1, s.Mean/s.Target-1
	for h, u := range used {
		s.Hosts = append(s.Hosts, TailHost{Name: m.options.Table.Hosts[h].Name, Utilisation: u})
	}
	slices.SortStableFunc(s.Hosts, func(a, b TailHost) int { return cmp.Compare(b.Utilisation, a.Utilisation) })
	last := now / interval
	for n := max(1, last-kept+1); n <= last; n++ {
		s.History = append(s.History, TailPoint{(now - n*interval).Seconds(), tailOf(m.used(n * interval))})
	}
	return s
}

// loaded names the replicas that take memory of a host.
func (m *Tail) loaded(host string) []string {
	t, names := m.options.Table, []string{}
	for i := range t.Replicas {
		if t.Hosts[t.Replicas[i].Host].Name == host && m.placed(i) != fleet.Cold {
			names = append(names, t.Replicas[i].Name)
		}
	}
	return names
}

func (m *Tail) serve(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

var (
	tailHostDesc = prometheus.NewDesc("gearshift_tail_host_utilisation", "Share of what it can answer in time that a host answered in the last minute.", []string{"host"}, nil)
	tailDesc     = prometheus.NewDesc("gearshift_tail_utilisation", "Utilisation of hosts: the middle (p50), the 95th percentile (p95), the mean of the busiest twentieth (top) and of all (mean).", []string{"of"}, nil)
	buyDesc      = prometheus.NewDesc("gearshift_tail_capacity_to_add", "Capacity to add to every host, as a share of it, so that the busiest twentieth is used up to the target; negative if there is room.", nil, nil)
)

// metrics are read as they are scraped.
func (m *Tail) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		s := m.measured(m.clock())
		for _, h := range s.Hosts {
			out.Gauge(tailHostDesc, h.Utilisation, h.Name)
		}
		for of, u := range map[string]float64{"p50": s.P50, "p95": s.P95, "top": s.Top, "mean": s.Mean} {
			out.Gauge(tailDesc, u, of)
		}
		out.Gauge(buyDesc, s.Buy)
	}, tailHostDesc, tailDesc, buyDesc)}
}

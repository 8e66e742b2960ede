package control

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/router/placement/layouts"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
)

// PlacementOptions configure a [Placement].
type PlacementOptions struct {
	Ledger *fleet.Ledger
	// Busy measures how busy hosts are.
	Busy *signals.Busy
	// Layouts configures the controller, and Rule is the scenario's text of its rule.
	Layouts layouts.Options
	Rule    string
	// AtOnce reports whether replicas that no engine drives change their states at once, as simulated engines do.
	AtOnce bool
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Placement decides which replicas of a server's hosts are up together. It implements [serving.Module], and joins one
// server.
type Placement struct {
	ordered
	*layouts.Controller
	options PlacementOptions
	clock   func() time.Duration
}

// NewPlacement makes the module.
func NewPlacement(o PlacementOptions) (m *Placement, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m = &Placement{ordered: newOrdered(o.Ledger, o.Log, "placement", "a replica was not brought into its layout"), options: o}
	began := o.Now()
	o.Layouts.Midnight = began.Sub(time.Date(began.Year(), began.Month(), began.Day(), 0, 0, 0, 0, began.Location()))
	o.Layouts.Began = m.began
	m.Controller, err = layouts.New(o.Layouts, o.Ledger, o.Busy, m)
	return m, err
}

// Driven implements [lifecycle.Engines].
func (m *Placement) Driven(replica int) bool { return m.options.AtOnce || m.ordered.Driven(replica) }

// began logs a change that begins.
func (m *Placement) began(x layouts.Change, from int) {
	line := "a host changes its layout"
	if m.options.Layouts.Shadow {
		line = "a host would change its layout"
	}
	list := m.Layouts(x.Host)
	m.log.Info(line, "host", m.table.Hosts[x.Host].Name, "from", m.names(list[from].Up), "to", m.names(list[x.Layout].Up), "reason", x.Reason)
}

// names returns the names of replicas, without their hosts.
func (m *Placement) names(replicas []int) string {
	var list []string
	for _, r := range replicas {
		name, _, _ := strings.Cut(m.table.Replicas[r].Name, "@")
		list = append(list, name)
	}
	return strings.Join(list, " + ")
}

// Join implements [serving.Module].
func (m *Placement) Join(s *serving.Server) serving.Parts {
	m.engines, m.clock = s.Engines(), s.Clock()
	m.Claim(m.engines.Claim)
	m.engines.Join(m)
	return serving.Parts{Metrics: m.metrics(), Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/placement", Access: serving.AdminRead, About: "which replicas are up together on each host, and why", Handler: m.serve},
	}}
}

func (m *Placement) serve(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Situation())
}

// PlacementSituation is the body of GET /admin/placement.
type PlacementSituation struct {
	Rule string `json:"rule"`
	// Shadow reports whether changes are only reported.
	Shadow bool `json:"shadow"`
	// Reason explains the last choice.
	Reason string `json:"reason"`
	// Expected is the requests per second that are expected, by task, and Utility the estimated utility of one.
	Expected map[string]float64 `json:"expected_requests_per_second"`
	Utility  float64            `json:"estimated_utility"`
	// Changes have begun, or would have in shadow mode; Failed counts actions that failed.
	Changes  int             `json:"changes"`
	Failed   int             `json:"failed"`
	Hosts    []PlacedHost    `json:"hosts"`
	Replicas []PlacedReplica `json:"replicas"`
}

// PlacedHost is a host with its layouts.
type PlacedHost struct {
	Name string `json:"name"`
	// Layout is the present one; empty if what is up is none of its layouts.
	Layout string  `json:"layout"`
	SinceS float64 `json:"since_s"`
	// Changing reports whether the host is on its way to the layout.
	Changing bool   `json:"changing"`
	Reason   string `json:"reason,omitempty"`
	// Failure explains the failure of the last action, and RetryS is the time until the next try.
	Failure string         `json:"failure,omitempty"`
	RetryS  float64        `json:"retry_in_s,omitempty"`
	Layouts []PlacedLayout `json:"layouts"`
}

// PlacedLayout describes a layout of a host.
type PlacedLayout struct {
	Layout string `json:"layout"`
	// Gain is the estimated utility that each request would gain in it.
	Gain     float64 `json:"gain"`
	Capacity float64 `json:"requests_per_second"`
	// Barred explains why the host cannot be brought into it now.
	Barred string `json:"barred,omitempty"`
}

// PlacedReplica is a replica that layouts decide.
type PlacedReplica struct {
	Name string `json:"name"`
	Up   bool   `json:"up"`
	// Why explains since when and why it is not up, and the gain or loss by the other choice.
	Why string `json:"why"`
}

// Situation describes the layouts of hosts and the last choice.
func (m *Placement) Situation() (s PlacementSituation) {
	m.engines.Look(func() { s = m.situation(m.clock(), m.Status()) })
	return s
}

func (m *Placement) situation(now time.Duration, x layouts.Status) PlacementSituation {
	s := PlacementSituation{Rule: m.options.Rule, Shadow: x.Shadow, Reason: x.Reason, Utility: x.Utility, Changes: x.Changes, Failed: x.Failed,
		Expected: map[string]float64{}, Hosts: []PlacedHost{}, Replicas: []PlacedReplica{}}
	for t, rate := range x.Expected {
		s.Expected[m.table.Tasks[t].Name] = rate
	}
	for h := range x.Hosts {
		s.Hosts = append(s.Hosts, m.host(h, now, &x.Hosts[h]))
	}
	for i := range x.Replicas {
		r := &x.Replicas[i]
		s.Replicas = append(s.Replicas, PlacedReplica{m.table.Replicas[r.Replica].Name, r.Up, m.why(now, r)})
	}
	return s
}

func (m *Placement) host(h int, now time.Duration, x *layouts.HostStatus) PlacedHost {
	out := PlacedHost{Name: m.table.Hosts[h].Name, SinceS: (now - x.Since).Seconds(), Changing: x.Moving, Reason: x.Reason, Failure: x.Failure, Layouts: []PlacedLayout{}}
	if x.Failure != "" {
		out.RetryS = max(0, (x.Retry - now).Seconds())
	}
	for i := range x.Layouts {
		l := PlacedLayout{Layout: m.names(x.Layouts[i].Up), Gain: x.Gain(i), Capacity: x.Capacity[i], Barred: x.Barred[i]}
		if i == x.Present {
			out.Layout, l.Barred = l.Layout, ""
		}
		out.Layouts = append(out.Layouts, l)
	}
	return out
}

// why explains a replica: "not up since 10:32:05: …; with it a request would lose 0.012".
func (m *Placement) why(now time.Duration, r *layouts.ReplicaStatus) string {
	var parts []string
	if !r.Up {
		since := m.options.Now().Add(r.Since - now).Format("15:04:05")
		parts = append(parts, strings.TrimSuffix("not up since "+since+": "+r.Reason, ": "))
	}
	if r.Choice {
		with, gains := "with it", "gain"
		if r.Up {
			with = "without it"
		}
		if r.Gain < 0 {
			gains = "lose"
		}
		parts = append(parts, fmt.Sprintf("%s a request would %s %.3f", with, gains, max(r.Gain, -r.Gain)))
	}
	return strings.Join(parts, "; ")
}

var (
	placedDesc   = prometheus.NewDesc("gearshift_placement_up", "1 of a replica that is part of its host's layout, 0 of one that is not.", []string{"replica"}, nil)
	gainDesc     = prometheus.NewDesc("gearshift_placement_gain", "Utility that a request would gain by the host's best other layout, by the estimate; negative if it would lose.", []string{"host"}, nil)
	forecastDesc = prometheus.NewDesc("gearshift_placement_expected_requests_per_second", "Requests per second of a task that are expected.", []string{"task"}, nil)
	changesDesc  = prometheus.NewDesc("gearshift_placement_changes_total", "Changes of a host's layout that have begun, or would have in shadow mode.", nil, nil)
	failuresDesc = prometheus.NewDesc("gearshift_placement_failures_total", "Loads, unloads, sleeps and wakes for layouts that have failed, or were refused.", nil, nil)
)

// metrics returns a collector that reads the situation at each scrape.
func (m *Placement) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		s := m.Situation()
		for _, r := range s.Replicas {
			up := 0.0
			if r.Up {
				up = 1
			}
			out.Gauge(placedDesc, up, r.Name)
		}
		for _, h := range s.Hosts {
			best, others := 0.0, false
			for _, l := range h.Layouts {
				if l.Layout != h.Layout && (!others || l.Gain > best) {
					best, others = l.Gain, true
				}
			}
			out.Gauge(gainDesc, best, h.Name)
		}
		for task, rate := range s.Expected {
			out.Gauge(forecastDesc, rate, task)
		}
		out.Counter(changesDesc, float64(s.Changes))
		out.Counter(failuresDesc, float64(s.Failed))
	}, placedDesc, gainDesc, forecastDesc, changesDesc, failuresDesc)}
}

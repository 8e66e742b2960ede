// Package peers exchanges load and arrival rates between the routers of a fleet. Each router answers for itself at
// [Path] of its admin listener, and asks the others a few times a second. Their answers correct the ledger, like the
// gauges of engines, and add up to the rate of all arrivals.
package peers

import (
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/config"
)

// Path is the endpoint of a router's share.
const Path = "/admin/share"

// Share reports a router's load and arrival rate.
type Share struct {
	// Instance identifies the process. Number counts its answers: of two that cross, the later one counts.
	Instance string `json:"instance"`
	Number   uint64 `json:"number"`
	// AgeMS is the age of the counts, in milliseconds.
	AgeMS float64 `json:"age_ms"`
	fleet.Rates
	// Replicas maps names by [Engines.Shared] to the load, for replicas with requests.
	Replicas map[string]Load `json:"replicas"`
}

// Load counts a router's requests on a replica and their tokens.
type Load struct {
	InFlight int `json:"in_flight"`
	Held     int `json:"held"`
}

// Options configure a Module.
type Options struct {
	Config config.Peers
	Ledger *fleet.Ledger
	// Token is the fleet's token, which routers send to each other; empty if they need none.
	Token string
	// TLS means that admin listeners are encrypted. Those at the addresses of a name have a certificate for the name.
	TLS bool
	// Lookup returns the addresses of a name; nil uses the system's resolver.
	Lookup Lookup
	Log    *slog.Logger
}

// Engines are a server's engines, as a Module uses them.
type Engines interface {
	// Counts returns the router's own requests on the replica, and their tokens.
	Counts(replica int) signals.Count
	// Share sets the reported load of other routers on each replica.
	Share(shares []signals.Count)
	// Shared returns the replica's name among routers; empty without an engine.
	Shared(replica int) string
	// GaugesAsked reports whether all engines have been asked for their gauges.
	GaugesAsked() bool
}

// Module shares the load with other routers. It implements [serving.Module], and joins one server.
type Module struct {
	Options
	table    *fleet.Table
	clock    func() time.Duration
	engines  Engines
	client   *http.Client
	instance string
	answers  atomic.Uint64
	since    time.Duration // when it began to ask

	// correcting is held from a sum of answers to its use, so that no older sum replaces a newer one. It is taken before
	// mu.
	correcting sync.Mutex

	mu    sync.Mutex // protects what follows
	peers []*peer
	began bool
	found bool // the peers are known
	ready bool // it has heard all, or waited long enough

	answered, failed uint64
}

// peer is a router at an address of the list, which may be this one.
type peer struct {
	url string
	// said is the last answer; nil if there is none, or it is too old.
	said *Share
	at   time.Duration // the time that said describes
	// asking means that an answer is awaited, and tried that one has come or failed.
	asking, tried bool
	err           error         // of the last request; nil after an answer
	since         time.Duration // when it was listed
	// The log has said that it is not heard, and that it refuses this router's token.
	lost, refuses bool
}

// New makes the module, which asks the others from [Module.Begin] on.
func New(o Options) *Module {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, IdleConnTimeout: time.Minute}
	if o.Config.DNS != "" {
		name, _, _ := net.SplitHostPort(o.Config.DNS) // validated
		transport.TLSClientConfig = &tls.Config{ServerName: name}
	}
	m := &Module{Options: o, table: o.Ledger.Table(), instance: rand.Text(), client: &http.Client{Transport: transport}}
	m.list(o.Config.URLs)
	m.found = o.Config.DNS == ""
	return m
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.clock, m.engines = s.Clock(), s.Engines()
	access := serving.AdminRead
	if m.Token != "" {
		access = serving.FleetToken
	}
	return serving.Parts{
		Routes: []serving.Route{{
			Method: http.MethodGet, Path: Path, Access: access, Handler: m.answer,
			About: "this router's requests in flight on each replica, their tokens, and its rate of arrivals, for other routers",
		}},
		Metrics: m.metrics(),
		Unready: m.unready,
	}
}

// Own returns the router's present share.
func (m *Module) Own() Share {
	s := Share{Instance: m.instance, Number: m.answers.Add(1), Rates: m.Ledger.OwnRates(m.clock()), Replicas: map[string]Load{}}
	for i := range m.table.Replicas {
		name, n := m.engines.Shared(i), m.engines.Counts(i)
		if name != "" && (n.InFlight > 0 || n.Held > 0) {
			s.Replicas[name] = Load{n.InFlight, n.Held}
		}
	}
	return s
}

func (m *Module) answer(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.Own()) // the peer may be gone
}

// list sets the routers' URLs, and keeps the answers of those that stay.
func (m *Module) list(urls []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var now time.Duration
	if m.began {
		now = m.clock()
	}
	var peers []*peer
	for _, url := range urls {
		i := slices.IndexFunc(m.peers, func(p *peer) bool { return p.url == url })
		if i >= 0 {
			peers = append(peers, m.peers[i])
			continue
		}
		peers = append(peers, &peer{url: url, since: now})
	}
	m.peers, m.found = peers, true
}

// take records a peer's answer about the time at.
func (m *Module) take(p *peer, s *Share, at time.Duration) {
	for name, n := range s.Replicas {
		s.Replicas[name] = Load{clamp(n.InFlight), clamp(n.Held)}
	}
	for i := range s.Smoothed {
		s.Smoothed[i] = plausible(s.Smoothed[i])
	}
	s.Rate = plausible(s.Rate)
	m.mu.Lock()
	m.answered++
	p.tried, p.err = true, nil
	if p.said != nil && p.said.Instance == s.Instance && p.said.Number >= s.Number {
		m.mu.Unlock()
		return
	}
	if p.lost {
		m.Log.Info("a router answers: its requests count", "peer", p.url)
	}
	p.said, p.at, p.lost, p.refuses = s, at, false, false
	m.mu.Unlock()
	m.correct(at)
}

// most bounds a router's count on a replica. An answer beyond it is invalid.
const most = 1 << 24

func clamp(n int) int { return min(max(n, 0), most) }

func plausible(rate float64) float64 {
	if rate >= 0 && rate < most { // NaN fails too
		return rate
	}
	return 0
}

// correct corrects the ledger by the sum of the others' recent answers.
func (m *Module) correct(now time.Duration) {
	m.correcting.Lock()
	defer m.correcting.Unlock()
	names := make([]string, len(m.table.Replicas))
	for i := range names {
		names[i] = m.engines.Shared(i)
	}
	m.mu.Lock()
	sum := make([]signals.Count, len(names))
	var rates *fleet.Rates
	var counted []string
	if m.found && !slices.ContainsFunc(m.peers, func(p *peer) bool { return p.said == nil || p.said.Instance != m.instance }) {
		rates = new(fleet.Rates) // there are no other routers
	}
	for _, p := range m.others(now) {
		if slices.Contains(counted, p.said.Instance) {
			continue // another address of the same router
		}
		counted = append(counted, p.said.Instance)
		for i, name := range names {
			n := p.said.Replicas[name] // replicas that this scenario lacks are ignored
			sum[i] = sum[i].Plus(signals.Count(n))
		}
		if rates == nil {
			rates = new(fleet.Rates)
		}
		*rates = rates.Plus(p.said.Rates)
	}
	m.mu.Unlock()
	m.Ledger.ShareRates(rates)
	m.engines.Share(sum)
}

// others returns the peers with a recent answer, except this router itself, and drops older answers. The lock is held.
func (m *Module) others(now time.Duration) (list []*peer) {
	for _, p := range m.peers {
		switch {
		case p.said == nil:
			if m.began && !p.lost && now-max(m.since, p.since) > m.Config.JoinWithin {
				p.lost = true
				m.Log.Warn("a router has never answered: its requests do not count", "peer", p.url, "for", m.Config.JoinWithin, "error", p.err)
			}
		case now-p.at > m.Config.SilentAfter:
			p.said = nil
			if !p.lost {
				p.lost = true
				m.Log.Warn("a router does not answer: its requests no longer count", "peer", p.url, "for", m.Config.SilentAfter, "error", p.err)
			}
		case p.said.Instance != m.instance:
			list = append(list, p)
		}
	}
	return list
}

// unready returns why the server still waits for other routers and engines, or "".
func (m *Module) unready() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.ready || !m.began {
		return ""
	}
	heard := m.found && !slices.ContainsFunc(m.peers, func(p *peer) bool { return !p.tried }) && m.engines.GaugesAsked()
	if late := m.clock()-m.since > m.Config.JoinWithin; heard || late {
		if m.ready = true; !heard {
			m.Log.Warn("ready before all routers and engines have answered", "after", m.Config.JoinWithin)
		}
		return ""
	}
	return "waits for the first answers of the other routers and the engines"
}

// Known describes another router.
type Known struct {
	URL, Instance string
	Heard         bool
	Age           time.Duration
	InFlight      int
	Rate          float64
}

// Known lists the other routers.
func (m *Module) Known() (list []Known) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	heard := m.others(now)
	for _, p := range m.peers {
		if p.said != nil && p.said.Instance == m.instance {
			continue
		}
		k := Known{URL: p.url, Heard: slices.Contains(heard, p)}
		if k.Heard {
			k.Instance, k.Age, k.Rate = p.said.Instance, now-p.at, p.said.Rate
			for _, n := range p.said.Replicas {
				k.InFlight += n.InFlight
			}
		}
		list = append(list, k)
	}
	slices.SortFunc(list, func(a, b Known) int { return cmp.Compare(a.URL, b.URL) })
	return list
}

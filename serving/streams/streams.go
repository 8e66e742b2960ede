// Package streams serves streaming clients, which send some of their frames and track the last result on the others.
// The router plans which frames each sends, so that they meet in batches and everybody keeps their accuracy; see
// router/offload, whose schedules it drives by the clock. Clients connect by WebSocket.
package streams

import (
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/admission/limits"
	"gearshift/serving/openai/wire"
)

// Config says how streams are served.
type Config struct {
	Task   int // of the fleet's table
	FPS    float64
	Policy offload.Policy
	// Verified has [offload.Alpha] admit clients by their expected accuracy, in place of by frames that had to wait.
	Verified bool
	// Grace is the part of a batch's time that a schedule leaves free, and Margin by how much more than they say clients
	// are taken to lose.
	Grace, Margin float64
	// Period sets how often the router plans, and Horizon how far.
	Period, Horizon time.Duration
	// DropRate is that of a client which states none.
	DropRate float64
	// Clients bounds the connections, MaxFrame the bytes of a frame, and Idle how long a client may say nothing.
	Clients  int
	MaxFrame int
	Idle     time.Duration
	// HTTP3 is the UDP address at which WebTransports are opened; empty: there are none.
	HTTP3 string
	Input Input
	Hosts []Host
}

// Host is one that answers frames.
type Host struct {
	Name  string
	Sizes []Size // the first is that to which SLAs relate
}

// Size is a model size on a host.
type Size struct {
	Replica int       // of the fleet's table
	Latency []float64 // of a batch by its size, in ms
	Gap     float64   // the quality that it lacks beside the first
}

// Options are what a Module is made of.
type Options struct {
	Config
	Ledger *fleet.Ledger
	Log    *slog.Logger
}

// Module is the part of a server that serves streams.
type Module struct {
	Options
	server   *serving.Server
	wake     chan struct{}            // something may be to be done
	listener atomic.Pointer[listener] // of WebTransports; nil: there are none

	mu        sync.Mutex    // protects all below, and what hosts and sessions say
	fleet     offload.Fleet // with those of the connected that have said hello
	connected map[*session]bool
	running   bool    // the loop
	looked    float64 // when it looked for clients of which nothing comes
	counts    counts
}

// counts count what happens.
type counts struct {
	frames        map[string]uint64 // by outcome
	batches, late []uint64          // by host
	evicted       uint64
	sessions      uint64
}

// The outcomes of frames.
const (
	outcomeAnswered = "answered"
	outcomeDropped  = "dropped" // replaced by a newer plan, or its client has gone
	outcomeRefused  = "refused"
	outcomeFailed   = "failed"
)

// New makes a Module.
func New(o Options) *Module {
	m := &Module{Options: o, wake: make(chan struct{}, 1), connected: map[*session]bool{}}
	m.counts = counts{frames: map[string]uint64{}, batches: make([]uint64, len(o.Hosts)), late: make([]uint64, len(o.Hosts))}
	m.fleet = offload.Fleet{Driver: driver{m}, Period: o.Period.Seconds() * o.FPS, Rest: o.FPS}
	for i := range o.Hosts {
		m.fleet.Hosts = append(m.fleet.Hosts, newHost(&m.Config, &o.Hosts[i], i))
	}
	o.Ledger.OnRoom(m.poke)
	return m
}

// Join implements [serving.Module].
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.server = s
	return serving.Parts{
		Routes: append(m.pageRoutes(), []serving.Route{
			{Method: http.MethodGet, Path: Path, Access: serving.ClientKey, About: "frames of a streaming client over a WebSocket, and its schedule and results", Handler: m.serve},
			{Method: http.MethodConnect, Path: Path, Access: serving.ClientKey, About: "the same over WebTransport, on the HTTP/3 listener alone", Handler: m.serve},
			{Method: http.MethodGet, Path: AboutPath, Access: serving.ClientKey, About: "what streaming clients have to know: task, frames, where WebTransports are opened", Handler: m.about},
			{Method: http.MethodGet, Path: StatePath, Access: serving.AdminRead, About: "streaming clients with their SLA and drop, and the last batches of hosts", Handler: m.serveState},
		}...),
		Metrics: []prometheus.Collector{m.collector()},
	}
}

// poke has the loop look what there is to do.
func (m *Module) poke() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// frames is the time in frames of the server's clock, which starts at a second so that no time is 0.
func (m *Module) frames() float64 { return (m.server.Clock()().Seconds() + 1) * m.FPS }

// serve answers a client for as long as it stays.
func (m *Module) serve(w http.ResponseWriter, r *http.Request) {
	if allowed := m.server.Batches().Allowed(r); allowed != 0 {
		for _, s := range m.Hosts[0].Sizes {
			if v := m.Ledger.Table().Replicas[s.Replica].Variant; allowed>>v&1 == 0 {
				serving.Fail(w, r, http.StatusForbidden, wire.Error{Type: wire.InvalidRequest, Code: "model_not_allowed", Message: "this API key may not use " + m.Ledger.Table().Variants[v].Name + ", which answers streams"})
				return
			}
		}
	}
	m.mu.Lock()
	full := len(m.connected) >= m.Clients
	m.mu.Unlock()
	if full {
		w.Header().Set("Retry-After", strconv.Itoa(1))
		serving.Fail(w, r, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "too_many_streams", Message: "the router has " + strconv.Itoa(m.Clients) + " streaming clients (serving.streams.clients); try again later"})
		return
	}
	x := &session{identity: identity{tenant: serving.Tenant(r), address: r.RemoteAddr}, module: m, finished: make(chan struct{})}
	x.stream.Of = x
	conn, err := m.accept(w, r, x.pinged)
	if err != nil {
		return
	}
	clock := m.server.Clock()
	begun := clock()
	x.run(conn)
	m.mu.Lock()
	frames, results := x.received, x.results
	m.mu.Unlock()
	m.Log.Info("stream", "id", x.id, "tenant", x.tenant, "client", x.address, "seconds", math.Round((clock()-begun).Seconds()*10)/10, "frames", frames, "results", results)
}

var (
	clientsDesc = prometheus.NewDesc("gearshift_stream_clients", "Streaming clients by their place: connected, served, waiting.", []string{"place"}, nil)
	framesDesc  = prometheus.NewDesc("gearshift_stream_frames_total", "Frames of streaming clients, by what became of them.", []string{"outcome"}, nil)
	batchesDesc = prometheus.NewDesc("gearshift_stream_batches_total", "Batches of frames, by host and whether they began later than planned, by more than a frame interval.", []string{"host", "late"}, nil)
	evictedDesc = prometheus.NewDesc("gearshift_stream_evictions_total", "Streaming clients that are no longer served, for lack of room or because their host failed.", nil, nil)
)

// collector shows what is served.
func (m *Module) collector() prometheus.Collector {
	return scrape.New(func(out scrape.Metrics) {
		m.mu.Lock()
		defer m.mu.Unlock()
		c := m.counted()
		out.Gauge(clientsDesc, float64(c.Connected), "connected")
		out.Gauge(clientsDesc, float64(c.Served), "served")
		out.Gauge(clientsDesc, float64(c.Waiting), "waiting")
		for outcome, n := range c.Frames {
			out.Counter(framesDesc, float64(n), outcome)
		}
		for i, h := range m.Hosts {
			out.Counter(batchesDesc, float64(m.counts.late[i]), h.Name, "true")
			out.Counter(batchesDesc, float64(m.counts.batches[i]-m.counts.late[i]), h.Name, "false")
		}
		out.Counter(evictedDesc, float64(c.Evicted))
	}, clientsDesc, framesDesc, batchesDesc, evictedDesc)
}

// buffers is the budget of what is received.
func (m *Module) buffers() *limits.Answers { return m.server.Batches().Buffers() }

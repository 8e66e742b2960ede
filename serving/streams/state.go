package streams

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"

	"gearshift/router/offload"
	"gearshift/serving"
	"gearshift/serving/openai/wire"
)

// StatePath is that of the state of streams, of the admin API.
const StatePath = "/admin/streams"

// State is how streams are served, the body of GET /admin/streams.
type State struct {
	FPS    float64     `json:"fps"`
	Counts Counts      `json:"counts"`
	Hosts  []HostState `json:"hosts"`
	// Clients are the ones that are served, those first that have least of their SLA left, and then those that wait.
	Clients []ClientState `json:"clients"`
	// Limit bounds Clients; Total counts all that have said hello.
	Limit int `json:"limit"`
	Total int `json:"total"`
}

// Counts are those of clients now, and of all since the start.
type Counts struct {
	Connected int               `json:"connected"`
	Served    int               `json:"served"`
	Waiting   int               `json:"waiting"`
	Frames    map[string]uint64 `json:"frames"`
	Batches   uint64            `json:"batches"`
	Late      uint64            `json:"late"`
	Evicted   uint64            `json:"evicted"`
}

// HostState is a host. Room is the share of it that its clients leave free.
type HostState struct {
	Name    string       `json:"name"`
	Up      bool         `json:"up"`
	Clients int          `json:"clients"`
	Room    float64      `json:"room"`
	Batches []BatchState `json:"batches"` // of the last second, in order; of the first hosts alone
}

// BatchState is a batch that has begun so long ago. One that still runs has taken no time yet.
type BatchState struct {
	AgoMS  float64 `json:"ago_ms"`
	Frames int     `json:"frames"`
	Model  string  `json:"model"`
	LateMS float64 `json:"late_ms,omitempty"`
	TookMS float64 `json:"took_ms,omitempty"`
}

// ClientState is a client. What is measured is of the last whole second, and left out where nothing was tracked in it.
type ClientState struct {
	ID      uint64 `json:"id"`
	Tenant  string `json:"tenant,omitempty"`
	Address string `json:"address"`
	Served  bool   `json:"served"`
	Host    string `json:"host,omitempty"`
	Model   string `json:"model,omitempty"` // of the last result
	Why     string `json:"why,omitempty"`   // it is not served

	SLA float64 `json:"sla"`
	// DropRate is what the client reports, and Drop what it loses by that with the strides that it had: more than with a
	// server of its own.
	DropRate  float64  `json:"drop_rate"`
	Drop      *float64 `json:"drop,omitempty"`
	Stride    float64  `json:"mean_stride,omitempty"`   // frames
	Interval  float64  `json:"mean_interval,omitempty"` // frames from one result's to the next
	NetworkMS float64  `json:"network_ms"`
	Results   int      `json:"results_per_second"`
	Late      int      `json:"late_per_second"` // of those, from batches that began more than a frame interval late
}

// batches are the last that a host has begun.
type batches struct {
	list [128]begun
	n    int // that there were
}

type begun struct {
	at, late, took float64 // frames
	model, frames  int
}

// begin notes a batch, and ended how long the last one took.
func (b *batches) begin(x begun)      { b.list[b.n%len(b.list)] = x; b.n++ }
func (b *batches) ended(took float64) { b.list[(b.n-1)%len(b.list)].took = took }

// since lists those that began or ran after a time.
func (b *batches) since(from float64) (list []begun) {
	for i := max(0, b.n-len(b.list)); i < b.n; i++ {
		x := b.list[i%len(b.list)]
		if x.at+x.took > from || x.took == 0 && i == b.n-1 {
			list = append(list, x)
		}
	}
	return list
}

// identity is whose a session is.
type identity struct {
	id              uint64
	tenant, address string
}

// seen is what the results of a client come to.
type seen struct {
	since      float64 // the client is served
	frame      int     // of the last result
	counted    int     // the newest frame whose stride is counted
	gap        float64 // of its model, and its name
	model      string
	this, last second
}

// second sums up a whole second of the server's clock.
type second struct {
	at, results, late, strides, tracked int
	gaps                                float64
}

// turn begins the second that a time is in.
func (s *seen) turn(at int) {
	switch {
	case at == s.this.at:
		return
	case at == s.this.at+1:
		s.last = s.this
	default:
		s.last = second{}
	}
	s.this = second{at: at}
}

// sees notes a result that is sent to a client, which tracks it from when it gets it.
func (x *session) sees(frame int, model string, gap float64, late bool, now float64) {
	s := &x.seen
	s.turn(int(now / x.module.FPS))
	s.this.results++
	if late {
		s.this.late++
	}
	newest := x.stream.Newest(now + x.stream.Network/2)
	switch n := newest - s.counted; {
	case s.since != x.stream.Since: // what it had tracked before is over
		s.since, s.frame = x.stream.Since, -1
	case frame <= s.frame:
		return
	case n > 0:
		s.this.strides += n*(s.counted+1-s.frame) + n*(n-1)/2
		s.this.tracked += n
		s.this.gaps += float64(n) * s.gap
	}
	s.frame, s.counted, s.model, s.gap = frame, newest, model, gap
}

// modelOf names the variant of a size of a host.
func (m *Module) modelOf(h *host, model int) string {
	t := m.Ledger.Table()
	return t.Variants[t.Replicas[h.Sizes[model].Replica].Variant].Name
}

// mostShown bounds the hosts whose batches are shown.
const mostShown = 32

// State returns how streams are served, with so many clients at most.
func (m *Module) State(limit int) State {
	m.mu.Lock()
	s := State{FPS: m.FPS, Counts: m.counted(), Limit: limit, Total: len(m.fleet.Streams), Clients: make([]ClientState, 0, len(m.fleet.Streams))}
	now := m.frames()
	served := make([]int, len(m.fleet.Hosts))
	for _, x := range m.fleet.Streams {
		if x.Served {
			served[x.Host.Of.(*host).index]++
		}
		s.Clients = append(s.Clients, sessionOf(x).state(now))
	}
	for _, planned := range m.fleet.Hosts {
		h := planned.Of.(*host)
		o := HostState{Name: h.Name, Up: planned.Up[0], Clients: served[h.index], Room: rounded(max(0, m.fleet.Room(planned))), Batches: []BatchState{}}
		if len(s.Hosts) < mostShown {
			for _, b := range h.recent.since(now - m.FPS) {
				o.Batches = append(o.Batches, BatchState{m.milliseconds(now - b.at), b.frames, m.modelOf(h, b.model), m.milliseconds(max(0, b.late)), m.milliseconds(b.took)})
			}
		}
		s.Hosts = append(s.Hosts, o)
	}
	m.mu.Unlock()
	slices.SortStableFunc(s.Clients, func(a, b ClientState) int {
		return cmp.Or(cmp.Compare(b.used(), a.used()), cmp.Compare(a.ID, b.ID))
	})
	s.Clients = slices.Clip(s.Clients[:min(limit, len(s.Clients))])
	return s
}

// used returns what part of its SLA a client loses, which orders clients; that of one which waits is negative.
func (c *ClientState) used() float64 {
	switch {
	case !c.Served:
		return -1
	case c.Drop == nil || *c.Drop <= 0:
		return 0
	}
	return *c.Drop / max(c.SLA, offload.Same)
}

// state returns how a client is served.
func (x *session) state(now float64) ClientState {
	m := x.module
	c := ClientState{
		ID: x.id, Tenant: x.tenant, Address: x.address, Served: x.stream.Served,
		SLA: x.stream.SLA, DropRate: rounded(x.stream.Rate), NetworkMS: m.milliseconds(x.stream.Network),
	}
	if !c.Served {
		c.Why = x.why
		return c
	}
	h := x.stream.Host
	x.seen.turn(int(now / m.FPS))
	last := &x.seen.last
	c.Host, c.Model, c.Results, c.Late = h.Name, x.seen.model, last.results, last.late
	if last.tracked > 0 {
		tracked := float64(last.tracked)
		stride := float64(last.strides) / tracked
		drop := rounded(h.Server.Drop(&offload.Client{Rate: x.stream.Rate, Network: x.stream.Network}, stride) + last.gaps/tracked)
		c.Stride, c.Interval = rounded(stride), rounded(tracked/float64(last.results))
		c.Drop = &drop
	}
	return c
}

// rounded rounds what is shown to five decimals.
func rounded(x float64) float64 { return math.Round(1e5*x) / 1e5 }

// counted sums up what is counted.
func (m *Module) counted() Counts {
	c := Counts{Connected: len(m.connected), Frames: map[string]uint64{}, Evicted: m.counts.evicted}
	for _, x := range m.fleet.Streams {
		if x.Served {
			c.Served++
		}
	}
	c.Waiting = len(m.fleet.Streams) - c.Served
	for _, outcome := range []string{outcomeAnswered, outcomeDropped, outcomeRefused, outcomeFailed} {
		c.Frames[outcome] = m.counts.frames[outcome]
	}
	for i := range m.counts.batches {
		c.Batches, c.Late = c.Batches+m.counts.batches[i], c.Late+m.counts.late[i]
	}
	return c
}

// The clients that an answer has, unless it is asked for more, and at most.
const usualLimit, mostLimit = 100, 10_000

// serveState answers GET /admin/streams.
func (m *Module) serveState(w http.ResponseWriter, r *http.Request) {
	limit := usualLimit
	if text := r.URL.Query().Get("limit"); text != "" {
		var err error
		if limit, err = strconv.Atoi(text); err != nil || limit < 0 || limit > mostLimit {
			serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_limit", Message: "limit: " + strconv.Quote(text) + "; want a number of clients from 0 to " + strconv.Itoa(mostLimit)})
			return
		}
	}
	_ = serving.Answer(w, http.StatusOK, m.State(limit))
}

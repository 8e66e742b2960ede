package discovery

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/engines"
)

// Options configure a [Module]. All of them are required.
type Options struct {
	Source Source
	// Kind of the source, for people: file, kubernetes or dns.
	Kind   string
	Groups []Group
	Table  *fleet.Table
	// Connect prepares connections to the address, and returns the function that puts them in use for the replica.
	Connect func(replica int, address string) (use func(), err error)
	// Disconnect removes the replica's address.
	Disconnect func(replica int)
	Log        *slog.Logger
}

// Module assigns the engines that a source lists to the slots of a server. It implements [serving.Module], and joins
// one server.
type Module struct {
	options Options
	engines *engines.Engines
	clock   func() time.Duration
	metrics *metrics

	mu     sync.Mutex // protects all below
	slots  *Slots
	since  map[int]time.Duration // by replica, the time of the slot's last change
	broken map[string]error      // by ID of an endpoint that has a slot, why its address cannot be used
	listed []Endpoint
	heard  time.Duration // the time of the source's last report
	ever   bool          // it has reported
	causes []string      // why engines had no slot at the last list, in order
}

// New makes the module. Nothing is discovered before [Module.Run].
func New(o Options) *Module {
	m := &Module{options: o, slots: NewSlots(o.Groups), since: map[int]time.Duration{}, broken: map[string]error{}}
	m.metrics = newMetrics(m)
	return m
}

// Join implements [serving.Module]. All slots are free until the source has listed engines.
func (m *Module) Join(s *serving.Server) serving.Parts {
	m.engines, m.clock = s.Engines(), s.Clock()
	for _, x := range m.slots.slots {
		m.engines.Vacate(x.Replica, func() {})
	}
	return serving.Parts{Metrics: m.metrics.collectors(), Routes: []serving.Route{{
		Method: http.MethodGet, Path: "/admin/discovery", Access: serving.AdminRead,
		About: "which engines have which slots, and which engines have none", Handler: m.serve,
	}}}
}

// Run follows the source until the context ends.
func (m *Module) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := m.options.Source.Watch(ctx, m.set); err != nil {
			m.options.Log.Error("cannot list the engines: keeping the known ones", "source", m.options.Kind, "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(again):
		}
	}
}

// again is the time after which a source that failed is watched again.
const again = 2 * time.Second

// set takes the list of all endpoints, and applies the changes that follow.
func (m *Module) set(list []Endpoint) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.heard, m.ever = m.clock(), true
	m.listed = append(m.listed[:0], list...)
	for _, c := range m.slots.Set(list) {
		m.since[c.Replica] = m.heard
		m.metrics.changes.WithLabelValues(m.variant(c.Replica), c.Kind.String()).Inc()
		m.apply(c)
	}
	m.explain()
}

// apply carries out one change on the server.
func (m *Module) apply(c Change) {
	log := m.options.Log.With("replica", m.options.Table.Replicas[c.Replica].Name, "engine", c.Endpoint.Name, "address", c.Endpoint.Address)
	if c.Kind != Took && m.broken[c.Endpoint.ID] != nil { // its slot stayed empty
		if c.Kind == Left {
			delete(m.broken, c.Endpoint.ID)
		}
		return
	}
	switch c.Kind {
	case Left:
		m.engines.Vacate(c.Replica, func() { m.options.Disconnect(c.Replica) })
		log.Info("engine has left its slot")
	case Took:
		use, err := m.options.Connect(c.Replica, c.Endpoint.Address)
		if err != nil {
			m.broken[c.Endpoint.ID] = err
			log.Error("cannot use the address of an engine: its slot stays empty", "error", err)
			return
		}
		m.engines.Occupy(c.Replica, use)
		log.Info("engine has taken a slot")
	case Ends:
		m.engines.End(c.Replica, true)
		log.Info("engine takes no new requests, and finishes those in flight", "ending", c.Endpoint.Ending)
	case Back:
		m.engines.End(c.Replica, false)
		log.Info("engine takes requests again")
	}
}

// variant returns the name of the replica's variant.
func (m *Module) variant(replica int) string {
	return m.options.Table.Variants[m.options.Table.Replicas[replica].Variant].Name
}

// status is the answer to GET /admin/discovery.
type status struct {
	Source string `json:"source"`
	// Reachable is false while the source cannot be read.
	Reachable bool `json:"reachable"`
	// AgeS is the time since the source's last report, in seconds; left out before the first.
	AgeS      *float64        `json:"age_s,omitempty"`
	Slots     []slotStatus    `json:"slots"`
	Waiting   []waitingStatus `json:"without_slot"`
	Endpoints int             `json:"endpoints"`
}

type slotStatus struct {
	Replica string `json:"replica"`
	Variant string `json:"variant"`
	// State is absent, draining or present, whatever the engine's health.
	State   string  `json:"state"`
	Engine  string  `json:"engine,omitempty"`
	Address string  `json:"address,omitempty"`
	SinceS  float64 `json:"since_s,omitempty"`
	Error   string  `json:"error,omitempty"`
	Order   int     `json:"-"`
}

type waitingStatus struct {
	Engine  string `json:"engine"`
	Address string `json:"address"`
	Variant string `json:"variant,omitempty"`
	Cause   string `json:"cause"`
}

// states of slots.
const (
	stateAbsent   = "absent"
	stateDraining = "draining"
	statePresent  = "present"
)

// state returns the state of a slot. The lock is held.
func (m *Module) state(x *slot) string {
	switch {
	case !x.taken || m.broken[x.endpoint.ID] != nil:
		return stateAbsent
	case !x.endpoint.takes():
		return stateDraining
	}
	return statePresent
}

// serve answers GET /admin/discovery.
func (m *Module) serve(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, m.status()) // the client may be gone
}

func (m *Module) status() status {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.clock()
	out := status{Source: m.options.Kind, Reachable: m.reachable(), Slots: []slotStatus{}, Waiting: []waitingStatus{}, Endpoints: len(m.listed)}
	if m.ever {
		age := (now - m.heard).Seconds()
		out.AgeS = &age
	}
	for i := range m.slots.slots {
		x := &m.slots.slots[i]
		s := slotStatus{Replica: m.options.Table.Replicas[x.Replica].Name, Variant: m.variant(x.Replica), State: m.state(x), Engine: x.endpoint.Name, Address: x.endpoint.Address, Order: x.Replica}
		if at, ok := m.since[x.Replica]; ok {
			s.SinceS = (now - at).Seconds()
		}
		if err := m.broken[x.endpoint.ID]; err != nil {
			s.Error = err.Error()
		}
		out.Slots = append(out.Slots, s)
	}
	slices.SortFunc(out.Slots, func(a, b slotStatus) int { return cmp.Compare(a.Order, b.Order) })
	for _, e := range m.slots.waiting {
		out.Waiting = append(out.Waiting, waitingStatus{e.Name, e.Address, e.Variant, e.cause})
	}
	return out
}

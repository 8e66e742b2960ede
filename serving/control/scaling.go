package control

import (
	"errors"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/replicas"
	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/control/states"
)

// ScalingOptions are what a [Scaling] is made of.
type ScalingOptions struct {
	Ledger *fleet.Ledger
	// Busy measures the load of replicas.
	Busy *signals.Busy
	// Counted lists the variants whose replicas are counted, once a Period.
	Counted []replicas.Counted
	Period  time.Duration
	// States is where the load so far survives the router, so that forecasts go on; nil is nowhere.
	States states.Store
	// Now is the wall clock; nil is time.Now.
	Now func() time.Time
	Log *slog.Logger
}

// Scaling counts the replicas of a server. It implements [serving.Module], and joins one server.
type Scaling struct {
	ordered
	*replicas.Replicas
	options ScalingOptions
	claim   func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims
	store   *states.Saver[savedLoads] // nil without a store
	now     func() time.Time
	known   int // intervals whose loads are kept
}

// savedLoads holds the loads that a store has, and the wall clock's time of the last in Unix nanoseconds.
type savedLoads struct {
	replicas.History
	At int64 `json:"at"`
}

// NewScaling makes the module, and holds its state until [Scaling.Close].
func NewScaling(o ScalingOptions) (m *Scaling, err error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	m = &Scaling{ordered: newOrdered(o.Ledger, o.Log, "counting replicas", "the number of replicas is not as wanted"), options: o, now: o.Now}
	var last *savedLoads
	if m.store, last, err = states.Open[savedLoads](o.States, states.Replicas, o.Now()); err != nil {
		return nil, err
	}
	if err = m.begin(last); err != nil {
		return nil, errors.Join(err, m.store.Close(func() savedLoads { return savedLoads{} }))
	}
	return m, nil
}

// begin makes the controller, whose forecasts continue from the stored load.
func (m *Scaling) begin(last *savedLoads) (err error) {
	o := &m.options
	if m.Replicas, err = replicas.NewReplicas(o.Counted, o.Period, o.Ledger, o.Busy, m); err != nil {
		return err
	}
	if last != nil {
		m.Resume(last.History, o.Now().Sub(time.Unix(0, last.At)))
	}
	m.known = m.Known()
	return nil
}

// turn restarts with the load that the previous acting router has saved.
func (m *Scaling) turn(t states.Turn, last *savedLoads) (err error) {
	if !t.Acts {
		return nil
	}
	m.engines.Do(func() {
		if err = m.begin(last); err == nil {
			m.Claim(m.claim)
		}
	})
	return err
}

// saved returns what the store is to have.
func (m *Scaling) saved() savedLoads { return savedLoads{m.History(), m.now().UnixNano()} }

// Close saves the state and lets another controller have it. It is called once the server has ended.
func (m *Scaling) Close() error {
	return m.store.Close(func() (state savedLoads) {
		m.engines.Look(func() { state = m.saved() })
		return state
	})
}

// Wake implements [control.Controller].
func (m *Scaling) Wake(now time.Duration) time.Duration {
	next := m.Replicas.Wake(now)
	if n := m.Known(); n != m.known && m.store != nil {
		m.known = n
		m.store.Keep(m.saved())
	}
	return next
}

// Join implements [serving.Module].
func (m *Scaling) Join(s *serving.Server) serving.Parts {
	m.engines = s.Engines()
	m.claim, _ = m.engines.Claims()
	m.Claim(m.claim)
	m.engines.Join(m)
	m.store.Follow(m.turn)
	m.store.Begin(m.log, func(_ savedLoads, err error) {
		if err != nil && m.engines.StandsBy() == nil {
			m.log.Error("the load so far is not saved; replicas are counted all the same", "error", err)
		}
	})
	return serving.Parts{Metrics: m.metrics()}
}

// ScaledVariant is how the replicas of one are counted.
type ScaledVariant struct {
	Variant string `json:"variant"`
	Up      int    `json:"up"`
	Loading int    `json:"loading"`
	Wanted  int    `json:"wanted"`
	// Load is how many hosts its replicas kept busy in the last period, and Expected how many they are expected to
	// once a replica that is started now is up, with the margin.
	Load     float64 `json:"load"`
	Expected float64 `json:"expected"`
}

// Situation returns how the replicas of each variant are counted.
func (m *Scaling) Situation() (list []ScaledVariant) {
	m.engines.Look(func() {
		for _, x := range m.Status() {
			list = append(list, ScaledVariant{m.table.Variants[x.Variant].Name, x.Up, x.Loading, x.Wanted, x.Load, x.Expected})
		}
	})
	return list
}

var (
	countDesc    = prometheus.NewDesc("gearshift_scaling_replicas", "Replicas of a variant that are up, that are being loaded, and that are wanted.", []string{"variant", "of"}, nil)
	loadDesc     = prometheus.NewDesc("gearshift_scaling_load", "How many hosts the variant's replicas kept busy in the last period.", []string{"variant"}, nil)
	expectedDesc = prometheus.NewDesc("gearshift_scaling_expected_load", "How many hosts they are expected to keep busy once a replica that is started now is up, with the margin.", []string{"variant"}, nil)
)

// metrics are read as they are scraped.
func (m *Scaling) metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		for _, x := range m.Situation() {
			out.Gauge(countDesc, float64(x.Up), x.Variant, "up")
			out.Gauge(countDesc, float64(x.Loading), x.Variant, "loading")
			out.Gauge(countDesc, float64(x.Wanted), x.Variant, "wanted")
			out.Gauge(loadDesc, x.Load, x.Variant)
			out.Gauge(expectedDesc, x.Expected, x.Variant)
		}
	}, countDesc, loadDesc, expectedDesc)}
}

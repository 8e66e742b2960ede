// Package engines watches the engines behind replicas, and has them load and unload their
// models: their health, which a [Prober] asks for, what they report of themselves, whether they
// keep to their profiles.
package engines

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/router/signals"
	"gearshift/serving/config"
	"gearshift/serving/engines/agents"
	"gearshift/serving/engines/gauges"
)

// Options are what Engines are made of.
type Options struct {
	Ledger *fleet.Ledger
	// Backends of the replicas, in the table's order.
	Backends  []config.Backend
	Health    health.Config
	Gauges    gauges.Config
	Lifecycle agents.Config
	// DrainTimeout is how long the requests on a replica may take to end before an
	// unload, or a sleep, is given up.
	DrainTimeout time.Duration
	// Drift compares answers with the replicas' profiles. It may be nil.
	Drift *drift.Monitor
	// Correct has forecasts use the drift of replicas.
	Correct bool
	// Doubt has Doubted called.
	Doubt bool
	// Doubted is called when policies that choose by forecasts are to be doubted, and when no more. It may be nil.
	Doubted func(bool)
	Clock   func() time.Duration
	Log     *slog.Logger
	// Acts reports whether this router gives orders to engines, of several that share them; nil: always.
	// [Engines.Nudge] follows when it begins to act.
	Acts func() bool
	Hooks
}

// Hooks are what Engines ask of, and report to, those who send requests. They are called
// from any goroutine, and none of the functions may be nil.
type Hooks struct {
	// Held is how many tokens the router's requests hold on the replica.
	Held func(replica int) int
	// Leased fills in how many requests on each replica are dispatched by their callers,
	// and not seen to progress.
	Leased func(leased []int)
	// Lost says that the replica's host is gone. It returns how many requests wait there
	// no longer.
	Lost func(replica int) int
	// Refused says that nothing listens where the replica was.
	Refused func(replica int)
	// Found says that the replica takes requests again after it was ejected.
	Found func(replica int)
	// Replaced says that another engine, or another model, may answer for the replica.
	Replaced func(replica int)
	// Context reports the context of the replica's engine, in tokens; zero is unknown.
	Context func(replica, tokens int)
	// Loads hears what engines say of their load. It alone may be nil.
	Loads gauges.Loads
}

// Engines are the engines behind the replicas of a router.
type Engines struct {
	options   Options
	table     *fleet.Table
	health    *Controller
	signals   *signals.Monitor
	scraper   *gauges.Scraper
	lifecycle *lifecycles
	metrics   *metrics

	asking     sync.Mutex // protects the four below
	stopAsking context.CancelFunc
	stopped    bool // for good
	watching   health.Config
	reading    gauges.Config

	// moving is locked for writing while a slot's engine changes, and for reading while a result of one is recorded, so
	// that no result counts for another engine.
	moving sync.RWMutex

	slowStart atomic.Int64   // how long a replica that comes back takes to get all its requests
	fading    sync.WaitGroup // what fades the beliefs of the drift
}

// New makes Engines. They are watched between Start and Stop.
func New(o Options) *Engines {
	e := &Engines{options: o, table: o.Ledger.Table(), watching: o.Health, reading: o.Gauges}
	e.slowStart.Store(int64(o.Health.SlowStart))
	e.metrics = newMetrics(e)
	e.health = &Controller{
		monitor: health.New(o.Health, o.Ledger, e.addresses(), engineSeed),
		clock:   o.Clock, report: e.healthChanged, waiting: e.owed, siblings: e.siblings(), evidence: e.evidence,
	}
	e.signals = signals.New(o.Ledger)
	e.watch()
	e.lifecycle = newLifecycles(e)
	if m := o.Drift; m != nil {
		m.OnSlow, m.OnDoubt = o.Ledger.SlowDown, o.Doubted
		m.Correct(o.Correct)
		m.Doubt(o.Doubt)
		e.signals.OnCorrect = func(replica int, others signals.Count) { m.Others(replica, others.InFlight, others.Held) }
	}
	return e
}

// Controller is the health controller.
func (e *Engines) Controller() *Controller { return e.health }

// Sign takes in that a replica has made progress; see [health.Monitor.Sign].
func (e *Engines) Sign(replica int) { e.health.monitor.Sign(replica) }

// Metrics are what the engines are doing.
func (e *Engines) Metrics() []prometheus.Collector {
	list := append(e.metrics.collectors(), e.lifecycle.metrics.collectors()...)
	if e.options.Drift != nil {
		list = append(list, driftMetrics(e.options.Drift, e.table))
	}
	return list
}

// engineSeed separates the jitter of probes and scrapes from other random numbers.
const engineSeed = 0x656e67696e6573

// loaded reports whether the replica is placed where it takes requests.
func (e *Engines) loaded(replica int) bool { return e.options.Ledger.Placed(replica) == fleet.Up }

// Start begins to watch the engines, until Stop.
func (e *Engines) Start() {
	e.health.watchSilence(e.options.Health.SilentAfter)
	e.lifecycle.start()
	e.asking.Lock()
	defer e.asking.Unlock()
	e.ask()
}

// Stop ends it for good.
func (e *Engines) Stop() {
	e.lifecycle.stop()
	e.health.close()
	e.asking.Lock()
	defer e.asking.Unlock()
	e.stopAsks()
	e.stopped = true
}

// Follow watches the engines by other settings. Probes and readings under way are cut off,
// and begin again.
func (e *Engines) Follow(watching health.Config, reading gauges.Config) {
	e.asking.Lock()
	defer e.asking.Unlock()
	if e.stopped || e.watching == watching && e.reading == reading {
		return
	}
	e.watching, e.reading = watching, reading
	e.slowStart.Store(int64(watching.SlowStart))
	e.stopAsks()
	e.health.set(watching)
	if e.health.prober != nil {
		e.health.prober.Set(watching)
	}
	e.scraper.Set(reading)
	e.ask()
}

// Corrects has forecasts use the drift of replicas, or not.
func (e *Engines) Corrects(correct bool) { e.options.Drift.Correct(correct) }

// Doubts has policies that choose by forecasts doubted while these are off, or not.
func (e *Engines) Doubts(doubt bool) { e.options.Drift.Doubt(doubt) }

// Unlisted has the replica's server asked for its models and their states: it lacks what it
// was asked for, which others may have unloaded.
func (e *Engines) Unlisted(replica int) {
	e.health.unlisted(replica)
	e.lifecycle.actuator.Poll(replica)
}

// Recheck forgets what is known of the engines, some of which are others now, and has every
// server asked.
func (e *Engines) Recheck() {
	e.options.Drift.Forget()
	e.health.recheck()
	for i := range e.table.Replicas {
		e.options.Replaced(i)
	}
}

// ask begins probes and readings of gauges, until stopAsks. The caller holds e.asking.
func (e *Engines) ask() {
	ctx, cancel := context.WithCancel(context.Background())
	e.stopAsking = cancel
	if e.health.prober != nil {
		e.health.prober.Start(ctx)
	}
	e.scraper.Start(ctx)
	if e.options.Drift != nil {
		e.fading.Go(func() { e.fadeDrift(ctx) })
	}
}

// stopAsks returns once all that ask has begun has ended. The caller holds e.asking.
func (e *Engines) stopAsks() {
	e.stopAsking()
	if e.health.prober != nil {
		e.health.prober.Wait()
	}
	e.scraper.Wait()
	e.fading.Wait()
}

// fadeDrift lets replicas that were slow be tried again, until ctx ends.
func (e *Engines) fadeDrift(ctx context.Context) {
	tick := time.NewTicker(drift.FadeEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			e.options.Drift.Fade(e.options.Clock())
		case <-ctx.Done():
			return
		}
	}
}

// owed is how many requests wait for the replicas' answers, and how many more callers
// of the route endpoint dispatch themselves, which are not seen to progress.
func (e *Engines) owed(work, leased []int) {
	e.options.Leased(leased)
	for i := range work {
		work[i] = max(0, e.options.Ledger.InFlightOn(i)-leased[i])
	}
}

// Counts are the router's own requests on the replica, and the tokens they hold.
func (e *Engines) Counts(replica int) signals.Count { return e.counts(replica) }

func (e *Engines) counts(replica int) signals.Count {
	return signals.Count{InFlight: e.options.Ledger.InFlightOn(replica), Held: e.options.Held(replica)}
}

// healthChanged reports a replica's new state.
func (e *Engines) healthChanged(c health.Change) {
	if c.Ejects() {
		e.options.Replaced(c.Replica) // another engine may come back
		if c.Why == health.Unreachable {
			e.options.Refused(c.Replica)
		}
	} else if c.From == health.Ejected && c.To != health.Ejected {
		e.options.Found(c.Replica)
	}
	name := e.table.Replicas[c.Replica].Name
	e.metrics.changed(c)
	switch {
	case c.Why == health.Unlisted && c.Note != "":
		e.options.Log.Warn("replica kept out: its server does not have its model", "replica", name, "why", c.Note)
	case c.Spared:
		e.options.Log.Warn("replica fails, and stays: too many are out", "replica", name, "why", c.Why)
	case c.Lost:
		if n := e.options.Lost(c.Replica); n > 0 {
			e.options.Log.Warn("replica is gone: what it has not begun to answer is tried elsewhere", "replica", name, "requests", n)
		}
	case c.Ejects():
		e.options.Log.Warn("replica ejected", "replica", name, "why", c.Why, "cooldown", c.Cooldown)
	case c.To == health.HalfOpen:
		e.options.Log.Info("replica on trial", "replica", name, "ejected_for", c.Why)
	case c.To == health.SlowStart:
		e.options.Log.Info("replica comes back", "replica", name, "slow_start", time.Duration(e.slowStart.Load()))
	default:
		e.options.Log.Info("replica up again", "replica", name)
	}
}

// gaugesRead reports whether an engine's gauges can be used.
func (e *Engines) gaugesRead(source gauges.Source, fresh bool, err error) {
	name := e.table.Replicas[source.Replicas[0]].Name
	if fresh {
		e.options.Log.Info("engine gauges are read", "replica", name)
		return
	}
	e.options.Log.Warn("engine gauges are stale or missing: the router uses its own counts", "replica", name, "error", err)
}

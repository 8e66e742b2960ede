package informed

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

// Options are what a [Feed] is made of. All but Balancer and Transports are required.
type Options struct {
	Table *fleet.Table
	// Models are the names by which engines know the replicas' models, by replica. Named returns that
	// of now, where they change; nil: they do not.
	Models []string
	Named  func(replica int) string
	// Transports lead to servers that can be asked for their load, by replica. Nil: it cannot be.
	Transports []http.RoundTripper
	// Balancer chooses by what is heard. Nil: nothing does, and it is only shown.
	Balancer *Balancer
	// Lacks, if set, is called the first time that a replica which the balancer asks has no page of its load.
	Lacks func(replica int)
	// Own is what the router itself has on a replica.
	Own    func(replica int) signals.Count
	Clock  func() time.Duration
	Config Config
}

// Feed brings the router what its replicas say of their load. Its methods may be called from any
// goroutine.
type Feed struct {
	options  Options
	store    *signals.Store
	balancer *Balancer // nil if nothing chooses by what is heard
	config   atomic.Pointer[Config]
	asks     []asking
	counts   counts
	moved    atomic.Uint64
	allowed  allowance

	ctx    context.Context // until Close
	cancel context.CancelFunc
	ended  sync.WaitGroup
}

// New makes a Feed. Close ends it.
func New(o Options) *Feed {
	f := &Feed{
		options: o, balancer: o.Balancer, asks: make([]asking, len(o.Table.Replicas)),
		store: signals.NewStore(o.Table, o.Models, o.Config.StaleAfter), counts: newCounts(len(o.Table.Replicas)),
	}
	f.store.Named = o.Named
	f.store.OnHeard, f.store.OnFault = f.heard, f.counts.fault
	f.config.Store(&o.Config)
	if f.balancer != nil {
		f.allowed.each = f.balancer.rule.Probes
	}
	f.ctx, f.cancel = context.WithCancel(context.Background())
	if f.balancer != nil {
		f.ended.Go(f.substitute)
	}
	return f
}

// model is the name by which the replica's engine knows its model now.
func (f *Feed) model(replica int) string {
	if f.options.Named != nil {
		return f.options.Named(replica)
	}
	return f.options.Models[replica]
}

// substituteEvery is how often replicas that say nothing are looked for.
const substituteEvery = 200 * time.Millisecond

// substitute has the others of their models stand in for the replicas that say nothing: else a
// silent one would look idle. It goes on until Close.
func (f *Feed) substitute() {
	tick := time.NewTicker(substituteEvery)
	defer tick.Stop()
	for {
		select {
		case <-f.ctx.Done():
			return
		case <-tick.C:
		}
		f.store.Each(f.options.Clock(), func(replica int, k *signals.Known) {
			if k.Source != signals.StandIn {
				return
			}
			own := f.options.Own(replica).InFlight
			k.Counters.Model, k.Counters.Host, k.Counters.Own = max(k.Counters.Model, own), max(k.Counters.Host, own), own
			f.balancer.hear(replica, k, balance.Published)
		})
	}
}

// Close ends what is asked. Nothing may be asked after it.
func (f *Feed) Close() {
	f.cancel()
	f.ended.Wait()
}

// Set puts the configuration in force. A change of counters reaches the requests by and by.
func (f *Feed) Set(c Config) {
	f.config.Store(&c)
	f.store.SetStaleAfter(c.StaleAfter)
	if f.balancer != nil {
		now := f.options.Clock()
		f.balancer.set(&c, now, func(replica int) (signals.Known, bool) {
			k := f.store.Known(replica, now)
			return k, k.Source != signals.Own
		})
	}
}

// Asks reports whether engines are to be asked for their load with each answer.
func (f *Feed) Asks() bool {
	switch f.config.Load().Source {
	case All:
		return f.balancer != nil
	case Header, Probe:
		return true
	}
	return false
}

// Known returns what is known of the replica's load.
func (f *Feed) Known(replica int) signals.Known { return f.store.Known(replica, f.options.Clock()) }

// Forget drops what is known of the replica: another engine may answer for it.
func (f *Feed) Forget(replica int) {
	f.store.Forget(replica)
	f.asks[replica].lacks.Store(0)
}

// Header takes in what the replica said with an answer. Of a stream that is its load at the
// beginning.
func (f *Feed) Header(replica int, h http.Header) {
	values := h[gauges.MetricsHeader]
	if len(values) == 0 {
		return
	}
	l, err := gauges.ParseLoad(values[0])
	if err != nil {
		f.counts.fault(replica, signals.Piggybacked, signals.Impossible)
		return
	}
	f.take(replica, l, signals.Piggybacked, f.options.Own(replica))
}

// Pushed takes in what the replica's engine, or who watches it, said by itself.
func (f *Feed) Pushed(replica int, l signals.Load) signals.Fault {
	f.counts.report(replica, signals.Pushed)
	return f.store.Hear(replica, l, signals.Pushed, f.options.Own(replica), f.options.Clock())
}

// Page takes in what the replica said when it was asked at intervals, when the router's own work
// there was own.
func (f *Feed) Page(replica int, l signals.Load, own signals.Count) {
	if source := f.config.Load().Source; source == All || source == Poll {
		f.take(replica, l, signals.Polled, own)
	}
}

// Missed takes in that the replica was asked at intervals and did not answer.
func (f *Feed) Missed(replica int) {
	if source := f.config.Load().Source; source == All || source == Poll {
		f.store.Miss(replica, signals.Polled, f.options.Clock())
	}
}

func (f *Feed) take(replica int, l signals.Load, from signals.Source, own signals.Count) {
	f.counts.report(replica, from)
	f.store.Hear(replica, l, from, own, f.options.Clock())
}

// Answered takes in how long a replica took for an answer, or for its beginning if it is a stream.
func (f *Feed) Answered(replica int, took time.Duration) {
	if f.balancer != nil {
		f.balancer.answered(replica, took, f.options.Clock())
	}
}

// heard passes on to the balancer what a replica said. What it said before a choice goes there with
// that choice.
func (f *Feed) heard(replica int, k signals.Known, by signals.Source) {
	if f.balancer == nil || by == signals.Asked {
		return
	}
	how := balance.Published
	switch by {
	case signals.Piggybacked:
		how = balance.WithAnswer
	case signals.Probed:
		how = balance.Probed
	}
	f.counted(replica, &k)
	f.balancer.hear(replica, &k, how)
}

// counted counts the router's own requests since the report. What stands in for one knows nothing of
// them.
func (f *Feed) counted(replica int, k *signals.Known) {
	own := f.options.Own(replica).InFlight
	if k.Source == signals.StandIn {
		k.Counters.Own = own
	}
	k.Counters.Count(own)
}

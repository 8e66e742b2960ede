package serving

import (
	"log/slog"
	"math/rand/v2"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/admin/overview"
	"gearshift/serving/admission"
	"gearshift/serving/engines"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
	"gearshift/serving/work"
)

// loads has what replicas say of their load, and says the router's own.
type loads struct {
	*informed.Feed
	table    *fleet.Table
	ledger   *fleet.Ledger
	clock    work.Clock
	balancer *informed.Balancer // nil if the balancer needs no signals
	instance uint32             // of the process, as its load says it
	queue    *admission.Queue
}

// newLoads makes what brings the load of replicas. Held is how many tokens the requests on one hold.
func newLoads(b *informed.Balancer, r work.Router, backends []Backend, c *Config, clock work.Clock, log *slog.Logger, held func(replica int) int, queue *admission.Queue) *loads {
	models, transports := make([]string, len(backends)), make([]http.RoundTripper, len(backends))
	for i := range backends {
		models[i] = backends[i].Model
		if _, ok := backends[i].Transport.(engines.Server); ok {
			transports[i] = backends[i].Transport
		}
	}
	table, ledger := r.Table(), r.Ledger()
	feed := informed.New(informed.Options{
		Table: table, Models: models, Named: func(replica int) string { return backends[replica].Named() }, Transports: transports, Balancer: b, Clock: clock, Config: c.Signals,
		Lacks: func(replica int) {
			if b != nil {
				log.Warn("an engine cannot be asked for its load: the balancer knows the router's own requests there, and what gauges said last", "replica", table.Replicas[replica].Name, "lacks", gauges.LoadsPath)
			}
		},
		Own: func(replica int) signals.Count {
			return signals.Count{InFlight: ledger.InFlightOn(replica), Held: held(replica)}
		},
	})
	return &loads{Feed: feed, table: table, ledger: ledger, clock: clock, balancer: b, instance: max(1, rand.Uint32()), queue: queue}
}

// Own implements [proxy.Loads].
func (x *loads) Own(f gauges.Format) string {
	l := x.load()
	return gauges.WriteLoad(f, &l)
}

// inform asks the replicas that the balancer wants to hear before it chooses, and has it choose
// again by what they say. A replica that something else chose stays.
func (x *loads) inform(c *gin.Context, w *work.Work) {
	if x.balancer == nil || w.Request.Only > 0 || w.Request.Session != 0 || w.Placed || w.Reason == router.ReasonBalancer {
		return
	}
	random := rand.Uint64()
	if x.Before(c.Request.Context(), w.Replica, random) {
		if w.Repick(func(v *fleet.View) int { return x.balancer.Again(v, &w.Request, w.Replica, random) }) {
			x.Moved()
		}
	}
	x.Beside(w.Replica, random)
}

// mostSignals bounds how many replicas an explanation has the signals of.
const mostSignals = 8

// explain adds what was known of the load of the variant's replicas, and the replica that has
// the work after some were asked.
func (x *loads) explain(w *work.Work, e *overview.Explanation) {
	if x.balancer == nil || e == nil {
		return
	}
	e.Replica = x.table.Replicas[w.Replica].Name
	list := []int{w.Replica}
	for _, i := range x.table.ReplicasOf(w.Variant) {
		if i != w.Replica && len(list) < mostSignals {
			list = append(list, i)
		}
	}
	now := x.clock()
	for _, i := range list {
		k := x.Known(i)
		signal := overview.Signal{
			Replica: x.table.Replicas[i].Name, Source: k.Source.String(), Model: k.Counters.Model, Host: k.Counters.Host,
			WorkMS: overview.Short(fleet.Milliseconds(k.Counters.Work)),
		}
		if k.Source != signals.Own {
			signal.AgeMS = overview.Short(fleet.Milliseconds(now - k.At))
		}
		e.Signals = append(e.Signals, signal)
	}
}

// statuses returns what is known of the load of each replica, where a balancer chooses by that.
func (x *loads) statuses(now time.Duration) []*informed.Status {
	if x.balancer == nil && !x.Asks() {
		return make([]*informed.Status, len(x.table.Replicas))
	}
	return x.Statuses(now)
}

// learn teaches the balancer how long answers took. Of a stream it is the beginning that counts, since its
// length is the client's wish; what failed fast would look fast.
func (x *loads) learn(w *work.Work, r work.Result) {
	if r.Outcome != work.Completed || w.Reported {
		return
	}
	took := r.Latency
	if w.Streams && w.FirstToken > 0 {
		took = w.FirstToken
	}
	x.Answered(w.Replica, took-w.Waited)
}

// answers counts what replicas have answered. It is an [Observer].
type answers struct {
	*signals.Busy
	clock work.Clock
}

// Curious implements [Observer].
func (answers) Curious() bool { return false }

// Routed implements [Observer].
func (answers) Routed(*Account) {}

// Over implements [Observer]. A job's batches have kept engines at work for as long as each took.
func (b answers) Over(a *Account) {
	if a.Job != nil {
		for _, x := range a.Job.Busy {
			b.Worked(x.Replica, x.Took, b.clock())
		}
		return
	}
	if w := a.Work; w != nil && a.Result.Outcome == work.Completed {
		b.Answered(w.Replica, a.Result.Tokens, b.clock())
	}
}

// load returns the router's own load: of all replicas that take requests together.
func (x *loads) load() signals.Load {
	all := make([]int, len(x.table.Replicas))
	for i := range all {
		all[i] = i
	}
	l := x.loadOf(all)
	waiting := 0
	_, lengths := x.queue.Lengths()
	for _, n := range lengths {
		waiting += n
	}
	l.Waiting = float64(waiting)
	l.Requests += l.Waiting
	l.Host, l.Examples = l.Requests, l.Requests
	return l
}

// loadOf returns the load of some replicas together.
func (x *loads) loadOf(replicas []int) signals.Load {
	var v fleet.View
	x.ledger.View(x.clock(), &v)
	l := signals.NewLoad()
	l.Requests, l.Waiting, l.Host, l.Instance = 0, 0, 0, x.instance
	var held, room, used, limit float64
	for _, i := range replicas {
		if v.Down[i] {
			continue
		}
		r := &x.table.Replicas[i]
		l.Requests += float64(v.InFlight[i])
		held, room = held+float64(v.Held[i]), room+float64(r.KVTokens)
		if r.Limit > 0 {
			used, limit = used+min(float64(v.InFlight[i]), float64(r.Limit)), limit+float64(r.Limit)
		}
		if k := x.Known(i); k.Source != signals.Own && k.Counters.Cores > 0 {
			l.Cores, l.Work = max(0, l.Cores)+k.Counters.Cores, max(0, l.Work)+k.Counters.Work.Seconds()
		}
	}
	l.Host, l.Examples = l.Requests, l.Requests
	if room > 0 {
		l.KVUse, l.KVTokens = min(1, held/room), held
	}
	if limit > 0 {
		l.Utilization = used / limit
	}
	if len(replicas) == len(x.table.Replicas) {
		l.Rate = v.Rate
	}
	return l
}

// show answers with the load of each variant, in the form of SGLang's servers.
func (x *loads) show(c *gin.Context) {
	names, list := make([]string, len(x.table.Variants)), make([]signals.Load, len(x.table.Variants))
	for i, v := range x.table.Variants {
		names[i], list[i] = v.Name, x.loadOf(x.table.ReplicasOf(i))
	}
	page := gauges.NewLoadsPage(names, list, time.Now())
	page.All = AutoModel
	c.JSON(http.StatusOK, page)
}

// say writes the router's load into the header of each answer for whose client asks, also where
// the request is refused. An answer of a replica gets the load of the moment at which it begins.
func (x *loads) say(c *gin.Context) {
	if f := gauges.FormatAsked(c.Request.Header); f != gauges.NoFormat {
		c.Writer.Header()[gauges.MetricsHeader] = []string{x.Own(f)}
	}
}

package serving

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/admin/overview"
	"gearshift/serving/engines"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// This file joins the server with what replicas say of their load, and says the server's own.

// newFeed makes what brings the load of replicas.
func (s *Server) newFeed(b *informed.Balancer) *informed.Feed {
	models, transports := make([]string, len(s.backends)), make([]http.RoundTripper, len(s.backends))
	for i := range s.backends {
		models[i] = s.backends[i].Model
		if _, ok := s.backends[i].Transport.(engines.Server); ok {
			transports[i] = s.backends[i].Transport
		}
	}
	ledger := s.router.Ledger()
	return informed.New(informed.Options{
		Table: s.table, Models: models, Named: func(replica int) string { return s.backends[replica].Named() }, Transports: transports, Balancer: b, Clock: s.clock, Config: s.config.Signals,
		Lacks: func(replica int) {
			if b != nil {
				s.log.Warn("an engine cannot be asked for its load: the balancer knows the router's own requests there, and what gauges said last", "replica", s.table.Replicas[replica].Name, "lacks", gauges.LoadsPath)
			}
		},
		Own: func(replica int) signals.Count {
			return signals.Count{InFlight: ledger.InFlightOn(replica), Held: s.adapter.Held(replica)}
		},
	})
}

// proxyLoads is the feed as the proxy needs it, with the router's own load.
type proxyLoads struct {
	*informed.Feed
	server *Server
}

// Own implements [proxy.Loads].
func (p proxyLoads) Own(f gauges.Format) string {
	l := p.server.load()
	return gauges.WriteLoad(f, &l)
}

// inform asks the replicas that the balancer wants to hear before it chooses, and has it choose
// again by what they say. A replica that something else chose stays.
func (s *Server) inform(c *gin.Context, w *work.Work) {
	if s.balancer == nil || w.Request.Only > 0 || w.Request.Session != 0 || w.Placed || w.Reason == router.ReasonBalancer {
		return
	}
	random := rand.Uint64()
	if s.feed.Before(c.Request.Context(), w.Replica, random) {
		if w.Repick(func(v *fleet.View) int { return s.balancer.Again(v, &w.Request, w.Replica, random) }) {
			s.feed.Moved()
		}
	}
	s.feed.Beside(w.Replica, random)
}

// mostSignals bounds how many replicas an explanation has the signals of.
const mostSignals = 8

// explainSignals adds what was known of the load of the variant's replicas, and the replica that has
// the work after some were asked.
func (s *Server) explainSignals(w *work.Work, e *overview.Explanation) {
	if s.balancer == nil || e == nil {
		return
	}
	e.Replica = s.table.Replicas[w.Replica].Name
	list := []int{w.Replica}
	for _, i := range s.table.ReplicasOf(w.Variant) {
		if i != w.Replica && len(list) < mostSignals {
			list = append(list, i)
		}
	}
	now := s.clock()
	for _, i := range list {
		k := s.feed.Known(i)
		signal := overview.Signal{
			Replica: s.table.Replicas[i].Name, Source: k.Source.String(), Model: k.Counters.Model, Host: k.Counters.Host,
			WorkMS: overview.Short(fleet.Milliseconds(k.Counters.Work)),
		}
		if k.Source != signals.Own {
			signal.AgeMS = overview.Short(fleet.Milliseconds(now - k.At))
		}
		e.Signals = append(e.Signals, signal)
	}
}

// pushLoad takes in what an engine, or who watches it, says of a replica's load: the value of ORCA's
// header, in either form.
func (s *Server) pushLoad(c *gin.Context) {
	replica, fault := s.FindReplica(strings.TrimPrefix(c.Param("replica"), "/"))
	if fault != nil {
		s.fail(c, http.StatusNotFound, *fault)
		return
	}
	text, err := io.ReadAll(http.MaxBytesReader(c.Writer, c.Request.Body, 16<<10))
	var l signals.Load
	if err == nil {
		l, err = gauges.ParseLoad(string(text))
	}
	if err == nil {
		if f := s.feed.Pushed(replica, l); f.Refused() {
			err = fmt.Errorf("the load is not used: it is %v", f)
		}
	}
	if err != nil {
		s.fail(c, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_load", Message: err.Error()})
		return
	}
	c.Status(http.StatusNoContent)
}

// statuses returns what is known of the load of each replica, where a balancer chooses by that.
func (s *Server) statuses(now time.Duration) []*informed.Status {
	if s.balancer == nil && !s.feed.Asks() {
		return make([]*informed.Status, len(s.table.Replicas))
	}
	return s.feed.Statuses(now)
}

// lessons teaches the balancer how long answers took.
type lessons struct{ *informed.Feed }

// Ended implements [Watcher]. Of a stream it is the beginning that counts, since its length is the
// client's wish; what failed fast would look fast.
func (l lessons) Ended(w *work.Work, r work.Result) {
	if r.Outcome != work.Completed || w.Reported {
		return
	}
	took := r.Latency
	if w.Streams && w.FirstToken > 0 {
		took = w.FirstToken
	}
	l.Answered(w.Replica, took-w.Waited)
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
func (s *Server) load() signals.Load {
	all := make([]int, len(s.table.Replicas))
	for i := range all {
		all[i] = i
	}
	l := s.loadOf(all)
	waiting := 0
	_, lengths := s.queue.Lengths()
	for _, n := range lengths {
		waiting += n
	}
	l.Waiting = float64(waiting)
	l.Requests += l.Waiting
	l.Host, l.Examples = l.Requests, l.Requests
	return l
}

// loadOf returns the load of some replicas together.
func (s *Server) loadOf(replicas []int) signals.Load {
	var v fleet.View
	s.router.Ledger().View(s.clock(), &v)
	l := signals.NewLoad()
	l.Requests, l.Waiting, l.Host, l.Instance = 0, 0, 0, s.instance
	var held, room, used, limit float64
	for _, i := range replicas {
		if v.Down[i] {
			continue
		}
		r := &s.table.Replicas[i]
		l.Requests += float64(v.InFlight[i])
		held, room = held+float64(v.Held[i]), room+float64(r.KVTokens)
		if r.Limit > 0 {
			used, limit = used+min(float64(v.InFlight[i]), float64(r.Limit)), limit+float64(r.Limit)
		}
		if k := s.feed.Known(i); k.Source != signals.Own && k.Counters.Cores > 0 {
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
	if len(replicas) == len(s.table.Replicas) {
		l.Rate = v.Rate
	}
	return l
}

// showLoads answers with the load of each variant, in the form of SGLang's servers.
func (s *Server) showLoads(c *gin.Context) {
	names, list := make([]string, len(s.table.Variants)), make([]signals.Load, len(s.table.Variants))
	for i, v := range s.table.Variants {
		names[i], list[i] = v.Name, s.loadOf(s.table.ReplicasOf(i))
	}
	page := gauges.NewLoadsPage(names, list, time.Now())
	page.All = AutoModel
	c.JSON(http.StatusOK, page)
}

// sayLoad writes the router's load into the header of each answer for whose client asks, also where
// the request is refused. An answer of a replica gets the load of the moment at which it begins.
func (s *Server) sayLoad(c *gin.Context) {
	if f := gauges.FormatAsked(c.Request.Header); f != gauges.NoFormat {
		l := s.load()
		c.Writer.Header()[gauges.MetricsHeader] = []string{gauges.WriteLoad(f, &l)}
	}
}

package experience

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/admin/scrape"
	"gearshift/serving/work"
)

// Recorder keeps routed requests in a store. It is the Router that the server
// uses, where it sees what was known, and is called when work ends. A request that is
// not sampled costs no memory and no lock.
type Recorder struct {
	work.Router
	store   *Store
	decided atomic.Uint64 // routed requests

	mu   sync.Mutex // protects open
	open map[uint64]*Row
}

// mostOpen bounds the rows of requests under way.
const mostOpen = 1 << 16

// NewRecorder routes by r and writes to the store, which stays the caller's.
func NewRecorder(r work.Router, store *Store) *Recorder {
	return &Recorder{Router: r, store: store, open: map[uint64]*Row{}}
}

// sight is the observer of one request.
type sight struct {
	row  *Row
	next router.Observer // another one that wants to see, or nil
}

// Observe implements [router.Observer].
func (s *sight) Observe(v *fleet.View, c router.Choice) {
	s.row.View.CopyFrom(v)
	if s.next != nil {
		s.next.Observe(v, c)
	}
}

// inquiry is the observer of a request next to one that wants the policy's reasons.
type inquiry struct {
	*sight
	router.ExplanationObserver
}

// observerOf sees for the row and for w.
func observerOf(row *Row, w router.Observer) router.Observer {
	s := &sight{row, w}
	if q, ok := w.(router.ExplanationObserver); ok {
		return inquiry{s, q}
	}
	return s
}

// Route implements [work.Router].
func (c *Recorder) Route(variant int, r *fleet.Request, now time.Duration, w router.Observer) (router.Choice, error) {
	if !c.store.Sampled(r.ID) {
		choice, err := c.Router.Route(variant, r, now, w)
		if err == nil {
			c.decided.Add(1)
		}
		return choice, err
	}
	row := c.store.Row()
	choice, err := c.Router.Route(variant, r, now, observerOf(row, w))
	if err != nil {
		c.store.Discard(row)
		return choice, err
	}
	row.Decision = c.decided.Add(1)
	c.chosen(row, r, choice)
	c.mu.Lock()
	room := len(c.open) < mostOpen
	if room {
		c.open[r.ID] = row
	}
	c.mu.Unlock()
	if !room {
		c.store.Drop(row)
	}
	return choice, nil
}

// chosen fills in what is known once the request is routed.
func (c *Recorder) chosen(row *Row, r *fleet.Request, choice router.Choice) {
	row.Wall, row.Request = time.Now(), *r
	row.Variant, row.Replica = choice.Variant, choice.Replica
	row.Policy, row.Fallback = choice.Policy, choice.Reason
	row.Propensity = choice.Propensity
	if row.Pinned = choice.Ruled() || r.MinQuality > 0 || r.Variants != 0 || r.Holding != 0; row.Pinned {
		row.Propensity = 0
	}
}

// Ended completes the row of a request whose work is over.
func (c *Recorder) Ended(w *work.Work, r work.Result) {
	id := w.Request.ID
	if !c.store.Sampled(id) {
		return
	}
	c.mu.Lock()
	row := c.open[id]
	delete(c.open, id)
	c.mu.Unlock()
	if row == nil {
		return
	}
	row.EndVariant, row.EndReplica = w.Variant, w.Replica
	row.Outcome, row.OutputTokens = r.Outcome.String(), r.Tokens
	row.FirstToken, row.Latency, row.PerToken = w.FirstToken, r.Latency, r.PerToken
	row.Judged, row.Met, row.Utility, row.Reported = r.Judged, r.Met, r.Utility, r.Reported
	c.store.Add(row)
}

var experienceRows = prometheus.NewDesc("gearshift_experience_rows_total",
	"Routed requests for the log of experience, by whether they were written or dropped.", []string{"result"}, nil)

// Metrics count the rows, written and dropped.
func (c *Recorder) Metrics() []prometheus.Collector {
	return []prometheus.Collector{scrape.New(func(out scrape.Metrics) {
		n := c.store.Stats()
		out.Counter(experienceRows, float64(n.Written), "written")
		out.Counter(experienceRows, float64(n.Dropped), "dropped")
	}, experienceRows)}
}

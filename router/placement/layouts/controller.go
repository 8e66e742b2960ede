package layouts

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/signals"
)

// Options configure a [Controller].
type Options struct {
	Rule
	Limits
	Work Work
	// Shares lists the tasks' shares of requests until some have arrived, and Tokens their lengths.
	Shares []float64
	Tokens []Tokens
	// PerMinute bounds the changes that begin within a minute; 0 sets no bound.
	PerMinute int
	// Hours lists the times of the day at which changes may begin; empty is all day. Midnight is the time of the day
	// at the controller's time zero.
	Hours    []Hours
	Midnight time.Duration
	// Shadow makes the controller report what it would do, and do nothing.
	Shadow bool
	// Drain bounds the time in which the requests of a replica end before it is put to sleep; zero is the lifecycle's.
	Drain time.Duration
	// Rest returns the state of a replica that is not in its host's layout, Warm or Cold; nil is Cold.
	Rest func(replica int) fleet.State
	// Takes returns how long a load takes, or a wake of a replica that sleeps; nil takes the times of the table's models.
	Takes func(replica int, wake bool) time.Duration
	// Began, if not nil, is called with each change that begins, or would in shadow mode.
	Began func(x Change, from int)
}

// Hours is a part of the day, from midnight; one that ends before it begins goes on after midnight.
type Hours struct{ From, To time.Duration }

func (h Hours) contain(at time.Duration) bool {
	if h.To > h.From {
		return at >= h.From && at < h.To
	}
	return at >= h.From || at < h.To
}

// Period passes between two decisions of a [Controller].
const Period = time.Second

// Controller brings hosts into the layouts that a [Chooser] wants, by the claims of a learned placement. It does not
// touch replicas that higher ranks hold or want, that are down, or that no engine loads. It implements [control.Controller].
type Controller struct {
	options   Options
	table     *fleet.Table
	ledger    *fleet.Ledger
	busy      *signals.Busy
	engines   lifecycle.Engines
	claims    *lifecycle.Claims
	estimator *Estimator
	forecast  *forecast
	hosts     []hosted
	resting   []Resting // by replica
	situation Situation
	due       time.Duration
	begun     []time.Duration // changes of the last minute
	reason    string          // of the last choice
	wish      Change          // the last one in shadow mode
	changes   int
	failed    int
	sets      []int // of Worth, to be reused
	rates     []float64
	scratch   []float64
	shares    []float64 // for which capacities are known
}

// hosted is the state of a host under the controller.
type hosted struct {
	layouts  []Layout
	sets     []int // by layout
	target   int   // −1 before it has been in any
	former   int
	since    time.Duration
	chosen   bool // since the start
	moving   bool
	wants    map[int]fleet.State // open claims, by replica
	failures int
	retry    time.Duration
	setbacks int           // changes in a row that came to nothing
	blocked  time.Duration // the time until which no other is begun after them
	why      string        // of the last failure
	reason   string        // of the target
}

// Resting describes a replica that is not up.
type Resting struct {
	Since  time.Duration
	Reason string // empty of one that is up
}

// New returns a controller of the ledger's replicas. [Controller.Claim] follows before the first Wake.
func New(o Options, l *fleet.Ledger, b *signals.Busy, e lifecycle.Engines) (*Controller, error) {
	t := l.Table()
	if o.Takes == nil {
		o.Takes = func(replica int, wake bool) time.Duration { return modelTime(t, replica, wake) }
	}
	c := &Controller{
		options: o, table: t, ledger: l, busy: b, engines: e, estimator: NewEstimator(t, o.Work),
		forecast: newForecast(l, o.Horizon, o.Shares, o.Tokens), resting: make([]Resting, len(t.Replicas)),
	}
	c.situation = Situation{Table: t, Horizon: o.Horizon, Loads: c.forecast.loads, Hosts: make([]HostState, len(t.Hosts)), Held: make([]int, len(t.Variants))}
	c.situation.Gain = c.gain
	for h := range t.Hosts {
		list, err := List(t, h, o.Limits)
		if err != nil {
			return nil, fmt.Errorf("cannot place: %w", err)
		}
		x := hosted{layouts: list, target: -1, former: -1, wants: map[int]fleet.State{}}
		for _, layout := range list {
			x.sets = append(x.sets, c.estimator.Set(layout.Up))
		}
		n := len(list)
		c.hosts = append(c.hosts, x)
		c.situation.Hosts[h] = HostState{
			Layouts: list, Present: -1, Worth: make([]float64, n), Capacity: make([]float64, n), Quality: make([]float64, n),
			Takes: make([]time.Duration, n), First: make([]time.Duration, n), Barred: make([]string, n),
		}
	}
	for i := range t.Replicas {
		if l.Placed(i) != fleet.Up {
			c.resting[i].Reason = "it was not up at the start"
		}
	}
	return c, nil
}

// Claim takes the claims of a lifecycle's controller, by which the controller wants states.
func (c *Controller) Claim(claim func(lifecycle.Rank, func(control.Event)) *lifecycle.Claims) {
	c.claims = claim(lifecycle.Learned, c.ended)
}

// Observe implements [control.Controller]. The ends of what the controller wants come by its claims.
func (c *Controller) Observe(control.Event) {}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) time.Duration {
	c.busy.Sample(now)
	for h := range c.hosts {
		c.advance(h, now)
	}
	if now >= c.due {
		c.decide(now)
		c.due = now + Period
	}
	return min(c.due, now+signals.Sampling)
}

// decide asks for changes, and begins them: at most one for each host.
func (c *Controller) decide(now time.Duration) {
	c.read(now)
	for range c.hosts {
		c.look(now)
		x := c.awaited()
		if x.Host < 0 {
			x = c.options.Choose(&c.situation)
		}
		c.reason = x.Reason
		if !c.begin(x, now) {
			return
		}
	}
}

// awaited returns the change of most worth to a layout with a variant that requests wait for and that is in no
// host's layout; none if there is none.
func (c *Controller) awaited() Change {
	s := &c.situation
	for v, n := range s.Held {
		within := func(l *Layout) bool {
			return slices.ContainsFunc(l.Up, func(r int) bool { return c.table.Replicas[r].Variant == v })
		}
		if n == 0 || slices.ContainsFunc(s.Hosts, func(h HostState) bool { return h.Present >= 0 && within(&h.Layouts[h.Present]) }) {
			continue
		}
		x := s.best(func(host, layout int) float64 {
			h := &s.Hosts[host]
			if !within(&h.Layouts[layout]) {
				return 0
			}
			return max(h.Worth[layout], 1e-6)
		})
		if x.Host >= 0 {
			x.Reason = fmt.Sprintf("%d requests wait for %s", n, c.table.Variants[v].Name)
			return x
		}
	}
	return None("")
}

// begin begins a change, and reports whether it did.
func (c *Controller) begin(x Change, now time.Duration) bool {
	switch {
	case x.Host < 0:
		c.wish = x
		return false
	case x.Host >= len(c.hosts) || x.Layout < 0 || x.Layout >= len(c.hosts[x.Host].layouts):
		c.reason = fmt.Sprintf("host %d in layout %d is wanted, and there is none", x.Host, x.Layout)
		return false
	}
	h := &c.hosts[x.Host]
	if x.Layout == h.target || c.situation.Hosts[x.Host].Barred[x.Layout] != "" {
		return false
	}
	if c.options.Shadow {
		if x.Host != c.wish.Host || x.Layout != c.wish.Layout {
			c.count(x)
		}
		c.wish = x
		return false
	}
	c.count(x)
	c.begun = append(c.begun, now)
	h.former, h.target, h.since, h.chosen, h.moving, h.reason = h.target, x.Layout, now, true, true, x.Reason
	h.failures, h.retry = 0, 0
	c.advance(x.Host, now)
	return true
}

// count counts and reports a change that begins.
func (c *Controller) count(x Change) {
	c.changes++
	if c.options.Began != nil {
		c.options.Began(x, c.hosts[x.Host].target)
	}
}

// read takes the loads.
func (c *Controller) read(now time.Duration) {
	s := &c.situation
	s.Now, s.Loads = now, c.forecast.read(now)
	for v := range s.Held {
		s.Held[v] = c.ledger.Awaited(v)
	}
	c.begun = slices.DeleteFunc(c.begun, func(at time.Duration) bool { return at <= now-time.Minute })
	c.quantise()
}

// look brings the situation up to date.
func (c *Controller) look(now time.Duration) {
	s := &c.situation
	c.sets = c.sets[:0]
	for h := range c.hosts {
		x, out := &c.hosts[h], &s.Hosts[h]
		up := c.up(h)
		if !x.moving {
			x.target = slices.IndexFunc(x.layouts, func(l Layout) bool { return slices.Equal(l.Up, up) })
		}
		out.Present, out.Since, out.Moving = x.target, x.since, x.moving
		out.Busy = c.busy.Host(h, signals.Lately, now).Share()
		set := 0
		if x.target >= 0 {
			set = x.sets[x.target]
		} else {
			set = c.estimator.Set(up)
		}
		c.sets = append(c.sets, set)
	}
	s.Worth = c.estimator.Worth(c.sets, c.rates)
	for h := range c.hosts {
		c.lookAt(h, now)
	}
}

// lookAt brings the situation of a host's layouts up to date.
func (c *Controller) lookAt(h int, now time.Duration) {
	x, out, is := &c.hosts[h], &c.situation.Hosts[h], c.sets[h]
	bar := c.barred(h, now)
	for i := range x.layouts {
		c.sets[h] = x.sets[i]
		out.Worth[i] = c.estimator.Worth(c.sets, c.rates)
		out.Takes[i], out.First[i] = c.takes(x.layouts[i].Up)
		if out.Barred[i] = bar; bar == "" && i != x.target {
			out.Barred[i] = c.barredFrom(h, i)
		}
	}
	c.sets[h] = is
}

// modelTime returns how long a load or a wake takes by the replica's model, its first answer included.
func modelTime(t *fleet.Table, replica int, wake bool) time.Duration {
	k := t.ModelOf(t.Replicas[replica].Variant)
	switch {
	case k < 0:
		return 0
	case wake:
		return t.Models[k].WakeTime() + t.Models[k].FirstAnswer
	}
	return t.Models[k].Load + t.Models[k].FirstAnswer
}

// takes returns how long it takes until all of these are up and have answered, and the longest first answer.
func (c *Controller) takes(up []int) (longest, first time.Duration) {
	for _, r := range up {
		if next := c.claims.Next(r); !c.claims.Up(r) {
			longest = max(longest, c.options.Takes(next, c.ledger.Placed(next) == fleet.Warm))
			if k := c.table.ModelOf(c.table.Replicas[next].Variant); k >= 0 {
				first = max(first, c.table.Models[k].FirstAnswer)
			}
		}
	}
	return longest, first
}

const (
	// rateStep and shareSteps set how finely loads are rounded: the estimator remembers its answers.
	rateStep, shareSteps = 0.04, 40
)

// quantise rounds the forecast loads, and estimates capacities for them.
func (c *Controller) quantise() {
	sum := c.situation.Expected()
	rounded := round(sum * c.options.headroom())
	c.situation.Valued = rounded
	shares := c.rates[:0]
	for i := range c.situation.Loads {
		shares = append(shares, math.Round(c.situation.Loads[i].Forecast/max(sum, 1e-9)*shareSteps)/shareSteps)
	}
	if !slices.Equal(shares, c.shares) {
		c.shares = append(c.shares[:0], shares...)
		for h := range c.hosts {
			out := &c.situation.Hosts[h]
			for i, set := range c.hosts[h].sets {
				out.Capacity[i], out.Quality[i] = c.estimator.Capacity(set, shares)
			}
		}
	}
	for i := range shares {
		shares[i] *= rounded
	}
	c.rates = shares
}

// round rounds a load.
func round(load float64) float64 {
	if load <= 0 {
		return 0
	}
	return math.Exp(math.Round(math.Log(load)/rateStep) * rateStep)
}

// gain is the [Situation]'s.
func (c *Controller) gain(host, layout int, load float64) float64 {
	load = max(round(load), 1e-9)
	c.scratch = c.scratch[:0]
	for _, share := range c.shares {
		c.scratch = append(c.scratch, share*load)
	}
	is, set := c.estimator.Worth(c.sets, c.scratch), c.sets[host]
	c.sets[host] = c.hosts[host].sets[layout]
	would := c.estimator.Worth(c.sets, c.scratch)
	c.sets[host] = set
	return (would - is) / load
}

package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
)

// Controller is a [control.Controller] that keeps the applications of a system answered. Its
// methods must not be called concurrently. Events and orders take effect at the next Wake,
// which has to follow at their time.
type Controller struct {
	problem  *Problem
	options  Options
	actuator Actuator

	now       time.Duration
	begun     bool          // woken before
	taken     time.Duration // when the state was taken that it has resumed
	rebased   bool          // that state's times are on this run's clock
	dirty     bool          // something has happened
	replanned bool          // other assignments may be kept than [Replicas] holds replicas for
	version   int           // grows with each change that plans depend on
	planned   versions
	retry     time.Duration
	events    []event
	hosts     []host
	apps      []application
	on        [][]*assignment // by host, in the order in which they were wanted
	known     map[Assignment]*assignment
	number    uint64 // of the last action

	failovers int
	steps     []Step // of the last failover
	open      bool   // the failover is not over
	alone     bool   // no agent was heard when it was looked last
	counts    Counts
	scratch   scratch
	crowded   []crowd
	refining  refining
}

// crowd is a host on which backups have to make room for what recovers.
type crowd struct {
	host  int
	drops bool // if need be, by being given up
}

var _ control.Controller = (*Controller)(nil)

// event is what was observed: an event, the end of an order, what an agent said as it registered, or what an
// operator asks for.
type event struct {
	control.Event
	order       Order
	heard       bool
	incarnation uint64
	loaded      []Assignment
	drill, back bool
}

// application is what the controller knows and wants of one.
type application struct {
	full   int
	sorted []int       // variants in time, the smallest first
	home   *assignment // full variant on the primary; nil if there is none
	known  []*assignment

	active  *assignment   // answers now
	target  *assignment   // is to answer; nil if active is
	first   *assignment   // is loaded before the target, to answer until that is there
	backups []*assignment // are loaded for the next loss

	down    bool // it has lost its active assignment, and none has taken over
	since   time.Duration
	gap     bool   // it is down because its own assignment made room for a better one
	moved   bool   // its primary was lost, and it runs elsewhere
	why     string // it is not recovered
	exposed string // why it has fewer backups than it should
	blocked []block
}

// versions are those at which plans were made last.
type versions struct{ recover, protect, improve int }

// block keeps an application off a host on which a load of it has failed.
type block struct {
	host  int
	until time.Duration
	times int
	why   string
}

// New makes a controller. Full variants are running on the primaries; primaries that are not
// given are placed first, and written into the problem, which belongs to the controller from
// then on. All hosts are there until evidence says otherwise.
func New(p *Problem, o Options, a Actuator) (*Controller, error) {
	o = o.filled()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	if err := p.Validate(); err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	c := &Controller{problem: p, options: o, actuator: a, known: map[Assignment]*assignment{}, dirty: true, retry: control.Never, refining: refining{due: control.Never},
		version: 1, on: make([][]*assignment, len(p.Hosts)), hosts: make([]host, len(p.Hosts))}
	c.scratch.prepare(p)
	p.PlacePrimaries(o.Headroom)
	for i := range p.Applications {
		c.add(i)
		if home := c.apps[i].home; home != nil {
			home.phase, c.apps[i].active = loaded, home
		} else {
			c.apps[i].down = true
		}
	}
	taken := make([]float64, len(p.Resources))
	for i := range p.Hosts {
		c.hosts[i].broken = -1
		c.sums(taken, i, true, func(*assignment) bool { return true })
		for r, x := range taken {
			if x > p.Capacity[i][r]*(1+slack) {
				return nil, fmt.Errorf("failover: host %q: the applications whose primary it is take %g of its %s, and it has %g", p.Hosts[i].Name, x, p.Resources[r], p.Capacity[i][r])
			}
		}
	}
	return c, nil
}

// slack is how much more than there is may be used, relative to it: what sums lose to
// rounding.
const slack = 1e-9

// add prepares what is known of the application.
func (c *Controller) add(i int) {
	s := &c.problem.Applications[i]
	a := application{full: s.full()}
	for v := range s.Variants {
		if s.quick(v) {
			a.sorted = append(a.sorted, v)
		}
	}
	slices.SortStableFunc(a.sorted, func(v, w int) int {
		return cmp.Compare(c.scratch.size(s.Variants[v].Demand), c.scratch.size(s.Variants[w].Demand))
	})
	c.apps = append(c.apps, a)
	if s.Primary >= 0 {
		c.apps[i].home = c.want(i, a.full, s.Primary)
	}
}

// Place adds an application, which runs on its primary, or where it has none on the host
// with the most room, once it has been loaded there. It returns the application's number.
func (c *Controller) Place(a Application) (int, error) {
	if err := c.problem.check(&a); err != nil {
		return -1, fmt.Errorf("application %q: %w", a.Name, err)
	}
	i := len(c.problem.Applications)
	c.problem.Applications = append(c.problem.Applications, a)
	if a.Primary < 0 {
		c.problem.placePrimary(i, c.problem.primaryRoom(c.options.Headroom))
		if c.problem.Applications[i].Primary < 0 { // backups may have room to spare
			c.problem.placePrimary(i, c.rooms(c.committed))
		}
	}
	c.add(i)
	if home := c.apps[i].home; home != nil {
		c.crowded = append(c.crowded, crowd{home.Host, true})
	}
	c.apps[i].down, c.apps[i].since, c.dirty, c.version = true, c.now, true, c.version+1
	c.scratch.prepare(c.problem)
	return i, nil
}

// Observe implements [control.Controller]: it takes in evidence of hosts.
func (c *Controller) Observe(e control.Event) {
	if e.Kind == control.Heartbeat && len(c.events) == 0 && c.regular(e.Host, e.At) {
		return
	}
	c.events = append(c.events, event{Event: e})
}

// Ended reports how an order has ended, or what another client of the engine has done, where its epoch is 0.
func (c *Controller) Ended(o Order, kind control.Kind, reason string) {
	c.events = append(c.events, event{Event: control.Event{Kind: kind, Reason: reason}, order: o})
}

// Occupy sets the memory that others than assignments take on the host.
func (c *Controller) Occupy(host int, memory float64) {
	if s := &c.hosts[host]; s.others != memory {
		s.others, c.dirty = memory, true
		c.version++
	}
}

// Kept returns the assignments that room is kept for.
func (c *Controller) Kept() (list []Assignment) {
	for _, on := range c.on {
		for _, x := range on {
			if c.committed(x) {
				list = append(list, x.Assignment)
			}
		}
	}
	return list
}

// Heard reports that an agent has registered: which run of its host it is, and the assignments
// that are loaded there. A new incarnation has lost everything that is not listed.
func (c *Controller) Heard(host int, incarnation uint64, loaded []Assignment, at time.Duration) {
	c.events = append(c.events, event{Event: control.Event{At: at, Host: host, Replica: -1}, heard: true, incarnation: incarnation, loaded: slices.Clone(loaded)})
}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) (next time.Duration) {
	c.now = max(c.now, now)
	if !c.begun {
		c.begin()
	}
	for {
		for k := 0; k < len(c.events); k++ { // an actuator may add some as it acts
			c.take(&c.events[k])
		}
		c.events = c.events[:0]
		c.overdue()
		if c.now >= c.retry {
			c.dirty, c.retry = true, control.Never
			c.version++
		}
		if len(c.events) > 0 { // an answer that came at once
			continue
		}
		if !c.dirty && c.now >= c.refining.due {
			c.slice()
		}
		if !c.dirty {
			return c.next()
		}
		c.dirty = false
		c.replanned = true
		c.plan()
		c.reconcile()
	}
}

// plan decides what is to be loaded where. Protection and better variants wait until all
// have recovered that can. With our policy protection comes first, as small as can be.
func (c *Controller) plan() {
	c.advance()
	c.since(&c.planned.recover, c.recover)
	c.makeWay()
	c.failback()
	if !c.recovering() {
		c.since(&c.planned.protect, c.protect)
		if c.options.Policy == Gearshift {
			c.since(&c.planned.improve, c.improve)
			c.refine()
		}
	}
	c.conclude()
}

// makeWay has backups yield on crowded hosts.
func (c *Controller) makeWay() {
	for _, x := range c.crowded {
		c.yield(x.host, x.drops)
	}
	c.crowded = c.crowded[:0]
}

// since makes a plan if anything has changed since it was made last.
func (c *Controller) since(last *int, plan func()) {
	if *last == c.version {
		return
	}
	plan()
	*last = c.version
}

// next is when something is due.
func (c *Controller) next() time.Duration {
	next := min(c.retry, c.refining.due)
	for i := range c.hosts {
		next = min(next, c.due(i))
	}
	return max(next, c.now+1)
}

// later has plans be made again at the time.
func (c *Controller) later(at time.Duration) { c.retry = min(c.retry, at) }

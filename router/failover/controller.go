package failover

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
	"gearshift/router/placement"
)

// Controller is a [control.Controller] that keeps the applications of a system answered. Its
// methods must not be called concurrently. Events and orders take effect at the next Wake,
// which has to follow at their time.
type Controller struct {
	system   *System
	options  Options
	actuator control.Actuator

	now     time.Duration
	begun   bool          // woken before
	taken   time.Duration // when the state was taken that it has resumed
	rebased bool          // that state's times are on this run's clock
	dirty   bool          // something has happened
	version int           // grows with each change that plans depend on
	planned versions
	retry   time.Duration
	events  []event
	servers []server
	apps    []application
	on      [][]*instance // by server, in the order in which they were wanted
	byID    map[int]*instance
	number  uint64 // of the last action

	failovers int
	steps     []Step // of the last failover
	open      bool   // the failover is not over
	alone     bool   // no agent was heard when it was looked last
	counts    Counts
	scratch   scratch
	crowded   []crowd
	refining  refining
}

// crowd is a server on which backups have to make room for what recovers.
type crowd struct {
	server int
	drops  bool // if need be, by being given up
}

var _ control.Controller = (*Controller)(nil)

// event is what was observed: an event, what an agent said as it registered, or an order.
type event struct {
	control.Event
	heard       bool
	incarnation uint64
	loaded      []int
	drill, back bool
}

// application is what the controller knows and wants of one.
type application struct {
	full     int
	sorted   []int // variants in time, the smallest first
	variants []placement.Alternative
	home     *instance // full variant on the primary; nil if there is none
	known    []*instance

	active  *instance   // answers now
	target  *instance   // is to answer; nil if active is
	first   *instance   // is loaded before the target, to answer until that is there
	backups []*instance // are loaded for the next loss

	down    bool // it has lost its active instance, and none has taken over
	since   time.Duration
	gap     bool   // it is down because its own instance made room for a better one
	moved   bool   // its primary was lost, and it runs elsewhere
	why     string // it is not recovered
	exposed string // why it has fewer backups than it should
	blocked []block
}

// versions are those at which plans were made last.
type versions struct{ recover, protect, improve int }

// block keeps an application off a server on which a load of it has failed.
type block struct {
	server int
	until  time.Duration
	times  int
	why    string
}

// New makes a controller. Full variants are running on the primaries; primaries that are not
// given are placed first, and written into the system, which belongs to the controller from
// then on. All servers are there until evidence says otherwise.
func New(s *System, o Options, a control.Actuator) (*Controller, error) {
	o = o.filled()
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	if err := s.Validate(); err != nil {
		return nil, fmt.Errorf("failover: %w", err)
	}
	c := &Controller{system: s, options: o, actuator: a, byID: map[int]*instance{}, dirty: true, retry: control.Never, refining: refining{due: control.Never},
		version: 1, on: make([][]*instance, len(s.Servers)), servers: make([]server, len(s.Servers))}
	c.scratch.prepare(s)
	s.PlacePrimaries(o.Headroom)
	for i := range s.Applications {
		c.add(i)
		if home := c.apps[i].home; home != nil {
			home.phase, c.apps[i].active = loaded, home
		} else {
			c.apps[i].down = true
		}
	}
	for i := range s.Servers {
		c.servers[i].broken = -1
		taken := s.Taken(i, c.ids(i))
		for r, x := range taken {
			if x > s.Servers[i].Capacity[r]*(1+slack) {
				return nil, fmt.Errorf("failover: server %q: the applications whose primary it is take %g of its %s, and it has %g", s.Servers[i].Name, x, s.Resources[r], s.Servers[i].Capacity[r])
			}
		}
	}
	return c, nil
}

// slack is how much more than there is may be used, relative to it: what sums lose to
// rounding.
const slack = 1e-9

func (c *Controller) ids(server int) (list []int) {
	for _, x := range c.on[server] {
		list = append(list, x.id)
	}
	return list
}

// add prepares what is known of the application.
func (c *Controller) add(i int) {
	s := &c.system.Applications[i]
	a := application{full: s.full()}
	for v := range s.Variants {
		w := s.Variants[v].Alternative
		w.Model = s.Variants[v].Model
		a.variants = append(a.variants, w)
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

// Place adds an application, which runs on its primary, or where it has none on the server
// with the most room, once it has been loaded there. It returns the application's number.
func (c *Controller) Place(a Application) (int, error) {
	if err := c.system.check(&a); err != nil {
		return -1, fmt.Errorf("application %q: %w", a.Name, err)
	}
	i := len(c.system.Applications)
	c.system.Applications = append(c.system.Applications, a)
	if a.Primary < 0 {
		c.system.placePrimary(i, c.system.primaryRoom(c.options.Headroom))
		if c.system.Applications[i].Primary < 0 { // backups may have room to spare
			c.system.placePrimary(i, c.rooms(c.committed))
		}
	}
	c.add(i)
	if home := c.apps[i].home; home != nil {
		c.crowded = append(c.crowded, crowd{home.server, true})
	}
	c.apps[i].down, c.apps[i].since, c.dirty, c.version = true, c.now, true, c.version+1
	c.scratch.prepare(c.system)
	return i, nil
}

// Observe implements [control.Controller]. Evidence is that of hosts, which are servers here;
// the ends of actions are those of instances, in Replica.
func (c *Controller) Observe(e control.Event) {
	if e.Kind == control.Heartbeat && len(c.events) == 0 && c.regular(e.Host, e.At) {
		return
	}
	c.events = append(c.events, event{Event: e})
}

// Occupy sets the memory that others than the system's instances take on the server.
func (c *Controller) Occupy(server int, memory float64) {
	if s := &c.servers[server]; s.others != memory {
		s.others, c.dirty = memory, true
		c.version++
	}
}

// Kept returns the instances that room is kept for.
func (c *Controller) Kept() (list []int) {
	for _, on := range c.on {
		for _, x := range on {
			if c.committed(x) {
				list = append(list, x.id)
			}
		}
	}
	return list
}

// Heard reports that an agent has registered: which run of its server it is, and the instances
// that are loaded there. A new incarnation has lost everything that is not listed.
func (c *Controller) Heard(server int, incarnation uint64, loaded []int, at time.Duration) {
	c.events = append(c.events, event{Event: control.Event{At: at, Host: server, Replica: -1}, heard: true, incarnation: incarnation, loaded: slices.Clone(loaded)})
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

// makeWay has backups yield on crowded servers.
func (c *Controller) makeWay() {
	for _, x := range c.crowded {
		c.yield(x.server, x.drops)
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
	for i := range c.servers {
		next = min(next, c.due(i))
	}
	return max(next, c.now+1)
}

// later has plans be made again at the time.
func (c *Controller) later(at time.Duration) { c.retry = min(c.retry, at) }

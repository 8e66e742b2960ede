package failover

import (
	"fmt"
	"slices"
	"time"

	"gearshift/router/fleet"
)

// State is what a controller has to know to go on where an earlier run was. Names stand for
// what they name, so that it can be read with a problem that has changed.
type State struct {
	Term         uint64             `json:"term"`
	At           time.Duration      `json:"at"`     // when it was taken, on the clock of its run
	Number       uint64             `json:"number"` // of the last action
	Hosts        []HostState        `json:"servers"`
	Applications []ApplicationState `json:"applications"`
	Assignments  []AssignmentState  `json:"instances"`
	Counts       Counts             `json:"counts"`
	Failover     int                `json:"failover"`
	Open         bool               `json:"open"`
	Steps        []Step             `json:"steps"`
}

// HostState is that of a host.
type HostState struct {
	Name        string    `json:"name"`
	Condition   Condition `json:"condition"`
	Incarnation uint64    `json:"incarnation"`
	Agent       bool      `json:"agent"`
	Dead        bool      `json:"dead,omitempty"`
	Drill       bool      `json:"drill,omitempty"`
}

// ApplicationState is that of an application: its assignments, and since when nothing answers
// it, as a duration before the state was taken.
type ApplicationState struct {
	Name    string           `json:"name"`
	Active  *AssignmentName  `json:"active,omitempty"`
	Target  *AssignmentName  `json:"target,omitempty"`
	First   *AssignmentName  `json:"first,omitempty"`
	Backups []AssignmentName `json:"backups,omitempty"`
	Down    time.Duration    `json:"down,omitempty"`
	Moved   bool             `json:"moved,omitempty"`
}

// AssignmentName names an assignment of an application.
type AssignmentName struct {
	Variant string `json:"variant"`
	Host    string `json:"server"`
}

// AssignmentState is that of an assignment which is there, or on its way.
type AssignmentState struct {
	Application string `json:"application"`
	AssignmentName
	Phase string `json:"phase"`
	Epoch uint64 `json:"epoch"`
}

// State returns what a later run has to know.
func (c *Controller) State() State {
	s := State{Term: c.options.Term, At: c.now, Number: c.number, Counts: c.counts, Failover: c.failovers, Open: c.open, Steps: slices.Clone(c.steps)}
	for i := range c.hosts {
		x := &c.hosts[i]
		s.Hosts = append(s.Hosts, HostState{c.problem.Hosts[i].Name, x.condition, x.incarnation, x.agent, x.dead, x.drill})
		for _, y := range c.on[i] {
			if y.phase != planned {
				s.Assignments = append(s.Assignments, AssignmentState{c.problem.Applications[y.App].Name, *c.nameOf(y), phases[y.phase], y.epoch})
			}
		}
	}
	for i := range c.apps {
		a := &c.apps[i]
		x := ApplicationState{Name: c.problem.Applications[i].Name, Active: c.nameOf(a.active), Target: c.nameOf(a.target), First: c.nameOf(a.first), Moved: a.moved}
		for _, y := range a.backups {
			x.Backups = append(x.Backups, *c.nameOf(y))
		}
		if a.down {
			x.Down = c.now - a.since
		}
		s.Applications = append(s.Applications, x)
	}
	return s
}

func (c *Controller) nameOf(x *assignment) *AssignmentName {
	if x == nil {
		return nil
	}
	return &AssignmentName{c.problem.Variant(x.Assignment).Name, c.problem.Hosts[x.Host].Name}
}

// Resume has the controller go on where an earlier run was, of which the term is lower. It is
// called before the first Wake. What was loaded then still is, unless agents report otherwise;
// actions that were under way are asked for again. What the problem does not have any more is
// left out. Agents have [Options.ReturnAfter] to come back before their hosts are lost.
func (c *Controller) Resume(s State) error {
	if c.begun {
		return fmt.Errorf("failover: the controller has begun already")
	}
	if s.Term >= c.options.Term {
		return fmt.Errorf("failover: the state is of term %d, and this run's is %d; want a higher one", s.Term, c.options.Term)
	}
	c.taken = s.At
	c.counts, c.failovers, c.open, c.steps = s.Counts, s.Failover, s.Open, slices.Clone(s.Steps)
	for _, x := range s.Hosts {
		if i := c.hostNamed(x.Name); i >= 0 {
			y := &c.hosts[i]
			y.condition, y.incarnation, y.agent, y.dead, y.drill = x.Condition, x.Incarnation, x.Agent, x.Dead, x.Drill
			y.resumed = x.Condition != Lost && x.Agent
		}
	}
	for i := range c.apps { // what New takes to be there is not
		if a := &c.apps[i]; a.home != nil {
			a.home.phase = planned
		}
		c.apps[i].active, c.apps[i].down = nil, true
	}
	for _, x := range s.Assignments {
		if y := c.named(x.Application, &x.AssignmentName); y != nil {
			y.phase = phase(max(0, slices.Index(phases[:], x.Phase)))
			y.again = y.phase == loading || y.phase == unloading
		}
	}
	for _, x := range s.Applications {
		c.resumeApplication(&x)
	}
	return nil
}

func (c *Controller) resumeApplication(x *ApplicationState) {
	i := c.appNamed(x.Name)
	if i < 0 {
		return
	}
	a := &c.apps[i]
	a.active, a.target, a.first = c.named(x.Name, x.Active), c.named(x.Name, x.Target), c.named(x.Name, x.First)
	if a.active != nil && !c.there(a.active) {
		a.active = nil
	}
	if a.target == nil {
		a.first = nil
	}
	for k := range x.Backups {
		if y := c.named(x.Name, &x.Backups[k]); y != nil {
			a.backups = append(a.backups, y)
		}
	}
	a.down, a.since, a.moved = a.active == nil, c.now-x.Down, x.Moved
}

func (c *Controller) hostNamed(name string) int {
	return slices.IndexFunc(c.problem.Hosts, func(h fleet.Host) bool { return h.Name == name })
}

func (c *Controller) appNamed(name string) int {
	return slices.IndexFunc(c.problem.Applications, func(a Application) bool { return a.Name == name })
}

// named returns the assignment of that name; nil if the problem has none.
func (c *Controller) named(application string, x *AssignmentName) *assignment {
	if x == nil {
		return nil
	}
	i, s := c.appNamed(application), c.hostNamed(x.Host)
	if i < 0 || s < 0 {
		return nil
	}
	v := slices.IndexFunc(c.problem.Applications[i].Variants, func(v Variant) bool { return v.Name == x.Variant })
	if v < 0 {
		return nil
	}
	return c.want(i, v, s)
}

// Rebase moves the times of the state that was resumed to the clock of this run, on which the earlier
// run's clock began at the time zero, which is negative. Without it, times count from the first Wake, as if
// no time had passed between the runs. It is called between Resume and the first Wake.
func (c *Controller) Rebase(zero time.Duration) {
	c.rebased = true
	zero = min(zero, -c.taken) // the state is of the past, even where the wall clock was set back since
	for i := range c.steps {
		c.steps[i].At += zero
	}
	for i := range c.apps {
		c.apps[i].since += zero + c.taken
	}
}

// begin has what depends on the time of the first Wake follow from it.
func (c *Controller) begin() {
	c.begun = true
	for i := range c.hosts {
		s := &c.hosts[i]
		s.heard, s.since = c.now, c.now
	}
	for i := range c.apps {
		if !c.rebased {
			c.apps[i].since += c.now
		}
	}
}

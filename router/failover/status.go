package failover

import (
	"errors"
	"fmt"
	"time"

	"gearshift/router/control"
)

// Counts are what has happened since the controller was made, earlier runs that it continues
// included.
type Counts struct {
	Failovers   int           `json:"failovers"`
	Affected    int           `json:"affected"`  // losses of an active instance
	Recovered   int           `json:"recovered"` // that another has taken over
	Outage      time.Duration `json:"outage"`    // from detection to notice, of those, in all
	FailedBack  int           `json:"failed_back"`
	FalseAlarms int           `json:"false_alarms"`
	Suspicions  int           `json:"suspicions"` // of servers whose heartbeats were overdue
	Gaps        int           `json:"gaps"`       // in which a smaller variant made room for a better one
	Gap         time.Duration `json:"gap"`        // of those, in all
	Loads       int           `json:"loads"`
	LoadsFailed int           `json:"loads_failed"`
}

// Status is what the controller knows and wants.
type Status struct {
	Term         uint64              `json:"term"`
	Policy       Policy              `json:"policy"`
	Servers      []ServerStatus      `json:"servers"`
	Applications []ApplicationStatus `json:"applications"`
	// Unrecovered and Unprotected count the applications that nothing answers, and those that
	// have fewer living backups than they should.
	Unrecovered int    `json:"unrecovered"`
	Unprotected int    `json:"unprotected"`
	Counts      Counts `json:"counts"`
	Failover    int    `json:"failover"` // the number of the last; 0 if there was none
	Open        bool   `json:"open"`     // it is not over
	Steps       []Step `json:"steps"`    // of the last failover
}

// ServerStatus is what is known of a server.
type ServerStatus struct {
	Name        string        `json:"name"`
	Site        string        `json:"site,omitempty"`
	Condition   string        `json:"condition"` // up, lost, returned
	Since       time.Duration `json:"since"`
	Incarnation uint64        `json:"incarnation,omitempty"`
	Agent       bool          `json:"agent"`
	Drill       bool          `json:"drill,omitempty"`
	Loaded      int           `json:"loaded"`  // instances
	Loading     int           `json:"loading"` // instances
	Models      int           `json:"models"`  // that instances have loaded: those that share one count once; none of a server that is lost
	Capacity    []float64     `json:"capacity"`
	Taken       []float64     `json:"taken"`
}

// ApplicationStatus is what is known of an application. Instances are −1 where there is none.
type ApplicationStatus struct {
	Name     string `json:"name"`
	Critical bool   `json:"critical"`
	Primary  int    `json:"primary"` // server
	Active   int    `json:"active"`  // instance
	Target   int    `json:"target"`  // instance that is to answer
	Backups  []int  `json:"backups"` // instances that are loaded for the next loss
	// Quality is that of the active instance, Full that of the full variant.
	Quality float64 `json:"quality"`
	Full    float64 `json:"full"`
	// Unrecovered is why nothing answers it, Unprotected why it has fewer backups than it
	// should; empty if that is not so.
	Unrecovered string `json:"unrecovered,omitempty"`
	Unprotected string `json:"unprotected,omitempty"`
}

// Status returns what the controller knows and wants.
func (c *Controller) Status() Status {
	s := Status{Term: c.options.Term, Policy: c.options.Policy, Counts: c.counts, Failover: c.failovers, Open: c.open, Steps: append([]Step(nil), c.steps...)}
	for i := range c.servers {
		s.Servers = append(s.Servers, c.serverStatus(i))
	}
	for i := range c.apps {
		a := c.applicationStatus(i)
		if a.Unrecovered != "" {
			s.Unrecovered++
		}
		if a.Unprotected != "" {
			s.Unprotected++
		}
		s.Applications = append(s.Applications, a)
	}
	return s
}

func (c *Controller) serverStatus(i int) ServerStatus {
	x, s := &c.servers[i], &c.system.Servers[i]
	status := ServerStatus{Name: s.Name, Site: s.Site, Condition: x.condition.String(), Since: x.since, Incarnation: x.incarnation,
		Agent: x.agent, Drill: x.drill, Capacity: s.Capacity, Taken: make([]float64, len(s.Capacity))}
	models := map[string]bool{}
	for _, y := range c.on[i] {
		switch y.phase {
		case loaded:
			status.Loaded++
			if model := c.system.Applications[y.app].Variants[y.variant].Model; x.condition != Lost && !(c.system.Shared && models[model]) {
				status.Models++
				models[model] = true
			}
		case loading:
			status.Loading++
		}
	}
	c.sums(status.Taken, i, true, resident)
	return status
}

func (c *Controller) applicationStatus(i int) ApplicationStatus {
	a, s := &c.apps[i], &c.system.Applications[i]
	number := func(x *instance) int {
		if x == nil {
			return -1
		}
		return x.id
	}
	status := ApplicationStatus{Name: s.Name, Critical: s.Critical, Primary: s.Primary, Active: number(a.active), Target: number(a.target),
		Full: s.Variants[a.full].Quality, Backups: []int{}}
	if a.active != nil {
		status.Quality = s.Variants[a.active.variant].Quality
	} else {
		status.Unrecovered = c.unrecovered(i)
	}
	living := 0
	for _, x := range a.backups {
		if c.there(x) {
			status.Backups = append(status.Backups, x.id)
			living++
		}
	}
	if living < c.options.Backups {
		status.Unprotected = c.unprotected(i)
	}
	return status
}

// unrecovered says why nothing answers the application.
func (c *Controller) unrecovered(i int) string {
	switch a := &c.apps[i]; {
	case a.first != nil:
		return c.underWay(a.first)
	case a.target != nil:
		return c.underWay(a.target)
	case a.why != "":
		return a.why
	}
	return "it is to be planned"
}

// unprotected says why the application has fewer backups than it should.
func (c *Controller) unprotected(i int) string {
	a := &c.apps[i]
	if !c.protects(i) {
		return fmt.Sprintf("the policy %s holds no backup of it", c.options.Policy)
	}
	for _, x := range a.backups {
		if !c.there(x) {
			return c.underWay(x)
		}
	}
	switch {
	case a.active == nil:
		return "it has to recover first"
	case a.exposed != "":
		return a.exposed
	}
	return "it is to be planned"
}

func (c *Controller) underWay(x *instance) string {
	return fmt.Sprintf("%s is %s on %s", c.system.Applications[x.app].Variants[x.variant].Name, phases[x.phase], c.system.Servers[x.server].Name)
}

// Loaded returns the instances that the controller takes to be loaded.
func (c *Controller) Loaded() (list []int) {
	for i := range c.on {
		for _, x := range c.on[i] {
			if x.phase == loaded {
				list = append(list, x.id)
			}
		}
	}
	return list
}

// Drill has the server treated as lost, though it is there, until [Controller.Failback].
func (c *Controller) Drill(server int) error {
	switch {
	case server < 0 || server >= len(c.servers):
		return fmt.Errorf("there is no server %d; there are %d, counted from 0", server, len(c.servers))
	case c.servers[server].condition == Lost:
		return fmt.Errorf("%s is lost already", c.system.Servers[server].Name)
	case len(c.servers) == 1:
		return errors.New("there is no other server")
	}
	c.events = append(c.events, event{drill: true, Event: control.Event{Host: server}})
	return nil
}

// Failback ends drills, and has applications move back to primaries that have returned without
// waiting until those have been well for long enough.
func (c *Controller) Failback(now time.Duration) {
	c.events = append(c.events, event{back: true, Event: control.Event{At: now}})
}

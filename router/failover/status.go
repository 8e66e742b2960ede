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
	Affected    int           `json:"affected"`  // losses of what answered
	Recovered   int           `json:"recovered"` // that another has taken over
	Outage      time.Duration `json:"outage"`    // from detection to notice, of those, in all
	FailedBack  int           `json:"failed_back"`
	FalseAlarms int           `json:"false_alarms"`
	Suspicions  int           `json:"suspicions"` // of hosts whose heartbeats were overdue
	Gaps        int           `json:"gaps"`       // in which a smaller variant made room for a better one
	Gap         time.Duration `json:"gap"`        // of those, in all
	Loads       int           `json:"loads"`
	LoadsFailed int           `json:"loads_failed"`
}

// Status is what the controller knows and wants.
type Status struct {
	Term         uint64
	Policy       Policy
	Hosts        []HostStatus
	Applications []ApplicationStatus
	// Unrecovered and Unprotected count the applications that nothing answers, and those that
	// have fewer living backups than they should.
	Unrecovered int
	Unprotected int
	Counts      Counts
	Failover    int    // the number of the last; 0 if there was none
	Open        bool   // it is not over
	Steps       []Step // of the last failover
}

// HostStatus is what is known of a host.
type HostStatus struct {
	Name        string
	Site        string
	Condition   string // up, lost, returned
	Since       time.Duration
	Incarnation uint64
	Agent       bool
	Drill       bool
	Loaded      int // assignments
	Loading     int // assignments
	Models      int // that are loaded: those that share one count once; none of a host that is lost
	Capacity    []float64
	Taken       []float64
}

// ApplicationStatus is what is known of an application.
type ApplicationStatus struct {
	Name     string
	Critical bool
	Primary  int          // host
	Active   Assignment   // what answers it, or Nowhere
	Target   Assignment   // what is to answer it, or Nowhere
	Backups  []Assignment // loaded for the next loss
	// Quality is that of what answers, Full that of the full variant.
	Quality float64
	Full    float64
	// Unrecovered is why nothing answers it, Unprotected why it has fewer backups than it
	// should; empty if that is not so.
	Unrecovered string
	Unprotected string
}

// Status returns what the controller knows and wants.
func (c *Controller) Status() Status {
	s := Status{Term: c.options.Term, Policy: c.options.Policy, Counts: c.counts, Failover: c.failovers, Open: c.open, Steps: append([]Step(nil), c.steps...)}
	for i := range c.hosts {
		s.Hosts = append(s.Hosts, c.hostStatus(i))
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

func (c *Controller) hostStatus(i int) HostStatus {
	x, s := &c.hosts[i], &c.problem.Hosts[i]
	status := HostStatus{Name: s.Name, Site: s.Site, Condition: x.condition.String(), Since: x.since, Incarnation: x.incarnation,
		Agent: x.agent, Drill: x.drill, Capacity: c.problem.Capacity[i], Taken: make([]float64, len(c.problem.Resources))}
	models := map[string]bool{}
	for _, y := range c.on[i] {
		switch y.phase {
		case loaded:
			status.Loaded++
			if model := c.problem.Variant(y.Assignment).Model; x.condition != Lost && !(c.problem.Shared && models[model]) {
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
	a, s := &c.apps[i], &c.problem.Applications[i]
	at := func(x *assignment) Assignment {
		if x == nil {
			return Nowhere
		}
		return x.Assignment
	}
	status := ApplicationStatus{Name: s.Name, Critical: s.Critical, Primary: s.Primary, Active: at(a.active), Target: at(a.target),
		Full: s.Variants[a.full].Quality, Backups: []Assignment{}}
	if a.active != nil {
		status.Quality = s.Variants[a.active.Variant].Quality
	} else {
		status.Unrecovered = c.unrecovered(i)
	}
	living := 0
	for _, x := range a.backups {
		if c.there(x) {
			status.Backups = append(status.Backups, x.Assignment)
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

func (c *Controller) underWay(x *assignment) string {
	return fmt.Sprintf("%s is %s on %s", c.problem.Variant(x.Assignment).Name, phases[x.phase], c.problem.Hosts[x.Host].Name)
}

// Loaded returns the assignments that the controller takes to be loaded.
func (c *Controller) Loaded() (list []Assignment) {
	for i := range c.on {
		for _, x := range c.on[i] {
			if x.phase == loaded {
				list = append(list, x.Assignment)
			}
		}
	}
	return list
}

// Drill has the host treated as lost, though it is there, until [Controller.Failback].
func (c *Controller) Drill(host int) error {
	switch {
	case host < 0 || host >= len(c.hosts):
		return fmt.Errorf("there is no host %d; there are %d, counted from 0", host, len(c.hosts))
	case c.hosts[host].condition == Lost:
		return fmt.Errorf("%s is lost already", c.problem.Hosts[host].Name)
	case len(c.hosts) == 1:
		return errors.New("there is no other host")
	}
	c.events = append(c.events, event{drill: true, Event: control.Event{Host: host}})
	return nil
}

// Failback ends drills, and has applications move back to primaries that have returned without
// waiting until those have been well for long enough.
func (c *Controller) Failback(now time.Duration) {
	c.events = append(c.events, event{back: true, Event: control.Event{At: now}})
}

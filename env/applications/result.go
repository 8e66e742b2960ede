package applications

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/failover"
)

// Result is what a run comes to.
type Result struct {
	Length time.Duration
	Losses int // that began
	// Exposed is how many applications had fewer backups than they should when the first
	// host was lost.
	Exposed   int
	Failovers []Failover
	Requests  Requests
	Outages   []Outage
	// Dark counts the applications whose clients had no answer yet at the end.
	Dark   int
	Counts failover.Counts
	// Unrecovered is why applications had nothing to answer them at the end, by name.
	Unrecovered map[string]string
}

// Requests counts those of all clients. Each that was sent was answered, lost, or still waits or
// is being answered at the end.
type Requests struct {
	Sent     int `json:"sent"`
	Answered int `json:"answered"`
	Lost     int `json:"lost"`
	Open     int `json:"open"`
	Again    int `json:"sent_again"` // having broken or waited
}

// Outage is what the clients of an application see of a loss: the time from the first request
// that failed to the next answer.
type Outage struct {
	Application  int
	From, Length time.Duration
}

// Failover is the loss of one host or more, and what the controller made of it.
type Failover struct {
	Hosts []int
	// Detected is when the first of them was found lost, After how long after its loss.
	Detected, After time.Duration
	Affected        []Affected
	Over            bool // all that could be done was done
}

// Affected is an application that lost what answered it.
type Affected struct {
	Application int
	Recovered   bool
	// Took is the time from the detection until its clients knew what took over.
	Took time.Duration
	// Lost is the share of the accuracy on its primary that it lost, by what answered it in the
	// end, before it was moved back, and First by what answered it first.
	Lost, First float64
	Swapped     bool   // a better variant replaced the first
	Gap         bool   // for which that had to make room
	Why         string // it was not recovered

	known, took time.Duration // when clients know what took over, and how long after the loss that is
	dead        bool          // what took over was down already
	since       time.Duration // when the loss was detected, of one that went on: again
	again       bool
}

// step takes a step of the controller into the result.
func (sim *simulation) step(s failover.Step) {
	if report := sim.Config.Options.Report; report != nil {
		report(s)
	}
	sim.stepped = true
	if s.Kind == failover.StepLost {
		sim.detected(s)
		return
	}
	f, a := sim.of(s.Application)
	if s.Kind == failover.StepAffected {
		if a != nil && (a.dead || a.Recovered && s.At < a.known) { // clients never knew of what took over: the loss goes on
			*a = Affected{Application: a.Application, Gap: a.Gap, Why: "what took over was lost before clients knew of it", since: a.known - a.took, again: true}
			return
		}
		if n := len(sim.result.Failovers); n > 0 {
			f = &sim.result.Failovers[n-1]
			f.Affected = append(f.Affected, Affected{Application: s.Application})
			sim.latest[s.Application] = at{n - 1, len(f.Affected) - 1}
		}
		return
	}
	lost := 0.
	if s.Full > 0 {
		lost = 1 - s.Quality/s.Full
	}
	switch {
	case s.Kind == failover.StepRecovered || s.Kind == failover.StepOver:
		if n := len(sim.result.Failovers); n > 0 {
			sim.result.Failovers[n-1].Over = true
		}
	case a == nil:
	case s.Kind == failover.StepNotified && slices.Contains(f.Hosts, s.Host):
		a.Why = cmp.Or(a.Why, "nothing answered it before its host was back")
	case s.Kind == failover.StepNotified:
		if a.known, a.took = s.At+sim.Switch, s.Took+sim.Switch; a.again {
			a.took = a.known - a.since
		}
		if a.dead = sim.hosts[s.Host].down; a.dead {
			a.Why = cmp.Or(a.Why, "what was to take over was lost too")
			break
		}
		a.Why, a.Recovered, a.Took, a.Lost, a.First = "", true, a.took, lost, lost
	case s.Kind == failover.StepSwapped:
		a.Swapped, a.Lost = true, lost
	case s.Kind == failover.StepGap:
		a.Gap = true
	case s.Kind == failover.StepUnrecovered:
		a.Why = s.Reason
	case s.Kind == failover.StepFailedBack:
		delete(sim.latest, s.Application)
	}
}

// at is where the latest loss of an application is in the result.
type at struct{ failover, affected int }

func (sim *simulation) of(application int) (*Failover, *Affected) {
	x, ok := sim.latest[application]
	if !ok {
		return nil, nil
	}
	f := &sim.result.Failovers[x.failover]
	return f, &f.Affected[x.affected]
}

// detected begins a failover, or adds a host to the one that is not over.
func (sim *simulation) detected(s failover.Step) {
	if n := len(sim.result.Failovers); n > 0 && sim.number == s.Failover {
		f := &sim.result.Failovers[n-1]
		f.Hosts = append(f.Hosts, s.Host)
		return
	}
	sim.number = s.Failover
	f := Failover{Hosts: []int{s.Host}, Detected: s.At}
	if x := &sim.hosts[s.Host]; x.down {
		f.After = s.At - x.since
	}
	sim.result.Failovers = append(sim.result.Failovers, f)
}

// check compares what the controller takes to be so with what is.
func (sim *simulation) check() error {
	for i, a := range sim.controller.Status().Applications {
		switch {
		case a.Active == failover.Nowhere && a.Unrecovered == "":
			return fmt.Errorf("nothing answers %s, for no reason", a.Name)
		case a.Active == failover.Nowhere:
		case !sim.hosts[a.Active.Host].down && !sim.hosts[a.Active.Host].loaded[a.Active]:
			return fmt.Errorf("%s is to answer, and is not loaded", sim.name(a.Active))
		case sim.apps[i].next != a.Active && sim.apps[i].target != a.Active:
			return fmt.Errorf("%s is to answer, and its clients do not know", sim.name(a.Active))
		}
	}
	return nil
}

// end completes the result.
func (sim *simulation) end() {
	sim.now = sim.Length
	r := sim.result
	for i := range sim.apps {
		sim.catchUp(i)
		r.Requests.Open += len(sim.apps[i].flying) + len(sim.apps[i].waiting)
		if sim.apps[i].failed >= 0 {
			r.Dark++
		}
	}
	status := sim.controller.Status()
	r.Counts, r.Unrecovered = status.Counts, map[string]string{}
	for _, a := range status.Applications {
		if a.Active == failover.Nowhere {
			r.Unrecovered[a.Name] = a.Unrecovered
		}
	}
}

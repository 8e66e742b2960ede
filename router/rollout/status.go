package rollout

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Status is how a model stands.
type Status struct {
	Name string
	// Wanted is the version that all locations are to have, and From the one before, while a roll is
	// under way. Previous is what a rollback leads to.
	Wanted, From, Previous string
	RealTime               bool
	Rolling, Back, Paused  bool
	// Stale is for how long the version has been wanted without being everywhere, and Overdue says
	// that this is longer than the bound.
	Stale   time.Duration
	Overdue bool
	// Waits says what the next change waits for; Reason why the model goes back, or what failed last.
	Waits, Reason string
	// Old and New are what both versions have answered since the roll began.
	Old, New  Count
	Counts    Counts
	Locations []LocationStatus
}

// LocationStatus is how a location stands.
type LocationStatus struct {
	Location
	// Active is the index of the replica that answers.
	Active int
	// Versions are those that both replicas have, or had last.
	Versions [2]string
	// Phase is what is being done; empty if nothing is.
	Phase string
	// Share is the part of the location's requests that the replica gets which is not the active one.
	Share float64
}

// Status returns how the model stands.
func (c *Controller) Status(i int, now time.Duration) Status {
	m := &c.models[i]
	s := Status{
		Name: m.Name, Wanted: m.wanted, Previous: m.previous(), RealTime: m.RealTime,
		Rolling: m.rolling, Back: m.back, Paused: m.paused, Waits: m.waits, Reason: m.reason, Counts: m.counts,
	}
	if m.rolling {
		s.From, s.Stale, s.Overdue = m.from, now-m.since, c.late(m, now)
		s.Old, s.New = c.compare(i)
	}
	for j := range m.locations {
		p := &m.locations[j]
		s.Locations = append(s.Locations, LocationStatus{Location: m.Locations[j], Active: p.active, Versions: p.versions, Phase: p.phase.String(), Share: p.share})
	}
	return s
}

// Models returns how many models there are.
func (c *Controller) Models() int { return len(c.models) }

// State is what a controller has to know to go on after a restart. It is written as JSON.
type State struct {
	Models []ModelState `json:"models"`
}

// ModelState is the state of one model.
type ModelState struct {
	Name      string          `json:"name"`
	Wanted    string          `json:"wanted"`
	From      string          `json:"from"`
	History   []string        `json:"history,omitempty"` // of versions before the wanted one, the latest last
	Age       int64           `json:"age_ns,omitempty"`  // for how long the version has been wanted
	Rolling   bool            `json:"rolling,omitempty"`
	Back      bool            `json:"back,omitempty"`
	Paused    bool            `json:"paused,omitempty"`
	Reason    string          `json:"reason,omitempty"`
	Counts    Counts          `json:"counts"`
	Locations []LocationState `json:"locations"`

	// Previous is the one version before the last roll, in files without a history.
	Previous string `json:"previous,omitempty"`
}

// history returns the versions before the wanted one.
func (x *ModelState) history() []string {
	if x.History != nil {
		return x.History
	}
	var list []string
	if x.Previous != "" && x.Previous != x.Wanted {
		list = append(list, x.Previous)
	}
	if x.Rolling && !x.Back {
		list = append(list, x.From)
	}
	return list
}

// checkVersions refuses versions that are none. Where nothing was loaded, there is no version.
func (x *ModelState) checkVersions() error {
	list := append([]string{x.Wanted, x.From}, x.history()...)
	for i := range x.Locations {
		list = append(list, x.Locations[i].Versions[:]...)
	}
	for _, version := range list {
		if err := CheckVersion(version); version != "" && err != nil {
			return err
		}
	}
	return nil
}

// LocationState is the state of one location.
type LocationState struct {
	Active   int       `json:"active"`
	Versions [2]string `json:"versions"`
	// Emptied says that the active replica was taken out to get another version.
	Emptied bool `json:"emptied,omitempty"`
}

// State returns the present state.
func (c *Controller) State(now time.Duration) State {
	var s State
	for i := range c.models {
		m := &c.models[i]
		x := ModelState{
			Name: m.Name, Wanted: m.wanted, From: m.from, History: slices.Clone(m.history),
			Rolling: m.rolling, Back: m.back, Paused: m.paused, Reason: m.reason, Counts: m.counts,
		}
		if m.rolling {
			x.Age = int64(now - m.since)
		}
		for j := range m.locations {
			x.Locations = append(x.Locations, m.locations[j].state())
		}
		s.Models = append(s.Models, x)
	}
	return s
}

// state is what is left of the location where a controller ends: while the loser is drained and unloaded,
// the other replica answers already.
func (p *location) state() LocationState {
	s := LocationState{Active: p.active, Versions: p.versions, Emptied: p.phase >= emptying}
	if p.phase == draining || p.phase == unloading {
		s.Active = 1 - p.loser
	}
	return s
}

// settling is how long a controller that has resumed waits before it begins anything, so that the
// states of replicas are known; no longer than between two attempts.
const settling = 3 * time.Second

// Resume goes on where another controller was. It is called before the first [Controller.Wake], at the time 0 of
// its clock or later: the fleet is told which version each replica has, and requests go to the active ones alone. A roll
// that was under way goes on from there: what is loaded in addition is unloaded first. Models that
// the state does not have keep their first versions, and those that it does not have are
// left out.
func (c *Controller) Resume(s State, now time.Duration) error {
	for _, x := range s.Models {
		i := c.Index(x.Name)
		if i < 0 {
			continue
		}
		m := &c.models[i]
		if len(x.Locations) != len(m.locations) {
			return fmt.Errorf("it has %s at %d locations, and there are %d now", x.Name, len(x.Locations), len(m.locations))
		}
		if x.Wanted == "" {
			return errors.New("it has no version of " + x.Name)
		}
		if err := x.checkVersions(); err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		m.wanted, m.from, m.history, m.since = x.Wanted, x.From, x.history(), now-time.Duration(x.Age)
		settled := now + min(settling, c.options.RetryAfter)
		m.retry, m.known = settled, settled
		m.rolling, m.back, m.paused, m.reason, m.counts = x.Rolling, x.Back, x.Paused, x.Reason, x.Counts
		for j, at := range x.Locations {
			if at.Active < 0 || at.Active > 1 || c.replica(i, j, at.Active) < 0 {
				return fmt.Errorf("it has replica %d active at a location of %s; want one that is there", at.Active, x.Name)
			}
			p := &m.locations[j]
			p.active, p.versions = at.Active, at.Versions
			c.tell(i, j)
			if at.Emptied {
				p.change = change{phase: reloading, to: p.versions[p.active], began: now, since: settled}
			}
		}
	}
	return nil
}

// tell has the fleet know the versions and parts of a location.
func (c *Controller) tell(i, j int) {
	p := &c.models[i].locations[j]
	p.base = c.countsAt(i, j)
	c.distinguish(i, j, 1-p.active)
	for k, version := range p.versions {
		if r := c.replica(i, j, k); r >= 0 {
			if version != "" {
				c.fleet.Hold(r, version)
			}
			part := 0.0
			if k == p.active {
				part = 1
			}
			c.fleet.Weigh(r, part)
		}
	}
}

// Active returns the replicas that answer, by model and location.
func (c *Controller) Active() (list []int) {
	for i := range c.models {
		for j := range c.models[i].locations {
			list = append(list, c.replica(i, j, c.models[i].locations[j].state().Active))
		}
	}
	return list
}

// Changing returns a replica of each location that is being changed.
func (c *Controller) Changing() (list []int) {
	for i := range c.models {
		for j := range c.models[i].locations {
			if c.models[i].locations[j].phase != steady {
				list = append(list, c.replica(i, j, 0))
			}
		}
	}
	return list
}

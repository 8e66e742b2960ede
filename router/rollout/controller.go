package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"gearshift/router/control"
)

// Controller is a [control.Controller] that brings models to the versions that are wanted. Its
// methods must not be called concurrently.
type Controller struct {
	options Options
	fleet   Fleet
	models  []model
	owner   map[int][2]int // by replica, its model and location
}

var _ control.Controller = (*Controller)(nil)

// model is what is known of one.
type model struct {
	*Versioned
	wanted, from string        // the version that all locations are to have, and that before
	history      []string      // versions before the wanted one, the latest last: where rollbacks lead
	since        time.Duration // when the version was wanted
	rolling      bool
	back         bool // the roll leads back
	paused       bool
	overdue      bool          // said so
	tries        int           // that have failed in a row
	retry        time.Duration // nothing begins before
	known        time.Duration // the states of replicas are known from then on
	doubt        time.Duration // since when the new version looks worse; 0: it does not
	seen         string        // how requests failed before the new version was down last
	reason       string        // why it goes back, or what has failed last
	waits        string        // what the next change waits for
	old          Count         // of the version before, at replicas that do not have it any more
	counts       Counts
	locations    []location
}

// Counts are totals since the start.
type Counts struct {
	// Changes of locations have ended with the new version there, Failures are attempts that failed,
	// Rolls are orders, and Backs those that went back by themselves or by order.
	Changes, Failures, Rolls, Backs int
}

// location is what is known of one. Its next replica is the one that gets the new version, which is
// the active one where the new version replaces the old.
type location struct {
	active   int           // index of the replica that answers
	versions [2]string     // by replica, that it has or had last; empty of one that had none
	base     [2]Count      // by replica, before the version that it has
	discards time.Duration // when an old version that sleeps is unloaded next
	change
}

// change is what is being done at a location.
type change struct {
	phase phase
	to    string        // version that it leads to
	began time.Duration // the change
	since time.Duration // the phase
	step  int           // of the shares
	share float64       // of the next replica
	loser int           // index of the replica that is to be unloaded
	abort bool          // the version is not wanted any more
	sent  bool          // the phase's action has begun
	ended bool          // it has ended
	err   string        // why it has failed
	tries int           // of an unload that have failed
}

// phase is how far a change is.
type phase uint8

// The phases: those of a replica in addition to the active one, and those in the place of.
const (
	steady    phase = iota
	loading         // the new version is being loaded
	ready           // it is loaded, and waits for the other locations
	shifting        // it gets a part of the requests
	draining        // the loser gets none, and has some yet
	unloading       // the loser is being unloaded
	emptying        // the active replica gets no requests, and has some yet
	clearing        // it is being unloaded
	reloading       // it is being loaded
)

var phases = [...]string{"", "loading", "ready", "shifting", "draining", "unloading", "emptying", "clearing", "reloading"}

// String returns the phase in a word; empty of a location at which nothing is being done.
func (p phase) String() string { return phases[p] }

// New makes a controller of models that all have their first versions.
func New(models []Versioned, o Options, w Fleet) (*Controller, error) {
	if err := validate(models); err != nil {
		return nil, fmt.Errorf("cannot make rollout: %w", err)
	}
	if err := o.validate(); err != nil {
		return nil, fmt.Errorf("cannot make rollout: %w", err)
	}
	c := &Controller{options: o, fleet: w, owner: map[int][2]int{}}
	for i := range models {
		m := model{Versioned: &models[i], wanted: models[i].Version, from: models[i].Version}
		for j, p := range m.Locations {
			m.locations = append(m.locations, location{versions: [2]string{m.wanted, ""}})
			for _, r := range p.Replicas {
				if r >= 0 {
					c.owner[r] = [2]int{i, j}
				}
			}
		}
		c.models = append(c.models, m)
	}
	return c, nil
}

// Index returns the index of the named model, or −1.
func (c *Controller) Index(name string) int {
	return slices.IndexFunc(c.models, func(m model) bool { return m.Name == name })
}

// known returns the model, or why it takes no orders.
func (c *Controller) known(i int) (*model, error) {
	if i < 0 || i >= len(c.models) {
		return nil, ErrUnknown
	}
	if c.models[i].RealTime {
		return nil, fmt.Errorf("%s: %w", c.models[i].Name, ErrRealTime)
	}
	return &c.models[i], nil
}

// Roll orders a version of the model. It returns at once; [Controller.Wake] does the work.
func (c *Controller) Roll(i int, to string, now time.Duration) error {
	m, err := c.known(i)
	if err != nil {
		return err
	}
	name := c.models[i].Name
	invalid := CheckVersion(to)
	switch {
	case to != "" && invalid != nil:
		return fmt.Errorf("%s: %w", name, invalid)
	case to == "":
		return fmt.Errorf("%s: no version; want the one to roll to", name)
	case m.rolling && m.back:
		return fmt.Errorf("%s goes back to version %q; wait until that has ended", name, m.wanted)
	case m.rolling && m.wanted == to:
		return fmt.Errorf("%s is on its way to version %q already", name, to)
	case m.rolling:
		return fmt.Errorf("%s is on its way to version %q; roll it back, or wait until that has ended", name, m.wanted)
	case m.wanted == to:
		return fmt.Errorf("%s has version %q already", name, to)
	}
	m.remember(m.wanted)
	c.order(i, to, now)
	return nil
}

// remembered bounds how many versions of a model can be rolled back to, one after the other.
const remembered = 8

// remember puts a version on top of the history.
func (m *model) remember(version string) {
	m.history = append(m.history, version)
	m.history = m.history[max(0, len(m.history)-remembered):]
}

// previous returns the version that a rollback leads to; empty if there is none.
func (m *model) previous() string {
	if len(m.history) == 0 {
		return ""
	}
	return m.history[len(m.history)-1]
}

// forget takes the version that is wanted again off the top of the history.
func (m *model) forget() {
	if m.previous() == m.wanted && m.wanted != "" {
		m.history = m.history[:len(m.history)-1]
	}
}

// order begins a roll and reports it.
func (c *Controller) order(i int, to string, now time.Duration) {
	m := &c.models[i]
	m.begin(to, m.wanted, now)
	m.counts.Rolls++
	c.rebase(i)
	c.report(Step{At: now, Kind: StepOrdered, Model: i, Location: -1, From: m.from, To: to})
}

// begin begins a roll to a version.
func (m *model) begin(to, from string, now time.Duration) {
	m.wanted, m.from, m.since, m.rolling, m.back, m.paused, m.overdue = to, from, now, true, false, false, false
	m.tries, m.retry, m.doubt, m.seen, m.reason, m.old = 0, 0, 0, "", "", Count{}
}

// rebase has answers count from now on.
func (c *Controller) rebase(i int) {
	for j := range c.models[i].locations {
		c.models[i].locations[j].base = c.countsAt(i, j)
	}
}

// Pause keeps the model as it is: no change of a location begins, and shares stay as they are. Loads
// and unloads that have begun go on.
func (c *Controller) Pause(i int, now time.Duration) error {
	m, err := c.known(i)
	if err != nil {
		return err
	}
	switch name := c.models[i].Name; {
	case !m.rolling:
		return fmt.Errorf("%s has version %q everywhere: there is nothing to pause", name, m.wanted)
	case m.paused:
		return fmt.Errorf("%s is paused already", name)
	}
	m.paused = true
	c.report(Step{At: now, Kind: StepPaused, Model: i, Location: -1, From: m.from, To: m.wanted})
	return nil
}

// Continue ends a pause.
func (c *Controller) Continue(i int, now time.Duration) error {
	m, err := c.known(i)
	if err != nil {
		return err
	}
	if !m.paused {
		return fmt.Errorf("%s is not paused", c.models[i].Name)
	}
	m.paused = false
	for j := range m.locations {
		m.locations[j].since = now // each share is held for its time again
	}
	c.report(Step{At: now, Kind: StepContinue, Model: i, Location: -1, From: m.from, To: m.wanted})
	return nil
}

// Rollback orders the version before: that of the roll under way, or of the last one that succeeded. Rolls
// that went back are not in its way, and rollbacks one after the other lead further back.
func (c *Controller) Rollback(i int, now time.Duration) error {
	m, err := c.known(i)
	if err != nil {
		return err
	}
	name := c.models[i].Name
	switch {
	case m.rolling && m.back:
		return fmt.Errorf("%s goes back to version %q already", name, m.wanted)
	case m.rolling:
		c.goBack(i, "by order", now)
		return nil
	case len(m.history) == 0:
		return fmt.Errorf("%s has version %q, and no earlier one to return to", name, m.wanted)
	}
	c.order(i, m.previous(), now)
	m.forget()
	m.back, m.reason = true, "by order"
	m.counts.Backs++
	return nil
}

// goBack has the model return to the version before.
func (c *Controller) goBack(i int, reason string, now time.Duration) {
	m := &c.models[i]
	c.report(Step{At: now, Kind: StepWorse, Model: i, Location: -1, From: m.wanted, To: m.from, Took: now - m.since, Reason: reason})
	m.wanted, m.from = m.from, m.wanted
	m.forget()
	m.back, m.paused, m.reason, m.tries, m.retry, m.doubt, m.overdue = true, false, reason, 0, 0, 0, false
	m.since = now
	m.counts.Backs++
	for j := range m.locations {
		if p := &m.locations[j]; p.phase != steady && p.to != m.wanted {
			p.abort = true
		}
	}
}

// Observe implements [control.Controller]: it takes in how actions end.
func (c *Controller) Observe(e control.Event) {
	at, ok := c.owner[e.Replica]
	if !ok {
		return
	}
	p := &c.models[at[0]].locations[at[1]]
	if !p.sent || p.ended {
		return
	}
	switch e.Kind {
	case p.verb().Done():
		p.ended, p.err = true, ""
	case control.ActionFailed:
		p.ended, p.err = true, cmp.Or(e.Reason, "the engine gave no reason")
	}
}

// verb is that of the phase's action.
func (p *change) verb() control.Verb {
	if p.phase == unloading || p.phase == clearing {
		return control.Unload
	}
	return control.Load
}

func (c *Controller) report(s Step) {
	if c.options.Report != nil {
		c.options.Report(s)
	}
}

// countsAt are those of both replicas of a location.
func (c *Controller) countsAt(i, j int) (list [2]Count) {
	for k, r := range c.models[i].Locations[j].Replicas {
		if r >= 0 {
			list[k] = c.fleet.Count(r)
		}
	}
	return list
}

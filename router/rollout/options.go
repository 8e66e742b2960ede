// Package rollout replaces a version of a model by another while the model answers: it loads
// the new one in addition to the old, or in the place of where the memory does not hold both,
// moves requests to it by shares, and unloads the old. It keeps to a budget of changes and to
// a bound of utilisation, and goes back by itself when the new version is worse. Time is
// passed in.
package rollout

import (
	"errors"
	"fmt"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Versioned is a model whose versions change.
type Versioned struct {
	Name string
	// Version is that of all its locations at the start.
	Version string
	// RealTime says that the model is updated while it serves, so that it has no versions that
	// replace each other.
	RealTime bool
	// Keep is how many locations have to answer at any time. Zero is all that are loaded but one, and one at
	// least.
	Keep      int
	Locations []Location
}

// Location is where a model answers. Its two replicas take turns: one answers, and the other gets
// the next version.
type Location struct {
	Host int
	// Replicas are indexes of the fleet. The second is −1 where there is none: then a new version
	// replaces the old one in the same replica.
	Replicas [2]int
}

// Least returns how many locations have to answer at any time, of so many that are loaded.
func (m *Versioned) Least(loaded int) int {
	if m.Keep > 0 {
		return m.Keep
	}
	return max(1, loaded-1)
}

// Fleet is what a [Controller] sees, and acts on. It is used within the controller's own methods.
type Fleet interface {
	// Act begins a Load or an Unload. The controller unloads what has no requests any more, or
	// what has kept them for longer than [Options.DrainTimeout].
	control.Actuator
	// State returns the state of the replica; Up means that it takes requests.
	State(replica int) fleet.State
	// Lost reports whether nothing on the host answers, so that nothing can be changed there.
	Lost(host int) bool
	// InFlight returns the number of requests that the replica has.
	InFlight(replica int) int
	// Fits reports whether the replica's host has the memory to load it now.
	Fits(replica int) bool
	// Busy returns the utilisation of the host, from 0 to 1.
	Busy(host int) float64
	// Hold has the next load of the replica be of that version; empty: it has none.
	Hold(replica int, version string)
	// Weigh gives the replica that part of the requests of its location, from 0 to 1.
	Weigh(replica int, part float64)
	// Count returns what the replica has answered so far.
	Count(replica int) Count
}

// Options set how versions change. [DefaultOptions] has the defaults.
type Options struct {
	// AtOnce is the most locations that are being changed at a time.
	AtOnce int
	// Utilisation is that of a host from which on no change begins there; 1 does not hold it up.
	Utilisation float64
	// StaleAfter is how long a version may be wanted without being everywhere. After that changes
	// begin whatever the utilisation is, unless OnlyReport is set. Zero is no bound.
	StaleAfter time.Duration
	OnlyReport bool
	// Together loads the new version at all locations of a model before any request goes to it.
	Together bool
	// Shares are the parts of a location's requests that go to the new version, one after another,
	// each for the time Warmup, before all go there.
	Shares []float64
	Warmup time.Duration
	// DrainTimeout is how long the requests on a replica may take to end before it is unloaded.
	DrainTimeout time.Duration
	// LoadTimeout bounds a load, and any other action.
	LoadTimeout time.Duration
	// Tries is how often a change is tried at the locations of a model before the model goes back,
	// and RetryAfter the time between two tries.
	Tries      int
	RetryAfter time.Duration
	// Interval is how often the controller looks while something is to be done.
	Interval time.Duration
	Test     Test
	// Confirm is for how long a new version has to look worse until the model goes back, and gets no larger
	// part of the requests: those that break as a host dies look as if its version failed, until
	// the host is found lost.
	Confirm time.Duration
	// Report is called with each step. It may be nil.
	Report func(Step)
}

// DefaultOptions has the defaults.
func DefaultOptions() Options {
	return Options{
		AtOnce: 1, Utilisation: 0.7, StaleAfter: time.Hour,
		Shares: []float64{0.1, 0.5}, Warmup: 5 * time.Second,
		DrainTimeout: 30 * time.Second, LoadTimeout: 15 * time.Minute,
		Tries: 3, RetryAfter: 10 * time.Second, Interval: 250 * time.Millisecond,
		Test: DefaultTest(), Confirm: 500 * time.Millisecond,
	}
}

func (o *Options) validate() error {
	var found faults.List
	found.If(o.AtOnce < 1, "%d changes at once; want at least 1", o.AtOnce)
	found.If(!(o.Utilisation > 0 && o.Utilisation <= 1), "a utilisation of %v; want a share above 0 and at most 1", o.Utilisation)
	last := 0.0
	for _, x := range o.Shares {
		found.If(!(x > last && x < 1), "shares of %v; want parts above 0 and below 1 that grow", o.Shares)
		last = x
	}
	found.If(o.Tries < 1, "%d tries; want at least 1", o.Tries)
	found.If(o.Interval <= 0 || o.DrainTimeout <= 0 || o.LoadTimeout <= 0 || o.RetryAfter <= 0, "an interval of %v, and times of %v to drain, %v to load and %v to try again; all must be positive", o.Interval, o.DrainTimeout, o.LoadTimeout, o.RetryAfter)
	found.If(o.StaleAfter < 0 || o.Warmup < 0, "a bound of %v and a warm-up of %v; neither may be negative", o.StaleAfter, o.Warmup)
	return found.Err()
}

func validate(models []Versioned) error {
	var found faults.List
	seen := map[int]string{}
	for i := range models {
		m := &models[i]
		if err := CheckVersion(m.Version); err != nil {
			found.Add(fmt.Errorf("model %q: %w", m.Name, err))
		}
		found.If(len(m.Locations) == 0, "model %q has no location", m.Name)
		found.If(m.Keep > len(m.Locations), "model %q needs %d locations that answer, and has %d", m.Name, m.Keep, len(m.Locations))
		for _, p := range m.Locations {
			found.If(p.Replicas[0] < 0, "a location of model %q has no replica", m.Name)
			for _, r := range p.Replicas {
				if other, twice := seen[r]; r >= 0 && twice {
					found.If(true, "replica %d is of %q and of %q", r, other, m.Name)
				}
				seen[r] = m.Name
			}
		}
	}
	return found.Err()
}

// The errors of orders, for callers that treat them differently.
var (
	// ErrRealTime refuses to change the version of a model that is updated in real time.
	ErrRealTime = errors.New("it is updated in real time, and has no versions that replace each other")
	// ErrUnknown refuses an order about a model that there is not.
	ErrUnknown = errors.New("there is no such model")
)

// StepKind says what happened.
type StepKind string

// The kinds of steps.
const (
	StepOrdered  StepKind = "ordered"   // a version is wanted
	StepBegun    StepKind = "begun"     // a location begins to change
	StepLoaded   StepKind = "loaded"    // the new version is loaded there
	StepShifted  StepKind = "shifted"   // another part of the requests goes to it
	StepChanged  StepKind = "changed"   // the location has the new version alone
	StepFailed   StepKind = "failed"    // an attempt has failed
	StepWorse    StepKind = "worse"     // the new version is worse, or cannot be had: back
	StepDone     StepKind = "done"      // all locations have the version
	StepOverdue  StepKind = "overdue"   // the version has been wanted for longer than the bound
	StepPaused   StepKind = "paused"    // by an order
	StepContinue StepKind = "continued" // by an order
)

// Step is one thing that happened.
type Step struct {
	At       time.Duration
	Kind     StepKind
	Model    int
	Location int // −1 where it is of the whole model
	// From and To are versions, and Share the part of requests of the new one.
	From, To string
	Share    float64
	// Took is how long the location, or the whole, took.
	Took   time.Duration
	Reason string
}

// String returns the step in words, for logs of simulations.
func (s Step) String() string {
	return fmt.Sprintf("%v %s model %d location %d %s→%s share %.2f %s", s.At, s.Kind, s.Model, s.Location, s.From, s.To, s.Share, s.Reason)
}

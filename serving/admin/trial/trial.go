// Package trial carries out orders about policies, and compares a policy on trial with the
// one in charge.
package trial

import (
	"fmt"
	"log/slog"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
)

// Config is what happens to a policy on trial without an order.
type Config struct {
	// Rollback ends the trial of a canary that is worse than the policy in charge.
	Rollback bool `yaml:"rollback,omitempty"`
	// MinRequests is how many judged requests of each must have ended before.
	MinRequests int `yaml:"min_requests"`
}

// Validate names every fault of the configuration, by its YAML key.
func (t Config) Validate() error {
	if t.MinRequests < 30 {
		return fmt.Errorf("trial.min_requests: %d; want at least 30, of which a mean says something", t.MinRequests)
	}
	return nil
}

// PolicySet is a router whose policies can be changed, such as a [router.Core].
type PolicySet interface {
	SetPolicy(p router.Policy) error
	Try(p router.Policy, share float64) error
	EndTrial() bool
	Promote() error
	Rollback() error
	Earlier() (name string, ok bool)
	Trial() (router.Trial, bool)
}

// Source has the policies that orders name. Its methods are called one at a time.
type Source interface {
	// Policy loads the policy that ref names, a rule or a stored one, whose name
	// then includes its version: the newest if ref has none.
	Policy(ref string) (router.Policy, error)
	// Admit says why the policy of the name must not be put in charge, or returns
	// nil. A reason overrules its stored evaluation. An [OrderError] is passed on as it is.
	Admit(name, reason string) error
	// Record has the store remember that the policy of the name is in production.
	// An empty name stands for the fallback.
	Record(name, reason string) error
	// Restore is Record after a rollback: nothing leads back to what that has taken away.
	Restore(name string) error
}

// Options are what Trials are made of.
type Options struct {
	Table *fleet.Table
	// InCharge is the name of the policy in charge.
	InCharge func() string
	// Policies is nil if they cannot be changed, Source if there is none.
	Policies PolicySet
	Source   Source
	// Objective reports what the policy of a name was trained for; empty if that is mean
	// utility, or unknown.
	Objective func(policy string) string
	// Config is the configuration in force.
	Config func() Config
	Clock  func() time.Duration
	Log    *slog.Logger
}

// Trials has policies put on trial, in charge and back, and compares what they earn.
type Trials struct {
	options Options
	record  record
}

// New makes Trials.
func New(o Options) *Trials { return &Trials{options: o} }

// Replace puts a policy in charge. Back says that a rollback elsewhere put it there: the
// policies here are rolled back first. A trial goes on.
func (t *Trials) Replace(p router.Policy, back bool) error {
	if t.options.Policies == nil {
		return errFixed
	}
	t.record.mu.Lock()
	defer t.record.mu.Unlock()
	if back {
		if err := t.options.Policies.Rollback(); err != nil {
			return err
		}
	}
	return t.setPolicy(p) // after a rollback the same one, as the store has it
}

// setPolicy puts a policy in charge. A trial goes on, counting from zero: what it has
// earned in comparison with another says nothing here. The record's lock is held.
func (t *Trials) setPolicy(p router.Policy) error {
	if err := t.options.Policies.SetPolicy(p); err != nil {
		return err
	}
	if t.record.on.Load() {
		t.record.begin(t.options.Clock())
	}
	return nil
}

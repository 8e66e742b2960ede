package router

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"sync/atomic"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
)

// policySet holds the policies of a Core, and its gate. It is replaced as a whole, so that a
// decision sees one set from its beginning to its end.
type policySet struct {
	policy boundPolicy  // in charge; its policy is nil if there is none
	before *boundPolicy // in charge before that; nil if there was none, or it was put back; see succeed
	trial  *trial       // nil without one
	// fallback decides where the policy cannot.
	fallback boundPolicy
	// spare decides where the policy is doubted; without one the fallback does.
	spare      boundPolicy
	gate       Gate       // may be nil
	forecaster Forecaster // may be nil

	doubted bool // policies that are Doubtable
}

// trial is a policy that is compared with the one in charge. Each request that the policy
// in charge decides is shown to it too, on the same view, and both choices are counted. For
// a share of the requests its choice is followed. It never harms a request: where it fails,
// the choice of the policy in charge stands.
type trial struct {
	boundPolicy
	share float64
	salt  uint64
	tasks int
	// choices counts by task, the variant of the policy in charge, and the trial's.
	choices  []atomic.Uint64
	faults   [len(trialFaults)]atomic.Uint64
	expected comparison
	panicked atomic.Bool // its first panic has been reported
}

// trialFaults are the reasons for which a trial's answer is not followed.
var trialFaults = [...]string{ReasonNoChoice, ReasonOutOfRange, ReasonUnavailable, ReasonPanic, ReasonDoubted}

// micro is the unit in which utilities are summed: integers can be added atomically,
// without a lock.
const micro = 1e6

// comparison sums the forecast utilities of both choices.
type comparison struct {
	requests           atomic.Uint64
	charge, trial      atomic.Int64 // in micro
	difference, square atomic.Int64 // of trial less charge, in micro
}

// Trial is the status of a policy on trial.
type Trial struct {
	Policy string
	// Share is the share of the requests that the trial routes; 0 is a shadow, which
	// routes none.
	Share float64
	// Choices are numbers of requests by task, the variant of the policy in charge, and
	// the variant of the trial.
	Choices [][][]uint64
	// Faults counts, by Reason, the requests for which the trial had no answer that could
	// be followed.
	Faults map[string]uint64
	// Expected compares the forecast utilities of both choices; empty without a
	// forecaster.
	Expected Comparison
}

// Comparison compares the mean utilities of two choices over the same requests.
type Comparison struct {
	Requests      uint64
	Charge, Trial float64
	// Difference is the mean of trial less charge, and Error its standard error.
	Difference, Error float64
}

// ErrNoTrial means that no policy is on trial.
var ErrNoTrial = errors.New("no policy is on trial")

// ErrNoEarlier means that there is no policy to go back to.
var ErrNoEarlier = errors.New("no other policy was in charge before")

// Try puts p on trial from the next request on, with counts at zero. It replaces any other
// trial. Share is the share of the requests that p routes, from 0 to 1; which ones follows
// from their IDs and the policy's name alone. Requests pinned to a variant are not on trial.
// Try refuses a policy made for another fleet ([Matcher]).
func (c *Core) Try(p Policy, share float64) error {
	if !(share >= 0 && share <= 1) {
		return fmt.Errorf("cannot try policy %q: share %v is not between 0 and 1", p.Name(), share)
	}
	s, err := c.bind(p)
	if err != nil {
		return fmt.Errorf("cannot try policy %q: %w", p.Name(), err)
	}
	c.change(func(l *policySet) error {
		l.trial = newTrial(s, share, c.table)
		return nil
	})
	return nil
}

// newTrial makes a trial with all counts at zero.
func newTrial(s boundPolicy, share float64, table *fleet.Table) *trial {
	name := fnv.New64a()
	_, _ = name.Write([]byte(s.name)) // never fails
	variants := len(table.Variants)
	t := &trial{boundPolicy: s, share: share, salt: name.Sum64(), tasks: len(table.Tasks)}
	t.choices = make([]atomic.Uint64, t.tasks*variants*variants)
	t.boundPolicy.panicReported = &t.panicked
	return t
}

// EndTrial ends the trial. It reports false if there is none.
func (c *Core) EndTrial() bool {
	return c.change(func(l *policySet) error {
		if l.trial == nil {
			return ErrNoTrial
		}
		l.trial = nil
		return nil
	}) == nil
}

// Promote puts the policy on trial in charge of all requests, and ends its trial. It returns
// [ErrNoTrial] if there is none.
func (c *Core) Promote() error {
	return c.change(func(l *policySet) error {
		if l.trial == nil {
			return ErrNoTrial
		}
		next := l.trial.boundPolicy
		next.panicReported, l.trial = nil, nil
		c.succeed(l, next)
		return nil
	})
}

// succeed puts next in charge, and remembers the policy before it for Rollback. It does not
// remember a policy of the same name, nor the fallback of a router that has decided nothing
// yet: going back to these would mean nothing.
func (c *Core) succeed(l *policySet, next boundPolicy) {
	if before := l.policy; before.name != next.name && (before.policy != nil || c.routed.Load() > 0) {
		l.before = &before
	}
	l.policy = next
}

// Rollback puts the policy back in charge that was before the present one. That may be
// none, so that the fallback routes. It is one step: there is no way back from it. A trial
// goes on. It returns [ErrNoEarlier] if there was no policy before.
func (c *Core) Rollback() error {
	return c.change(func(l *policySet) error {
		if l.before == nil {
			return ErrNoEarlier
		}
		l.policy, l.before = *l.before, nil
		return nil
	})
}

// Earlier returns the name of the policy that Rollback would put back in charge, and false
// if there is none. An empty name is the fallback.
func (c *Core) Earlier() (name string, ok bool) {
	before := c.policies.Load().before
	if before == nil {
		return "", false
	}
	return before.name, true
}

// change replaces the policy set by what f makes of it, unless f fails.
func (c *Core) change(f func(*policySet) error) error {
	c.changing.Lock()
	defer c.changing.Unlock()
	next := *c.policies.Load()
	if err := f(&next); err != nil {
		return err
	}
	c.policies.Store(&next)
	return nil
}

// Trial returns the status of the policy on trial, and false if there is none.
func (c *Core) Trial() (Trial, bool) {
	t := c.policies.Load().trial
	if t == nil {
		return Trial{}, false
	}
	out := Trial{Policy: t.name, Share: t.share, Faults: map[string]uint64{}, Expected: t.expected.means()}
	variants := len(c.table.Variants)
	for task := range t.tasks {
		rows := make([][]uint64, variants)
		for charge := range rows {
			rows[charge] = make([]uint64, variants)
			for theirs := range rows[charge] {
				rows[charge][theirs] = t.choices[(task*variants+charge)*variants+theirs].Load()
			}
		}
		out.Choices = append(out.Choices, rows)
	}
	for i, reason := range trialFaults {
		out.Faults[reason] = t.faults[i].Load()
	}
	return out, true
}

// try shows the trial, if there is one, a request that has been decided. If the request is
// in its share and it has an answer, that replaces the choice.
func (d *Decision) try(choice *Choice, r *fleet.Request, random uint64) {
	t := d.policies.trial
	if t == nil {
		return
	}
	choice.Trial = t.routes(r.ID)
	variant, replica, reason := d.decide(&t.boundPolicy, r)
	if reason != "" {
		t.fault(reason)
		return
	}
	theirs := Choice{Variant: variant, Replica: replica, Policy: t.name, Trial: choice.Trial, Propensity: 1}
	d.raise(&theirs, r)
	variants := len(d.table.Variants)
	t.choices[(r.Task*variants+choice.Variant)*variants+theirs.Variant].Add(1)
	if theirs.Variant != choice.Variant {
		choice.Propensity *= 1 - t.share
		theirs.Propensity *= t.share
	}
	if theirs.Replica < 0 {
		d.settle(&theirs, r, random)
	}
	if len(d.view.Forecasts) > 0 {
		t.expected.add(d.expect(choice.Replica, r), d.expect(theirs.Replica, r))
	}
	if choice.Trial {
		*choice, d.policy = theirs, &t.boundPolicy
	}
}

// routes reports whether the request is in the trial's share. It mixes the ID so that
// consecutive IDs fall evenly.
func (t *trial) routes(id uint64) bool { return splitmix.Unit(splitmix.Mix(id+t.salt)) < t.share }

func (t *trial) fault(reason string) {
	for i, known := range trialFaults {
		if reason == known {
			t.faults[i].Add(1)
		}
	}
}

// expect returns the utility that the request would earn on the replica, by forecast.
func (d *Decision) expect(replica int, r *fleet.Request) float64 {
	task := &d.table.Tasks[r.Task]
	deadlines := task.Deadlines(r)
	quality := d.table.Quality(r, d.table.Replicas[replica].Variant)
	return task.Worth(quality, d.view.Forecasts[replica].Expects(deadlines), deadlines)
}

func (x *comparison) add(charge, theirs float64) {
	difference := theirs - charge
	x.charge.Add(int64(math.Round(charge * micro)))
	x.trial.Add(int64(math.Round(theirs * micro)))
	x.difference.Add(int64(math.Round(difference * micro)))
	x.square.Add(int64(math.Round(difference * difference * micro)))
	x.requests.Add(1)
}

// means reads the sums. A request that is added concurrently may be counted in part.
func (x *comparison) means() Comparison {
	n := float64(x.requests.Load())
	if n == 0 {
		return Comparison{}
	}
	mean := func(sum *atomic.Int64) float64 { return float64(sum.Load()) / micro / n }
	out := Comparison{Requests: uint64(n), Charge: mean(&x.charge), Trial: mean(&x.trial), Difference: mean(&x.difference)}
	if n > 1 {
		variance := max(0, mean(&x.square)-out.Difference*out.Difference) * n / (n - 1)
		out.Error = math.Sqrt(variance / n)
	}
	return out
}

package failover

import (
	"fmt"
	"slices"
	"time"
)

// Policy says which backups are held ready, and what is loaded after a loss.
type Policy string

// The policies.
const (
	// Gearshift holds the smallest variant of every application ready wherever it fits, and
	// uses what is left for better ones. After a loss it plans so again over what lives.
	Gearshift Policy = "gearshift"
	// FailLite is the paper's: warm backups of critical applications, planned exactly where
	// they are few and by Algorithm 1 otherwise; the rest is loaded after the loss, by
	// Algorithm 1, the smallest variant first.
	FailLite Policy = "faillite"
	// FullWarm holds full variants ready, of critical applications first, and loads nothing
	// after a loss.
	FullWarm Policy = "full-warm"
	// FullCold holds nothing ready. After a loss it loads full variants, of critical
	// applications first.
	FullCold Policy = "full-cold"
	// FullWarmK holds full variants of critical applications ready. After a loss it loads
	// full variants of all others.
	FullWarmK Policy = "full-warm-k"
)

// Policies are all of them, the default first.
var Policies = []Policy{Gearshift, FailLite, FullWarm, FullCold, FullWarmK}

// Options set how the controller works. Zeros stand for the defaults, except for Alpha and
// Confirm, of which 0 is none; [DefaultOptions] has them all.
type Options struct {
	Policy Policy
	// Alpha is the share of all room for backups that stays free before a loss.
	Alpha float64
	// Headroom is the share of each host's capacity that backups may use, before a loss
	// and after it. The default is 0.2.
	Headroom float64
	// Heartbeat is how often hosts with agents report. The default is 20 ms. Where it is
	// negative, deadlines are not watched: Missed events report what did not come.
	Heartbeat time.Duration
	// Misses is how many heartbeats in a row do not come from a lost host. The default is 2.
	Misses int
	// Confirm is for how long a host whose heartbeats are overdue is suspected before it is lost:
	// it gives another sign of life in that time, or a heartbeat comes after all. Only time counts in
	// which the controller is woken when it is due. 0 is not at all.
	Confirm time.Duration
	// Ask, if set, is called within Wake once a host with an agent is suspected. Whether its
	// process answers is then to be observed: [control.ProbePassed], or [control.Refused] where
	// nothing listens.
	Ask func(host int)
	// Sweep is how often deadlines are looked at; 0 is when they pass.
	Sweep time.Duration
	// SiteIndependent has no backup be on the site of what it is for.
	SiteIndependent bool
	// Backups is how many each application has, on as many hosts. The default is 1.
	Backups int
	// Loaders is how many loads a host carries out at a time. The default is 10.
	Loaders int
	// ReturnAfter is how long a host that has returned must be well before anything is
	// placed there or moves back. The default is 2 s.
	ReturnAfter time.Duration
	// Beside has replicas be left as they are, unless an order has loaded them: another controller decides on the rest.
	Beside bool
	// Term is the number of this run of the controller. Epochs of actions are Term<<32 and a
	// number that grows, so they never run back from one run to the next.
	Term uint64
	// Report, if set, is called with each step, within Wake.
	Report func(Step)
}

// DefaultOptions are the paper's where it has any.
func DefaultOptions() Options {
	return Options{Alpha: 0.1}.filled()
}

// filled are the options with the defaults for zeros.
func (o Options) filled() Options {
	fill(&o.Policy, Gearshift)
	fill(&o.Headroom, 0.2)
	fill(&o.Heartbeat, 20*time.Millisecond)
	fill(&o.Misses, 2)
	fill(&o.Backups, 1)
	fill(&o.Loaders, 10)
	fill(&o.ReturnAfter, 2*time.Second)
	return o
}

func fill[T comparable](x *T, value T) {
	var zero T
	if *x == zero {
		*x = value
	}
}

func (o *Options) validate() error {
	switch {
	case !slices.Contains(Policies, o.Policy):
		return fmt.Errorf("policy: %q; want one of gearshift, faillite, full-warm, full-cold, full-warm-k", o.Policy)
	case !(o.Alpha >= 0 && o.Alpha < 1):
		return fmt.Errorf("alpha: %v must be a share from 0 to below 1", o.Alpha)
	case !(o.Headroom > 0 && o.Headroom <= 1):
		return fmt.Errorf("headroom: %v must be a share above 0, of at most 1", o.Headroom)
	case o.Misses < 1 || o.Backups < 1 || o.Loaders < 1:
		return fmt.Errorf("misses %d, backups %d and loaders %d must be at least 1", o.Misses, o.Backups, o.Loaders)
	case o.Sweep < 0 || o.ReturnAfter < 0 || o.Confirm < 0:
		return fmt.Errorf("sweep %v, return_after %v and confirm %v must not be negative", o.Sweep, o.ReturnAfter, o.Confirm)
	case o.Term >= 1<<31:
		return fmt.Errorf("term: %d is too large", o.Term)
	}
	return nil
}

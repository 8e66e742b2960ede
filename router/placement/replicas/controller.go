package replicas

import (
	"time"

	"gearshift/router/control"
)

// Fleet is what a [Controller] sees of a fleet, and changes.
type Fleet interface {
	// Act begins a Load or an Unload, and an event reports its end.
	control.Actuator
	// Rate returns the load of a model since the call before, in examples a second.
	Rate(model int, now time.Duration) float64
	// Count returns how many replicas of a model are up, and how many more are to be up soon.
	Count(model int) (up, loading int)
	// Startable and Stoppable report whether a replica may be loaded, or is up and may be unloaded: nothing is
	// done with it, and it is nobody else's.
	Startable(replica int) bool
	Stoppable(replica int) bool
}

// Scaled describes replicas that a [Controller] counts.
type Scaled struct {
	Scaler Scaler
	// Replicas are those that may be up, in the order in which they are started. The last is stopped first.
	Replicas []int
	// Least and Most bound how many are wanted.
	Least, Most int

	wanted int
}

// Controller is a [control.Controller] that has as many replicas of each model started as its [Scaler] wants. A
// load that is begun is not stopped: what is no longer wanted is unloaded once it is up.
type Controller struct {
	fleet  Fleet
	models []Scaled
	period time.Duration
	due    time.Duration
	ended  bool // an action, so that there may be something to do before that
}

// New returns a controller that asks the scalers once a period, for the first time a period after its first wake.
// Until then it wants the replicas that are up.
func New(models []Scaled, period time.Duration, f Fleet) *Controller {
	return &Controller{fleet: f, models: models, period: period}
}

// Wanted returns how many replicas of a model are wanted.
func (c *Controller) Wanted(model int) int { return c.models[model].wanted }

// Observe implements [control.Controller]. What has failed is tried again after a period.
func (c *Controller) Observe(e control.Event) {
	c.ended = c.ended || e.Kind == control.Loaded || e.Kind == control.Unloaded
}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) time.Duration {
	if now < c.due && !c.ended {
		return c.due
	}
	asked := now >= c.due
	for i := range c.models {
		m := &c.models[i]
		up, loading := c.fleet.Count(i)
		if asked {
			if rate := c.fleet.Rate(i, now); c.due == 0 {
				m.wanted = up + loading
			} else {
				m.wanted = m.Scaler.Desired(now, rate, m.wanted)
			}
			m.wanted = max(m.Least, min(m.Most, m.wanted))
		}
		c.start(m, m.wanted-up-loading)
		c.stop(m, up-m.wanted)
	}
	if c.ended = false; asked {
		c.due = now + c.period
	}
	return c.due
}

// start has n more replicas loaded.
func (c *Controller) start(m *Scaled, n int) {
	for i := 0; n > 0 && i < len(m.Replicas); i++ {
		if r := m.Replicas[i]; c.fleet.Startable(r) && c.fleet.Act(control.Action{Verb: control.Load, Replica: r}) == nil {
			n--
		}
	}
}

// stop has n replicas unloaded.
func (c *Controller) stop(m *Scaled, n int) {
	for i := len(m.Replicas) - 1; n > 0 && i >= 0; i-- {
		if r := m.Replicas[i]; c.fleet.Stoppable(r) && c.fleet.Act(control.Action{Verb: control.Unload, Replica: r}) == nil {
			n--
		}
	}
}

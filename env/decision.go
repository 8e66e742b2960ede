package env

import (
	"gearshift/router"
	"gearshift/router/fleet"
)

// newDecision makes the router's pipeline without a policy: the environment's caller
// decides.
func newDecision(c *Config) (*router.Decision, error) {
	d := router.Config{
		Ledger: fleet.NewLedger(c.Table), Balancer: balancer{c.Balancer}, Forecaster: c.Forecaster,
		OnPanic: func(_ string, value any) { panic(value) },
	}
	if c.AsServed != nil {
		d.Gate = c.AsServed.Gate
	}
	return router.NewDecision(d)
}

// balancer adds the name that the router asks of a balancer.
type balancer struct{ Balancer }

// Name implements [router.Balancer].
func (balancer) Name() string { return "balancer" }

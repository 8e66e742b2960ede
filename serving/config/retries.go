package config

import (
	"time"

	"gearshift/internal/faults"
)

// Retries is how often a request may be tried again, before any of its answer
// has gone out.
type Retries struct {
	// Max bounds the attempts at one request beyond its first. Zero is none.
	Max int `yaml:"max"`
	// BudgetPercent bounds the further attempts at all requests together, as a
	// share of the requests: a fleet in trouble must not get more work for it.
	BudgetPercent float64 `yaml:"budget_percent"`
	// BudgetMin is how many there may be in a window however few requests come.
	BudgetMin int `yaml:"budget_min"`
	// BudgetWindow is the time over which both are counted.
	BudgetWindow time.Duration `yaml:"budget_window"`
	// HedgeAfter is how long the first byte of an answer may take before another
	// replica of the variant is asked as well. Zero is off.
	HedgeAfter time.Duration `yaml:"hedge_after"`
}

func defaultRetries() Retries {
	return Retries{Max: 2, BudgetPercent: 20, BudgetMin: 10, BudgetWindow: 10 * time.Second}
}

func (r Retries) validate() error {
	var found faults.List
	found.If(r.Max < 0, "max: %d is negative; 0 is no retry", r.Max)
	found.If(!(r.BudgetPercent >= 0 && r.BudgetPercent <= 1000), "budget_percent: %v must be at least 0 and at most 1000", r.BudgetPercent)
	found.If(r.BudgetMin < 0, "budget_min: %d is negative; 0 leaves the percentage alone", r.BudgetMin)
	found.If(r.BudgetWindow <= 0, "budget_window: %v must be positive", r.BudgetWindow)
	found.If(r.HedgeAfter < 0, "hedge_after: %v is negative; 0 is off", r.HedgeAfter)
	found.If(r.HedgeAfter > 0 && r.Max == 0, "hedge_after: has no meaning with max: 0; want max: 1 or more")
	return under("retries", found.Err())
}

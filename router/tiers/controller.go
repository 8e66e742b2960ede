package tiers

import (
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/control"
)

// Meter reports how busy tiers are.
type Meter interface {
	// Utilisation returns which share of the tier's compute was in use over the last period, and
	// false if nothing recent is known of it. Work that waits may count, so that it may exceed 1.
	Utilisation(tier int) (share float64, known bool)
}

// Weigher sends traffic by shares.
type Weigher interface {
	// Weigh takes the share of each tier. The slice is the caller's again afterwards.
	Weigh(shares []float64)
}

// Options are how a [Controller] corrects shares.
type Options struct {
	// Period is how often.
	Period time.Duration
	// Gain is which part of a tier's relative distance from the mean utilisation is corrected in
	// a period. Below 1 shares approach those that even the tiers out; from 2 on they never
	// settle.
	Gain float64
	// Least is the share that a tier always keeps, so that its utilisation can be seen.
	Least float64
}

// Defaults corrects a tenth of the distance each 10 s, and leaves each tier a hundredth.
var Defaults = Options{Period: 10 * time.Second, Gain: 0.1, Least: 0.01}

// Controller corrects the shares of tiers until all are equally busy. It is a
// [control.Controller] that acts through a [Weigher]: it changes no replica.
//
// Several routers may each have one for the same tiers. Each corrects its own traffic by the same
// ratios, so that together they correct no faster than one alone.
type Controller struct {
	options Options
	tiers   []Tier
	meter   Meter
	weigher Weigher
	shares  []float64
	seen    []float64
	due     time.Duration
}

// New returns a controller whose shares are those of the tiers' compute. It has them sent at its
// first wake-up.
func New(tiers []Tier, o Options, m Meter, w Weigher) (*Controller, error) {
	if err := validate(tiers); err != nil {
		return nil, err
	}
	var found faults.List
	found.If(o.Period <= 0, "a period of %v; want more than 0", o.Period)
	found.If(!(o.Gain > 0 && o.Gain <= 1), "a gain of %v; want more than 0 and at most 1", o.Gain)
	found.If(!(o.Least >= 0 && o.Least*float64(len(tiers)) <= 0.5), "a least share of %v for each of %d tiers; want at most half of all traffic together", o.Least, len(tiers))
	if err := found.Err(); err != nil {
		return nil, fmt.Errorf("cannot control tiers: %w", err)
	}
	return &Controller{options: o, tiers: slices.Clone(tiers), meter: m, weigher: w, shares: Shares(tiers), seen: make([]float64, len(tiers))}, nil
}

// Shares appends the present share of each tier to buf.
func (c *Controller) Shares(buf []float64) []float64 { return append(buf, c.shares...) }

// Start takes shares that were in use before, such as those of a router that starts again.
func (c *Controller) Start(shares []float64) error {
	sum := 0.0
	for _, x := range shares {
		if !(x >= 0) {
			return fmt.Errorf("cannot start with the shares %v: want numbers from 0 to 1", shares)
		}
		sum += x
	}
	if len(shares) != len(c.tiers) || math.Abs(sum-1) > 1e-6 {
		return fmt.Errorf("cannot start with the shares %v: want %d that add up to 1", shares, len(c.tiers))
	}
	copy(c.shares, shares)
	return nil
}

// Observe implements [control.Controller]. Events of single replicas change no share.
func (c *Controller) Observe(control.Event) {}

// Wake implements [control.Controller].
func (c *Controller) Wake(now time.Duration) time.Duration {
	if now < c.due {
		return c.due
	}
	c.due = now + c.options.Period
	c.correct()
	c.weigher.Weigh(c.shares)
	return c.due
}

// correct moves each share by its tier's relative distance from the mean. Nothing moves unless
// all tiers are known: a tier that does not report is not an idle one.
func (c *Controller) correct() {
	mean := 0.0
	for i := range c.tiers {
		u, known := c.meter.Utilisation(i)
		if !known || !(u >= 0) || math.IsInf(u, 1) {
			return
		}
		c.seen[i] = u
		mean += u * c.shares[i]
	}
	if mean <= 0 {
		return
	}
	for i, u := range c.seen {
		// A distance is at most that of an idle tier, in either direction.
		c.shares[i] *= 1 + c.options.Gain*max(-1, min(1, (mean-u)/mean))
	}
	normalise(c.shares)
	c.keepLeast()
}

// keepLeast raises small shares to the least, at the others' expense.
func (c *Controller) keepLeast() {
	missing, above := 0.0, 0.0
	for _, x := range c.shares {
		missing += max(0, c.options.Least-x)
		above += max(0, x-c.options.Least)
	}
	for i, x := range c.shares {
		if x < c.options.Least {
			c.shares[i] = c.options.Least
		} else if missing > 0 {
			c.shares[i] -= (x - c.options.Least) * missing / above
		}
	}
}

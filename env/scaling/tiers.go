package scaling

import (
	"fmt"
	"slices"
	"time"

	"gearshift/internal/faults"
	"gearshift/router/tiers"
)

// Tier is a group of hosts in a simulation.
type Tier struct {
	tiers.Tier
	// Capacity is how many examples it really answers in a second.
	Capacity float64
}

// Change is another capacity of a tier from some time on.
type Change struct {
	At       time.Duration
	Tier     int
	Capacity float64
}

// Router sends a part of the load.
type Router struct {
	Part float64
	// Shares is how it divides its traffic among tiers at first, or always.
	Shares []float64
	// Controlled corrects the shares as [tiers.Controller] does.
	Controlled bool
}

// Tiers is a run of tiers that routers send a load to. Each tier has one queue.
type Tiers struct {
	Series  *Series
	Tiers   []Tier
	Changes []Change // in the order of their times
	Routers []Router
	Options tiers.Options
	// Patience is how long an example waits. One that would wait longer is refused.
	Patience time.Duration
}

// TiersResult is what came of a run.
type TiersResult struct {
	Examples, Refused float64
	// Utilisation is the share of its capacity that each tier used, by minute and tier.
	Utilisation [][]float64
	// Shares is the share of the first tier, by minute and router.
	Shares [][]float64
}

// Errors is the share of examples that were refused.
func (r *TiersResult) Errors() float64 { return r.Refused / max(1, r.Examples) }

// Spread is by how much the busiest tier was busier than the idlest, in the mean of all minutes.
func (r *TiersResult) Spread() float64 {
	sum := 0.0
	for _, u := range r.Utilisation {
		sum += slices.Max(u) - slices.Min(u)
	}
	return sum / float64(max(1, len(r.Utilisation)))
}

// Run simulates, a second at a time.
func (c *Tiers) Run() (*TiersResult, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &tiersRun{Tiers: c, queued: make([]float64, len(c.Tiers)), used: make([]float64, len(c.Tiers)), asked: make([]float64, len(c.Tiers)), seen: make([]float64, len(c.Tiers))}
	for _, t := range c.Tiers {
		r.capacity = append(r.capacity, t.Capacity)
	}
	for _, x := range c.Routers {
		if err := r.add(x); err != nil {
			return nil, err
		}
	}
	for s, arrived := range c.Series.Arrivals {
		r.second(s, arrived)
	}
	return &r.result, nil
}

func (c *Tiers) validate() error {
	var found faults.List
	found.If(c.Series == nil || len(c.Series.Arrivals) == 0, "no arrivals")
	for _, t := range c.Tiers {
		found.If(!(t.Capacity > 0), "tier %q: a capacity of %v; want more than 0", t.Name, t.Capacity)
	}
	for _, x := range c.Changes {
		found.If(x.Tier < 0 || x.Tier >= len(c.Tiers) || !(x.Capacity > 0), "a change of tier %d to %v; want one of %d tiers, counted from 0, and more than 0", x.Tier, x.Capacity, len(c.Tiers))
	}
	for i, x := range c.Routers {
		found.If(len(x.Shares) != len(c.Tiers), "router %d: %d shares for %d tiers", i, len(x.Shares), len(c.Tiers))
	}
	if err := found.Err(); err != nil {
		return fmt.Errorf("cannot simulate the tiers: %w", err)
	}
	return nil
}

// tiersRun is one under way.
type tiersRun struct {
	*Tiers
	result   TiersResult
	capacity []float64
	queued   []float64
	used     []float64 // since the last minute
	asked    []float64 // since controllers looked
	seen     []float64 // utilisations that controllers see
	routers  []*simulatedRouter
	changed  int
}

// simulatedRouter is a router and its present shares. It is the [tiers.Weigher] of its controller.
type simulatedRouter struct {
	Router
	controller *tiers.Controller
	shares     []float64
}

// Weigh implements [tiers.Weigher].
func (r *simulatedRouter) Weigh(shares []float64) { copy(r.shares, shares) }

// Utilisation implements [tiers.Meter].
func (r *tiersRun) Utilisation(tier int) (float64, bool) { return r.seen[tier], true }

func (r *tiersRun) add(x Router) error {
	router := &simulatedRouter{Router: x, shares: slices.Clone(x.Shares)}
	r.routers = append(r.routers, router)
	if !x.Controlled {
		return nil
	}
	var described []tiers.Tier
	for _, t := range r.Tiers.Tiers {
		described = append(described, t.Tier)
	}
	c, err := tiers.New(described, r.Options, r, router)
	if err != nil {
		return err
	}
	router.controller = c
	return c.Start(x.Shares)
}

// second has a second pass.
func (r *tiersRun) second(s int, arrived float64) {
	for r.changed < len(r.Changes) && r.Changes[r.changed].At <= time.Duration(s)*time.Second {
		x := r.Changes[r.changed]
		r.capacity[x.Tier] = x.Capacity
		r.changed++
	}
	r.result.Examples += arrived
	for i, capacity := range r.capacity {
		sent := 0.0
		for _, x := range r.routers {
			sent += arrived * x.Part * x.shares[i]
		}
		r.asked[i] += sent / capacity
		answered := min(r.queued[i]+sent, capacity)
		r.queued[i] += sent - answered
		refused := max(0, r.queued[i]-capacity*r.Patience.Seconds())
		r.queued[i] -= refused
		r.result.Refused += refused
		r.used[i] += answered / capacity
	}
	r.control(s + 1)
	if (s+1)%60 == 0 {
		r.minute()
	}
}

// control wakes the controllers once a period.
func (r *tiersRun) control(second int) {
	period := int(r.Options.Period / time.Second)
	if period == 0 || second%period != 0 {
		return
	}
	for i := range r.asked {
		r.seen[i], r.asked[i] = r.asked[i]/float64(period), 0
	}
	for _, x := range r.routers {
		if x.controller != nil {
			x.controller.Wake(time.Duration(second) * time.Second)
		}
	}
}

// minute notes how busy the tiers were.
func (r *tiersRun) minute() {
	used := make([]float64, len(r.used))
	for i, u := range r.used {
		used[i], r.used[i] = u/60, 0
	}
	r.result.Utilisation = append(r.result.Utilisation, used)
	var shares []float64
	for _, x := range r.routers {
		shares = append(shares, x.shares[0])
	}
	r.result.Shares = append(r.result.Shares, shares)
}

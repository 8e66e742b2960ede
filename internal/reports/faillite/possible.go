package faillite

import (
	"slices"

	"gearshift/env"
	"gearshift/router/failover"
	"gearshift/router/placement"
)

// verdict says whether all affected applications can be recovered.
type verdict int

const (
	no      verdict = iota // they take more than there is
	yes                    // a plan has them all
	unknown                // neither is found
)

// recoverable reports whether hosts that are left have room for all applications whose primaries are
// lost, each in its smallest variant. The room for backups is a share of each host's capacity, as far
// as primaries leave it.
func recoverable(x *failover.Problem, headroom float64, losses []env.HostLoss) verdict {
	gone := func(host int) bool {
		return slices.ContainsFunc(losses, func(l env.HostLoss) bool { return l.Host == host })
	}
	p := &placement.Problem{Resources: x.Resources}
	taken := make([][]float64, len(x.Hosts))
	for i := range taken {
		taken[i] = make([]float64, len(x.Resources))
	}
	for i := range x.Applications {
		a := &x.Applications[i]
		if a.Primary >= 0 && !gone(a.Primary) {
			for r, d := range a.Variants[a.Full].Demand {
				taken[a.Primary][r] += d
			}
		}
	}
	left := make([]float64, len(x.Resources))
	for i, s := range x.Hosts {
		if gone(i) {
			continue
		}
		free := make([]float64, len(x.Resources))
		for r, capacity := range x.Capacity[i] {
			free[r] = max(0, min(headroom*capacity, capacity-taken[i][r]))
			left[r] += free[r]
		}
		p.Bins = append(p.Bins, placement.Bin{Name: s.Name, Free: free})
	}
	for i := range x.Applications {
		a := &x.Applications[i]
		if a.Primary < 0 || !gone(a.Primary) {
			continue
		}
		small := smallest(a)
		for r, d := range a.Variants[small].Demand {
			left[r] -= d
		}
		p.Items = append(p.Items, placement.Item{Name: a.Name, Rate: a.Rate, Variants: []placement.Alternative{a.Variants[small].Alternative}})
	}
	if len(p.Bins) == 0 || slices.ContainsFunc(left, func(x float64) bool { return x < 0 }) {
		return no
	}
	if p.Plan(p.Thorough()).Placed == len(p.Items) {
		return yes
	}
	if len(p.Items)*len(p.Bins) <= exactly {
		steps := 0
		plan := p.Exact(nil, func() bool { steps++; return steps > mostSteps })
		switch {
		case plan.Placed == len(p.Items):
			return yes
		case plan.Optimal:
			return no
		}
	}
	return unknown
}

// The size of problems that are planned exactly, and how long that may take.
const (
	exactly   = 600
	mostSteps = 100_000
)

// smallest is the variant that takes least memory of those in time.
func smallest(a *failover.Application) (best int) {
	best = -1
	for v := range a.Variants {
		w := &a.Variants[v]
		if (a.MaxLatency == 0 || w.Latency <= a.MaxLatency) && (best < 0 || w.Demand[0] < a.Variants[best].Demand[0]) {
			best = v
		}
	}
	return best
}

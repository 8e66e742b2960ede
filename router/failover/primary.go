package failover

import (
	"math"
	"slices"
)

// PlacePrimaries gives applications without a primary one: the host with the most room, in
// the order in which they are listed (worst fit). The headroom, a share of each host's
// capacity, stays free, unless one finds no room otherwise. Applications that find none even
// so keep −1. The number of those is returned.
func (p *Problem) PlacePrimaries(headroom float64) (unplaced int) {
	for _, share := range []float64{headroom, 0} {
		unplaced = 0
		left := p.primaryRoom(share)
		for i := range p.Applications {
			if p.Applications[i].Primary < 0 {
				if p.placePrimary(i, left); p.Applications[i].Primary < 0 {
					unplaced++
				}
			}
		}
	}
	return unplaced
}

// primaryRoom is what each host has for more primaries, by resource.
func (p *Problem) primaryRoom(headroom float64) [][]float64 {
	left := make([][]float64, len(p.Hosts))
	on := make([][]Assignment, len(p.Hosts))
	for i := range p.Applications {
		if a := &p.Applications[i]; a.Primary >= 0 {
			on[a.Primary] = append(on[a.Primary], Assignment{i, a.full(), a.Primary})
		}
	}
	for i := range p.Hosts {
		taken := p.Taken(i, on[i])
		for r, x := range p.Capacity[i] {
			left[i] = append(left[i], (1-headroom)*x-taken[r])
		}
	}
	return left
}

// placePrimary gives the application the host with the most room, of the resource that is
// scarcest there, and takes that room.
func (p *Problem) placePrimary(i int, left [][]float64) {
	a := &p.Applications[i]
	demand := a.Variants[a.full()].Demand
	total := make([]float64, len(p.Resources))
	for k := range p.Hosts {
		for r, x := range p.Capacity[k] {
			total[r] += x
		}
	}
	most := math.Inf(-1)
	for k := range p.Hosts {
		if slices.Contains(a.Excluded, k) || !within(demand, left[k]) {
			continue
		}
		least := math.Inf(1)
		for r, x := range total {
			if x > 0 {
				least = min(least, left[k][r]/x)
			}
		}
		if least > most {
			a.Primary, most = k, least
		}
	}
	if a.Primary >= 0 {
		for r, d := range demand {
			left[a.Primary][r] -= d
		}
	}
}

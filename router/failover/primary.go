package failover

import (
	"math"
	"slices"
)

// PlacePrimaries gives applications without a primary one: the server with the most room, in
// the order in which they are listed (worst fit). The headroom, a share of each server's
// capacity, stays free, unless one finds no room otherwise. Applications that find none even
// so keep −1. The number of those is returned.
func (s *System) PlacePrimaries(headroom float64) (unplaced int) {
	for _, share := range []float64{headroom, 0} {
		unplaced = 0
		left := s.primaryRoom(share)
		for i := range s.Applications {
			if s.Applications[i].Primary < 0 {
				if s.placePrimary(i, left); s.Applications[i].Primary < 0 {
					unplaced++
				}
			}
		}
	}
	return unplaced
}

// primaryRoom is what each server has for more primaries, by resource.
func (s *System) primaryRoom(headroom float64) [][]float64 {
	left := make([][]float64, len(s.Servers))
	on := make([][]int, len(s.Servers))
	for i := range s.Applications {
		if a := &s.Applications[i]; a.Primary >= 0 {
			on[a.Primary] = append(on[a.Primary], s.Instance(i, a.full(), a.Primary))
		}
	}
	for i := range s.Servers {
		taken := s.Taken(i, on[i])
		for r, x := range s.Servers[i].Capacity {
			left[i] = append(left[i], (1-headroom)*x-taken[r])
		}
	}
	return left
}

// placePrimary gives the application the server with the most room, of the resource that is
// scarcest there, and takes that room.
func (s *System) placePrimary(i int, left [][]float64) {
	a := &s.Applications[i]
	demand := a.Variants[a.full()].Demand
	total := make([]float64, len(s.Resources))
	for k := range s.Servers {
		for r, x := range s.Servers[k].Capacity {
			total[r] += x
		}
	}
	most := math.Inf(-1)
	for k := range s.Servers {
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

package bands

import "math"

// single finds the move that gains most, and what it gains.
func (x *planner) single() (best Transfer, most float64) {
	evenness := math.Inf(-1)
	for from := range x.p.Bins {
		was := x.excess(from, nil, nil)
		if was <= rounding {
			continue
		}
		spread := x.spread(from, nil, nil)
		for _, i := range x.on[from] {
			r := &x.p.Items[i]
			if r.Fixed || x.moved[i] {
				continue
			}
			leaves := was - x.excess(from, nil, r.Use)
			if leaves < most-rounding {
				continue // no target makes up for it
			}
			freed := spread - x.spread(from, nil, r.Use)
			for to := range x.p.Bins {
				if to == from {
					continue
				}
				gain := leaves - x.excess(to, r.Use, nil) + x.excess(to, nil, nil)
				if gain < most-rounding || !x.fits(i, to) {
					continue
				}
				even := freed + x.spread(to, nil, nil) - x.spread(to, r.Use, nil)
				if gain > most+rounding || even > evenness {
					best, most, evenness = Transfer{i, to}, gain, even
				}
			}
		}
	}
	return best, most
}

// pair finds the two moves that gain most together, where none gains alone: a replica makes room
// for another, and goes to where that was, or elsewhere if there are not too many hosts.
func (x *planner) pair(left int) (best [2]Transfer, most float64) {
	if left < 2 {
		return best, 0
	}
	for from := range x.p.Bins {
		was := x.excess(from, nil, nil)
		if was <= rounding {
			continue
		}
		for _, i := range x.on[from] {
			r := &x.p.Items[i]
			if r.Fixed || x.moved[i] {
				continue
			}
			leaves := was - x.excess(from, nil, r.Use)
			for to := range x.p.Bins {
				if to != from && leaves+x.excess(to, nil, nil) > most && x.fits(i, to) {
					best, most = x.makeWay(Transfer{i, to}, from, best, most)
				}
			}
		}
	}
	return best, most
}

// makeWay finds what to move off the host to which a replica goes, and where to, if both
// moves gain more than the most so far.
func (x *planner) makeWay(m Transfer, from int, best [2]Transfer, most float64) ([2]Transfer, float64) {
	use := x.p.Items[m.Replica].Use
	was, other := x.excess(from, nil, nil), x.excess(m.To, nil, nil)
	leaves := was - x.excess(from, nil, use)
	elsewhere := len(x.p.Bins)*len(x.p.Items) <= thorough
	for _, j := range x.on[m.To] {
		s := &x.p.Items[j]
		if s.Fixed || x.moved[j] {
			continue
		}
		arrives := other - x.excess(m.To, use, s.Use)
		if gain := was - x.excess(from, s.Use, use) + arrives; gain > most+rounding && x.fits(j, from) {
			best, most = [2]Transfer{m, {j, from}}, gain
		}
		if !elsewhere || leaves+arrives <= most {
			continue
		}
		for to := range x.p.Bins {
			if to == from || to == m.To || !x.fits(j, to) {
				continue
			}
			if gain := leaves + arrives + x.excess(to, nil, nil) - x.excess(to, s.Use, nil); gain > most+rounding {
				best, most = [2]Transfer{m, {j, to}}, gain
			}
		}
	}
	return best, most
}

// firsts are the moves with which a plan may begin: those that gain something, and those that
// fill a host up with what another has too much of.
func (x *planner) firsts() (list []Transfer) {
	for from := range x.p.Bins {
		was := x.excess(from, nil, nil)
		if was <= rounding {
			continue
		}
		for _, i := range x.on[from] {
			r := &x.p.Items[i]
			if r.Fixed || was-x.excess(from, nil, r.Use) <= rounding {
				continue
			}
			for to := range x.p.Bins {
				if to != from && x.fits(i, to) {
					list = append(list, Transfer{i, to})
				}
			}
		}
	}
	return list
}

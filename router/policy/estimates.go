package policy

import (
	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// Estimate implements observation.Estimator: it writes what the rule expects, by replica, and
// chooses nothing.
func (p *Universal) Estimate(dst []observation.Estimate, v *fleet.View, r *fleet.Request) {
	var room [8]occupancy // more replicas on one host would allocate
	rate := v.RecentRate()
	for _, h := range v.Hosts() {
		on := p.occupancies(room[:0], v, h, rate)
		for k := range on {
			if i := on[k].replica; v.Available(i) {
				p.estimate(&dst[i], v, r, on, k)
			}
		}
	}
}

func (p *Universal) estimate(to *observation.Estimate, v *fleet.View, r *fleet.Request, on []occupancy, k int) {
	j, s := p.join(v, r, on, k), &on[k]
	c := p.chance(v, r, on, &j)
	*to = observation.Estimate{
		Short:  max(0, v.Table.Tasks[r.Task].Peak()-v.Table.Tasks[r.Task].Weight*v.Table.Quality(r, s.variant)*c.inTime),
		Loss:   max(0, p.lost(v, on, &j)),
		InTime: c.inTime, TokenTime: c.time / c.deadline, Wait: c.wait / (c.deadline * j.output),
		Alone: p.least[s.replica] * s.slow / c.deadline, Duty: s.now, Beside: j.neighbours,
	}
	if size := v.Table.Replicas[s.replica].KVTokens; size > 0 {
		to.KVPeak = peakOf(float64(j.batch.held), j.batch.output) / float64(size)
	}
}

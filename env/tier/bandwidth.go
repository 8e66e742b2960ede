package tier

import (
	"time"

	"gearshift/router/profile"
)

// memory is that of a host: what its replicas take of it, and what its cores ask of its
// bandwidth.
type memory struct {
	taken     int64
	bandwidth float64
	asked     float64 // by all requests, were each at full speed
	hogged    float64 // asked by what is no request
	moving    float64 // what is in use
	stalls    *stalls
}

// stretch is how many times as long work takes as with bandwidth enough, where each request has
// a share of a core.
func (m *memory) stretch(share float64) float64 {
	if m.bandwidth == 0 {
		return 1
	}
	asked := m.asked*share + m.hogged
	s := m.stalls.at(asked / m.bandwidth)
	m.moving = asked / s
	return s
}

// turn has a hog begin or end.
func (r *run) turn(g *Hog, now time.Duration) {
	h := &r.hosts[g.Host]
	h.advance(now)
	if now == g.From {
		h.memory.hogged += g.Bandwidth
	} else {
		h.memory.hogged -= g.Bandwidth
	}
	r.schedule(g.Host)
}

// stalls is a table of the law of bandwidth, which is looked up with each request.
type stalls struct {
	knee  float64
	table []float64
}

// grain is how many entries the table has for what is asked of one bandwidth, and most what
// may be asked.
const grain, most = 256, 16

func newStalls(law profile.Bandwidth) *stalls {
	s := &stalls{knee: law.Knee}
	for i := range most*grain + 2 {
		s.table = append(s.table, law.Stretch(float64(i)/grain))
	}
	return s
}

// at is how many times as long work takes where so many times the bandwidth is asked for.
func (s *stalls) at(asked float64) float64 {
	if asked <= s.knee {
		return 1
	}
	x := min(asked, most) * grain
	i := int(x)
	return s.table[i] + (x-float64(i))*(s.table[i+1]-s.table[i])
}

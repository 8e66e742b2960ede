package env

import "gearshift/router/profile"

// memory is that of a host: what its cores ask of its bandwidth.
type memory struct {
	bandwidth float64
	asked     float64 // by all requests, were each at full speed
	hogged    float64 // asked by what is no request
	moving    float64 // what is in use
	stalls    *Stalls
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

// Stalls is a table of the law of bandwidth, which is looked up with each request. Hosts share it.
type Stalls struct {
	knee  float64
	table []float64
}

// grain is how many entries the table has for what is asked of one bandwidth, and most what
// may be asked.
const grain, most = 256, 16

// NewStalls makes that of a law.
func NewStalls(law profile.Bandwidth) *Stalls {
	s := &Stalls{knee: law.Knee}
	for i := range most*grain + 2 {
		s.table = append(s.table, law.Stretch(float64(i)/grain))
	}
	return s
}

// at is how many times as long work takes where so many times the bandwidth is asked for.
func (s *Stalls) at(asked float64) float64 {
	if asked <= s.knee {
		return 1
	}
	x := min(asked, most) * grain
	i := int(x)
	return s.table[i] + (x-float64(i))*(s.table[i+1]-s.table[i])
}

package streams

import (
	"math"
	"math/rand/v2"
	"time"
)

// Path is a client's way over a link. A link that is not recorded varies as slowly as [Link.Memory] has it, for each
// client by itself.
type Path struct {
	*Link
	Random   *rand.Rand
	Recorded time.Duration // where in the recording the client began

	rate, delay float64 // standard deviations from the mean
	step        int
}

// at returns what the link carries now, in Mbit/s, and its time one way in milliseconds.
func (p *Path) at(now time.Duration) (up, down, ms float64) {
	l, random := p.Link, p.Random.NormFloat64
	jitter := l.Jitter.Seconds() * 1000 * math.Abs(random())
	if l.Recorded != nil {
		up, down, roundTrip := l.Recorded.At(now + p.Recorded)
		return up, down, roundTrip.Seconds()*1000/2 + jitter
	}
	if step := int(now.Seconds() * rateSteps); p.step < step {
		keep := math.Exp(-float64(step-p.step) / (l.Memory.Seconds() * rateSteps))
		p.rate = keep*p.rate + math.Sqrt(1-keep*keep)*random()
		p.delay = keep*p.delay + math.Sqrt(1-keep*keep)*random()
		p.step = step
	}
	ms = max(0, l.RoundTrip.Seconds()*1000/2+l.Varying.Seconds()*1000/2*p.delay) + jitter
	return l.Up + l.UpSpread*p.rate, l.Down + l.DownSpread*p.rate, ms
}

// slowest is the rate of a link that carries nothing for a while, in Mbit/s.
const slowest = 0.1

// carried returns how long so many bytes take at the rate, after so many milliseconds, in milliseconds.
func carried(bytes int, mbits, ms float64) float64 {
	return ms + float64(8*bytes)/max(slowest, mbits)/1000
}

// Up draws how long so many bytes take from the client, in milliseconds.
func (p *Path) Up(now time.Duration, bytes int) float64 {
	up, _, ms := p.at(now)
	return carried(bytes, up, ms)
}

// Down draws how long so many bytes take to the client, in milliseconds.
func (p *Path) Down(now time.Duration, bytes int) float64 {
	_, down, ms := p.at(now)
	return carried(bytes, down, ms)
}

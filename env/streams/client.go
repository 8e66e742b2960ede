package streams

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/router/offload"
)

// client is one that streams.
type client struct {
	offload.Stream // what the server knows
	id             int
	leaves         time.Duration
	random         *rand.Rand
	rate           rate
	link           struct {
		rate, delay float64 // standard deviations from the mean
		step        int
	}
	recorded time.Duration // where in a recording of its link it began

	// What it loses, from its first result on.
	before  int     // the frame of its request before
	tracked int     // the frame of which the result is tracked; −1: none
	gap     float64 // of that result's model
	from    int     // the first frame that is not counted yet
	second  window
}

// clientOf returns the client of a stream.
func clientOf(s *offload.Stream) *client { return s.Of.(*client) }

// window is the drop within a second.
type window struct {
	sum float64
	n   int
}

// rate holds how fast a client's tracker loses accuracy: it varies about a mean, and is the same in a time step.
type rate struct {
	mean, x float64 // x is the logarithm beside the mean
	step    int
}

// rateSteps counts the times in a second at which a rate may change.
const rateSteps = 10

// at returns the rate at a frame. Frames do not run back by more than a step.
func (r *run) at(c *client, frame int) float64 {
	step := int(float64(frame) / r.FPS * rateSteps)
	keep := math.Exp(-1 / (r.Content.Memory.Seconds() * rateSteps))
	for ; c.rate.step < step; c.rate.step++ {
		c.rate.x = keep*c.rate.x + math.Sqrt(1-keep*keep)*r.Content.Spread*c.random.NormFloat64()
	}
	return c.rate.mean * math.Exp(c.rate.x-r.Content.Spread*r.Content.Spread/2)
}

// link returns what the client's link carries now, in Mbit/s, and its time one way in milliseconds. A link that is not
// recorded varies as slowly as [Link.Memory] has it.
func (r *run) link(c *client) (up, down, ms float64) {
	l, random := &r.Link, c.random.NormFloat64
	jitter := l.Jitter.Seconds() * 1000 * math.Abs(random())
	if l.Recorded != nil {
		up, down, roundTrip := l.Recorded.At(r.now + c.recorded)
		return up, down, roundTrip.Seconds()*1000/2 + jitter
	}
	if step := int(r.now.Seconds() * rateSteps); c.link.step < step {
		keep := math.Exp(-float64(step-c.link.step) / (l.Memory.Seconds() * rateSteps))
		c.link.rate = keep*c.link.rate + math.Sqrt(1-keep*keep)*random()
		c.link.delay = keep*c.link.delay + math.Sqrt(1-keep*keep)*random()
		c.link.step = step
	}
	ms = max(0, l.RoundTrip.Seconds()*1000/2+l.Varying.Seconds()*1000/2*c.link.delay) + jitter
	return l.Up + l.UpSpread*c.link.rate, l.Down + l.DownSpread*c.link.rate, ms
}

// slowest is the rate of a link that carries nothing for a while, in Mbit/s.
const slowest = 0.1

// delay returns how long so many bytes take at the rate, after so many milliseconds, in frames.
func (r *run) delay(bytes int, mbits, ms float64) float64 {
	return (ms + float64(8*bytes)/max(slowest, mbits)/1000) * r.FPS / 1000
}

// uplink and downlink draw how long a frame takes to the server, and a result back, in frames.
func (r *run) uplink(c *client) float64 {
	up, _, ms := r.link(c)
	return r.delay(r.FrameBytes, up, ms)
}

func (r *run) downlink(c *client) float64 {
	_, down, ms := r.link(c)
	return r.delay(r.ResultBytes, down, ms)
}

// result follows a result that has reached the client, which tracks it from the next frame on.
func (r *run) result(c *client, of int, at, gap float64) {
	ready := c.Newest(at) + 1
	if c.Captured(ready-1) >= at-offload.Same {
		ready--
	}
	if c.tracked >= of { // a newer one is there
		return
	}
	if c.tracked >= 0 {
		r.count(c, ready)
		// What the tracker had lost on that frame says how fast it does (ARISE-3).
		stride := of - c.tracked
		drop := r.at(c, of) * float64(stride) * (1 + r.Content.Noise*c.random.NormFloat64())
		r.estimate(c, offload.Rate(drop, stride))
	}
	c.tracked, c.gap, c.from = of, gap, max(c.from, ready)
}

// count counts what the client loses until the frame, in whole seconds.
func (r *run) count(c *client, until int) {
	reference := r.schedule.Reference(&offload.Client{Network: c.Network})
	for ; c.from < until; c.from++ {
		if w := &c.second; c.Served {
			w.sum += c.gap + r.at(c, c.from)*(float64(c.from-c.tracked)-reference)
			if w.n++; w.n >= int(r.FPS) {
				r.window(c, w.sum/float64(w.n))
				*w = window{}
			}
		}
	}
}

// estimate takes in what one result says of the rate.
func (r *run) estimate(c *client, x float64) {
	if r.now >= r.Warmup && c.Served {
		truth := r.at(c, c.tracked)
		r.res.EstimateError.Add((x - truth) * float64(c.Setting.Interval))
	}
	if c.Rate == 0 {
		c.Rate = x
		return
	}
	c.Rate += (x - c.Rate) * r.Weight
}

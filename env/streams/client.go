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
	link           Path

	// What it loses, from its first result on.
	before  int           // the frame of its request before
	lost    time.Duration // when its host failed, until it is served again
	tracked int           // the frame of which the result is tracked; −1: none
	gap     float64       // of that result's model
	from    int           // the first frame that is not counted yet
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

// uplink and downlink draw how long a frame takes to the server, and a result back, in frames.
func (r *run) uplink(c *client) float64 { return c.link.Up(r.now, r.FrameBytes) * r.FPS / 1000 }

func (r *run) downlink(c *client) float64 { return c.link.Down(r.now, r.ResultBytes) * r.FPS / 1000 }

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
	reference := r.declared(c).Reference(&offload.Client{Network: c.Network})
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

// declared returns the host that serves the client with the times of its profile, to which SLAs relate.
func (r *run) declared(c *client) *offload.Server {
	if c.Host != nil {
		return &c.Host.Of.(*server).declared
	}
	return &r.servers[0].declared
}

// estimate takes in what one result says of the rate.
func (r *run) estimate(c *client, x float64) {
	if r.now >= r.Warmup && c.Served {
		truth := r.at(c, c.tracked)
		r.res.EstimateError.Add((x - truth) * float64(c.Setting.Interval))
	}
	if r.Policy == offload.Gearshift {
		r.schedule.Learn(&c.Stream, x)
		return
	}
	c.Rate += (x - c.Rate) * r.Weight
}

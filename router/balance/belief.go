package balance

import (
	"math"
	"time"
)

// beliefs are what a client expects the loads of hosts to be.
type beliefs struct {
	hosts          []belief
	mean, variance float64 // of the loads that were heard
	heard          float64 // how many these are of
}

// belief is what was heard of a host last.
type belief struct {
	load, cores float64
	at          time.Duration // below zero if nothing was
}

const (
	// loadMemory is of how many loads the mean and the variance are.
	loadMemory = 200
	// prior is how many loads those are worth that are assumed until some are heard.
	prior = 2
)

// newBeliefs returns those of so many hosts of which nothing was heard.
func newBeliefs(hosts int, unit float64) beliefs {
	b := beliefs{hosts: make([]belief, hosts)}
	for i := range b.hosts {
		b.hosts[i] = belief{cores: 1, at: -1}
	}
	b.assume(unit)
	return b
}

// assume has the loads of all have a mean and a deviation of two requests, each of so much, until
// some are heard.
func (b *beliefs) assume(request float64) {
	b.mean, b.variance, b.heard = 2*request, 2*request*2*request, prior
}

// ignorant reports whether nothing was heard of any host.
func (b *beliefs) ignorant() bool { return b.heard == prior }

// hear takes in the load of a host.
func (b *beliefs) hear(host int, load, cores float64, now time.Duration) {
	b.hosts[host] = belief{load: load, cores: max(1, cores), at: now}
	b.heard = min(loadMemory, b.heard+1)
	off := load - b.mean
	b.mean += off / b.heard
	b.variance += (off*off*(1-1/b.heard) - b.variance) / b.heard
}

// add expects the host to have more by the work of a request.
func (b *beliefs) add(host int, work float64) {
	if x := &b.hosts[host]; x.at >= 0 {
		x.load = max(0, x.load+work/x.cores)
	}
}

// expect returns the mean and the deviation of the host's load now: what was heard last, drawn
// back to the mean of all in the time relax.
func (b *beliefs) expect(host int, relax, now time.Duration) (mean, deviation float64) {
	x := &b.hosts[host]
	if x.at < 0 {
		return b.mean, math.Sqrt(b.variance)
	}
	left := math.Exp(-float64(max(0, now-x.at)) / float64(relax))
	return b.mean + (x.load-b.mean)*left, math.Sqrt(b.variance * (1 - left*left))
}

// gain is the mean of what a normal variable of the mean and deviation has above zero.
func gain(mean, deviation float64) float64 {
	if deviation <= 0 {
		return max(0, mean)
	}
	z := mean / deviation
	return deviation * (math.Exp(-z*z/2)/math.Sqrt(2*math.Pi) + z*0.5*math.Erfc(-z/math.Sqrt2))
}

package clients

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/internal/splitmix"
)

// Day is a day's load, with a low at night and two peaks, of which the one in the evening is
// the higher.
type Day struct {
	// Length is how long a day takes.
	Length time.Duration
	// Peak is the rate of requests in the evening, and Floor the share of it that there is at
	// night.
	Peak, Floor float64
	// Swing is how much more or less of all requests a model has at one time of the day than
	// in the mean, relative to the mean. Each model has a time of its own, which is drawn.
	Swing float64
	// Hogs is how many hosts have a batch job that takes Hogged of their bandwidth for a third of
	// the day each. Which, and when, is drawn.
	Hogs   int
	Hogged float64
	Seed   uint64
}

// Apply has the load of a configuration follow the day. The configuration has its hosts and
// models, and gets a rate, shares and hogs.
func (d Day) Apply(c *Config) {
	random := rand.New(rand.NewPCG(splitmix.Mix(d.Seed), 54))
	c.RateAt = func(now time.Duration) float64 { return d.Peak * (d.Floor + (1-d.Floor)*crowd(d.at(now))) }
	phases := make([]float64, len(c.Models))
	for i := range phases {
		phases[i] = random.Float64()
	}
	c.ShareAt = func(model int, now time.Duration) float64 {
		return 1 + d.Swing*math.Sin(2*math.Pi*(d.at(now)+phases[model]))
	}
	hosts := random.Perm(len(c.Hosts))
	for i := range min(d.Hogs, len(hosts)) {
		on, from := hosts[i], time.Duration(random.Float64()*2/3*float64(d.Length))
		c.Hogs = append(c.Hogs, Hog{Host: on, Bandwidth: d.Hogged * c.Hosts[on].Bandwidth, From: from, To: from + d.Length/3})
	}
}

// at is which part of the day it is.
func (d Day) at(now time.Duration) float64 {
	_, part := math.Modf(now.Seconds() / d.Length.Seconds())
	return part
}

// crowd is how much of what there is in the evening there is at a part of the day.
func crowd(at float64) float64 {
	noon, evening := (at-0.45)/0.12, (at-0.8)/0.08
	return min(1, 0.8*math.Exp(-noon*noon)+math.Exp(-evening*evening))
}

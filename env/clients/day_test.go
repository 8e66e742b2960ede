package clients_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/env/clients"
	"gearshift/router/balance"
)

func uneven(seed uint64) clients.Drawing {
	return clients.Drawing{
		Hosts: 30, Kinds: []float64{2, 4, 8}, Models: 10, Skew: 0.8, Replicas: 120, Error: 0.5,
		Fastest: 5 * time.Millisecond, Slowest: 40 * time.Millisecond, Spread: 0.5,
		Memory: 6, Smallest: 1, Largest: 8, Bandwidth: 10, Lightest: 2, Heaviest: 12,
		LoadTime: time.Second, LoadWork: time.Second, Seed: seed,
	}
}

// TestUnevenTiersAreDrawn: models are placed by what was expected of them, which is wrong, and
// where there is memory.
func TestUnevenTiersAreDrawn(t *testing.T) {
	spread := func(c *clients.Config) (spread float64) {
		work, all, cores := make([]float64, len(c.Hosts)), 0.0, 0.0
		for _, m := range c.Models {
			for _, h := range m.Replicas {
				work[h] += m.Share * m.Mean.Seconds() / float64(len(m.Replicas))
			}
			all += m.Share * m.Mean.Seconds()
		}
		for _, h := range c.Hosts {
			cores += h.Compute
		}
		for i, h := range c.Hosts {
			spread = max(spread, work[i]/h.Compute/(all/cores))
		}
		return spread
	}
	var wrong, right float64
	for seed := range uint64(20) {
		d := uneven(seed)
		c, err := d.Draw()
		if err != nil {
			t.Fatal(err)
		}
		taken := make([]int64, len(c.Hosts))
		for _, m := range c.Models {
			for _, h := range m.Replicas {
				taken[h] += m.Memory
			}
			if m.Bandwidth < 2 || m.Bandwidth > 12 || m.Memory < 1 || m.Memory > 8 {
				t.Errorf("a bandwidth of %v, %d of memory", m.Bandwidth, m.Memory)
			}
		}
		for i, h := range c.Hosts {
			if taken[i] > h.Memory || h.Memory != int64(6*h.Compute) || h.Bandwidth != 10*h.Compute {
				t.Errorf("%d of memory taken on %+v", taken[i], h)
			}
		}
		d.Error = 0
		exact, err := d.Draw()
		if err != nil {
			t.Fatal(err)
		}
		wrong, right = wrong+spread(c)/20, right+spread(exact)/20
	}
	if wrong < right*1.1 {
		t.Errorf("the busiest host has %.2f times the mean by wrong expectations, %.2f by right ones", wrong, right)
	}
	d := uneven(1)
	d.Smallest, d.Largest = 60, 60
	if _, err := d.Draw(); err == nil || !strings.Contains(err.Error(), "the hosts have no memory for two replicas") {
		t.Error(err)
	}
	d.Smallest = 0
	if _, err := d.Draw(); err == nil || !strings.Contains(err.Error(), "memory from 0 to 60 of hosts with 6 for each core") {
		t.Error(err)
	}
}

// TestADay: the evening is the busiest, the night has its floor, models have their own times,
// and jobs take bandwidth for a third of the day.
func TestADay(t *testing.T) {
	c, err := uneven(3).Draw()
	if err != nil {
		t.Fatal(err)
	}
	c.Clients, c.Chooser, c.Length, c.Period, c.Seed = 10, balance.Sampled{K: 2, Poll: true}, 40*time.Second, time.Second, 1
	day := clients.Day{Length: c.Length, Peak: 0.6 * c.Capacity(), Floor: 0.3, Swing: 0.4, Hogs: 4, Hogged: 0.5, Seed: 9}
	day.Apply(c)
	if night, evening := c.RateAt(2*time.Second), c.RateAt(32*time.Second); math.Abs(night/day.Peak-0.3) > 0.01 || math.Abs(evening/day.Peak-1) > 0.01 {
		t.Errorf("a rate of %.0f at night, %.0f in the evening of %.0f", night, evening, day.Peak)
	}
	if len(c.Hogs) != 4 || (c.Hogs[0].To-c.Hogs[0].From-c.Length/3).Abs() > 1 || c.Hogs[0].Bandwidth != 0.5*c.Hosts[c.Hogs[0].Host].Bandwidth {
		t.Errorf("%+v", c.Hogs)
	}
	sum := 0.0
	for i := range 100 {
		sum += c.ShareAt(2, time.Duration(i)*c.Length/100) / 100
	}
	if math.Abs(sum-1) > 1e-9 || math.Abs(c.ShareAt(2, 0)-c.ShareAt(2, c.Length)) > 1e-9 {
		t.Errorf("a model has %v of its share over the day", sum)
	}
	r := run(t, c)
	if busiest, night := r.Series[31].Requests, r.Series[2].Requests; float64(night) > 0.4*float64(busiest) || float64(night) < 0.2*float64(busiest) {
		t.Errorf("%d requests in an evening's second, %d in a night's", busiest, night)
	}
}

package tail

import (
	"gearshift/env/clients"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/lifecycle"
	"gearshift/router/placement/bands"
)

// placed is a simulated tier as a controller of placements sees it.
type placed struct {
	*clients.Fleet
	*lifecycle.Claims
	config    *clients.Config
	bandwidth bool // whether it is a resource
}

// Act implements [control.Actuator].
func (p *placed) Act(a control.Action) error { return p.Claims.Act(a) }

// Measure implements [bands.Fleet].
func (p *placed) Measure() *bands.Measurement {
	x := &bands.Measurement{}
	for h, host := range p.config.Hosts {
		load := p.HostLoad(h)
		y := bands.Bin{Capacity: p.vector(host.Compute, float64(host.Memory), host.Bandwidth)}
		cpu, bandwidth := load.CPU, load.Bandwidth
		for m := range p.config.Models {
			number := p.Replica(m, h)
			if p.State(number) == fleet.Cold {
				continue
			}
			r := p.ReplicaLoad(number)
			x.Problem.Items = append(x.Problem.Items, bands.Item{Model: m, Host: h, Use: p.vector(r.CPU, float64(p.config.Models[m].Memory), r.Bandwidth)})
			x.Numbers, x.Moving = append(x.Numbers, number), append(x.Moving, p.State(number) != fleet.Up)
			cpu, bandwidth = cpu-r.CPU, bandwidth-r.Bandwidth
		}
		y.Other = p.vector(max(0, cpu), 0, max(0, bandwidth))
		x.Problem.Bins = append(x.Problem.Bins, y)
	}
	return x
}

// vector is what there is, or is used, of each resource.
func (p *placed) vector(cpu, memory, bandwidth float64) []float64 {
	if p.bandwidth {
		return []float64{cpu, memory, bandwidth}
	}
	return []float64{cpu, memory}
}

// balanced has a controller move replicas of the tier in each of its periods.
func balanced(c *clients.Config, p places) {
	o := bands.DefaultOptions()
	if !p.bandwidth {
		o.Resources = o.Resources[:2]
	}
	c.Control = func(f *clients.Fleet) control.Controller {
		x := &placed{Fleet: f, config: c, bandwidth: p.bandwidth}
		by := bands.New(x, bands.Settings{Options: o, Period: c.Period, Threshold: p.threshold, AtOnce: p.atOnce})
		x.Claims = f.Claim(lifecycle.Balancing, by.Observe)
		return wanting{by}
	}
}

// wanting is a controller that hears of the ends of what it wants by its claims alone.
type wanting struct{ control.Controller }

// Observe implements [control.Controller].
func (wanting) Observe(control.Event) {}

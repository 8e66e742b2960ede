// Package failover keeps applications answered when hosts are lost. Its [Controller] holds
// backups ready before a loss, activates them at a loss, loads what else is needed, protects
// what runs again, and moves everything back once a host has returned. It is pure: time is
// passed in, and it acts through an [Actuator].
//
// It follows FailLite (arXiv 2504.15856) and goes beyond it in its policy [Gearshift].
package failover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/placement"
)

// Variant is one way to answer an application: a model that can be loaded. Assignments of one
// model to one host share its memory where [Problem.Shared] is set.
type Variant struct {
	placement.Alternative
	// Load is how long a load from disk takes; 0 is unknown.
	Load time.Duration
}

// Application is what has to be answered.
type Application struct {
	Name string
	// Primary is the host that runs it; where it is −1, the controller puts it on the host
	// with the most room.
	Primary int
	// Full is the variant that runs there; −1 is the best that is in time.
	Full       int
	Critical   bool
	Rate       float64
	MaxLatency time.Duration // 0: none
	Variants   []Variant
	// Excluded are hosts that may not hold it.
	Excluded []int
}

// Problem is what is kept answered, and where. The first resource is memory, which everything
// that is loaded takes. The others are used by what answers: of several variants of one
// application on a host only the largest demand counts.
type Problem struct {
	Resources []string
	Hosts     []fleet.Host // whose names and sites count
	// Capacity is all that each host has, by host and resource.
	Capacity     [][]float64
	Applications []Application
	// Shared has the first resource be taken once for each model on a host.
	Shared bool
}

// Assignment is a variant of an application on a host, as indices of a [Problem].
type Assignment struct{ App, Variant, Host int }

// Nowhere is no assignment.
var Nowhere = Assignment{-1, -1, -1}

// Compare orders assignments by application, variant and host.
func (a Assignment) Compare(b Assignment) int {
	return cmp.Or(cmp.Compare(a.App, b.App), cmp.Compare(a.Variant, b.Variant), cmp.Compare(a.Host, b.Host))
}

// Variant returns that of the assignment.
func (p *Problem) Variant(a Assignment) *Variant { return &p.Applications[a.App].Variants[a.Variant] }

// Name names an assignment in words.
func (p *Problem) Name(a Assignment) string { return p.Variant(a).Name + "@" + p.Hosts[a.Host].Name }

// Taken returns how much of a host's capacity the assignments take that are there, by resource.
func (p *Problem) Taken(host int, list []Assignment) []float64 {
	taken := make([]float64, len(p.Resources))
	models, most := map[string]bool{}, map[int][]float64{}
	for _, a := range list {
		if a.Host != host {
			continue
		}
		v := p.Variant(a)
		if !p.Shared || v.Model == "" || !models[v.Model] {
			taken[0] += v.Demand[0]
			models[v.Model] = true
		}
		if most[a.App] == nil {
			most[a.App] = make([]float64, len(p.Resources))
		}
		for r := 1; r < len(taken); r++ {
			taken[r] += max(0, v.Demand[r]-most[a.App][r])
			most[a.App][r] = max(most[a.App][r], v.Demand[r])
		}
	}
	return taken
}

// Validate names the first fault.
func (p *Problem) Validate() error {
	if len(p.Resources) == 0 || len(p.Hosts) == 0 || len(p.Capacity) != len(p.Hosts) {
		return fmt.Errorf("there are %d resources, %d hosts and the capacities of %d; want at least one of each, and the capacity of each host", len(p.Resources), len(p.Hosts), len(p.Capacity))
	}
	for i := range p.Hosts {
		name := p.Hosts[i].Name
		if name == "" || slices.ContainsFunc(p.Hosts[:i], func(x fleet.Host) bool { return x.Name == name }) {
			return fmt.Errorf("hosts[%d]: the name %q is empty or there twice", i, name)
		}
		if c := p.Capacity[i]; len(c) != len(p.Resources) || slices.ContainsFunc(c, unfit) {
			return fmt.Errorf("host %q: capacity: %v; want %d numbers from 0 on", name, c, len(p.Resources))
		}
	}
	for i := range p.Applications {
		if err := p.check(&p.Applications[i]); err != nil {
			return fmt.Errorf("application %q: %w", p.Applications[i].Name, err)
		}
	}
	return nil
}

func (p *Problem) check(a *Application) error {
	switch {
	case !(a.Rate > 0) || math.IsInf(a.Rate, 1):
		return fmt.Errorf("rate: %v must be a number above 0", a.Rate)
	case a.MaxLatency < 0:
		return fmt.Errorf("max_latency_ms: %v must not be negative", fleet.Milliseconds(a.MaxLatency))
	case a.Primary < -1 || a.Primary >= len(p.Hosts):
		return fmt.Errorf("primary: there is no host %d", a.Primary)
	case len(a.Variants) == 0:
		return fmt.Errorf("variants: there are none; want at least one")
	case a.Full < -1 || a.Full >= len(a.Variants):
		return fmt.Errorf("full: there is no variant %d", a.Full)
	}
	for i := range a.Variants {
		v := &a.Variants[i]
		if unfit(v.Quality) || len(v.Demand) != len(p.Resources) || slices.ContainsFunc(v.Demand, unfit) || v.Latency < 0 {
			return fmt.Errorf("variant %q: quality %v, demand %v and latency %v ms must be numbers from 0 on, one demand for each resource", v.Name, v.Quality, v.Demand, fleet.Milliseconds(v.Latency))
		}
	}
	return nil
}

func unfit(x float64) bool { return !(x >= 0) || math.IsInf(x, 1) }

// quick reports whether the variant answers within the application's bound.
func (a *Application) quick(variant int) bool {
	return a.MaxLatency == 0 || a.Variants[variant].Latency <= a.MaxLatency
}

// full is the variant that runs on the primary: the one that is given, or the best in time,
// or the fastest where none is.
func (a *Application) full() int {
	if a.Full >= 0 {
		return a.Full
	}
	best := -1
	for v := range a.Variants {
		if a.quick(v) && (best < 0 || a.Variants[v].Quality > a.Variants[best].Quality) {
			best = v
		}
	}
	if best >= 0 {
		return best
	}
	list := make([]int, len(a.Variants))
	for v := range list {
		list[v] = v
	}
	return slices.MinFunc(list, func(v, w int) int { return cmp.Compare(a.Variants[v].Latency, a.Variants[w].Latency) })
}

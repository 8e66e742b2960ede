// Package failover keeps applications answered when servers are lost. Its [Controller] holds
// backups ready before a loss, activates them at a loss, loads what else is needed, protects
// what runs again, and moves everything back once a server has returned. It is pure: time is
// passed in, and it acts through a [control.Actuator].
//
// It follows FailLite (arXiv 2504.15856) and goes beyond it in its policy [Gearshift].
package failover

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sort"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/placement"
)

// Variant is one way to answer an application: a model that can be loaded.
type Variant struct {
	placement.Alternative
	// Model is what is loaded. Instances of one model on one server share its memory where
	// [System.Shared] is set.
	Model string
	// Load is how long a load from disk takes; 0 is unknown.
	Load time.Duration
}

// Application is what has to be answered.
type Application struct {
	Name string
	// Primary is the server that runs it; where it is −1, the controller puts it on the server
	// with the most room.
	Primary int
	// Full is the variant that runs there; −1 is the best that is in time.
	Full       int
	Critical   bool
	Rate       float64
	MaxLatency time.Duration // 0: none
	Variants   []Variant
	// Excluded are servers that may not hold it.
	Excluded []int
}

// Server is a machine that runs instances.
type Server struct {
	Name string
	// Site is what fails together with it; empty is a site of its own.
	Site string
	// Capacity is all that it has, by resource.
	Capacity []float64
}

// System is what is kept running. The first resource is memory, which every loaded instance
// takes. The others are used by the instance that answers: of several instances of one application on
// a server only the largest demand counts.
type System struct {
	Resources    []string
	Servers      []Server
	Applications []Application
	// Shared has the first resource be taken once for each model on a server.
	Shared bool

	offsets []int // by application, of its variants
}

// Instance returns the number of the variant of the application on the server. Numbers of
// applications that come later are larger, so they stay as applications are added. The first
// call must not be concurrent with another.
func (s *System) Instance(app, variant, server int) int {
	s.number()
	return (s.offsets[app]+variant)*len(s.Servers) + server
}

// Of returns what the instance is.
func (s *System) Of(instance int) (app, variant, server int) {
	s.number()
	n := instance / len(s.Servers)
	app = sort.SearchInts(s.offsets, n+1) - 1
	return app, n - s.offsets[app], instance % len(s.Servers)
}

// Name names an instance in words.
func (s *System) Name(instance int) string {
	app, variant, server := s.Of(instance)
	return s.Applications[app].Variants[variant].Name + "@" + s.Servers[server].Name
}

// Instances returns how many there are.
func (s *System) Instances() int {
	s.number()
	return s.offsets[len(s.Applications)] * len(s.Servers)
}

func (s *System) number() {
	if len(s.offsets) == 0 {
		s.offsets = append(s.offsets, 0)
	}
	for i := len(s.offsets) - 1; i < len(s.Applications); i++ {
		s.offsets = append(s.offsets, s.offsets[i]+len(s.Applications[i].Variants))
	}
}

// Taken returns how much of the server's capacity the instances take, by resource. Instances
// on other servers count nothing.
func (s *System) Taken(server int, instances []int) []float64 {
	taken := make([]float64, len(s.Resources))
	models, most := map[string]bool{}, map[int][]float64{}
	for _, id := range instances {
		app, variant, on := s.Of(id)
		if on != server {
			continue
		}
		v := &s.Applications[app].Variants[variant]
		if !s.Shared || v.Model == "" || !models[v.Model] {
			taken[0] += v.Demand[0]
			models[v.Model] = true
		}
		if most[app] == nil {
			most[app] = make([]float64, len(s.Resources))
		}
		for r := 1; r < len(taken); r++ {
			taken[r] += max(0, v.Demand[r]-most[app][r])
			most[app][r] = max(most[app][r], v.Demand[r])
		}
	}
	return taken
}

// Validate names the first fault.
func (s *System) Validate() error {
	if len(s.Resources) == 0 || len(s.Servers) == 0 {
		return fmt.Errorf("there are %d resources and %d servers; want at least one of each", len(s.Resources), len(s.Servers))
	}
	for i := range s.Servers {
		name := s.Servers[i].Name
		if name == "" || slices.ContainsFunc(s.Servers[:i], func(x Server) bool { return x.Name == name }) {
			return fmt.Errorf("servers[%d]: the name %q is empty or there twice", i, name)
		}
		if c := s.Servers[i].Capacity; len(c) != len(s.Resources) || slices.ContainsFunc(c, unfit) {
			return fmt.Errorf("server %q: capacity: %v; want %d numbers from 0 on", s.Servers[i].Name, c, len(s.Resources))
		}
	}
	for i := range s.Applications {
		if err := s.check(&s.Applications[i]); err != nil {
			return fmt.Errorf("application %q: %w", s.Applications[i].Name, err)
		}
	}
	return nil
}

func (s *System) check(a *Application) error {
	switch {
	case !(a.Rate > 0) || math.IsInf(a.Rate, 1):
		return fmt.Errorf("rate: %v must be a number above 0", a.Rate)
	case a.MaxLatency < 0:
		return fmt.Errorf("max_latency_ms: %v must not be negative", fleet.Milliseconds(a.MaxLatency))
	case a.Primary < -1 || a.Primary >= len(s.Servers):
		return fmt.Errorf("primary: there is no server %d", a.Primary)
	case len(a.Variants) == 0:
		return fmt.Errorf("variants: there are none; want at least one")
	case a.Full < -1 || a.Full >= len(a.Variants):
		return fmt.Errorf("full: there is no variant %d", a.Full)
	}
	for i := range a.Variants {
		v := &a.Variants[i]
		if unfit(v.Quality) || len(v.Demand) != len(s.Resources) || slices.ContainsFunc(v.Demand, unfit) || v.Latency < 0 {
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

// Package placement plans where backups of applications are held ready: which variant of
// each, on which host, so that the applications survive the loss of the host that runs
// them. It is pure, and reads no clock except where the caller passes one in.
//
// It follows FailLite (arXiv 2504.15856): the proactive program (FL-4, 5), its Algorithm 1,
// and a heuristic of our own.
package placement

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"gearshift/router/fleet"
)

// Bin is a host with room for backups, as numbers.
type Bin struct {
	Name string
	// Site is what fails together with it; empty is a site of its own.
	Site string
	// Free is what backups may use, by resource.
	Free []float64
	// Loaded are models that are there already, which take no more memory where
	// [Problem.Shared] is set.
	Loaded []string
}

// Alternative is a variant of an application, as a backup.
type Alternative struct {
	Name    string
	Model   string // what is loaded; only [Problem.Shared] looks at it
	Quality float64
	Demand  []float64 // by resource
	// Latency is that of its answers; 0 is unknown, and within every bound.
	Latency time.Duration
}

// Item is an application that needs a backup, as numbers.
type Item struct {
	Name string
	// Primary is the host that runs it, which holds no backup of it; Site is that host's.
	// It need not be among the bins.
	Primary, Site string
	// Excluded are names of further hosts that hold no backup of it.
	Excluded   []string
	Rate       float64
	MaxLatency time.Duration // 0: none
	Variants   []Alternative
}

// Problem is what is planned.
type Problem struct {
	Resources []string
	// Alpha is the share of all free capacity that stays free, for what is loaded after a
	// failure.
	Alpha float64
	// SiteIndependent has no backup be on the primary's site.
	SiteIndependent bool
	// Shared has the first resource be taken once for each model on a bin. [Problem.Exact]
	// does not know it.
	Shared bool
	Bins   []Bin
	Items  []Item
}

// Choice is where an application's backup is: indices of a variant and a bin, −1 where it
// has none.
type Choice struct{ Variant, Bin int }

// Plan is a placement of backups.
type Plan struct {
	Choices   []Choice // by application
	Placed    int
	Objective float64 // Σ quality × rate
	// Bound is the most that the objective can be with as many placed, where Optimal is false.
	Bound   float64
	Optimal bool // no plan places more, or as many for a higher objective
}

// none is the choice of an application without a backup.
var none = Choice{-1, -1}

// slack is how much more than there is may be used, relative to it: what sums lose to
// rounding.
const slack = 1e-9

// Validate names the first fault.
func (p *Problem) Validate() error {
	if len(p.Resources) == 0 {
		return fmt.Errorf("resources: there are none; want at least one, such as memory")
	}
	if !(p.Alpha >= 0 && p.Alpha < 1) {
		return fmt.Errorf("alpha: %v must be a share from 0 to below 1", p.Alpha)
	}
	named := map[string]bool{}
	for i := range p.Bins {
		s := &p.Bins[i]
		if s.Name == "" || named[s.Name] {
			return fmt.Errorf("servers[%d]: the name %q is empty or there twice", i, s.Name)
		}
		named[s.Name] = true
		if err := p.amounts(s.Free); err != nil {
			return fmt.Errorf("server %q: free: %w", s.Name, err)
		}
	}
	clear(named)
	for i := range p.Items {
		a := &p.Items[i]
		if a.Name == "" || named[a.Name] {
			return fmt.Errorf("applications[%d]: the name %q is empty or there twice", i, a.Name)
		}
		named[a.Name] = true
		if err := p.application(a); err != nil {
			return fmt.Errorf("application %q: %w", a.Name, err)
		}
	}
	return nil
}

func (p *Problem) application(a *Item) error {
	switch {
	case !(a.Rate > 0 && a.Rate <= largest):
		return fmt.Errorf("rate: %v must be a number above 0", a.Rate)
	case a.MaxLatency < 0:
		return fmt.Errorf("max_latency_ms: %v must not be negative", fleet.Milliseconds(a.MaxLatency))
	case len(a.Variants) == 0:
		return fmt.Errorf("variants: there are none; want at least one")
	}
	for i := range a.Variants {
		v := &a.Variants[i]
		if v.Name == "" || slices.ContainsFunc(a.Variants[:i], func(o Alternative) bool { return o.Name == v.Name }) {
			return fmt.Errorf("variants[%d]: the name %q is empty or there twice", i, v.Name)
		}
		if !(v.Quality >= 0 && v.Quality <= largest) || v.Latency < 0 {
			return fmt.Errorf("variant %q: quality %v and latency_ms %v must be numbers from 0 on", v.Name, v.Quality, fleet.Milliseconds(v.Latency))
		}
		if err := p.amounts(v.Demand); err != nil {
			return fmt.Errorf("variant %q: demand: %w", v.Name, err)
		}
	}
	return nil
}

// largest is the most that a number may be.
const largest = 1e15

func (p *Problem) amounts(list []float64) error {
	if len(list) != len(p.Resources) {
		return fmt.Errorf("%d amounts; want one of each of %s", len(list), strings.Join(p.Resources, ", "))
	}
	for r, x := range list {
		if !(x >= 0 && x <= largest) {
			return fmt.Errorf("%s: %v must be a number from 0 on", p.Resources[r], x)
		}
	}
	return nil
}

// May reports whether the bin may hold a backup of the application: it is neither its
// primary's bin, nor excluded, nor, where that is asked for, on the primary's site.
func (p *Problem) May(a *Item, bin int) bool {
	s := &p.Bins[bin]
	return s.Name != a.Primary && !(p.SiteIndependent && a.Site != "" && s.Site == a.Site) &&
		(len(a.Excluded) == 0 || !slices.Contains(a.Excluded, s.Name))
}

// quick reports whether the variant answers within the application's bound.
func (a *Item) quick(v *Alternative) bool {
	return a.MaxLatency == 0 || v.Latency <= a.MaxLatency
}

// budget is how much of each resource backups may use in all.
func (p *Problem) budget() []float64 {
	all := make([]float64, len(p.Resources))
	for i := range p.Bins {
		for r, x := range p.Bins[i].Free {
			all[r] += (1 - p.Alpha) * x
		}
	}
	return all
}

// plan is the placement by these choices.
func (p *Problem) plan(chosen []Choice) *Plan {
	x := &Plan{Choices: chosen}
	for i, s := range chosen {
		if s != none {
			x.Placed++
			x.Objective += p.Items[i].Variants[s.Variant].Quality * p.Items[i].Rate
		}
	}
	return x
}

// Package bands moves replicas between hosts, so that none is much busier than the others.
// Hosts have several resources. Of those that are to be even, each host is kept within a band
// around what all hosts use together; of all, it is kept below a limit. Memory bandwidth is one
// of them: from about two thirds of it on a host's work takes longer, which its processors
// report as being busy ("Taming the tail utilization of ads inference", Engineering at Meta,
// 2024).
//
// [Problem.Plan] is pure. [Controller] carries its moves out, while requests are answered.
package bands

import (
	"errors"
	"fmt"
	"math"

	"gearshift/internal/faults"
)

// Resource is one that hosts have.
type Resource struct {
	Name string
	// Limit is the share of a host's that may be in use, above 0.
	Limit float64
	// Even is set for a resource of which hosts are kept within the band.
	Even bool
	// Held is set for a resource that a replica takes from the beginning of its load until it
	// is unloaded, such as memory. A move then takes it on both hosts for a while, and its limit
	// is never passed. The others are of replicas that answer, and their limits are aims.
	Held bool
}

// Options is how replicas are moved.
type Options struct {
	Resources []Resource
	// Band is how far above the mean of all hosts the use of one may be, relative to the mean,
	// of the resources that are even.
	Band float64
	// Moves is how many replicas are moved at most; zero is any number.
	Moves int
	// Gain is the least part of all that is in use that a move must bring below bands and
	// limits. It keeps replicas from being moved for what may be chance.
	Gain float64
}

// DefaultOptions are those for hosts that are measured by processors, memory and its
// bandwidth, in this order.
func DefaultOptions() Options {
	return Options{
		Resources: []Resource{{Name: "cpu", Limit: 0.9, Even: true}, {Name: "memory", Limit: 1, Held: true}, {Name: "bandwidth", Limit: 0.65}},
		Band:      0.1,
		Gain:      0.0005,
	}
}

// Validate names all faults.
func (o *Options) Validate() error {
	if len(o.Resources) == 0 {
		return errors.New("resources: there are none; want at least one, such as cpu")
	}
	var found faults.List
	for _, r := range o.Resources {
		found.If(!(r.Limit > 0 && r.Limit <= 1), "%s: the limit %v must be above 0 and at most 1", r.Name, r.Limit)
	}
	found.If(!(o.Band >= 0 && o.Band <= 1), "band: %v must be from 0 to 1", o.Band)
	found.If(o.Moves < 0, "moves: %d must not be negative", o.Moves)
	found.If(!(o.Gain >= 0 && o.Gain < 1), "gain: %v must be from 0 to below 1", o.Gain)
	return found.Err()
}

// Bin is a host, as numbers.
type Bin struct {
	// Capacity is what it has of each resource; zero is not known, and no limit.
	Capacity []float64
	// Other is what is in use by what is not a replica.
	Other []float64
}

// Item is a replica that is loaded, or being loaded, as numbers.
type Item struct {
	Model, Host int
	// Use is what it uses of each resource.
	Use []float64
	// Fixed is set for one that is not moved: it holds a place for a failover, or is on its way.
	Fixed bool
}

// Problem is what is where.
type Problem struct {
	Bins  []Bin
	Items []Item
	// May reports whether a host can get a replica of a model; nil is any.
	May func(model, host int) bool
}

// Transfer takes a replica to another host.
type Transfer struct{ Replica, To int }

// Validate names the first fault.
func (p *Problem) Validate(o *Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	n := len(o.Resources)
	for i := range p.Bins {
		h := &p.Bins[i]
		if len(h.Capacity) != n || len(h.Other) != n {
			return fmt.Errorf("host %d: %d capacities and %d other uses; want one for each of %d resources", i, len(h.Capacity), len(h.Other), n)
		}
		if !amounts(h.Capacity) || !amounts(h.Other) {
			return fmt.Errorf("host %d: capacities %v and other uses %v must be numbers from 0 on", i, h.Capacity, h.Other)
		}
	}
	there := map[[2]int]bool{}
	for i := range p.Items {
		r := &p.Items[i]
		at := [2]int{r.Model, r.Host}
		if r.Host < 0 || r.Host >= len(p.Bins) || len(r.Use) != n || !amounts(r.Use) {
			return fmt.Errorf("replica %d: host %d of %d, uses %v; want a host, and a number from 0 on for each of %d resources", i, r.Host, len(p.Bins), r.Use, n)
		}
		if there[at] {
			return fmt.Errorf("replica %d: model %d is on host %d twice", i, r.Model, r.Host)
		}
		there[at] = true
	}
	return nil
}

func amounts(list []float64) bool {
	for _, x := range list {
		if !(x >= 0) || math.IsInf(x, 1) {
			return false
		}
	}
	return true
}

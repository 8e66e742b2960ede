package fleet

import (
	"errors"
	"fmt"
)

// Variant is one way to answer a task: a model size.
type Variant struct{ Name string }

// Host is one GPU or machine whose memory and compute its replicas share.
type Host struct{ Name string }

// Replica is a variant loaded on a host.
type Replica struct {
	Name          string
	Variant, Host int
	// Limit bounds the requests in flight, waiting ones included. Zero is no limit.
	Limit int
	// KVTokens is what its KV cache holds, in tokens. Zero is unknown.
	KVTokens int
	// Initial is its state at the start: Up, Cold or Warm.
	Initial State
}

// Table is what exists: read-only once built, so it may be shared freely.
type Table struct {
	Tasks    []Task
	Variants []Variant
	Hosts    []Host
	Replicas []Replica

	byVariant, byHost [][]int
	hosts, replicas   []int // all indices
}

// NewTable checks the parts against each other and indexes them. Every fault
// is named in the one error.
func NewTable(tasks []Task, variants []Variant, hosts []Host, replicas []Replica) (*Table, error) {
	t := &Table{
		Tasks: tasks, Variants: variants, Hosts: hosts, Replicas: replicas,
		byVariant: make([][]int, len(variants)),
		byHost:    make([][]int, len(hosts)),
	}
	if err := errors.Join(t.faults()...); err != nil {
		return nil, err
	}
	for i, r := range replicas {
		t.byVariant[r.Variant] = append(t.byVariant[r.Variant], i)
		t.byHost[r.Host] = append(t.byHost[r.Host], i)
		t.replicas = append(t.replicas, i)
	}
	for i := range hosts {
		t.hosts = append(t.hosts, i)
	}
	return t, nil
}

func (t *Table) faults() []error {
	var faults []error
	fault := func(format string, args ...any) { faults = append(faults, fmt.Errorf(format, args...)) }
	if len(t.Tasks) == 0 || len(t.Variants) == 0 || len(t.Hosts) == 0 || len(t.Replicas) == 0 {
		fault("a fleet needs at least one task, variant, host and replica")
	}
	for i, v := range t.Variants {
		if t.VariantIndex(v.Name) < i {
			fault("variant %q is listed twice", v.Name)
		}
	}
	for i, task := range t.Tasks {
		if t.TaskIndex(task.Name) < i {
			fault("task %q is listed twice", task.Name)
		}
		if len(task.Quality) != len(t.Variants) {
			fault("task %q has %d qualities for %d variants", task.Name, len(task.Quality), len(t.Variants))
		}
		if task.Deadline <= 0 {
			fault("task %q has deadline %v; it must be positive", task.Name, task.Deadline)
		}
	}
	for _, r := range t.Replicas {
		if r.Variant < 0 || r.Variant >= len(t.Variants) || r.Host < 0 || r.Host >= len(t.Hosts) {
			fault("replica %q names variant %d of %d and host %d of %d", r.Name, r.Variant, len(t.Variants), r.Host, len(t.Hosts))
		}
		if r.Limit < 0 {
			fault("replica %q has limit %d; it must not be negative", r.Name, r.Limit)
		}
		if r.KVTokens < 0 {
			fault("replica %q has a KV cache of %d tokens; it must not be negative", r.Name, r.KVTokens)
		}
		if r.Initial != Up && r.Initial != Cold && r.Initial != Warm {
			fault("replica %q starts %v; it must be up, cold or warm", r.Name, r.Initial)
		}
	}
	return faults
}

// ReplicasOf lists the replicas of a variant in table order. Read-only.
func (t *Table) ReplicasOf(variant int) []int { return t.byVariant[variant] }

// ReplicasOn lists the replicas on a host in table order. Read-only.
func (t *Table) ReplicasOn(host int) []int { return t.byHost[host] }

// Reaches reports whether the variant may answer the request and can hold it, and its answers
// have the quality that the request asks for at least.
func (t *Table) Reaches(r *Request, variant int) bool {
	if r.Variants != 0 && r.Variants>>variant&1 == 0 || r.Holding != 0 && r.Holding>>variant&1 == 0 {
		return false
	}
	return r.MinQuality <= 0 || t.Tasks[r.Task].Quality[variant] >= r.MinQuality
}

// Serves says whether the replica can answer the request: where only one can, it is that.
func (t *Table) Serves(r *Request, replica int) bool {
	return (r.Only == 0 || r.Only == replica+1) && t.Reaches(r, t.Replicas[replica].Variant)
}

// TaskIndex is the index of the named task, or −1.
func (t *Table) TaskIndex(name string) int {
	for i := range t.Tasks {
		if t.Tasks[i].Name == name {
			return i
		}
	}
	return -1
}

// VariantIndex is the index of the named variant, or −1.
func (t *Table) VariantIndex(name string) int {
	for i := range t.Variants {
		if t.Variants[i].Name == name {
			return i
		}
	}
	return -1
}

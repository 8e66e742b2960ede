package fleet

import (
	"cmp"
	"math"
	"slices"
	"time"

	"gearshift/internal/faults"
)

// Model is weights that can be loaded.
type Model struct {
	Name string
	// Memory is what they take once loaded, in bytes. Zero is unknown.
	Memory int64
	// Load is how long a load takes. Zero is unknown.
	Load time.Duration
	// Sleep and Wake are the times that these take. Zero is a twentieth of a load.
	Sleep, Wake time.Duration
	// FirstAnswer is the time that the first step after a load or a wake takes in addition.
	FirstAnswer time.Duration
	// Version distinguishes sets of weights of one name.
	Version string
}

// wakeShare divides the time of a load into that of a sleep or a wake, for models without times of their own:
// weights come from the host's memory instead of a disk. vLLM reports wakes that are 18 to 200 times as fast.
const wakeShare = 20

// SleepTime returns how long the model takes to fall asleep.
func (m *Model) SleepTime() time.Duration { return cmp.Or(m.Sleep, m.Load/wakeShare) }

// WakeTime returns how long the model takes to wake.
func (m *Model) WakeTime() time.Duration { return cmp.Or(m.Wake, m.Load/wakeShare) }

// Variant is one way to answer a task: a model size.
type Variant struct {
	Name string
	// Model is the index of the model that it runs, or −1. In a table without models
	// it has no meaning; see [Table.ModelOf].
	Model int
}

// Host is one GPU or machine whose resources its replicas share.
type Host struct {
	Name string
	// Site is what it fails together with. Empty is a site of its own.
	Site string
	// The resources, of which zero is unknown.
	Memory    int64   // bytes
	Compute   float64 // operations per second
	Bandwidth float64 // bytes per second of its memory
}

// Replica is a variant on a host. It need not be loaded.
type Replica struct {
	Name          string
	Variant, Host int
	// Limit bounds the requests in flight, waiting ones included. Zero is no limit.
	Limit int
	// KVTokens is what its KV cache holds, in tokens. Zero is unknown.
	KVTokens int
	// Memory is what it takes on the host once loaded, its KV cache included, in bytes.
	// Zero is that of its model.
	Memory int64
	// Initial is its state at the start: Up, Cold or Warm.
	Initial State
	// Worker, if not zero, is a number that the replicas of one engine have in common. What
	// the engine takes of its host is counted once.
	Worker int
}

// Table is the catalogue of what exists, whether it is loaded or not. It is read-only
// once built, so it may be shared freely. What is where at one moment is the ledger's:
// see [Ledger.Place].
type Table struct {
	Tasks    []Task
	Variants []Variant
	Hosts    []Host
	Replicas []Replica
	Models   []Model // empty without a lifecycle controller

	// Measured is whether somebody measures how busy hosts are, so that views show it. Bare is
	// whether views lack the states and versions of replicas, as in logs that do not have them.
	Measured, Bare bool

	byVariant, byHost [][]int
	hosts, replicas   []int // all indices
	gaps              bool  // whether some variant does not answer some task
}

// NewTable checks the parts against each other and indexes them. Every fault
// is named in the one error.
func NewTable(tasks []Task, variants []Variant, hosts []Host, replicas []Replica, models ...Model) (*Table, error) {
	t := &Table{
		Tasks: tasks, Variants: variants, Hosts: hosts, Replicas: replicas, Models: models,
		byVariant: make([][]int, len(variants)),
		byHost:    make([][]int, len(hosts)),
	}
	if err := t.validate(); err != nil {
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
	for i := range tasks {
		t.gaps = t.gaps || tasks[i].Without != 0
	}
	return t, nil
}

// validate names every fault of the table.
func (t *Table) validate() error {
	var found faults.List
	found.If(len(t.Tasks) == 0 || len(t.Variants) == 0 || len(t.Hosts) == 0 || len(t.Replicas) == 0, "a fleet needs at least one task, variant, host and replica")
	for i, v := range t.Variants {
		found.If(t.VariantIndex(v.Name) < i, "variant %q is listed twice", v.Name)
		found.If(len(t.Models) > 0 && (v.Model < -1 || v.Model >= len(t.Models)), "variant %q names model %d of %d; want its index, or -1 for none", v.Name, v.Model, len(t.Models))
	}
	for i, task := range t.Tasks {
		found.If(t.TaskIndex(task.Name) < i, "task %q is listed twice", task.Name)
		found.If(len(task.Quality) != len(t.Variants), "task %q has %d qualities for %d variants", task.Name, len(task.Quality), len(t.Variants))
		more := task.FirstToken > 0 || task.Total > 0
		found.If(task.Deadline < 0 || task.Deadline == 0 && !(more && task.Pace > 0), "task %q has deadline %v; it must be positive", task.Name, task.Deadline)
		t.gapFaults(&task, &found)
		found.If(task.FirstToken < 0 || task.Total < 0, "task %q has deadlines %v to the first token and %v in all; they must not be negative", task.Name, task.FirstToken, task.Total)
	}
	for _, r := range t.Replicas {
		t.replicaFaults(&r, &found)
	}
	t.resourceFaults(&found)
	return found.Err()
}

func (t *Table) replicaFaults(r *Replica, found *faults.List) {
	found.If(r.Variant < 0 || r.Variant >= len(t.Variants) || r.Host < 0 || r.Host >= len(t.Hosts), "replica %q names variant %d of %d and host %d of %d", r.Name, r.Variant, len(t.Variants), r.Host, len(t.Hosts))
	found.If(r.Limit < 0, "replica %q has limit %d; it must not be negative", r.Name, r.Limit)
	found.If(r.KVTokens < 0, "replica %q has a KV cache of %d tokens; it must not be negative", r.Name, r.KVTokens)
	found.If(r.Memory < 0, "replica %q takes %d bytes; it must not be negative", r.Name, r.Memory)
	found.If(r.Initial != Up && r.Initial != Cold && r.Initial != Warm, "replica %q starts %v; it must be up, cold or warm", r.Name, r.Initial)
}

// gapFaults checks which variants answer the task.
func (t *Table) gapFaults(task *Task, found *faults.List) {
	n := len(t.Variants)
	found.If(n > 0 && n < 64 && task.Without>>n != 0, "task %q is without a variant that is not there: the fleet has %d", task.Name, n)
	answered := n == 0
	for v, q := range task.Quality {
		answers := task.Without>>v&1 == 0
		answered = answered || answers
		found.If(!answers && q != 0, "task %q has quality %v for variant %d, which does not answer it; want 0", task.Name, q, v)
	}
	found.If(!answered, "task %q is answered by no variant; at least one must", task.Name)
}

// resourceFaults checks models and hosts, whose numbers are optional.
func (t *Table) resourceFaults(found *faults.List) {
	for i, m := range t.Models {
		found.If(t.ModelIndex(m.Name) < i, "model %q is listed twice", m.Name)
		found.If(m.Memory < 0 || m.Load < 0, "model %q takes %d bytes and %v to load; neither must be negative", m.Name, m.Memory, m.Load)
		found.If(m.Sleep < 0 || m.Wake < 0 || m.FirstAnswer < 0, "model %q takes %v to sleep, %v to wake and %v for its first answer; none must be negative", m.Name, m.Sleep, m.Wake, m.FirstAnswer)
	}
	amount := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) } // a NaN is none either
	for _, h := range t.Hosts {
		found.If(h.Memory < 0 || !amount(h.Compute) || !amount(h.Bandwidth), "host %q has memory %d, compute %v and bandwidth %v; each must be a number from 0 up", h.Name, h.Memory, h.Compute, h.Bandwidth)
	}
}

// ReplicasOf lists the replicas of a variant in table order. Read-only.
func (t *Table) ReplicasOf(variant int) []int { return t.byVariant[variant] }

// Places returns on how many hosts the variant has replicas. Of several on one host, such as engines at two shares of
// its memory or of two versions, one is up at a time as a rule.
func (t *Table) Places(variant int) (n int) {
	list := t.byVariant[variant]
	for k, i := range list {
		host := t.Replicas[i].Host
		if !slices.ContainsFunc(list[:k], func(j int) bool { return t.Replicas[j].Host == host }) {
			n++
		}
	}
	return n
}

// ReplicasOn lists the replicas on a host in table order. Read-only.
func (t *Table) ReplicasOn(host int) []int { return t.byHost[host] }

// ModelOf is the index of the model that the variant runs, or −1.
func (t *Table) ModelOf(variant int) int {
	if len(t.Models) == 0 {
		return -1
	}
	return t.Variants[variant].Model
}

// MemoryOf is what the replica takes on its host once loaded, in bytes; 0 if that is
// unknown, or counted with another replica of its engine.
func (t *Table) MemoryOf(replica int) int64 {
	r := &t.Replicas[replica]
	if t.FirstOf(replica) != replica {
		return 0
	}
	if m := t.ModelOf(r.Variant); r.Memory == 0 && m >= 0 {
		return t.Models[m].Memory
	}
	return r.Memory
}

// FirstOf is the first replica of the engine that the replica is of, which is itself unless
// several share one.
func (t *Table) FirstOf(replica int) int {
	worker := t.Replicas[replica].Worker
	if worker == 0 {
		return replica
	}
	for i := range replica {
		if t.Replicas[i].Worker == worker {
			return i
		}
	}
	return replica
}

// Answers reports whether the variant answers the task.
func (t *Table) Answers(task, variant int) bool { return t.Tasks[task].Without>>variant&1 == 0 }

// Reaches reports whether the variant answers the request's task, may answer the request and
// can hold it, and its answers have the quality that the request asks for at least.
func (t *Table) Reaches(r *Request, variant int) bool {
	if !t.Answers(r.Task, variant) {
		return false
	}
	if r.Variants != 0 && r.Variants>>variant&1 == 0 || r.Holding != 0 && r.Holding>>variant&1 == 0 {
		return false
	}
	return r.MinQuality <= 0 || t.Assured(r, variant) >= r.MinQuality
}

// Serves reports whether the replica can answer the request: where only one can, it is that.
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

// ModelIndex is the index of the named model, or −1.
func (t *Table) ModelIndex(name string) int {
	for i := range t.Models {
		if t.Models[i].Name == name {
			return i
		}
	}
	return -1
}

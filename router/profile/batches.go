package profile

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
)

// Batching is the cost model of an engine that runs one batch at a time, each to its
// end. What needs no more than that of a [Profile] takes it in place of one; *Profile
// implements it where it has [Batches].
type Batching interface {
	// Most is the largest batch of a kind of input.
	Most(kind int) int
	// Batch reports the time of a batch of n of a kind in milliseconds, n from 1 to Most,
	// and what of it loads the GPU, beside neighbours of so much duty in sum.
	Batch(kind, n int, neighbours float64) (ms, gpu float64)
}

// MaxBatch is the largest batch that [Batches] may list.
const MaxBatch = 4096

// Batches is the measured time of whole batches by their size and kind of input, each
// alone on its host: the cost model of classifiers, embedding models and others that
// answer a batch in one piece. It is read-only.
//
// Between the sizes that were measured, times are on the straight line between the two.
// An engine that pads a batch to the next larger size that it was compiled for takes
// that size's time; its table lists the first of each stretch too, as in
// {1: 5, 2: 8, 4: 8}. The largest size measured is the largest batch that runs: beyond
// it the time is not known, nor whether it fits the memory.
type Batches struct {
	kinds []string // sorted
	ms    [][]float64
}

// NewBatches makes a table of times in milliseconds by kind of input and batch size. It
// names every fault, as joined [BatchError].
func NewBatches(kinds map[string]map[int]float64) (*Batches, error) {
	if len(kinds) == 0 {
		return nil, errors.New("no kind of input has a time")
	}
	b := new(Batches)
	var faults []error
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		listed := kinds[kind]
		if err := checkTimes(kind, listed); err != nil {
			faults = append(faults, err)
			continue
		}
		b.kinds = append(b.kinds, kind)
		b.ms = append(b.ms, between(listed))
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return b, nil
}

// BatchError is a fault of a table of times.
type BatchError struct {
	Kind    string
	Size    int // of the batch at fault
	Message string
}

func (e *BatchError) Error() string {
	if e.Kind == "" {
		return fmt.Sprintf("batch %d: %s", e.Size, e.Message)
	}
	return fmt.Sprintf("kind %q, batch %d: %s", e.Kind, e.Size, e.Message)
}

// checkTimes names every fault of the times of a kind.
func checkTimes(kind string, listed map[int]float64) error {
	var faults []error
	fault := func(size int, format string, args ...any) {
		faults = append(faults, &BatchError{kind, size, fmt.Sprintf(format, args...)})
	}
	if _, ok := listed[1]; !ok {
		fault(1, "missing; want a time, since a request may be alone")
	}
	before := 0
	for _, size := range slices.Sorted(maps.Keys(listed)) {
		switch ms := listed[size]; {
		case size < 1 || size > MaxBatch:
			fault(size, "a batch is of 1 to %d requests", MaxBatch)
			continue
		case !(ms > 0) || math.IsInf(ms, 0) || Duration(ms) <= 0:
			fault(size, "a time is above 0 ms, not %v", ms)
			continue
		case before > 0 && ms < listed[before]:
			fault(size, "%v ms is less than the %v ms of a batch of %d; a larger batch takes no less", ms, listed[before], before)
		}
		before = size
	}
	return errors.Join(faults...)
}

// between fills in the times of the sizes that are not listed. The time of a batch of n
// is at index n−1.
func between(listed map[int]float64) []float64 {
	sizes := slices.Sorted(maps.Keys(listed))
	ms := make([]float64, 0, sizes[len(sizes)-1])
	for k, size := range sizes {
		for n := len(ms) + 1; n < size; n++ {
			low := sizes[k-1]
			share := float64(n-low) / float64(size-low)
			ms = append(ms, listed[low]+share*(listed[size]-listed[low]))
		}
		ms = append(ms, listed[size])
	}
	return ms
}

// Kinds are the names of the kinds of input, sorted. Their indexes are those that
// [Batching] takes.
func (b *Batches) Kinds() []string { return slices.Clone(b.kinds) }

// Kind is the index of a kind of input, or −1 if the table has no times of it. Where
// there is one kind without a name, it stands for all.
func (b *Batches) Kind(name string) int {
	if len(b.kinds) == 1 && b.kinds[0] == "" {
		return 0
	}
	return slices.Index(b.kinds, name)
}

// Most is the largest batch of a kind of input.
func (b *Batches) Most(kind int) int { return len(b.ms[kind]) }

// Time is the measured time of a batch of n of a kind, alone on its host, in
// milliseconds. One of none counts as one of 1, and a larger one than Most as that.
func (b *Batches) Time(kind, n int) float64 {
	ms := b.ms[kind]
	return ms[min(max(n, 1), len(ms))-1]
}

// scaled is a table with each time replaced.
func (b *Batches) scaled(by func(ms float64) float64) *Batches {
	c := &Batches{kinds: b.kinds, ms: make([][]float64, len(b.ms))}
	for k := range b.ms {
		for _, ms := range b.ms[k] {
			c.ms[k] = append(c.ms[k], by(ms))
		}
	}
	return c
}

// Most implements [Batching] for a profile with Batches.
func (p *Profile) Most(kind int) int { return p.Batches.Most(kind) }

// Batch implements [Batching] for a profile with Batches. All but the overhead loads the
// GPU and is slowed by neighbours.
func (p *Profile) Batch(kind, n int, neighbours float64) (ms, gpu float64) {
	gpu = max(0, p.Batches.Time(kind, n)-p.Overhead)
	ms = p.beside(gpu, n, neighbours)
	if p.Crowding > 0 {
		gpu *= p.Interference(neighbours)
	}
	return ms, gpu
}

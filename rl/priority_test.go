package rl

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// prioritised is a buffer of capacity 10 after n transitions that hold their number
// i, of which those still there have been learnt from with a TD error of i.
func prioritised(n int, exponent float64) *Replay {
	r := NewPrioritisedReplay(10, 2, false, exponent)
	for i := range n {
		r.Add(numbered(i))
	}
	for i := max(0, n-10); i < n; i++ {
		r.Reprioritise(&Batch{places: []int32{int32(i % 10)}, TDErrors: []float32{float32(i)}})
	}
	return r
}

func numbered(i int) Transition {
	f := float32(i)
	return Transition{Observation: []float32{f, -f}, Next: []float32{f, f}, Action: int32(i), Return: f, Weight: 1, Discount: 1}
}

// priority is what the paper calls p^α for a TD error.
func priority(tdError, exponent float64) float64 { return math.Pow(tdError+priorityFloor, exponent) }

// χ² of 20,000 batches of one over the 10 transitions kept: 9 degrees of freedom,
// 27.9 at p = 0.001.
func TestPrioritisedReplaySamplesByPriority(t *testing.T) {
	const draws = 20_000
	for _, exponent := range []float64{0.3, 0.6, 1} {
		r := prioritised(15, exponent)
		var total float64
		for i := 5; i < 15; i++ {
			total += priority(float64(i), exponent)
		}
		b, rng := NewBatch(1, 2), rand.New(rand.NewPCG(1, 1))
		var counts [15]float64
		for range draws {
			r.Sample(b, rng)
			counts[b.Actions[0]]++
		}
		var chi2 float64
		for i := 5; i < 15; i++ {
			want := draws * priority(float64(i), exponent) / total
			chi2 += (counts[i] - want) * (counts[i] - want) / want
		}
		if chi2 > 27.9 {
			t.Errorf("exponent %v: χ² = %.1f", exponent, chi2)
		}
	}
}

// A batch takes each transition as often as its probability says, to within the two
// strata at the ends of its mass.
func TestPrioritisedReplaySpreadsABatch(t *testing.T) {
	const n = 64
	r := prioritised(10, 1)
	var total float64
	for i := range 10 {
		total += priority(float64(i), 1)
	}
	b, rng := NewBatch(n, 2), rand.New(rand.NewPCG(1, 1))
	for range 100 {
		r.Sample(b, rng)
		var counts [10]float64
		for _, a := range b.Actions {
			counts[a]++
		}
		for i, c := range counts {
			if want := n * priority(float64(i), 1) / total; math.Abs(c-want) >= 2 {
				t.Fatalf("transition %d drawn %v times of %v", i, c, want)
			}
		}
	}
}

func TestImportanceWeights(t *testing.T) {
	const exponent, correction, kept = 0.6, 0.7, 8
	r := prioritised(kept, exponent)
	var total float64
	for i := range kept {
		total += priority(float64(i), exponent)
	}
	b := NewBatch(6, 2)
	b.Weights = make([]float32, 6)
	r.Sample(b, rand.New(rand.NewPCG(1, 1)))
	weight := func(a int32) float64 {
		return math.Pow(kept*priority(float64(a), exponent)/total, -correction)
	}
	var largest float64
	for _, a := range b.Actions {
		largest = max(largest, weight(a))
	}
	r.Weigh(b, correction)
	for i, a := range b.Actions {
		if want := weight(a) / largest; math.Abs(float64(b.Weights[i])-want) > 1e-6 {
			t.Errorf("transition %d has weight %v, not %v", a, b.Weights[i], want)
		}
	}
	if got := slices.Max(b.Weights); got != 1 {
		t.Errorf("the largest weight is %v", got)
	}
}

// New transitions, over old ones or not, are as likely as the likeliest so far, even
// where that one has since been overwritten.
func TestNewTransitionsGetTheHighestPriority(t *testing.T) {
	r := NewPrioritisedReplay(3, 2, false, 0.5)
	hold := func(want ...float64) {
		t.Helper()
		if got := r.priorities.masses(); !slices.Equal(got, want) {
			t.Fatalf("masses %v, not %v", got, want)
		}
	}
	r.Add(numbered(0))
	r.Add(numbered(1))
	hold(1, 1, 0)
	high, low := priority(8, 0.5), priority(0, 0.5)
	r.Reprioritise(&Batch{places: []int32{0, 1}, TDErrors: []float32{8, 0}})
	hold(high, low, 0)
	r.Add(numbered(2))
	r.Reprioritise(&Batch{places: []int32{0}, TDErrors: []float32{0}})
	hold(low, low, high)
	r.Add(numbered(3))
	hold(high, low, high)
	r.Reprioritise(&Batch{places: []int32{2}, TDErrors: []float32{0}})
	r.Add(numbered(4))
	r.Add(numbered(5))
	hold(high, high, high)
}

// Random additions and TD errors over buffers of many capacities, against a plain
// list: nothing but what is there is drawn, and the sums of the tree are right.
func TestSumTreeAgainstModel(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		capacity := 1 + rng.IntN(20)
		r, b := NewPrioritisedReplay(capacity, 2, false, 1), NewBatch(5, 2)
		model := make([]float64, capacity)
		largest := 1.0
		for i := range 100 {
			model[i%capacity] = largest
			r.Add(numbered(i))
			r.Sample(b, rng)
			for k, place := range b.places {
				if int(place) >= r.Len() || int(b.Actions[k])%capacity != int(place) {
					t.Fatalf("seed %d: place %d of %d drawn, holding transition %d", seed, place, r.Len(), b.Actions[k])
				}
				b.TDErrors[k] = 2 * rng.Float32()
				model[place] = priority(float64(b.TDErrors[k]), 1)
				largest = max(largest, model[place])
			}
			r.Reprioritise(b)
			if k := r.priorities.find(r.priorities.tree[1] * (1 + 1e-15)); k >= r.Len() {
				t.Fatalf("seed %d: place %d of %d found past the end of the masses", seed, k, r.Len())
			}
			var total float64
			for _, m := range model {
				total += m
			}
			if got := r.priorities.tree[1]; !slices.Equal(r.priorities.masses(), model) || math.Abs(got-total) > 1e-12*total {
				t.Fatalf("seed %d: masses %v of sum %v, not %v of %v", seed, r.priorities.masses(), got, model, total)
			}
		}
	}
}

func TestPrioritisedReplayEncoding(t *testing.T) {
	for _, n := range []int{0, 4, 10, 13} {
		r := prioritised(n, 0.5)
		data, err := r.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		decoded := prioritised(27, 0.5)
		if err := decoded.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(decoded.priorities.tree, r.priorities.tree) {
			t.Errorf("%d transitions: the decoded buffer has other priorities", n)
		}
		r.Add(numbered(50))
		decoded.Add(numbered(50))
		a, _ := r.MarshalBinary()
		b, _ := decoded.MarshalBinary()
		if !bytes.Equal(a, b) {
			t.Errorf("%d transitions: the decoded buffer differs", n)
		}
	}
}

func TestDamagedPrioritiesAreRefused(t *testing.T) {
	r := prioritised(4, 0.5)
	good, _ := r.MarshalBinary()
	uniform, _ := filled(4).MarshalBinary()
	if filled(4).UnmarshalBinary(good) == nil || r.UnmarshalBinary(uniform) == nil {
		t.Error("priorities are taken where there are none to be, or missed")
	}
	// The encoding ends with the largest mass so far and those of the transitions.
	largest, last := len(good)-8*(1+4), len(good)-8
	damaged := map[string][]byte{"cut short": good[:last]}
	for _, v := range []float64{0, -1, 3, math.Inf(1), math.NaN()} {
		damaged[fmt.Sprint("mass of ", v)] = slices.Concat(good[:last], encodedFloat(v))
	}
	for _, v := range []float64{0.5, 2 * math.MaxFloat32, math.Inf(1), math.NaN()} {
		damaged[fmt.Sprint("largest of ", v)] = slices.Concat(good[:largest], encodedFloat(v), good[largest+8:])
	}
	for name, data := range damaged {
		if r.UnmarshalBinary(data) == nil {
			t.Errorf("%s: accepted", name)
		}
		if after, _ := r.MarshalBinary(); !bytes.Equal(after, good) {
			t.Fatalf("%s: the buffer changed", name)
		}
	}
}

func encodedFloat(v float64) []byte {
	return binary.LittleEndian.AppendUint64(nil, math.Float64bits(v))
}

func TestPrioritisedReplayDoesNotAllocate(t *testing.T) {
	r, b, rng := prioritised(13, 0.6), NewBatch(16, 2), rand.New(rand.NewPCG(1, 1))
	b.Weights = make([]float32, 16)
	x := numbered(1)
	if n := testing.AllocsPerRun(10, func() {
		r.Add(x)
		r.Sample(b, rng)
		r.Weigh(b, 0.4)
		r.Reprioritise(b)
	}); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// go test -run '^$' -bench Replay ./rl
func BenchmarkReplay(b *testing.B) {
	const inputs, batch = 30, 256
	for _, capacity := range []int{10_000, 300_000} {
		for name, r := range map[string]*Replay{
			"uniform":     NewReplay(capacity, inputs, true),
			"prioritised": NewPrioritisedReplay(capacity, inputs, true, 0.6),
		} {
			b.Run(fmt.Sprintf("%s/%d", name, capacity), func(b *testing.B) {
				minibatch, rng := NewBatch(batch, inputs), rand.New(rand.NewPCG(1, 1))
				minibatch.Weights = make([]float32, batch)
				x := make([]float32, inputs)
				for range capacity {
					r.Add(Transition{Observation: x, Next: x})
				}
				for i := range minibatch.TDErrors {
					minibatch.TDErrors[i] = rng.Float32()
				}
				b.ReportAllocs()
				for b.Loop() {
					r.Sample(minibatch, rng)
					if r.priorities != nil {
						r.Weigh(minibatch, 0.4)
						r.Reprioritise(minibatch)
					}
				}
			})
		}
	}
}

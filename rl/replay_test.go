package rl

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/nn"
)

// filled is a buffer of capacity 10 after n transitions that hold their number.
func filled(n int) *Replay {
	r := NewReplay(10, 2, false)
	for i := range n {
		f := float32(i)
		r.Add([]float32{f, -f}, int32(i), Completion{Utility: 2 * float64(f), Stratum: i}, 3*f, []float32{f + 0.5, -f - 0.5})
	}
	return r
}

func TestReplayKeepsTheLatest(t *testing.T) {
	for _, n := range []int{1, 9, 10, 11, 27} {
		r := filled(n)
		if r.Len() != min(n, 10) {
			t.Fatalf("%d of %d kept", r.Len(), n)
		}
		b := NewBatch(400, 2)
		r.Sample(b, rand.New(rand.NewPCG(1, 1)))
		seen := map[int32]bool{}
		for i, a := range b.Actions {
			f := float32(a)
			seen[a] = true
			if int(a) < n-10 || int(a) >= n {
				t.Fatalf("transition %d of %d is still there", a, n)
			}
			if !slices.Equal(b.Observations[2*i:2*i+2], []float32{f, -f}) || !slices.Equal(b.Next[2*i:2*i+2], []float32{f + 0.5, -f - 0.5}) ||
				b.Rewards[i] != 2*f || b.Discounts[i] != 3*f {
				t.Fatalf("transition %d is mixed up", a)
			}
		}
		if len(seen) != r.Len() {
			t.Errorf("%d of %d transitions drawn", len(seen), r.Len())
		}
	}
}

// Centred rewards are what a transition earned beyond the mean of its stratum,
// as that mean is when they are drawn.
func TestReplayCentresByStratum(t *testing.T) {
	r := NewReplay(100, 1, true)
	for i := range 60 {
		r.Add([]float32{1}, int32(i), Completion{Utility: float64(10*(i%3) + i%2), Stratum: i % 3}, 1, []float32{1})
	}
	b := NewBatch(50, 1)
	r.Sample(b, rand.New(rand.NewPCG(1, 1)))
	for i, a := range b.Actions {
		if want := float32(a%2) - 0.5; b.Rewards[i] != want {
			t.Errorf("transition %d of stratum %d has reward %v, want %v", a, a%3, b.Rewards[i], want)
		}
	}
	data, _ := r.MarshalBinary()
	decoded := NewReplay(100, 1, true)
	if err := decoded.UnmarshalBinary(data); err != nil {
		t.Fatal(err)
	}
	if decoded.means != r.means {
		t.Error("the decoded buffer has other means")
	}
}

// χ² of 100,000 draws over 10 transitions: 9 degrees of freedom, 27.9 at p = 0.001.
func TestReplaySamplesUniformly(t *testing.T) {
	r := filled(15)
	b := NewBatch(1000, 2)
	rng := rand.New(rand.NewPCG(1, 2))
	var counts [15]float64
	for range 100 {
		r.Sample(b, rng)
		for _, a := range b.Actions {
			counts[a]++
		}
	}
	var chi2 float64
	for _, c := range counts[5:] {
		chi2 += (c - 10000) * (c - 10000) / 10000
	}
	if chi2 > 27.9 {
		t.Errorf("χ² = %.1f", chi2)
	}
}

func TestReplayEncoding(t *testing.T) {
	for _, n := range []int{0, 4, 10, 13} {
		r := filled(n)
		data, err := r.MarshalBinary()
		if err != nil || len(data) != r.encodedSize() {
			t.Fatalf("%d bytes, error %v", len(data), err)
		}
		decoded := filled(7)
		if err := decoded.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		r.Add([]float32{1, 2}, 3, Completion{Utility: 4}, 5, []float32{6, 7})
		decoded.Add([]float32{1, 2}, 3, Completion{Utility: 4}, 5, []float32{6, 7})
		a, _ := r.MarshalBinary()
		b, _ := decoded.MarshalBinary()
		if !bytes.Equal(a, b) {
			t.Errorf("%d transitions: the decoded buffer differs", n)
		}
	}
	data, _ := filled(4).MarshalBinary()
	if NewReplay(11, 2, false).UnmarshalBinary(data) == nil || NewReplay(10, 3, false).UnmarshalBinary(data) == nil {
		t.Error("a buffer of another shape is accepted")
	}
}

func FuzzReplayUnmarshal(f *testing.F) {
	for _, n := range []int{0, 4, 13} {
		data, _ := filled(n).MarshalBinary()
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		r := filled(3)
		before, _ := r.MarshalBinary()
		if r.UnmarshalBinary(data) != nil {
			if after, _ := r.MarshalBinary(); !bytes.Equal(before, after) {
				t.Fatal("a failed decoding changed the buffer")
			}
			return
		}
		if again, _ := r.MarshalBinary(); !bytes.Equal(again, data) {
			t.Fatal("decoding and encoding changes the bytes")
		}
		r.Add([]float32{1, 2}, 3, Completion{Utility: 4}, 5, []float32{6, 7})
	})
}

func FuzzProgressUnmarshal(f *testing.F) {
	p := Progress{
		Decisions: 1, GradientSteps: 2, Episode: 3, Actions: []int32{4, 5}, BestScore: math.Pi,
		Exploration: []byte{6}, Replay: []byte{7, 8}, Utility: Average{Mean: 9, Count: 10},
	}
	data, _ := p.MarshalBinary()
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(append(slices.Clone(data), 0))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Progress
		if p.UnmarshalBinary(data) != nil {
			if p.Decisions != 0 || p.Actions != nil || p.Replay != nil {
				t.Fatal("a failed decoding changed the progress")
			}
			return
		}
		if again, _ := p.MarshalBinary(); !bytes.Equal(again, data) {
			t.Fatal("decoding and encoding changes the bytes")
		}
	})
}

func TestReplayAndJoinerDoNotAllocate(t *testing.T) {
	r := NewReplay(100, 2, false)
	j := newJoiner(2)
	x, b, rng := []float32{1, 2}, NewBatch(16, 2), rand.New(rand.NewPCG(1, 1))
	episode := func() {
		j.reset()
		for i := range 200 {
			j.begin(x, 1)
			j.end(x, 1)
			if i >= 50 {
				if err := j.complete(Completion{Decision: i - 50, Utility: 1}, r); err != nil {
					t.Fatal(err)
				}
			}
		}
		r.Sample(b, rng)
	}
	episode()
	if n := testing.AllocsPerRun(10, episode); n != 0 {
		t.Errorf("%v allocations an episode", n)
	}
}

// Random completions in random order, against a plain list of transitions.
func TestJoinerAgainstModel(t *testing.T) {
	type transition struct{ observation, next, reward, discount float32 }
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		replay, j := NewReplay(5000, 1, false), newJoiner(1)
		var want []transition
		for range 5 {
			j.reset()
			held := map[int]transition{}
			for d := range 200 {
				m := transition{observation: rng.Float32(), next: rng.Float32(), discount: rng.Float32()}
				j.begin([]float32{m.observation}, int32(d))
				j.end([]float32{m.next}, m.discount)
				held[d] = m
				for at := range d + 1 {
					m, ok := held[at]
					if !ok || rng.IntN(20) > 0 {
						continue
					}
					utility := rng.Float64()
					m.reward = float32(utility)
					if err := j.complete(Completion{Decision: at, Utility: utility}, replay); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					want = append(want, m)
					delete(held, at)
				}
			}
		}
		if replay.Len() != len(want) {
			t.Fatalf("seed %d: %d transitions stored, not %d", seed, replay.Len(), len(want))
		}
		for i, m := range want {
			got := transition{replay.observations[i], replay.following[i], replay.utilities[i], replay.discounts[i]}
			if got != m {
				t.Fatalf("seed %d: transition %d is %v, not %v", seed, i, got, m)
			}
		}
	}
}

// onePlace is an environment of one observation whose second decision ends the
// episode, in termination or in truncation.
type onePlace struct {
	terminates bool
	decisions  int
}

func (e *onePlace) Reset(uint64) []float32 {
	e.decisions = 0
	return []float32{1}
}

func (e *onePlace) Step(int) Step {
	c := []Completion{{Decision: e.decisions, Utility: 1}}
	e.decisions++
	over := e.decisions == 2
	return Step{Observation: []float32{1}, Elapsed: 3 * time.Second, Completed: c,
		Terminated: over && e.terminates, Truncated: over && !e.terminates}
}

func TestTruncationBootstrapsTerminationDoesNot(t *testing.T) {
	factor := float32(math.Exp(-3.0 / 15))
	for terminates, want := range map[bool][]float32{true: {factor, 0}, false: {factor, factor}} {
		tr := &trainer{
			run:    Run{Config: Config{Discount: Discount{TimeConstant: 15}}, Env: &onePlace{terminates: terminates}, EpisodeSeed: func(k uint64) uint64 { return k }, Learner: oneInput{}},
			replay: NewReplay(10, 1, false),
			joiner: newJoiner(1),
		}
		if err := tr.reset(); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := tr.store(tr.step(0), tr.replay); err != nil {
				t.Fatal(err)
			}
		}
		if got := tr.replay.discounts[:2]; !slices.Equal(got, want) {
			t.Errorf("terminates %v: discounts %v, not %v", terminates, got, want)
		}
	}
}

// oneInput is a learner of which only the network's shape is asked.
type oneInput struct{ Learner }

func (oneInput) Act() *nn.MLP {
	m, _ := nn.New(1, 1)
	return m
}

package rl

import (
	"bytes"
	"crypto/sha256"
	"fmt"
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
		r.Note(Completion{Utility: 2 * float64(f), Stratum: i})
		r.Add(Transition{
			Observation: []float32{f, -f}, Next: []float32{f + 0.5, -f - 0.5}, Action: int32(i),
			Return: 2 * f, Weight: 1, Stratum: i, Discount: 3 * f,
		})
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
		utility := 10*(i%3) + i%2
		r.Note(Completion{Utility: float64(utility), Stratum: i % 3})
		// A return of weight 2 earned all of its utility twice.
		weight := 1 + i%2
		r.Add(Transition{
			Observation: []float32{1}, Next: []float32{1}, Action: int32(i),
			Return: float32(weight * utility), Weight: float32(weight), Stratum: i % 3, Discount: 1,
		})
	}
	b := NewBatch(50, 1)
	r.Sample(b, rand.New(rand.NewPCG(1, 1)))
	for i, a := range b.Actions {
		if want := float32(1+a%2) * (float32(a%2) - 0.5); b.Rewards[i] != want {
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
		if err != nil {
			t.Fatal(err)
		}
		decoded := filled(7)
		if err := decoded.UnmarshalBinary(data); err != nil {
			t.Fatal(err)
		}
		r.Add(Transition{Observation: []float32{1, 2}, Next: []float32{6, 7}, Action: 3, Return: 4, Weight: 1, Discount: 5})
		decoded.Add(Transition{Observation: []float32{1, 2}, Next: []float32{6, 7}, Action: 3, Return: 4, Weight: 1, Discount: 5})
		a, _ := r.MarshalBinary()
		b, _ := decoded.MarshalBinary()
		if !bytes.Equal(a, b) {
			t.Errorf("%d transitions: the decoded buffer differs", n)
		}
	}
	data, _ := filled(4).MarshalBinary()
	if got := fmt.Sprintf("%x", sha256.Sum256(data)); got != "02af3fbb79eb156e1b1b97a795d8132aa8f7d498f82ae3ba6f30b8e9e70f3723" {
		t.Errorf("the encoding is another, %s: trainings that were interrupted cannot go on", got)
	}
	if NewReplay(11, 2, false).UnmarshalBinary(data) == nil || NewReplay(10, 3, false).UnmarshalBinary(data) == nil {
		t.Error("a buffer of another shape is accepted")
	}
}

func FuzzReplayUnmarshal(f *testing.F) {
	for _, n := range []int{0, 4, 13} {
		data, _ := filled(n).MarshalBinary()
		f.Add(data, false)
		f.Add(data[:len(data)/2], false)
		data, _ = prioritised(n, 0.5).MarshalBinary()
		f.Add(data, true)
	}
	f.Fuzz(func(t *testing.T, data []byte, byPriority bool) {
		r := filled(3)
		if byPriority {
			r = prioritised(3, 0.5)
		}
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
		r.Add(Transition{Observation: []float32{1, 2}, Next: []float32{6, 7}, Action: 3, Return: 4, Weight: 1, Discount: 5})
	})
}

func FuzzProgressUnmarshal(f *testing.F) {
	p := Progress{
		Decisions: 1, GradientSteps: 2, Episodes: []Episode{{3, []int32{4, 5}}}, BestScore: math.Pi,
		Exploration: []byte{6}, Replay: []byte{7, 8}, Utility: Average{Mean: 9, Count: 10},
	}
	data, _ := p.MarshalBinary()
	f.Add(data)
	f.Add(data[:len(data)-1])
	f.Add(append(slices.Clone(data), 0))
	p.Episodes = append(p.Episodes, Episode{Number: 5}, Episode{4, []int32{0}})
	data, _ = p.MarshalBinary()
	f.Add(data)
	f.Add(data[:len(data)-4])
	f.Fuzz(func(t *testing.T, data []byte) {
		var p Progress
		if p.UnmarshalBinary(data) != nil {
			if p.Decisions != 0 || p.Episodes != nil || p.Replay != nil {
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
	j := newJoiner(2, 3, 0)
	x, b, rng := []float32{1, 2}, NewBatch(16, 2), rand.New(rand.NewPCG(1, 1))
	episode := func() {
		j.reset()
		for i := range 200 {
			j.begin(x, 1)
			j.end(x, 1, false)
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

// Random completions in random order, against returns summed naively once the
// episode is over.
func TestJoinerAgainstModel(t *testing.T) {
	const length = 200
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 1))
		n, least := 1+rng.IntN(6), float32(rng.IntN(2))*rng.Float32()
		replay, j := NewReplay(5*length, 1, false), newJoiner(1, n, float64(least))
		for range 5 {
			j.reset()
			var want []Transition
			var utilities, discounts []float32
			var strata []int
			var open []int
			stratum := 0
			for d := range length {
				if rng.IntN(10) == 0 {
					stratum = rng.IntN(3)
				}
				utilities, strata = append(utilities, rng.Float32()), append(strata, stratum)
				discounts = append(discounts, rng.Float32()*float32(min(1, length-1-d))) // it terminates
				open = append(open, d)
				j.begin([]float32{float32(d)}, int32(d))
				j.end([]float32{float32(d + 1)}, discounts[d], d == length-1)
				for len(open) > 0 && (d == length-1 || rng.IntN(4) > 0) {
					k := rng.IntN(len(open))
					c := Completion{Decision: open[k], Utility: float64(utilities[open[k]]), Stratum: strata[open[k]]}
					if err := j.complete(c, replay); err != nil {
						t.Fatalf("seed %d: %v", seed, err)
					}
					open = slices.Delete(open, k, k+1)
				}
			}
			for d := range length {
				m := Transition{Action: int32(d), Discount: 1}
				k := d
				for ; k < min(d+n, length) && strata[k] == strata[d] && m.Discount > least; k++ {
					m.Return += m.Discount * utilities[k]
					m.Weight += m.Discount
					m.Discount *= discounts[k]
				}
				m.Next = []float32{float32(k)}
				want = append(want, m)
			}
			holdTransitions(t, replay, want)
			replay.length, replay.next = 0, 0
		}
	}
}

func holdTransitions(t *testing.T, replay *Replay, want []Transition) {
	t.Helper()
	if replay.Len() != len(want) {
		t.Fatalf("%d transitions stored, not %d", replay.Len(), len(want))
	}
	for i := range want {
		row, f := replay.row(i), replay.facts[i]
		d := int(row[0])
		m := want[d]
		if f.action != m.Action || row[1] != m.Next[0] && m.Discount != 0 ||
			f.utility != m.Return || f.weight != m.Weight || f.discount != m.Discount {
			t.Fatalf("decision %d: %+v, next %v; want %+v", d, f, row[1], m)
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
			run:    Run{Config: Config{Discount: Discount{TimeConstant: 15}}, EpisodeSeed: func(k uint64) uint64 { return k }, Learner: oneInput{}},
			replay: NewReplay(10, 1, false),
		}
		w := &environment{env: &onePlace{terminates: terminates}, joiner: newJoiner(1, 1, 0)}
		if err := tr.nextEpisode(w); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			tr.take(w, 0)
			w.step()
			if err := tr.store(w, tr.replay); err != nil {
				t.Fatal(err)
			}
		}
		if got := []float32{tr.replay.facts[0].discount, tr.replay.facts[1].discount}; !slices.Equal(got, want) {
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

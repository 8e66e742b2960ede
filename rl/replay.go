package rl

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
)

// Replay keeps the latest transitions, and draws from them with replacement,
// uniformly or, if it is prioritised, by their TD errors. If it centres rewards, it
// keeps the mean utility of each stratum too, and subtracts the present one from
// what it draws. All its memory is allocated at the start.
type Replay struct {
	inputs   int
	capacity int
	length   int
	next     int // where the next transition goes

	rows  []float32 // (capacity, 2·inputs): an observation, and the next
	facts []facts

	fetched float32 // keeps fetch from being optimised away

	centred bool
	means   [Strata]Average // of the utilities, over about centreWindow of them

	priorities *priorities // of the transitions; nil: they are drawn uniformly
}

// facts are the numbers of a transition without its observations.
type facts struct {
	action          int32
	utility, weight float32
	stratum         int32
	discount        float32
}

const factWords = 5

// words encode the facts, each in 32 bits.
func (f facts) words() [factWords]uint32 {
	return [...]uint32{
		uint32(f.action), math.Float32bits(f.utility), math.Float32bits(f.weight), uint32(f.stratum), math.Float32bits(f.discount),
	}
}

func factsOf(w [factWords]uint32) facts {
	return facts{int32(w[0]), math.Float32frombits(w[1]), math.Float32frombits(w[2]), int32(w[3]), math.Float32frombits(w[4])}
}

// centreWindow is how many of its latest utilities a stratum's mean follows.
const centreWindow = 5000

// NewReplay makes an empty buffer for capacity transitions between observations
// of the given length, centring rewards or not.
func NewReplay(capacity, inputs int, centred bool) *Replay {
	return &Replay{
		inputs:   inputs,
		capacity: capacity,
		rows:     make([]float32, capacity*2*inputs),
		facts:    make([]facts, capacity),
		centred:  centred,
	}
}

// NewPrioritisedReplay is NewReplay for a buffer that draws transitions by their
// TD errors to the power of exponent; see [Priority].
func NewPrioritisedReplay(capacity, inputs int, centred bool, exponent float64) *Replay {
	r := NewReplay(capacity, inputs, centred)
	r.priorities = newPriorities(capacity, exponent)
	return r
}

// Len is the number of transitions kept.
func (r *Replay) Len() int { return r.length }

// Transition is what replay keeps of a decision. Its return is the discounted
// sum of the utilities of one decision or more, Weight the sum of their
// discounts, Discount that of the next observation's value.
type Transition struct {
	Observation, Next []float32
	Action            int32
	Return, Weight    float32
	Stratum           int
	Discount          float32
}

// Note counts a utility towards the mean of its stratum.
func (r *Replay) Note(c Completion) { r.means[c.Stratum].add(c.Utility, centreWindow) }

// Add copies a transition in, over the oldest if the buffer is full.
func (r *Replay) Add(t Transition) {
	at := r.next
	row := r.row(at)
	copy(row[:r.inputs], t.Observation)
	copy(row[r.inputs:], t.Next)
	r.facts[at] = facts{t.Action, t.Return, t.Weight, int32(t.Stratum), t.Discount}
	if r.priorities != nil {
		r.priorities.add(at)
	}
	r.next = (at + 1) % r.capacity
	r.length = min(r.length+1, r.capacity)
}

// row holds both observations of the k-th transition.
func (r *Replay) row(k int) []float32 { return r.rows[k*2*r.inputs : (k+1)*2*r.inputs] }

// Sample fills b, except its weights, with transitions drawn by rng. The buffer must not be
// empty.
func (r *Replay) Sample(b *Batch, rng *rand.Rand) {
	n := r.inputs
	for i := range b.places {
		b.places[i] = int32(r.draw(i, len(b.places), rng))
	}
	r.fetch(b.places)
	for i, k := range b.places {
		row, f := r.row(int(k)), &r.facts[k]
		copy(b.Observations[i*n:(i+1)*n], row[:n])
		copy(b.Next[i*n:(i+1)*n], row[n:])
		b.Actions[i], b.Rewards[i], b.Discounts[i] = f.action, r.reward(f), f.discount
	}
}

// fetch reads a number of each cache line that holds the transitions. They lie anywhere in
// tens of megabytes: copied one by one, each copy waits for memory, while independent reads
// overlap.
func (r *Replay) fetch(places []int32) {
	const line = 16 // numbers
	var sum float32
	for _, k := range places {
		row := r.row(int(k))
		for j := 0; j < len(row); j += line {
			sum += row[j]
		}
		sum += row[len(row)-1] + r.facts[k].utility
	}
	r.fetched = sum
}

// draw picks the place of the i-th transition of a batch of n.
func (r *Replay) draw(i, n int, rng *rand.Rand) int {
	if r.priorities == nil {
		return rng.IntN(r.length)
	}
	return r.priorities.draw(i, n, rng)
}

// Weigh fills in the weights of a batch that Sample has just drawn from a
// prioritised buffer: those of importance sampling, to the power of correction, of
// which the batch's largest is 1.
func (r *Replay) Weigh(b *Batch, correction float64) {
	r.priorities.weigh(b.Weights, b.places, correction)
}

// Reprioritise gives the transitions of a batch, drawn from a prioritised buffer
// that has got no others since, the priorities of their TD errors.
func (r *Replay) Reprioritise(b *Batch) {
	for i, k := range b.places {
		r.priorities.learnt(int(k), b.TDErrors[i])
	}
}

// reward is a transition's utility, centred or not.
func (r *Replay) reward(f *facts) float32 {
	if !r.centred {
		return f.utility
	}
	return f.utility - f.weight*float32(r.means[f.stratum].Mean)
}

// replayHeader is the encoding's length before the transitions.
const replayHeader = 4*8 + Strata*16

// MarshalBinary encodes, little-endian, the inputs, capacity, length and
// position (64-bit), the means of the strata (64-bit each, and a count), then
// the transitions kept, field by field, and their priorities if there are any.
func (r *Replay) MarshalBinary() ([]byte, error) { return r.AppendBinary(nil) }

// AppendBinary appends what MarshalBinary returns.
func (r *Replay) AppendBinary(out []byte) ([]byte, error) {
	for _, v := range []int{r.inputs, r.capacity, r.length, r.next} {
		out = binary.LittleEndian.AppendUint64(out, uint64(v))
	}
	for _, m := range r.means {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(m.Mean))
		out = binary.LittleEndian.AppendUint64(out, m.Count)
	}
	for k := range r.length {
		out = appendFloats(out, r.row(k)[:r.inputs])
	}
	for k := range r.length {
		out = appendFloats(out, r.row(k)[r.inputs:])
	}
	for i := range factWords {
		for k := range r.facts[:r.length] {
			out = binary.LittleEndian.AppendUint32(out, r.facts[k].words()[i])
		}
	}
	if r.priorities != nil {
		out = r.priorities.appendBinary(out, r.length)
	}
	return out, nil
}

// contentSize is the encoded length of n transitions, with their priorities.
func (r *Replay) contentSize(n int) int {
	size := n * r.transitionSize()
	if r.priorities != nil {
		size += r.priorities.encodedSize(n)
	}
	return size
}

// transitionSize is the encoded length of one transition without its priority.
func (r *Replay) transitionSize() int { return 4 * (2*r.inputs + factWords) }

// UnmarshalBinary restores what MarshalBinary wrote, from a buffer of the same
// capacity and observation length, prioritised or not as r is. On error r is
// unchanged.
func (r *Replay) UnmarshalBinary(data []byte) error {
	if len(data) < replayHeader {
		return errors.New("cannot decode replay buffer: it is cut short")
	}
	var h [4]uint64
	for i := range h {
		h[i] = binary.LittleEndian.Uint64(data[8*i:])
	}
	if h[0] != uint64(r.inputs) || h[1] != uint64(r.capacity) {
		return fmt.Errorf("cannot decode replay buffer: it is of %d transitions of %d inputs, not %d of %d", h[1], h[0], r.capacity, r.inputs)
	}
	full := h[2] == uint64(r.capacity)
	if h[2] > uint64(r.capacity) || h[3] >= uint64(r.capacity) || (!full && h[3] != h[2]) {
		return errors.New("cannot decode replay buffer: its position is out of range")
	}
	length := int(h[2])
	means := data[4*8 : replayHeader]
	data = data[replayHeader:]
	if want := r.contentSize(length); len(data) != want {
		return fmt.Errorf("cannot decode replay buffer: %d bytes of transitions, %d expected", len(data), want)
	}
	if !validStrata(data[length*4*(2*r.inputs+3):][:4*length]) {
		return errors.New("cannot decode replay buffer: a stratum is out of range")
	}
	if r.priorities != nil {
		masses := data[length*r.transitionSize():]
		if err := r.priorities.check(masses); err != nil {
			return err
		}
		r.priorities.restore(masses)
	}
	r.length, r.next = length, int(h[3])
	for k := range length {
		data = readFloats(r.row(k)[:r.inputs], data)
	}
	for k := range length {
		data = readFloats(r.row(k)[r.inputs:], data)
	}
	r.readFacts(data)
	for i := range r.means {
		r.means[i].Mean = readFloat64(means[16*i:])
		r.means[i].Count = binary.LittleEndian.Uint64(means[16*i+8:])
	}
	return nil
}

// readFacts reads the facts of all transitions, which are encoded field by field.
func (r *Replay) readFacts(data []byte) {
	for k := range r.length {
		var w [factWords]uint32
		for i := range w {
			w[i] = binary.LittleEndian.Uint32(data[4*(i*r.length+k):])
		}
		r.facts[k] = factsOf(w)
	}
}

func appendFloats(out []byte, v []float32) []byte {
	for _, f := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(f))
	}
	return out
}

// validStrata reports whether all of the encoded strata are in range.
func validStrata(data []byte) bool {
	for ; len(data) > 0; data = data[4:] {
		if binary.LittleEndian.Uint32(data) >= Strata {
			return false
		}
	}
	return true
}

func appendInts(out []byte, v []int32) []byte {
	for _, n := range v {
		out = binary.LittleEndian.AppendUint32(out, uint32(n))
	}
	return out
}

func readInts(dst []int32, data []byte) []byte {
	for i := range dst {
		dst[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return data[4*len(dst):]
}

func readFloats(dst []float32, data []byte) []byte {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return data[4*len(dst):]
}

func readFloat64(data []byte) float64 {
	return math.Float64frombits(binary.LittleEndian.Uint64(data))
}

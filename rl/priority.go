package rl

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
)

// priorityFloor, in utility, is added to each absolute TD error, so that a
// transition that was foretold exactly is still drawn again.
const priorityFloor = 1e-3

// priorities draws places of a replay buffer with probabilities proportional to
// their masses: p^α, where p is the absolute TD error of the transition there when
// it was last learnt from. They lie in a sum tree, so that drawing a place and
// changing its mass take time logarithmic in the capacity, and no memory. Every
// inner node is computed from its children alone: the tree follows from the
// masses, whatever their history.
type priorities struct {
	exponent float64 // α
	// largest mass so far, which new transitions get: each is soon learnt from.
	largest float64
	tree    []float64 // the root is node 1, node i's children 2i and 2i+1; the leaves are the last half
}

// newPriorities is of a buffer without transitions.
func newPriorities(capacity int, exponent float64) *priorities {
	return &priorities{exponent: exponent, largest: 1, tree: make([]float64, 2*capacity)}
}

// masses are the leaves of the tree, by place; 0 where there is no transition yet.
func (p *priorities) masses() []float64 { return p.tree[len(p.tree)/2:] }

// set changes the mass of a place.
func (p *priorities) set(place int, mass float64) {
	i := len(p.tree)/2 + place
	p.tree[i] = mass
	for i /= 2; i > 0; i /= 2 {
		p.tree[i] = p.tree[2*i] + p.tree[2*i+1]
	}
}

// add gives a place's new transition its mass.
func (p *priorities) add(place int) { p.set(place, p.largest) }

// learnt sets a place's mass by the absolute TD error of its transition.
func (p *priorities) learnt(place int, tdError float32) {
	mass := math.Pow(float64(tdError)+priorityFloor, p.exponent)
	p.largest = max(p.largest, mass)
	p.set(place, mass)
}

// draw picks the i-th place of a batch of n: one from each n-th of the whole mass,
// which spreads a batch better than independent draws do (Schaul et al. 2016, 3.3).
func (p *priorities) draw(i, n int, rng *rand.Rand) int {
	return p.find((float64(i) + rng.Float64()) / float64(n) * p.tree[1])
}

// find is the place at which the masses, added up in the order of the tree, exceed
// sum. Rounding may bring sum above them all; it never leads to a place of no mass.
func (p *priorities) find(sum float64) int {
	capacity := len(p.tree) / 2
	i := 1
	for i < capacity {
		i *= 2
		if left := p.tree[i]; sum >= left && p.tree[i+1] > 0 {
			sum -= left
			i++
		}
	}
	return i - capacity
}

// weigh fills in the weights that correct for drawing the places unevenly,
// (N·P)^−β by the probability P of each of N transitions, over the largest of the
// batch, so that they only ever lessen a step. N and the sum of all masses cancel.
func (p *priorities) weigh(weights []float32, places []int32, correction float64) {
	masses := p.masses()
	least := math.Inf(1)
	for _, k := range places {
		least = min(least, masses[k])
	}
	for i, k := range places {
		weights[i] = float32(math.Pow(least/masses[k], correction))
	}
}

// encodedSize is the length of the encoding of n masses.
func (p *priorities) encodedSize(n int) int { return 8 * (1 + n) }

// appendBinary appends the largest mass so far and the first n masses (64-bit floats).
func (p *priorities) appendBinary(out []byte, n int) []byte {
	out = binary.LittleEndian.AppendUint64(out, math.Float64bits(p.largest))
	for _, m := range p.masses()[:n] {
		out = binary.LittleEndian.AppendUint64(out, math.Float64bits(m))
	}
	return out
}

// check refuses an encoding of masses that cannot have come about: a TD error is a
// 32-bit float, and α at most 1.
func (p *priorities) check(data []byte) error {
	largest := readFloat64(data)
	valid := largest >= 1 && largest <= math.MaxFloat32
	for data = data[8:]; len(data) > 0; data = data[8:] {
		m := readFloat64(data)
		valid = valid && m > 0 && m <= largest
	}
	if !valid {
		return errors.New("cannot decode replay buffer: a priority is out of range")
	}
	return nil
}

// restore reads what appendBinary wrote and check has passed.
func (p *priorities) restore(data []byte) {
	p.largest = readFloat64(data)
	data = data[8:]
	clear(p.tree)
	masses := p.masses()
	for i := range len(data) / 8 {
		masses[i] = readFloat64(data[8*i:])
	}
	for i := len(p.tree)/2 - 1; i > 0; i-- {
		p.tree[i] = p.tree[2*i] + p.tree[2*i+1]
	}
}

package nn

import (
	"fmt"
	"slices"
)

// Mean is one network whose output is the mean of the members'. Its hidden layers
// hold those of the members side by side. The members have the same number of
// layers, inputs and outputs.
func Mean(members ...*MLP) (*MLP, error) {
	return join(members, true)
}

// Stack is one network whose outputs are the members', those of one after those of the
// other. It is made as [Mean] is, of members of the same kind.
func Stack(members ...*MLP) (*MLP, error) {
	return join(members, false)
}

func join(members []*MLP, mean bool) (*MLP, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("cannot join no networks")
	}
	first := members[0]
	if len(members) == 1 {
		return first.Clone(), nil
	}
	sizes := slices.Clone(first.Sizes)
	last := len(sizes) - 1
	share := float32(1)
	if mean {
		share = 1 / float32(len(members))
	} else {
		sizes[last] *= len(members)
	}
	for _, m := range members[1:] {
		if len(m.Sizes) != len(sizes) || m.Inputs() != first.Inputs() || m.Outputs() != first.Outputs() {
			return nil, fmt.Errorf("cannot join networks of sizes %v and %v", first.Sizes, m.Sizes)
		}
		for i := 1; i < last; i++ {
			sizes[i] += m.Sizes[i]
		}
	}
	joined, err := New(sizes...)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(sizes)) // where the next member's units begin
	for _, m := range members {
		joined.place(m, at, share)
		advance(at, m.Sizes, !mean)
	}
	return joined, nil
}

// place writes the weights of o to where its units begin in each layer, and adds
// share of its last ones to those that are there.
func (m *MLP) place(o *MLP, at []int, share float32) {
	for i, w := range o.Weights {
		scale := float32(1)
		if i == len(o.Weights)-1 {
			scale = share
		}
		in, out := o.Sizes[i], o.Sizes[i+1]
		for r := range in {
			row := m.row(i, at[i]+r, at[i+1])
			for c, x := range w[r*out : (r+1)*out] {
				row[c] += scale * x
			}
		}
		for c, x := range o.Biases[i] {
			m.Biases[i][at[i+1]+c] += scale * x
		}
	}
}

// row is the weights of layer i from one of its inputs, to its units from one on.
func (m *MLP) row(i, input, from int) []float32 {
	return m.Weights[i][input*m.Sizes[i+1]:][from:m.Sizes[i+1]]
}

// advance moves at past the hidden units of a network of the sizes, and its outputs if
// those are its own.
func advance(at, sizes []int, outputs bool) {
	for i := 1; i < len(sizes)-1; i++ {
		at[i] += sizes[i]
	}
	if outputs {
		at[len(sizes)-1] += sizes[len(sizes)-1]
	}
}

// Favouring is m with weight times its first inputs, as many as there are actions, added to
// its outputs: the first input to the first output and, if m is a [Stack], to the first
// of each member. Those inputs must not be negative.
func (m *MLP) Favouring(weight float32, actions int) (*MLP, error) {
	last := len(m.Sizes) - 1
	if m.Inputs() < actions || m.Outputs()%actions != 0 {
		return nil, fmt.Errorf("cannot favour %d actions: %d inputs, %d outputs", actions, m.Inputs(), m.Outputs())
	}
	sizes := slices.Clone(m.Sizes)
	for i := 1; i < last; i++ {
		sizes[i] += actions // units that pass the inputs on
	}
	f, err := New(sizes...)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(sizes))
	f.place(m, at, 1)
	advance(at, m.Sizes, false)
	for i := range f.Weights {
		for k := range actions {
			row := f.row(i, at[i]+k, at[i+1])
			if i < last-1 {
				row[k]++
				continue
			}
			for output := k; output < m.Outputs(); output += actions {
				row[output] += weight
			}
		}
	}
	return f, nil
}

// mixedUnits counts the units that [MLP.Mixed] adds to a hidden layer for two inputs.
const mixedUnits = 2

// Split is the inverse of [Stack] and [Mean]: n networks of the hidden sizes, for so many
// actions. What Favouring and Mixed, of two inputs, have added is left out.
func (m *MLP) Split(n int, hidden []int, actions int) ([]*MLP, error) {
	sizes := append(append([]int{m.Inputs()}, hidden...), actions)
	stacked := m.Outputs() == n*actions
	fits := len(m.Sizes) == len(sizes) && (stacked || m.Outputs() == actions)
	for i := 0; fits && i < len(hidden); i++ {
		favouring := m.Sizes[i+1] - n*hidden[i] // units that it has added
		fits = favouring == 0 || favouring == actions || actions == 1 && favouring == mixedUnits
	}
	if !fits || !m.apart(n, sizes, stacked) {
		return nil, fmt.Errorf("layers %v are not those of %d networks of hidden layers %v", m.Sizes, n, hidden)
	}
	times := float32(1)
	if !stacked {
		times = float32(n)
	}
	members := make([]*MLP, n)
	at := make([]int, len(sizes))
	for k := range members {
		members[k], _ = New(sizes...)
		m.extract(members[k], at, times)
		advance(at, sizes, stacked)
	}
	return members, nil
}

// apart reports whether no weight leads from a unit of one of n networks of the sizes to
// another one's.
func (m *MLP) apart(n int, sizes []int, stacked bool) bool {
	last := len(sizes) - 2
	for i := 1; i < last || i == last && stacked; i++ {
		in, out := sizes[i], sizes[i+1]
		for r := range n * in {
			row, own := m.row(i, r, 0)[:n*out], r/in*out
			for c, w := range row {
				if w != 0 && (c < own || c >= own+out) {
					return false
				}
			}
		}
	}
	return true
}

// extract is the inverse of place: the last weights are taken so many times.
func (m *MLP) extract(o *MLP, at []int, times float32) {
	for i, w := range o.Weights {
		scale := float32(1)
		if i == len(o.Weights)-1 {
			scale = times
		}
		in, out := o.Sizes[i], o.Sizes[i+1]
		for r := range in {
			row := m.row(i, at[i]+r, at[i+1])
			for c := range out {
				w[r*out+c] = scale * row[c]
			}
		}
		// What the last biases were, apart, is lost in a mean: each gets that.
		copy(o.Biases[i], m.Biases[i][at[i+1]:at[i+1]+out])
	}
}

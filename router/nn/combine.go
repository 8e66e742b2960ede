package nn

import (
	"fmt"
	"slices"
)

// Mean is one network whose output is the mean of the members'. Its hidden layers
// hold those of the members side by side. The members have the same number of
// layers, inputs and outputs.
func Mean(members ...*MLP) (*MLP, error) {
	if len(members) == 0 {
		return nil, fmt.Errorf("cannot take the mean of no networks")
	}
	first := members[0]
	if len(members) == 1 {
		return first.Clone(), nil
	}
	sizes := slices.Clone(first.Sizes)
	last := len(sizes) - 1
	for _, m := range members[1:] {
		if len(m.Sizes) != len(sizes) || m.Inputs() != first.Inputs() || m.Outputs() != first.Outputs() {
			return nil, fmt.Errorf("cannot take the mean of networks of sizes %v and %v", first.Sizes, m.Sizes)
		}
		for i := 1; i < last; i++ {
			sizes[i] += m.Sizes[i]
		}
	}
	mean, err := New(sizes...)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(sizes)) // where the next member's units begin
	for _, m := range members {
		mean.place(m, at, 1/float32(len(members)))
		advance(at, m.Sizes)
	}
	return mean, nil
}

// place writes the weights of o to where its units begin in each layer, and adds
// share of its last ones to what all have in common.
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

// advance moves at past the hidden units of a network of the sizes.
func advance(at, sizes []int) {
	for i := 1; i < len(sizes)-1; i++ {
		at[i] += sizes[i]
	}
}

// Favouring is m with weight times its first inputs added to its outputs, the
// first input to the first output and so on. Those inputs must not be negative.
func (m *MLP) Favouring(weight float32) (*MLP, error) {
	outputs, last := m.Outputs(), len(m.Sizes)-1
	if m.Inputs() < outputs {
		return nil, fmt.Errorf("cannot favour: %d inputs for %d outputs", m.Inputs(), outputs)
	}
	sizes := slices.Clone(m.Sizes)
	for i := 1; i < last; i++ {
		sizes[i] += outputs // units that pass the inputs on
	}
	f, err := New(sizes...)
	if err != nil {
		return nil, err
	}
	at := make([]int, len(sizes))
	f.place(m, at, 1)
	advance(at, m.Sizes)
	for i := range f.Weights {
		pass := float32(1)
		if i == last-1 {
			pass = weight
		}
		for k := range outputs {
			f.row(i, at[i]+k, at[i+1])[k] += pass
		}
	}
	return f, nil
}

// Split is the inverse of [Mean]: n networks of the hidden sizes. What Favouring
// has added is left out.
func (m *MLP) Split(n int, hidden []int) ([]*MLP, error) {
	sizes := append(append([]int{m.Inputs()}, hidden...), m.Outputs())
	fits := len(m.Sizes) == len(sizes)
	for i := 0; fits && i < len(hidden); i++ {
		favouring := m.Sizes[i+1] - n*hidden[i] // units that it has added
		fits = favouring == 0 || favouring == m.Outputs()
	}
	if !fits {
		return nil, fmt.Errorf("layers %v are not those of %d networks of hidden layers %v", m.Sizes, n, hidden)
	}
	members := make([]*MLP, n)
	at := make([]int, len(sizes))
	for k := range members {
		members[k], _ = New(sizes...)
		m.extract(members[k], at, float32(n))
		advance(at, sizes)
	}
	return members, nil
}

// extract is the inverse of place: the last weights are taken times n.
func (m *MLP) extract(o *MLP, at []int, n float32) {
	for i, w := range o.Weights {
		scale := float32(1)
		if i == len(o.Weights)-1 {
			scale = n
		}
		in, out := o.Sizes[i], o.Sizes[i+1]
		for r := range in {
			row := m.row(i, at[i]+r, at[i+1])
			for c := range out {
				w[r*out+c] = scale * row[c]
			}
		}
		// What the members' last biases were, apart, is lost: each gets their mean.
		copy(o.Biases[i], m.Biases[i][at[i+1]:at[i+1]+out])
	}
}

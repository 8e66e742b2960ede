package nn

import "slices"

// Scratch is the length of the scratch buffer that Forward needs.
func (m *MLP) Scratch() int { return 2 * slices.Max(m.Sizes) }

// Forward writes the network's output for x into dst. len(x) is Inputs,
// len(dst) is Outputs, len(scratch) at least Scratch. It allocates nothing and
// only reads the network, so goroutines with their own buffers may share it.
//
// A policy decides the same in every build and on every machine: the sums are
// taken in the order of the inputs, and rounded after each product and each sum.
func (m *MLP) Forward(dst, x, scratch []float32) {
	half := len(scratch) / 2
	last := len(m.Weights) - 1
	for i, w := range m.Weights {
		out := dst
		if i < last {
			out = scratch[(i%2)*half:][:m.Sizes[i+1]]
		}
		copy(out, m.Biases[i])
		if m.blocks == nil {
			accumulate(out, x, w, len(out))
		} else {
			for _, b := range m.blocks[i] {
				accumulate(out[b.left:b.right], x[b.top:b.bottom], w[b.top*len(out)+b.left:], len(out))
			}
		}
		if i < last {
			Rectify(out)
		}
		x = out
	}
}

// block is a rectangle of a layer's weights, whose rows are inputs: those in
// [top, bottom), of the units in [left, right).
type block struct{ top, bottom, left, right int }

// Banded is m for as long as its weights do not change, quicker where many are
// zero, as of a [Mean]. It shares m's memory.
func (m *MLP) Banded() *MLP {
	b := *m
	b.blocks = make([][]block, len(m.Weights))
	for i, w := range m.Weights {
		b.blocks[i] = blocks(w, m.Sizes[i+1])
	}
	return &b
}

// blocks divides weights of n units into blocks that hold all that are not zero:
// rows in a row that begin and end alike.
func blocks(w []float32, n int) []block {
	var list []block
	for row := 0; row*n < len(w); row++ {
		left, right := extent(w[row*n : (row+1)*n])
		if left == right {
			continue
		}
		if last := len(list) - 1; last >= 0 && list[last] == (block{list[last].top, row, left, right}) {
			list[last].bottom++
		} else {
			list = append(list, block{row, row + 1, left, right})
		}
	}
	return list
}

// extent is where v is not zero: all of that is in [from, to).
func extent(v []float32) (from, to int) {
	nonzero := func(x float32) bool { return x != 0 }
	from = slices.IndexFunc(v, nonzero)
	if from < 0 {
		return 0, 0
	}
	to = len(v)
	for v[to-1] == 0 {
		to--
	}
	return from, to
}

//go:build onnx && cgo

package onnx

import (
	"math/bits"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// tensors is the KV cache of some rows: for each layer a key and a value of
// shape (rows, heads, length, width). In a cache that a model writes in place a
// row's tokens lie at its beginning, with room to grow into behind them; in one
// that a model concatenates they lie at its end, and padding before them.
type tensors struct {
	rows, length int
	data         [][]float32
	values       []onnxruntime.Value
	taken        bool // data is the system's, to be given back
}

// reserve makes the cache one of so many rows and tokens, whose numbers are
// whatever was there: those of the first rows, if the length is as before and the
// memory has room. It takes new memory only where the old is too small, with some
// to grow into, since batches and sequences grow step by step: within the bound, in
// tokens, if there is one.
func (t *tensors) reserve(l *layout, rows, length, bound int) error {
	t.free()
	t.rows, t.length = rows, length
	if t.data == nil {
		t.data = make([][]float32, 2*l.layers)
	}
	need := rows * length * l.perToken()
	shape := onnxruntime.NewShape(int64(rows), int64(l.heads), int64(length), int64(l.width))
	for i := range t.data {
		if cap(t.data[i]) < need {
			room := need + need/4
			if bound > 0 {
				room = max(need, min(room, bound*l.perToken()))
			}
			t.data[i] = make([]float32, room)
		}
		t.data[i] = t.data[i][:need]
		v, err := onnxruntime.NewTensor(shape, t.data[i])
		if err != nil {
			return err
		}
		t.values = append(t.values, v)
	}
	return nil
}

// take has the system give memory for so many tokens in all. What was there is not
// given back.
func (t *tensors) take(l *layout, tokens int) error {
	taken := tensors{data: make([][]float32, 2*l.layers), taken: true}
	for i := range taken.data {
		var err error
		if taken.data[i], err = takeMemory(tokens * l.perToken()); err != nil {
			taken.release()
			return err
		}
	}
	t.data, t.taken = taken.data, true
	return nil
}

// release frees the tensors and gives the system's memory back.
func (t *tensors) release() {
	t.free()
	for _, data := range t.data {
		if t.taken && data != nil {
			returnMemory(data)
		}
	}
	t.data, t.taken = nil, false
}

// capacity is how many tokens the memory has room for.
func (t *tensors) capacity(l *layout) int {
	if t.data == nil {
		return 0
	}
	return cap(t.data[0]) / l.perToken()
}

// room makes a cache that is written in place one in which so many rows, the longest
// of so many tokens, have room, and keeps what lies in it.
func (t *tensors) room(l *layout, rows, longest, bound int) error {
	kept, before := t.rows, t.length
	if kept == rows && longest <= before {
		return nil
	}
	capacity, length := t.capacity(l), before
	from, outgrown := tensors{data: t.data, taken: t.taken}, rows*longest > capacity
	if outgrown {
		if capacity = bound; bound < rows*longest {
			capacity = 2 * rows * longest
		}
		if err := t.take(l, capacity); err != nil {
			return err
		}
	}
	if longest > length || rows*length > capacity {
		length = laneLength(capacity, rows, longest)
	}
	if outgrown || length != before {
		moveLanes(l, t.data, length, from.data, before, min(kept, rows))
	}
	err := t.reserve(l, rows, length, bound)
	if outgrown {
		from.release()
	}
	return err
}

// laneLength is how many tokens' room each of so many rows gets of the capacity where the
// longest has so many: enough that a batch that grows token by token, and by some more
// rows, is seldom moved.
func laneLength(capacity, rows, longest int) int {
	length := capacity >> bits.Len(uint(rows-1)) // for as many rows as the next power of two
	if length < longest+32 {
		length = capacity / rows
	}
	return min(length, max(2*longest, leastLength))
}

// leastLength is what each lane has room for where the memory allows it.
const leastLength = 256

// moveLanes moves rows of a cache whose lanes, one for each row and head, have so many
// tokens' room to one whose lanes have other, which may be the same memory.
func moveLanes(l *layout, to [][]float32, length int, from [][]float32, before, rows int) {
	n := min(length, before) * l.width
	for i := range from {
		to, from := to[i][:cap(to[i])], from[i][:cap(from[i])]
		for k := range rows * l.heads {
			if length > before { // from the last, which nothing lies behind
				k = rows*l.heads - 1 - k
			}
			copy(to[k*length*l.width:][:n], from[k*before*l.width:][:n])
		}
	}
}

// free lets go of what C holds. The memory stays, to be used again.
func (t *tensors) free() {
	for _, v := range t.values {
		_ = v.Destroy()
	}
	t.values, t.rows, t.length = t.values[:0], 0, 0
}

// holds says whether so many rows of a cache that is concatenated, the longest of so
// many tokens, have room where the rows lie already, without much more padding than
// they need.
func (t *tensors) holds(l *layout, rows, longest int) bool {
	const mostPadding = 16 // as a fraction's denominator: each step pays for it
	return len(t.data) > 0 && longest <= t.length && rows*t.length*l.perToken() <= cap(t.data[0]) &&
		mostPadding*(t.length-longest) <= t.length
}

// copyRow copies the tokens of a row of another cache, or of another row of this one,
// to a row of this one. Padding before them is cleared: hidden numbers weigh
// nothing, but what is not a number would spread.
func (t *tensors) copyRow(l *layout, row int, from *tensors, fromRow, tokens int) {
	n := tokens * l.width
	for i := range t.data {
		to, source := t.data[i][:cap(t.data[i])], from.data[i][:cap(from.data[i])]
		for h := range l.heads {
			source := source[(fromRow*l.heads+h)*from.length*l.width:][:from.length*l.width]
			to := to[(row*l.heads+h)*t.length*l.width:][:t.length*l.width]
			if l.inPlace {
				copy(to[:n], source)
				continue
			}
			clear(to[:len(to)-n])
			copy(to[len(to)-n:], source[len(source)-n:])
		}
	}
}

//go:build onnx && cgo

package onnx

import (
	onnxruntime "github.com/yalue/onnxruntime_go"
)

// tensors is the KV cache of some rows: for each layer a key and a value of
// shape (rows, heads, length, width). A row's tokens lie at its end; what comes
// before them is padding.
type tensors struct {
	rows, length int
	data         [][]float32
	values       []onnxruntime.Value
}

// reserve makes the cache one of so many rows and tokens, whose numbers are
// whatever was there. It takes new memory only where the old is too small, with
// some to grow into, since a batch grows by a token a step.
func (t *tensors) reserve(l *layout, rows, length int) error {
	t.free()
	t.rows, t.length = rows, length
	if t.data == nil {
		t.data = make([][]float32, 2*l.layers)
	}
	need := rows * length * l.perToken()
	shape := onnxruntime.NewShape(int64(rows), int64(l.heads), int64(length), int64(l.width))
	for i := range t.data {
		if cap(t.data[i]) < need {
			t.data[i] = make([]float32, need+need/4)
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

// free lets go of what C holds. The memory stays, to be used again.
func (t *tensors) free() {
	for _, v := range t.values {
		_ = v.Destroy()
	}
	t.values, t.rows, t.length = t.values[:0], 0, 0
}

// take copies the last tokens of a row of another cache to the end of a row of
// this one, and clears what lies before them: hidden numbers weigh nothing, but
// what is not a number would spread.
func (t *tensors) take(l *layout, row int, from *tensors, fromRow, tokens int) {
	n, before := tokens*l.width, (t.length-tokens)*l.width
	for i, to := range t.data {
		source := from.data[i]
		for h := range l.heads {
			end := ((fromRow*l.heads + h) + 1) * from.length * l.width
			start := (row*l.heads + h) * t.length * l.width
			clear(to[start : start+before])
			copy(to[start+before:start+before+n], source[end-n:end])
		}
	}
}

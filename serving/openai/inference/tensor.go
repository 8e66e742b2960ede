// Package inference reads and writes requests and answers of the Open Inference Protocol, in
// JSON and with its binary tensor data extension, and cuts their tensors into rows. What the
// elements of a tensor mean is left to others: their bytes stay as they came.
package inference

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"gearshift/serving/openai/wire"
)

// Tensor is a tensor of a request or an answer.
type Tensor struct {
	Name     string
	Datatype string
	Shape    []int64
	// Parameters are all of them but the size of binary data.
	Parameters map[string]json.RawMessage
	// Data is the elements in row-major order: a list in JSON, or lists in lists; or their
	// bytes, if Binary is set.
	Data   []byte
	Binary bool
}

// widths are the sizes of elements in binary data. Those of BYTES have each their own.
var widths = map[string]int{
	"BOOL": 1, "UINT8": 1, "INT8": 1, "UINT16": 2, "INT16": 2, "FP16": 2, "BF16": 2,
	"UINT32": 4, "INT32": 4, "FP32": 4, "UINT64": 8, "INT64": 8, "FP64": 8, Strings: 0,
}

// Strings is the type of elements that are strings of bytes.
const Strings = "BYTES"

// Rows is the size of the tensor's first dimension; zero if it has none.
func (t *Tensor) Rows() int {
	if len(t.Shape) == 0 {
		return 0
	}
	return int(min(t.Shape[0], math.MaxInt32))
}

// Elements is how many elements the shape has. A dimension below 1 is an error, and so are more
// elements than a tensor can have.
func (t *Tensor) Elements() (int, error) {
	size := 1
	for _, d := range t.Shape {
		if d < 1 || d > int64(math.MaxInt32/size) {
			return 0, fmt.Errorf("has the shape %v; want dimensions from 1 on, and at most %d elements", t.Shape, math.MaxInt32)
		}
		size *= int(d)
	}
	return size, nil
}

// Cut returns the elements of each row, which share the tensor's memory. Elements that do not
// add up to the shape are an error, which begins with a verb.
func (t *Tensor) Cut() ([][]byte, error) {
	if len(t.Shape) == 0 {
		return nil, errors.New("has no dimensions; want the number of requests first")
	}
	width, known := widths[t.Datatype]
	if !known {
		return nil, fmt.Errorf("is of the unknown type %q", t.Datatype)
	}
	size, err := t.Elements()
	switch {
	case err != nil:
		return nil, err
	case !t.Binary:
		return t.cutText(size)
	case width == 0:
		return t.cutStrings(size)
	case len(t.Data) != size*width:
		return nil, fmt.Errorf("has %d bytes; its shape %v and type %s need %d", len(t.Data), t.Shape, t.Datatype, size*width)
	}
	rows := make([][]byte, t.Shape[0])
	step := size * width / len(rows)
	for i := range rows {
		rows[i] = t.Data[i*step : (i+1)*step]
	}
	return rows, nil
}

// cutStrings cuts binary strings, each of which follows its length.
func (t *Tensor) cutStrings(size int) ([][]byte, error) {
	if len(t.Data) < 4*size { // before memory is taken for rows that cannot be there
		return nil, fmt.Errorf("has %d bytes; its %d strings need at least %d", len(t.Data), size, 4*size)
	}
	rows := make([][]byte, t.Shape[0])
	each, at := size/len(rows), 0
	for i := range rows {
		begin := at
		for range each {
			n, err := StringAt(t.Data[at:])
			if err != nil {
				return nil, err
			}
			at += 4 + n
		}
		rows[i] = t.Data[begin:at]
	}
	if at != len(t.Data) {
		return nil, fmt.Errorf("has %d bytes after its %d strings", len(t.Data)-at, size)
	}
	return rows, nil
}

// StringAt is the length of the string that data begins with, after the 4 bytes of that.
func StringAt(data []byte) (int, error) {
	if len(data) < 4 {
		return 0, errors.New("ends before the length of a string")
	}
	n := binary.LittleEndian.Uint32(data)
	if uint64(n) > uint64(len(data)-4) {
		return 0, fmt.Errorf("has a string of %d bytes where only %d are left", n, len(data)-4)
	}
	return int(n), nil
}

// cutText cuts a list in JSON: one of all elements, or one of lists.
func (t *Tensor) cutText(size int) ([][]byte, error) {
	wrong := fmt.Errorf("has data of another number of elements than its shape %v, %d", t.Shape, size)
	if len(t.Data) < 2*size {
		return nil, wrong
	}
	n := int(t.Shape[0])
	each, count := size/n, 0
	rows := make([][]byte, n)
	var nested, mixed, uneven bool
	if !wire.Elements(t.Data, func(value []byte) {
		i := count
		if count++; i == 0 {
			nested = value[0] == '['
		}
		switch list := value[0] == '[' || value[0] == '{'; {
		case nested && i < n:
			rows[i] = value
			uneven = uneven || leaves(value, len(t.Shape)) != each
		case !nested && i < size && list:
			mixed = true
		case !nested && i < size && i%each == 0:
			rows[i/each] = value
		case !nested && i < size:
			rows[i/each] = span(t.Data, rows[i/each], value)
		}
	}) {
		return nil, errors.New("has no list as data")
	}
	switch {
	case nested && count != n || !nested && count != size || uneven:
		return nil, wrong
	case mixed:
		return nil, errors.New("mixes lists and elements in its data")
	}
	return rows, nil
}

// span is the text from the beginning of one value to the end of another one of the same text.
func span(text, first, last []byte) []byte {
	begin, end := cap(text)-cap(first), cap(text)-cap(last)+len(last)
	return text[begin:end]
}

// leaves is how many elements the lists in lists have; −1 if they are deeper than that, or hold
// an object.
func leaves(value []byte, depth int) (sum int) {
	switch {
	case value[0] == '{' || value[0] == '[' && depth == 0:
		return -1
	case value[0] != '[':
		return 1
	}
	fine := wire.Elements(value, func(v []byte) {
		n := leaves(v, depth-1)
		if sum += n; n < 0 {
			sum = math.MinInt32
		}
	})
	if !fine || sum < 0 {
		return -1
	}
	return sum
}

// With returns the tensor with other rows, of which there is at least one.
func (t *Tensor) With(rows [][]byte) Tensor {
	out := *t
	out.Shape = append([]int64{int64(len(rows))}, t.Shape[1:]...)
	if t.Binary {
		out.Data = bytes.Join(rows, nil)
		return out
	}
	size := 2
	for _, r := range rows {
		size += len(r) + 1
	}
	out.Data = append(make([]byte, 0, size), '[')
	for i, r := range rows {
		if i > 0 {
			out.Data = append(out.Data, ',')
		}
		out.Data = append(out.Data, r...)
	}
	out.Data = append(out.Data, ']')
	return out
}

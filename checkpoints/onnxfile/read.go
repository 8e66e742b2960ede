package onnxfile

import (
	"errors"
	"fmt"
	"slices"
)

// Value is an input or output of a model as its file declares it.
type Value struct {
	Name string
	Kind int64   // of its numbers, such as Float32; 0: not said
	Dims []int64 // −1: of any size. Of a value with more than MaxDims the rest is left out
}

// MaxDims is more dimensions than any value has.
const MaxDims = 1 << 10

// Signature reads which inputs and outputs a model file declares, without its
// weights. Constants that old files list among the inputs are left out.
func Signature(model []byte) (inputs, outputs []Value, err error) {
	found, constants := false, map[string]bool{}
	list := func(to *[]Value) func(Field) error {
		return func(f Field) error {
			v, err := ReadValue(f.Bytes)
			*to = append(*to, v)
			return err
		}
	}
	err = Read(model, Fields{7<<3 | Length: func(f Field) error {
		found = true
		return Read(f.Bytes, Fields{
			5<<3 | Length: Fields{8<<3 | Length: func(f Field) error {
				constants[string(f.Bytes)] = true
				return nil
			}}.Message,
			11<<3 | Length: list(&inputs),
			12<<3 | Length: list(&outputs),
		})
	}})
	if err == nil && !found {
		err = errors.New("it holds no graph")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("it is no whole ONNX file: %w", err)
	}
	return slices.DeleteFunc(inputs, func(v Value) bool { return constants[v.Name] }), outputs, nil
}

// Uses reports whether a model file has a node of the operator, outside of branches.
func Uses(model []byte, operator string) (found bool, err error) {
	node := Fields{4<<3 | Length: func(f Field) error {
		found = found || string(f.Bytes) == operator
		return nil
	}}
	err = Read(model, Fields{7<<3 | Length: Fields{1<<3 | Length: node.Message}.Message})
	return found, err
}

// ReadValue reads a ValueInfoProto. Its type is a TypeProto.Tensor, or of no concern here.
func ReadValue(data []byte) (v Value, err error) {
	size := int64(-1)
	dimension := func(f Field) error {
		size = -1
		err := Read(f.Bytes, Fields{1<<3 | Varint: Number(&size)})
		if len(v.Dims) <= MaxDims {
			v.Dims = append(v.Dims, size)
		}
		return err
	}
	tensor := Fields{1<<3 | Varint: Number(&v.Kind), 2<<3 | Length: Fields{1<<3 | Length: dimension}.Message}
	err = Read(data, Fields{1<<3 | Length: Text(&v.Name), 2<<3 | Length: Fields{1<<3 | Length: tensor.Message}.Message})
	return v, err
}

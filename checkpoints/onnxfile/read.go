package onnxfile

import (
	"errors"
	"fmt"
)

// Value is an input or output of a model as its file declares it.
type Value struct {
	Name string
	Kind int64   // of its numbers, such as Float32
	Dims []int64 // −1: of any size
}

// Signature reads which inputs and outputs a model file declares, without its
// weights. Constants that old files list among the inputs are left out.
func Signature(model []byte) (inputs, outputs []Value, err error) {
	found := false
	err = within(model, 7, func(graph []byte) error {
		found = true
		constants := map[string]bool{}
		err := Each(graph, func(part Field) error {
			var err error
			switch part.Tag {
			case 5<<3 | Length:
				err = within(part.Bytes, 8, func(name []byte) error {
					constants[string(name)] = true
					return nil
				})
			case 11<<3 | Length:
				inputs, err = appendValue(inputs, part.Bytes)
			case 12<<3 | Length:
				outputs, err = appendValue(outputs, part.Bytes)
			}
			return err
		})
		kept := inputs[:0]
		for _, v := range inputs {
			if !constants[v.Name] {
				kept = append(kept, v)
			}
		}
		inputs = kept
		return err
	})
	if err == nil && !found {
		err = errors.New("it holds no graph")
	}
	if err != nil {
		return nil, nil, fmt.Errorf("it is no whole ONNX file: %w", err)
	}
	return inputs, outputs, nil
}

// Uses reports whether a model file has a node of the operator, outside of branches.
func Uses(model []byte, operator string) (found bool, err error) {
	is := func(name []byte) error {
		found = found || string(name) == operator
		return nil
	}
	err = within(model, 7, func(graph []byte) error {
		return within(graph, 1, func(node []byte) error { return within(node, 4, is) })
	})
	return found, err
}

func appendValue(list []Value, data []byte) ([]Value, error) {
	var v Value
	dimension := func(dim []byte) error {
		size := int64(-1)
		err := Each(dim, func(f Field) error {
			if f.Tag == 1<<3|Varint {
				size = int64(f.Value)
			}
			return nil
		})
		v.Dims = append(v.Dims, size)
		return err
	}
	tensor := func(f Field) error {
		switch f.Tag {
		case 1<<3 | Varint:
			v.Kind = int64(f.Value)
		case 2<<3 | Length:
			return within(f.Bytes, 1, dimension)
		}
		return nil
	}
	err := Each(data, func(f Field) error {
		switch f.Tag {
		case 1<<3 | Length:
			v.Name = string(f.Bytes)
		case 2<<3 | Length:
			return within(f.Bytes, 1, func(body []byte) error { return Each(body, tensor) })
		}
		return nil
	})
	return append(list, v), err
}

// within visits the parts of a message that have that number.
func within(message []byte, number int, visit func(part []byte) error) error {
	return Each(message, func(f Field) error {
		if f.Tag != number<<3|Length {
			return nil
		}
		return visit(f.Bytes)
	})
}

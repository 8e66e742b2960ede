package onnxfile

import (
	"errors"
	"fmt"

	"google.golang.org/protobuf/encoding/protowire"
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
	err = each(model, func(n protowire.Number, body []byte, _ uint64) error {
		if n != 7 {
			return nil
		}
		found = true
		constants := map[string]bool{}
		err := each(body, func(n protowire.Number, part []byte, _ uint64) error {
			var err error
			switch n {
			case 5:
				err = each(part, func(n protowire.Number, text []byte, _ uint64) error {
					if n == 8 {
						constants[string(text)] = true
					}
					return nil
				})
			case 11:
				inputs, err = appendValue(inputs, part)
			case 12:
				outputs, err = appendValue(outputs, part)
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

// Uses says whether a model file has a node of the operator, outside of branches.
func Uses(model []byte, operator string) (found bool, err error) {
	node := func(n protowire.Number, text []byte, _ uint64) error {
		found = found || n == 4 && string(text) == operator
		return nil
	}
	err = each(model, func(n protowire.Number, body []byte, _ uint64) error {
		if n != 7 {
			return nil
		}
		return each(body, func(n protowire.Number, part []byte, _ uint64) error {
			if n != 1 {
				return nil
			}
			return each(part, node)
		})
	})
	return found, err
}

func appendValue(list []Value, data []byte) ([]Value, error) {
	var v Value
	path := func(f func(protowire.Number, []byte, uint64) error) func([]byte) error {
		return func(b []byte) error { return each(b, f) }
	}
	shape := path(func(n protowire.Number, dim []byte, _ uint64) error {
		size := int64(-1)
		err := each(dim, func(n protowire.Number, _ []byte, x uint64) error {
			if n == 1 {
				size = int64(x)
			}
			return nil
		})
		v.Dims = append(v.Dims, size)
		return err
	})
	tensor := path(func(n protowire.Number, b []byte, x uint64) error {
		switch n {
		case 1:
			v.Kind = int64(x)
		case 2:
			return shape(b)
		}
		return nil
	})
	kind := path(func(n protowire.Number, b []byte, _ uint64) error {
		if n == 1 {
			return tensor(b)
		}
		return nil
	})
	err := each(data, func(n protowire.Number, b []byte, _ uint64) error {
		switch n {
		case 1:
			v.Name = string(b)
		case 2:
			return kind(b)
		}
		return nil
	})
	return append(list, v), err
}

// each visits the fields of a message: bytes of what has a length, else the
// number.
func each(message []byte, visit func(n protowire.Number, bytes []byte, number uint64) error) error {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		var body []byte
		var value uint64
		switch kind {
		case protowire.VarintType:
			value, n = protowire.ConsumeVarint(message)
		case protowire.BytesType:
			body, n = protowire.ConsumeBytes(message)
		default:
			n = protowire.ConsumeFieldValue(number, kind, message)
		}
		if n < 0 {
			return protowire.ParseError(n)
		}
		message = message[n:]
		if err := visit(number, body, value); err != nil {
			return err
		}
	}
	return nil
}

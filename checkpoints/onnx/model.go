package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"
)

// file is what is read of a ModelProto, and of the graph in it.
type file struct {
	graphs     int
	opset      int64
	functions  bool
	properties map[string]string
	nodes      []*node
	tensors    []*tensor // the graph's initializers
	inputs     []value
	outputs    []value
}

// node is a NodeProto.
type node struct {
	name, op, domain string
	inputs, outputs  []string
	attributes       []attribute
}

// attribute is an AttributeProto; which of its values it has, its name implies.
type attribute struct {
	name   string
	number float32
	whole  int64
	tensor *tensor
}

// value is a ValueInfoProto.
type value struct {
	name  string
	kind  int64   // of the elements; 0: not said
	shape []int64 // 0 where a dimension is not fixed
}

// tensor is a TensorProto. Its data are float32, little-endian, wherever in the
// message they stand.
type tensor struct {
	name        string
	dims        []int64
	kind        int64
	data        []byte
	raw, floats bool
	elsewhere   bool // in another file
	segmented   bool
}

// parse reads a ModelProto.
func parse(data []byte) (*file, error) {
	f := &file{properties: map[string]string{}}
	err := each(data, func(part field) error {
		switch part.tag {
		case 7<<3 | length:
			f.graphs++
			return f.graph(part.bytes)
		case 8<<3 | length:
			return f.operators(part.bytes)
		case 14<<3 | length:
			return f.property(part.bytes)
		case 25<<3 | length:
			f.functions = true
		}
		return nil
	})
	switch {
	case errors.Is(err, errTooMany):
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("this is no ONNX file, or a damaged one: %w", err)
	case f.graphs != 1:
		return nil, fmt.Errorf("this is no ONNX file: it holds %d graphs, not one", f.graphs)
	}
	return f, nil
}

// operators reads an OperatorSetIdProto.
func (f *file) operators(data []byte) error {
	var domain string
	var version int64
	err := each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | length:
			domain = string(part.bytes)
		case 2<<3 | varint:
			version = int64(part.value)
		}
		return nil
	})
	if standard(domain) {
		f.opset = version
	}
	return err
}

// standard says whether a domain is that of ONNX's own operators.
func standard(domain string) bool { return domain == "" || domain == "ai.onnx" }

// property reads a StringStringEntryProto.
func (f *file) property(data []byte) error {
	var key, value string
	err := each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | length:
			key = string(part.bytes)
		case 2<<3 | length:
			value = string(part.bytes)
		}
		return nil
	})
	if key == metaKey || key == digestKey {
		f.properties[key] = value
	}
	return err
}

// graph reads a GraphProto.
func (f *file) graph(data []byte) error {
	return each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | length:
			return collect(&f.nodes, part.bytes, readNode)
		case 5<<3 | length:
			return collect(&f.tensors, part.bytes, readTensor)
		case 11<<3 | length:
			return collect(&f.inputs, part.bytes, readValue)
		case 12<<3 | length:
			return collect(&f.outputs, part.bytes, readValue)
		}
		return nil
	})
}

func readNode(data []byte) (*node, error) {
	n := &node{}
	err := each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | length:
			return add(&n.inputs, string(part.bytes))
		case 2<<3 | length:
			return add(&n.outputs, string(part.bytes))
		case 3<<3 | length:
			n.name = string(part.bytes)
		case 4<<3 | length:
			n.op = string(part.bytes)
		case 5<<3 | length:
			return collect(&n.attributes, part.bytes, readAttribute)
		case 7<<3 | length:
			n.domain = string(part.bytes)
		}
		return nil
	})
	return n, err
}

func readAttribute(data []byte) (attribute, error) {
	var a attribute
	err := each(data, func(part field) (err error) {
		switch part.tag {
		case 1<<3 | length:
			a.name = string(part.bytes)
		case 2<<3 | fixed32:
			a.number = math.Float32frombits(uint32(part.value))
		case 3<<3 | varint:
			a.whole = int64(part.value)
		case 5<<3 | length:
			a.tensor, err = readTensor(part.bytes)
		}
		return err
	})
	return a, err
}

func readTensor(data []byte) (*tensor, error) {
	t := &tensor{}
	err := each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | varint:
			return add(&t.dims, int64(part.value))
		case 1<<3 | length:
			return t.packedDims(part.bytes)
		case 2<<3 | varint:
			t.kind = int64(part.value)
		case 3<<3 | length:
			t.segmented = true
		case 4<<3 | fixed32:
			t.floats = true
			t.data = binary.LittleEndian.AppendUint32(t.data, uint32(part.value))
		case 4<<3 | length:
			t.floats = true
			t.data = append(t.data, part.bytes...)
		case 8<<3 | length:
			t.name = string(part.bytes)
		case 9<<3 | length:
			t.raw = true
			t.data = append(t.data, part.bytes...)
		case 13<<3 | length:
			t.elsewhere = true
		case 14<<3 | varint: // TensorProto.DataLocation: 1 is external
			t.elsewhere = t.elsewhere || part.value == 1
		}
		return nil
	})
	return t, err
}

func (t *tensor) packedDims(data []byte) error {
	for len(data) > 0 {
		v, n := protowire.ConsumeVarint(data)
		if n < 0 {
			return protowire.ParseError(n)
		}
		if err := add(&t.dims, int64(v)); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// readValue reads a ValueInfoProto, whose type is a TypeProto.Tensor if it is
// anything to a policy.
func readValue(data []byte) (value, error) {
	var v value
	err := each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | length:
			v.name = string(part.bytes)
		case 2<<3 | length:
			return each(part.bytes, func(part field) error {
				if part.tag != 1<<3|length {
					return nil
				}
				return v.tensorType(part.bytes)
			})
		}
		return nil
	})
	return v, err
}

// tensorType reads a TypeProto.Tensor.
func (v *value) tensorType(data []byte) error {
	return each(data, func(part field) error {
		switch part.tag {
		case 1<<3 | varint:
			v.kind = int64(part.value)
		case 2<<3 | length:
			return each(part.bytes, func(part field) error {
				if part.tag != 1<<3|length {
					return nil
				}
				return v.dimension(part.bytes)
			})
		}
		return nil
	})
}

// dimension reads a TensorShapeProto.Dimension.
func (v *value) dimension(data []byte) error {
	var size int64
	err := each(data, func(part field) error {
		if part.tag == 1<<3|varint {
			size = max(0, int64(part.value))
		}
		return nil
	})
	if err != nil {
		return err
	}
	return add(&v.shape, size)
}

// typeName is what ONNX calls the type of a tensor's elements.
func typeName(kind int64) string {
	names := []string{"of no type", "float32", "uint8", "int8", "uint16", "int16", "int32", "int64", "string", "bool", "float16", "double"}
	if kind >= 0 && kind < int64(len(names)) {
		return names[kind]
	}
	return fmt.Sprintf("of type %d", kind)
}

// values are the tensor's elements, if it holds finite float32 numbers and no
// more than most.
func (t *tensor) values(most int64) ([]float32, error) {
	switch {
	case t.elsewhere:
		return nil, errors.New("lie outside the file (external data); export the model into one file")
	case t.kind != float32Type:
		return nil, fmt.Errorf("are %s, not float32", typeName(t.kind))
	case t.segmented || t.raw && t.floats:
		return nil, errors.New("stand in the file in more than one piece")
	}
	count := int64(1)
	for _, d := range t.dims {
		if d < 1 || d > most/count {
			return nil, fmt.Errorf("have the shape %v, of none or of more than %d numbers", t.dims[:min(8, len(t.dims))], most)
		}
		count *= d
	}
	if int64(len(t.data)) != 4*count {
		return nil, fmt.Errorf("have %d bytes, their shape %v wants %d", len(t.data), t.dims[:min(8, len(t.dims))], 4*count)
	}
	v := make([]float32, count)
	for i := range v {
		v[i] = math.Float32frombits(binary.LittleEndian.Uint32(t.data[4*i:]))
	}
	if slices.ContainsFunc(v, func(x float32) bool { return x-x != 0 }) {
		return nil, errors.New("hold a number that is not finite")
	}
	return v, nil
}

package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"gearshift/checkpoints/onnxfile"
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
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 7<<3 | onnxfile.Length:
			f.graphs++
			return f.graph(part.Bytes)
		case 8<<3 | onnxfile.Length:
			return f.operators(part.Bytes)
		case 14<<3 | onnxfile.Length:
			return f.property(part.Bytes)
		case 25<<3 | onnxfile.Length:
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
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			domain = string(part.Bytes)
		case 2<<3 | onnxfile.Varint:
			version = int64(part.Value)
		}
		return nil
	})
	if standard(domain) {
		f.opset = version
	}
	return err
}

// standard reports whether a domain is that of ONNX's own operators.
func standard(domain string) bool { return domain == "" || domain == "ai.onnx" }

// property reads a StringStringEntryProto.
func (f *file) property(data []byte) error {
	var key, value string
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			key = string(part.Bytes)
		case 2<<3 | onnxfile.Length:
			value = string(part.Bytes)
		}
		return nil
	})
	if key == metaKey || key == digestKey || key == signatureKey {
		f.properties[key] = value
	}
	return err
}

// graph reads a GraphProto.
func (f *file) graph(data []byte) error {
	return onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			return collect(&f.nodes, part.Bytes, readNode)
		case 5<<3 | onnxfile.Length:
			return collect(&f.tensors, part.Bytes, readTensor)
		case 11<<3 | onnxfile.Length:
			return collect(&f.inputs, part.Bytes, readValue)
		case 12<<3 | onnxfile.Length:
			return collect(&f.outputs, part.Bytes, readValue)
		}
		return nil
	})
}

func readNode(data []byte) (*node, error) {
	n := &node{}
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			return add(&n.inputs, string(part.Bytes))
		case 2<<3 | onnxfile.Length:
			return add(&n.outputs, string(part.Bytes))
		case 3<<3 | onnxfile.Length:
			n.name = string(part.Bytes)
		case 4<<3 | onnxfile.Length:
			n.op = string(part.Bytes)
		case 5<<3 | onnxfile.Length:
			return collect(&n.attributes, part.Bytes, readAttribute)
		case 7<<3 | onnxfile.Length:
			n.domain = string(part.Bytes)
		}
		return nil
	})
	return n, err
}

func readAttribute(data []byte) (attribute, error) {
	var a attribute
	err := onnxfile.Each(data, func(part onnxfile.Field) (err error) {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			a.name = string(part.Bytes)
		case 2<<3 | onnxfile.Fixed32:
			a.number = math.Float32frombits(uint32(part.Value))
		case 3<<3 | onnxfile.Varint:
			a.whole = int64(part.Value)
		case 5<<3 | onnxfile.Length:
			a.tensor, err = readTensor(part.Bytes)
		}
		return err
	})
	return a, err
}

func readTensor(data []byte) (*tensor, error) {
	t := &tensor{}
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Varint:
			return add(&t.dims, int64(part.Value))
		case 1<<3 | onnxfile.Length:
			return t.packedDims(part.Bytes)
		case 2<<3 | onnxfile.Varint:
			t.kind = int64(part.Value)
		case 3<<3 | onnxfile.Length:
			t.segmented = true
		case 4<<3 | onnxfile.Fixed32:
			t.floats = true
			t.data = binary.LittleEndian.AppendUint32(t.data, uint32(part.Value))
		case 4<<3 | onnxfile.Length:
			t.floats = true
			t.data = append(t.data, part.Bytes...)
		case 8<<3 | onnxfile.Length:
			t.name = string(part.Bytes)
		case 9<<3 | onnxfile.Length:
			t.raw = true
			t.data = append(t.data, part.Bytes...)
		case 13<<3 | onnxfile.Length:
			t.elsewhere = true
		case 14<<3 | onnxfile.Varint: // TensorProto.DataLocation: 1 is external
			t.elsewhere = t.elsewhere || part.Value == 1
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
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Length:
			v.name = string(part.Bytes)
		case 2<<3 | onnxfile.Length:
			return onnxfile.Each(part.Bytes, func(part onnxfile.Field) error {
				if part.Tag != 1<<3|onnxfile.Length {
					return nil
				}
				return v.tensorType(part.Bytes)
			})
		}
		return nil
	})
	return v, err
}

// tensorType reads a TypeProto.Tensor.
func (v *value) tensorType(data []byte) error {
	return onnxfile.Each(data, func(part onnxfile.Field) error {
		switch part.Tag {
		case 1<<3 | onnxfile.Varint:
			v.kind = int64(part.Value)
		case 2<<3 | onnxfile.Length:
			return onnxfile.Each(part.Bytes, func(part onnxfile.Field) error {
				if part.Tag != 1<<3|onnxfile.Length {
					return nil
				}
				return v.dimension(part.Bytes)
			})
		}
		return nil
	})
}

// dimension reads a TensorShapeProto.Dimension.
func (v *value) dimension(data []byte) error {
	var size int64
	err := onnxfile.Each(data, func(part onnxfile.Field) error {
		if part.Tag == 1<<3|onnxfile.Varint {
			size = max(0, int64(part.Value))
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

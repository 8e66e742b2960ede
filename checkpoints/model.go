package checkpoints

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"gearshift/checkpoints/onnxfile"
)

// onnxModel holds the fields that are read of a ModelProto, and of the graph in it.
type onnxModel struct {
	graphs     int
	opset      int64
	functions  bool
	properties map[string]string
	nodes      []*node
	tensors    []*tensor // the graph's initializers
	inputs     []onnxfile.Value
	outputs    []onnxfile.Value
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

// parseONNX reads a ModelProto.
func parseONNX(data []byte) (*onnxModel, error) {
	f := &onnxModel{properties: map[string]string{}}
	err := onnxfile.Read(data, onnxfile.Fields{
		7<<3 | onnxfile.Length: func(part onnxfile.Field) error {
			f.graphs++
			return f.graph(part)
		},
		8<<3 | onnxfile.Length:  f.operators,
		14<<3 | onnxfile.Length: f.property,
		25<<3 | onnxfile.Length: func(onnxfile.Field) error {
			f.functions = true
			return nil
		},
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
func (f *onnxModel) operators(part onnxfile.Field) error {
	var domain string
	var version int64
	err := onnxfile.Read(part.Bytes, onnxfile.Fields{1<<3 | onnxfile.Length: onnxfile.Text(&domain), 2<<3 | onnxfile.Varint: onnxfile.Number(&version)})
	if standard(domain) {
		f.opset = version
	}
	return err
}

// standard reports whether a domain is that of ONNX's own operators.
func standard(domain string) bool { return domain == "" || domain == "ai.onnx" }

// property reads a StringStringEntryProto.
func (f *onnxModel) property(part onnxfile.Field) error {
	var key, value string
	err := onnxfile.Read(part.Bytes, onnxfile.Fields{1<<3 | onnxfile.Length: onnxfile.Text(&key), 2<<3 | onnxfile.Length: onnxfile.Text(&value)})
	if key == metaKey || key == digestKey || key == signatureKey {
		f.properties[key] = value
	}
	return err
}

// graph reads a GraphProto.
func (f *onnxModel) graph(part onnxfile.Field) error {
	return onnxfile.Read(part.Bytes, onnxfile.Fields{
		1<<3 | onnxfile.Length:  collect(&f.nodes, readNode),
		5<<3 | onnxfile.Length:  collect(&f.tensors, readTensor),
		11<<3 | onnxfile.Length: collect(&f.inputs, readValue),
		12<<3 | onnxfile.Length: collect(&f.outputs, readValue),
	})
}

func readNode(data []byte) (*node, error) {
	n := &node{}
	return n, onnxfile.Read(data, onnxfile.Fields{
		1<<3 | onnxfile.Length: collect(&n.inputs, readText),
		2<<3 | onnxfile.Length: collect(&n.outputs, readText),
		3<<3 | onnxfile.Length: onnxfile.Text(&n.name),
		4<<3 | onnxfile.Length: onnxfile.Text(&n.op),
		5<<3 | onnxfile.Length: collect(&n.attributes, readAttribute),
		7<<3 | onnxfile.Length: onnxfile.Text(&n.domain),
	})
}

func readText(data []byte) (string, error) { return string(data), nil }

func readAttribute(data []byte) (a attribute, err error) {
	err = onnxfile.Read(data, onnxfile.Fields{
		1<<3 | onnxfile.Length: onnxfile.Text(&a.name),
		2<<3 | onnxfile.Fixed32: func(part onnxfile.Field) error {
			a.number = math.Float32frombits(uint32(part.Value))
			return nil
		},
		3<<3 | onnxfile.Varint: onnxfile.Number(&a.whole),
		5<<3 | onnxfile.Length: func(part onnxfile.Field) (err error) {
			a.tensor, err = readTensor(part.Bytes)
			return err
		},
	})
	return a, err
}

func readTensor(data []byte) (*tensor, error) {
	t := &tensor{}
	flag := func(to *bool) func(onnxfile.Field) error {
		return func(onnxfile.Field) error { *to = true; return nil }
	}
	numbers := func(which *bool) func(onnxfile.Field) error {
		return func(part onnxfile.Field) error {
			*which, t.data = true, append(t.data, part.Bytes...)
			return nil
		}
	}
	return t, onnxfile.Read(data, onnxfile.Fields{
		1<<3 | onnxfile.Varint: func(part onnxfile.Field) error { return add(&t.dims, int64(part.Value)) },
		1<<3 | onnxfile.Length: t.packedDims,
		2<<3 | onnxfile.Varint: onnxfile.Number(&t.kind),
		3<<3 | onnxfile.Length: flag(&t.segmented),
		4<<3 | onnxfile.Fixed32: func(part onnxfile.Field) error {
			t.floats, t.data = true, binary.LittleEndian.AppendUint32(t.data, uint32(part.Value))
			return nil
		},
		4<<3 | onnxfile.Length:  numbers(&t.floats),
		8<<3 | onnxfile.Length:  onnxfile.Text(&t.name),
		9<<3 | onnxfile.Length:  numbers(&t.raw),
		13<<3 | onnxfile.Length: flag(&t.elsewhere),
		14<<3 | onnxfile.Varint: func(part onnxfile.Field) error { // TensorProto.DataLocation: 1 is external
			t.elsewhere = t.elsewhere || part.Value == 1
			return nil
		},
	})
}

func (t *tensor) packedDims(part onnxfile.Field) error {
	for data := part.Bytes; len(data) > 0; {
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

func readValue(data []byte) (onnxfile.Value, error) {
	v, err := onnxfile.ReadValue(data)
	if err == nil && len(v.Dims) > maxParts {
		err = tooMany()
	}
	return v, err
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

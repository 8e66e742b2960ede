// Package onnxfile writes ONNX files: the few protobuf messages of the format,
// by hand, since no Go module has them.
package onnxfile

import (
	"encoding/binary"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// What a written file asks of its reader: both are of 2022, and old enough for
// every runtime in use.
const (
	IRVersion = 8
	Opset     = 17
)

// Microsoft is the domain of ONNX Runtime's own operators.
const Microsoft = "com.microsoft"

// The values of TensorProto.DataType that are written here.
const (
	Float32 = 1
	Int32   = 6
	Int64   = 7
	Bool    = 9
)

// The values of AttributeProto.AttributeType that are written here.
const (
	floatAttribute = 1
	wholeAttribute = 2
	graphAttribute = 5
	wholesKind     = 7
)

// Message is a protobuf message that is being written.
type Message []byte

// Number appends a number.
func (m *Message) Number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

// Bytes appends bytes, or another message.
func (m *Message) Bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

// Text appends a string.
func (m *Message) Text(field protowire.Number, s string) { m.Bytes(field, []byte(s)) }

// Property appends an entry of a model's metadata.
func (m *Message) Property(key, value string) {
	var p Message
	p.Text(1, key)
	p.Text(2, value)
	m.Bytes(14, p)
}

// Graph is a GraphProto in the making. Nodes are added in the order in which
// they run.
type Graph struct {
	Name                            string
	nodes, tensors, inputs, outputs Message
	microsoft                       bool // it has operators of ONNX Runtime's own
}

// Model is the ModelProto of the graph; properties may be appended to it.
func (g *Graph) Model() Message {
	var version, m Message
	version.Text(1, "")
	version.Number(2, Opset)
	m.Number(1, IRVersion)
	m.Text(2, "gearshift")
	m.Bytes(7, g.proto())
	m.Bytes(8, version)
	if g.microsoft {
		var own Message
		own.Text(1, Microsoft)
		own.Number(2, 1)
		m.Bytes(8, own)
	}
	return m
}

// proto is the GraphProto.
func (g *Graph) proto() Message {
	var m Message
	m = append(m, g.nodes...)
	m.Text(2, g.Name)
	return append(append(append(m, g.tensors...), g.inputs...), g.outputs...)
}

// Attribute of a node.
type Attribute Message

// Whole is an attribute that is a number.
func Whole(name string, v int64) Attribute {
	var a Message
	a.Text(1, name)
	a.Number(3, uint64(v))
	a.Number(20, wholeAttribute)
	return Attribute(a)
}

// Wholes is an attribute that is a list of numbers.
func Wholes(name string, list ...int64) Attribute {
	var a Message
	a.Text(1, name)
	for _, v := range list {
		a.Number(8, uint64(v))
	}
	a.Number(20, wholesKind)
	return Attribute(a)
}

// Real is an attribute that is a float32.
func Real(name string, v float32) Attribute {
	var a Message
	a.Text(1, name)
	a = protowire.AppendFixed32(protowire.AppendTag(a, 2, protowire.Fixed32Type), math.Float32bits(v))
	a.Number(20, floatAttribute)
	return Attribute(a)
}

// Branch is an attribute that is a graph, which sees the values of the one that
// it is in.
func Branch(name string, g *Graph) Attribute {
	var a Message
	a.Text(1, name)
	a.Bytes(6, g.proto())
	a.Number(20, graphAttribute)
	return Attribute(a)
}

// Node adds a node that is named after its first output.
func (g *Graph) Node(op string, inputs, outputs []string, attributes ...Attribute) {
	g.NamedNode(outputs[0], op, inputs, outputs, attributes...)
}

// MicrosoftNode adds a node of ONNX Runtime's own operators. An input without a name
// is left out.
func (g *Graph) MicrosoftNode(op string, inputs, outputs []string, attributes ...Attribute) {
	g.microsoft = true
	g.node(outputs[0], op, Microsoft, inputs, outputs, attributes)
}

// NamedNode adds a node.
func (g *Graph) NamedNode(name, op string, inputs, outputs []string, attributes ...Attribute) {
	g.node(name, op, "", inputs, outputs, attributes)
}

func (g *Graph) node(name, op, domain string, inputs, outputs []string, attributes []Attribute) {
	var m Message
	for _, in := range inputs {
		m.Text(1, in)
	}
	for _, out := range outputs {
		m.Text(2, out)
	}
	m.Text(3, name)
	m.Text(4, op)
	for _, a := range attributes {
		m.Bytes(5, a)
	}
	if domain != "" {
		m.Text(7, domain)
	}
	g.nodes.Bytes(1, m)
}

// Reals adds a float32 constant; without dimensions it is a scalar.
func (g *Graph) Reals(name string, values []float32, dims ...int) {
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	g.tensor(name, Float32, raw, dims)
}

// Wholes adds an int64 constant; without dimensions it is a scalar.
func (g *Graph) Wholes(name string, values []int64, dims ...int) {
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint64(raw, uint64(v))
	}
	g.tensor(name, Int64, raw, dims)
}

func (g *Graph) tensor(name string, kind uint64, raw []byte, dims []int) {
	var m Message
	for _, d := range dims {
		m.Number(1, uint64(d))
	}
	m.Number(2, kind)
	m.Text(8, name)
	m.Bytes(9, raw)
	g.tensors.Bytes(5, m)
}

// Dim is a dimension of an input or output: of a size, or any, under a name.
type Dim struct {
	Size int64
	Name string // of any size
}

// Fixed is a dimension of the size.
func Fixed(size int) Dim { return Dim{Size: int64(size)} }

// Any is a dimension of any size. Dimensions of one name are the same size.
func Any(name string) Dim { return Dim{Name: name} }

// Input declares an input of the graph.
func (g *Graph) Input(name string, kind uint64, dims ...Dim) {
	g.inputs.Bytes(11, value(name, kind, dims))
}

// Output declares an output of the graph.
func (g *Graph) Output(name string, kind uint64, dims ...Dim) {
	g.outputs.Bytes(12, value(name, kind, dims))
}

// value is a ValueInfoProto.
func value(name string, kind uint64, dims []Dim) Message {
	var shape, tensor, t, m Message
	for _, d := range dims {
		var dim Message
		if d.Name != "" {
			dim.Text(2, d.Name)
		} else {
			dim.Number(1, uint64(d.Size))
		}
		shape.Bytes(1, dim)
	}
	tensor.Number(1, kind)
	tensor.Bytes(2, shape)
	t.Bytes(1, tensor)
	m.Text(1, name)
	m.Bytes(2, t)
	return m
}

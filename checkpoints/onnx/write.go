package onnx

import (
	"encoding/binary"
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"gearshift/router/nn"
)

// What a written file asks of its reader: both are of 2022, and old enough for
// every runtime in use.
const (
	irVersion = 8
	opset     = 17
)

// float32Type is the TensorProto.DataType of float32.
const float32Type = 1

// message is a protobuf message that is being written.
type message []byte

func (m *message) number(field protowire.Number, v uint64) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), v)
}

func (m *message) bytes(field protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, field, protowire.BytesType), b)
}

func (m *message) text(field protowire.Number, s string) { m.bytes(field, []byte(s)) }

// property adds an entry to a model's metadata.
func (m *message) property(key, value string) {
	var p message
	p.text(1, key)
	p.text(2, value)
	m.bytes(14, p)
}

// encode makes a ModelProto.
func encode(n *nn.MLP) message {
	var version, m message
	version.text(1, "")
	version.number(2, opset)
	m.number(1, irVersion)
	m.text(2, "gearshift")
	m.bytes(7, encodeGraph(n))
	m.bytes(8, version)
	return m
}

// encodeGraph makes a GraphProto: Gemm, Relu, Gemm, and so on. The weights
// stand as they do in memory, row = input, so no Gemm transposes.
func encodeGraph(n *nn.MLP) message {
	var g, tensors message
	at := Input
	last := len(n.Weights) - 1
	for i := range n.Weights {
		weights, bias, out := fmt.Sprintf("weights%d", i), fmt.Sprintf("bias%d", i), fmt.Sprintf("layer%d", i)
		tensors.bytes(5, encodeTensor(weights, n.Weights[i], n.Sizes[i], n.Sizes[i+1]))
		tensors.bytes(5, encodeTensor(bias, n.Biases[i], n.Sizes[i+1]))
		if i == last {
			out = Output
		}
		g.bytes(1, encodeNode("Gemm", fmt.Sprintf("dense%d", i), out, at, weights, bias))
		if at = out; i < last {
			at = fmt.Sprintf("relu%d", i)
			g.bytes(1, encodeNode("Relu", at, at, out))
		}
	}
	g.text(2, "policy")
	g = append(g, tensors...)
	g.bytes(11, encodeValue(Input, n.Inputs()))
	g.bytes(12, encodeValue(Output, n.Outputs()))
	return g
}

func encodeNode(op, name, output string, inputs ...string) message {
	var m message
	for _, in := range inputs {
		m.text(1, in)
	}
	m.text(2, output)
	m.text(3, name)
	m.text(4, op)
	return m
}

func encodeTensor(name string, values []float32, dims ...int) message {
	var m message
	for _, d := range dims {
		m.number(1, uint64(d))
	}
	m.number(2, float32Type)
	m.text(8, name)
	raw := make([]byte, 0, 4*len(values))
	for _, v := range values {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	m.bytes(9, raw)
	return m
}

// encodeValue makes the ValueInfoProto of a float32 matrix with any number of
// rows.
func encodeValue(name string, columns int) message {
	var rows, width, shape, tensor, kind, m message
	rows.text(2, "batch")
	width.number(1, uint64(columns))
	shape.bytes(1, rows)
	shape.bytes(1, width)
	tensor.number(1, float32Type)
	tensor.bytes(2, shape)
	kind.bytes(1, tensor)
	m.text(1, name)
	m.bytes(2, kind)
	return m
}

package onnxfile

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"
)

// sample is a graph of every part.
func sample() []byte {
	g := &Graph{Name: "sample"}
	g.Input("x", Float32, Any("batch"), Fixed(3))
	g.Input("ids", Int64, Any("batch"))
	g.Output("y", Float32, Any("batch"), Fixed(2))
	g.Reals("w", make([]float32, 6), 3, 2)
	g.Wholes("axis", []int64{1})
	g.Input("w", Float32, Fixed(3), Fixed(2)) // as old files have it
	branch := &Graph{Name: "branch"}
	branch.Node("Identity", []string{"x"}, []string{"z"})
	branch.Output("z", Float32, Any("batch"), Fixed(3))
	g.Node("If", []string{"ids"}, []string{"h"}, Branch("then_branch", branch), Branch("else_branch", branch))
	g.Node("MatMul", []string{"h", "w"}, []string{"y"}, Whole("a", 1), Wholes("b", 1, 2), Real("c", 0.5))
	m := g.Model()
	m.Property("key", "value")
	return m
}

func same(got []Value, want ...Value) bool {
	return slices.EqualFunc(got, want, func(a, b Value) bool {
		return a.Name == b.Name && a.Kind == b.Kind && slices.Equal(a.Dims, b.Dims)
	})
}

func TestSignature(t *testing.T) {
	inputs, outputs, err := Signature(sample())
	if err != nil {
		t.Fatal(err)
	}
	if !same(inputs, Value{"x", Float32, []int64{-1, 3}}, Value{"ids", Int64, []int64{-1}}) || !same(outputs, Value{"y", Float32, []int64{-1, 2}}) {
		t.Errorf("inputs %v, outputs %v", inputs, outputs)
	}
}

// A file that is cut off anywhere is no whole file, or has lost but its last fields.
func TestSignatureOfAPart(t *testing.T) {
	whole := sample()
	for n := range len(whole) {
		if _, _, err := Signature(whole[:n]); err != nil && !strings.HasPrefix(err.Error(), "it is no whole ONNX file: ") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := Signature(whole[:len(whole)/2]); err == nil {
		t.Error("a half is a whole")
	}
}

func TestUses(t *testing.T) {
	own := &Graph{Name: "own"}
	own.MicrosoftNode("GroupQueryAttention", []string{"x", ""}, []string{"y"})
	for operator, in := range map[string][]byte{"MatMul": sample(), "If": sample(), "GroupQueryAttention": own.Model()} {
		if found, err := Uses(in, operator); err != nil || !found {
			t.Errorf("%s: %v, %v", operator, found, err)
		}
	}
	if found, err := Uses(sample(), "GroupQueryAttention"); err != nil || found {
		t.Errorf("%v, %v", found, err)
	}
}

// counted counts the bytes that are read.
type counted struct {
	io.ReaderAt
	bytes int
}

func (c *counted) ReadAt(p []byte, at int64) (int, error) {
	c.bytes += len(p)
	return c.ReaderAt.ReadAt(p, at)
}

// large is a graph with an initializer and a constant among its nodes of so many numbers.
func large(numbers int) []byte {
	g, constant := &Graph{Name: "large"}, new(Graph)
	g.Input("x", Float32, Any("batch"))
	g.Reals("w", make([]float32, numbers), numbers)
	g.Input("w", Float32, Fixed(numbers)) // which is no input: it has a value
	constant.Reals("value", make([]float32, numbers), numbers)
	g.Node("Constant", nil, []string{"c"}, Attribute(constant.tensors)) // field 5, as in a graph
	g.MicrosoftNode("GroupQueryAttention", []string{"x", "w"}, []string{"y"})
	g.Output("y", Float32, Any("batch"), Fixed(2))
	return g.Model()
}

// An outline neither reads nor has the numbers of initializers and of constants among the
// nodes, and leaves out nothing that is looked for.
func TestOutline(t *testing.T) {
	for _, whole := range [][]byte{large(1 << 20), sample()} {
		file := &counted{ReaderAt: bytes.NewReader(whole)}
		part, err := Outline(file, int64(len(whole)))
		if err != nil || len(part) > 2000 || file.bytes > 4000 {
			t.Fatalf("%d of %d bytes, %d read, %v", len(part), len(whole), file.bytes, err)
		}
		inputs, outputs, err := Signature(part)
		wantInputs, wantOutputs, wantErr := Signature(whole)
		if err != nil || wantErr != nil || !same(inputs, wantInputs...) || !same(outputs, wantOutputs...) {
			t.Errorf("%v, %v, %v; want %v, %v, %v", inputs, outputs, err, wantInputs, wantOutputs, wantErr)
		}
		for _, operator := range []string{"GroupQueryAttention", "MatMul", "Constant"} {
			found, err := Uses(part, operator)
			if want, _ := Uses(whole, operator); err != nil || found != want {
				t.Errorf("%s: %v, %v; want %v", operator, found, err, want)
			}
		}
	}
	whole := sample()
	if part, err := Outline(bytes.NewReader(whole), int64(len(whole))); err != nil || !bytes.Equal(part, whole) {
		t.Errorf("a file of few numbers is another in outline: %v", err)
	}
}

// Of a file that is cut off, the outline fails or is of its first fields, as Signature is.
func TestOutlineOfAPart(t *testing.T) {
	whole := large(maxNumbers / 2)
	for n := range len(whole) {
		part, err := Outline(bytes.NewReader(whole[:n]), int64(n))
		_, _, want := Signature(whole[:n])
		if err != nil {
			if want == nil || !strings.HasPrefix(err.Error(), "it is no whole ONNX file: ") {
				t.Errorf("%d bytes: %v; the signature's error is %v", n, err, want)
			}
			continue
		}
		if _, _, err := Signature(part); (err == nil) != (want == nil) {
			t.Errorf("%d bytes: %v in outline, %v in whole", n, err, want)
		}
	}
}

// FuzzSignature: what is read of a file is no more than it has, and is written and read
// back the same.
func FuzzSignature(f *testing.F) {
	f.Add(sample())
	f.Fuzz(func(t *testing.T, data []byte) {
		_, _ = Uses(data, "MatMul")
		inputs, outputs, err := Signature(data)
		if err != nil {
			if inputs != nil || outputs != nil {
				t.Errorf("%v and %v with the error %v", inputs, outputs, err)
			}
			return
		}
		g, size := new(Graph), 0
		for i, v := range append(slices.Clone(inputs), outputs...) {
			size += len(v.Name) + 2*len(v.Dims)
			declare := g.Input
			if i >= len(inputs) {
				declare = g.Output
			}
			declare(v.Name, uint64(v.Kind), dims(v)...)
		}
		if size > len(data) {
			t.Errorf("%d bytes of values in a file of %d", size, len(data))
		}
		if in, out, err := Signature(g.Model()); err != nil || !same(in, inputs...) || !same(out, outputs...) {
			t.Errorf("%v and %v are read back as %v and %v, %v", inputs, outputs, in, out, err)
		}
	})
}

func dims(v Value) (list []Dim) {
	for _, size := range v.Dims {
		list = append(list, Dim{Size: size})
	}
	return list
}

package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
)

// The path of the Open Inference Protocol has the model, and perhaps its version, between
// these.
const (
	InferPrefix = "/v2/models/"
	InferSuffix = "/infer"
)

// The types of tensors that are understood, of those that the protocol has.
const (
	Bytes   = "BYTES"
	Int64   = "INT64"
	Float32 = "FP32"
)

// InferenceRequest is a request of the Open Inference Protocol.
type InferenceRequest struct {
	ID         string                     `json:"id"`
	Parameters map[string]json.RawMessage `json:"parameters"`
	Inputs     []InputTensor              `json:"inputs"`
	Outputs    []struct {
		Name       string                     `json:"name"`
		Parameters map[string]json.RawMessage `json:"parameters"`
	} `json:"outputs"`
}

// InputTensor is a tensor of a request. One of the three lists has its elements, in
// row-major order, by its type.
type InputTensor struct {
	TensorType
	Parameters map[string]json.RawMessage `json:"parameters"`
	Data       json.RawMessage            `json:"data"`

	Strings  []string  `json:"-"`
	Integers []int64   `json:"-"`
	Floats   []float32 `json:"-"`
}

// Rows is the size of the tensor's first dimension.
func (t *InputTensor) Rows() int { return int(t.Shape[0]) }

// Inference is an answer of the Open Inference Protocol.
type Inference struct {
	Model   string         `json:"model_name"`
	ID      string         `json:"id,omitempty"`
	Outputs []OutputTensor `json:"outputs"`
}

// OutputTensor is a tensor of an answer.
type OutputTensor struct {
	TensorType
	Data any `json:"data"`
}

// Input is the request's input of the name, or nil.
func (q *InferenceRequest) Input(name string) *InputTensor {
	for i := range q.Inputs {
		if q.Inputs[i].Name == name {
			return &q.Inputs[i]
		}
	}
	return nil
}

// RefuseInference is an answer in the protocol's form that says what is wrong.
func RefuseInference(r *http.Request, status int, err error) *http.Response {
	text, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
	return Respond(r, status, text)
}

// ReadInference reads a request to a model of the signature.
func ReadInference(body []byte, s Signature) (*InferenceRequest, error) {
	q := new(InferenceRequest)
	if err := json.Unmarshal(body, q); err != nil {
		return nil, fmt.Errorf("the body is no inference request: %w", err)
	}
	for name := range q.Parameters {
		return nil, fmt.Errorf("unknown parameter %q; this server has none", name)
	}
	for i := range q.Inputs {
		t := &q.Inputs[i]
		if q.Input(t.Name) != t {
			return nil, fmt.Errorf("input %q is there twice", t.Name)
		}
		declared, err := among(s.Inputs, "input", t.Name)
		if err == nil {
			err = t.read(declared)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, o := range q.Outputs {
		if _, err := among(s.Outputs, "output", o.Name); err != nil {
			return nil, err
		}
		for name := range o.Parameters {
			return nil, fmt.Errorf("output %q: unknown parameter %q; this server has none", o.Name, name)
		}
	}
	return q, nil
}

// among finds the tensor of the name.
func among(list []TensorType, kind, name string) (*TensorType, error) {
	names := make([]string, len(list))
	for i := range list {
		if names[i] = list[i].Name; names[i] == name {
			return &list[i], nil
		}
	}
	return nil, fmt.Errorf("the model has no %s %q; it has %q", kind, name, names)
}

// read checks the tensor and decodes its elements.
func (t *InputTensor) read(declared *TensorType) (err error) {
	for name := range t.Parameters {
		return fmt.Errorf("input %q: unknown parameter %q; this server has none, and takes tensors as JSON", t.Name, name)
	}
	if t.Datatype != declared.Datatype {
		return fmt.Errorf("input %q is of the type %q; want %s", t.Name, t.Datatype, declared.Datatype)
	}
	size, fits := 1, len(t.Shape) == len(declared.Shape)
	for i, d := range t.Shape {
		fits = fits && d >= 1 && (declared.Shape[i] < 0 || declared.Shape[i] == d) && d <= int64(math.MaxInt32/size)
		if !fits {
			break
		}
		size *= int(d)
	}
	if !fits {
		return fmt.Errorf("input %q has the shape %v; want %v, where -1 is any size from 1 on", t.Name, t.Shape, declared.Shape)
	}
	switch t.Datatype {
	case Bytes:
		t.Strings, err = elements(t.Data, size, func(v json.Token) (string, bool) { s, ok := v.(string); return s, ok })
	case Int64:
		t.Integers, err = elements(t.Data, size, integer)
	default:
		t.Floats, err = elements(t.Data, size, float)
	}
	if t.Data = nil; err != nil {
		return fmt.Errorf("input %q: %w", t.Name, err)
	}
	return nil
}

func integer(v json.Token) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Int64()
	return x, err == nil
}

func float(v json.Token) (float32, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	x, err := n.Float64()
	return float32(x), err == nil && math.Abs(x) <= math.MaxFloat32
}

// elements decodes so many elements of a tensor, which are one list or lists in lists.
func elements[T any](data json.RawMessage, size int, read func(json.Token) (T, bool)) ([]T, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var list []T
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("its data cannot be read: %w", err)
		}
		if token == json.Delim('[') || token == json.Delim(']') {
			continue
		}
		x, ok := read(token)
		if !ok {
			return nil, fmt.Errorf("element %d of its data, %v, is not of its type", len(list), token)
		}
		if list = append(list, x); len(list) > size {
			break
		}
	}
	if len(list) != size {
		return nil, fmt.Errorf("its data has another number of elements than its shape, %d", size)
	}
	return list, nil
}

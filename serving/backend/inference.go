package backend

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"gearshift/serving/openai/inference"
)

// The types of tensors that are understood, of those that the protocol has.
const (
	Bytes   = inference.Strings
	Int64   = "INT64"
	Float32 = "FP32"
)

// InferenceRequest is a request of the Open Inference Protocol to a model.
type InferenceRequest struct {
	*inference.Request
	Inputs []InputTensor
}

// InputTensor is a tensor of a request. One of the three lists has its elements, in
// row-major order, by its type.
type InputTensor struct {
	TensorType
	Strings  []string
	Integers []int64
	Floats   []float32
}

// Rows is the size of the tensor's first dimension.
func (t *InputTensor) Rows() int { return int(t.Shape[0]) }

// OutputTensor is a tensor of numbers of an answer.
type OutputTensor struct {
	TensorType
	Data []float32
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

// AsksToInfer reports whether the request is one of the Open Inference Protocol.
func AsksToInfer(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasPrefix(r.URL.Path, inference.PathPrefix) && strings.HasSuffix(r.URL.Path, inference.PathSuffix)
}

// AsksForMetadata reports whether the request is for the metadata of a model, of the Open Inference
// Protocol.
func AsksForMetadata(r *http.Request) bool {
	name, ok := strings.CutPrefix(r.URL.Path, inference.PathPrefix)
	return ok && r.Method == http.MethodGet && !strings.Contains(name, "/")
}

// Describe is the metadata of a model of the signature.
func Describe(r *http.Request, name string, s Signature) (*http.Response, error) {
	return respondJSON(r, struct {
		Name     string   `json:"name"`
		Versions []string `json:"versions"`
		Signature
	}{name, []string{"1"}, s})
}

// RefuseInference is an answer in the protocol's form that says what is wrong.
func RefuseInference(r *http.Request, status int, err error) *http.Response {
	text, _ := json.Marshal(map[string]string{"error": err.Error()}) // strings always encode
	return Respond(r, status, text)
}

// ReadInference reads a request to a model of the signature.
func ReadInference(r *http.Request, body []byte, s Signature) (*InferenceRequest, error) {
	read, err := inference.ReadRequest(r.Header, body)
	if err != nil {
		return nil, err
	}
	for name := range read.Parameters {
		return nil, fmt.Errorf("unknown parameter %q; this server has none but those of binary tensors", name)
	}
	q := &InferenceRequest{Request: read, Inputs: make([]InputTensor, len(read.Inputs))}
	for i := range read.Inputs {
		declared, err := among(s.Inputs, "input", read.Inputs[i].Name)
		if err == nil {
			err = q.Inputs[i].read(&read.Inputs[i], declared)
		}
		if err != nil {
			return nil, err
		}
	}
	for _, o := range read.Outputs {
		if _, err := among(s.Outputs, "output", o.Name); err != nil {
			return nil, err
		}
		for name := range o.Parameters {
			return nil, fmt.Errorf("output %q: unknown parameter %q; this server has none but those of binary tensors", o.Name, name)
		}
	}
	return q, nil
}

// Answer is the answer to the request, each output in the form in which it is wanted.
func (q *InferenceRequest) Answer(r *http.Request, model string, outputs ...OutputTensor) *http.Response {
	a := inference.Answer{Model: model, ID: q.ID}
	for _, o := range outputs {
		t := inference.Tensor{Name: o.Name, Datatype: o.Datatype, Shape: o.Shape, Binary: q.Wants(o.Name)}
		var err error
		if t.Binary {
			for _, x := range o.Data {
				t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(x))
			}
		} else if t.Data, err = json.Marshal(o.Data); err != nil {
			return RefuseInference(r, http.StatusInternalServerError, fmt.Errorf("output %q of the model has what are no finite numbers", o.Name))
		}
		a.Outputs = append(a.Outputs, t)
	}
	header := http.Header{}
	text, err := a.Write(header)
	if err != nil {
		return RefuseInference(r, http.StatusInternalServerError, err)
	}
	response := Respond(r, http.StatusOK, text)
	for name, values := range header {
		response.Header[name] = values
	}
	return response
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
func (t *InputTensor) read(from *inference.Tensor, declared *TensorType) (err error) {
	t.TensorType = TensorType{Name: from.Name, Datatype: from.Datatype, Shape: from.Shape}
	for name := range from.Parameters {
		return fmt.Errorf("input %q: unknown parameter %q; this server has none but those of binary tensors", t.Name, name)
	}
	if t.Datatype != declared.Datatype {
		return fmt.Errorf("input %q is of the type %q; want %s", t.Name, t.Datatype, declared.Datatype)
	}
	size, err := from.Elements()
	fits := err == nil && slices.EqualFunc(t.Shape, declared.Shape, func(d, want int64) bool { return want < 0 || want == d })
	if !fits {
		return fmt.Errorf("input %q has the shape %v; want %v, where -1 is any size from 1 on", t.Name, t.Shape, declared.Shape)
	}
	if from.Binary {
		if _, err := from.Cut(); err != nil { // which checks the sizes
			return fmt.Errorf("input %q %w", t.Name, err)
		}
		err = t.decode(from.Data, size)
	} else {
		err = t.parse(from.Data, size)
	}
	if err != nil {
		return fmt.Errorf("input %q: %w", t.Name, err)
	}
	return nil
}

// parse reads so many elements in JSON.
func (t *InputTensor) parse(data []byte, size int) (err error) {
	switch t.Datatype {
	case Bytes:
		t.Strings, err = elements(data, size, func(v json.Token) (string, bool) { s, ok := v.(string); return s, ok })
	case Int64:
		t.Integers, err = elements(data, size, integer)
	default:
		t.Floats, err = elements(data, size, float)
	}
	return err
}

// decode reads so many elements of binary data, of which there are as many bytes as that takes.
func (t *InputTensor) decode(data []byte, size int) error {
	for i := range size {
		switch t.Datatype {
		case Bytes:
			n, err := inference.StringAt(data)
			if err != nil {
				return err
			}
			t.Strings, data = append(t.Strings, string(data[4:4+n])), data[4+n:]
		case Int64:
			t.Integers = append(t.Integers, int64(binary.LittleEndian.Uint64(data[8*i:])))
		default:
			x := math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
			if x-x != 0 {
				return fmt.Errorf("element %d of its data, %v, is no finite number", i, x)
			}
			t.Floats = append(t.Floats, x)
		}
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
	x, err := strconv.ParseFloat(n.String(), 64)
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

// Signature describes the tensors of a model, in the form of the Open Inference Protocol.
type Signature struct {
	Platform string       `json:"platform"`
	Inputs   []TensorType `json:"inputs"`
	Outputs  []TensorType `json:"outputs"`
}

// TensorType is a tensor's name, type and shape. A dimension of -1 is of any size.
type TensorType struct {
	Name     string  `json:"name"`
	Datatype string  `json:"datatype"`
	Shape    []int64 `json:"shape"`
}

// Described is an engine that can describe its model's tensors.
type Described interface{ Signature() Signature }

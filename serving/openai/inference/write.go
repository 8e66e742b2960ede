package inference

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strconv"
)

// written is a tensor in JSON.
type written struct {
	Name       string                     `json:"name"`
	Datatype   string                     `json:"datatype,omitempty"`
	Shape      []int64                    `json:"shape,omitempty"`
	Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
	Data       json.RawMessage            `json:"data,omitempty"`
}

func (t *Tensor) written() written {
	w := written{Name: t.Name, Datatype: t.Datatype, Shape: t.Shape, Parameters: t.Parameters}
	if t.Binary {
		w.Parameters = with(t.Parameters, binarySize, strconv.Itoa(len(t.Data)))
	} else {
		w.Data = t.Data
	}
	return w
}

// with is the parameters and one more.
func with(parameters map[string]json.RawMessage, name, value string) map[string]json.RawMessage {
	out := maps.Clone(parameters)
	if out == nil {
		out = map[string]json.RawMessage{}
	}
	out[name] = json.RawMessage(value)
	return out
}

// Write returns the body of the request, and sets the fields of the header that say what it is.
func (q *Request) Write(h http.Header) ([]byte, error) {
	text := struct {
		ID         string                     `json:"id,omitempty"`
		Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
		Inputs     []written                  `json:"inputs"`
		Outputs    []written                  `json:"outputs,omitempty"`
	}{ID: q.ID, Parameters: q.Parameters, Inputs: []written{}}
	if q.BinaryOutput {
		text.Parameters = with(q.Parameters, binaryOutput, "true")
	}
	for i := range q.Inputs {
		text.Inputs = append(text.Inputs, q.Inputs[i].written())
	}
	for i := range q.Outputs {
		o := &q.Outputs[i]
		w := written{Name: o.Name, Parameters: o.Parameters}
		if o.Binary != nil {
			w.Parameters = with(o.Parameters, binaryData, strconv.FormatBool(*o.Binary))
		}
		text.Outputs = append(text.Outputs, w)
	}
	return body(h, text, q.Inputs)
}

// Write returns the body of the answer, and sets the fields of the header that say what it is.
func (a *Answer) Write(h http.Header) ([]byte, error) {
	text := struct {
		Model      string                     `json:"model_name"`
		Version    string                     `json:"model_version,omitempty"`
		ID         string                     `json:"id,omitempty"`
		Parameters map[string]json.RawMessage `json:"parameters,omitempty"`
		Outputs    []written                  `json:"outputs"`
	}{Model: a.Model, Version: a.Version, ID: a.ID, Parameters: a.Parameters, Outputs: []written{}}
	for i := range a.Outputs {
		text.Outputs = append(text.Outputs, a.Outputs[i].written())
	}
	return body(h, text, a.Outputs)
}

// body is the JSON, and after it the data of the tensors that are binary.
func body(h http.Header, text any, tensors []Tensor) ([]byte, error) {
	out, err := json.Marshal(text)
	if err != nil {
		return nil, fmt.Errorf("cannot write tensors: %w", err)
	}
	length, binary := len(out), false
	for i := range tensors {
		if t := &tensors[i]; t.Binary {
			out, binary = append(out, t.Data...), true
		}
	}
	h.Set("Content-Type", "application/json")
	h.Del(HeaderLength)
	if binary {
		h.Set("Content-Type", "application/octet-stream")
		h.Set(HeaderLength, strconv.Itoa(length))
	}
	return out, nil
}

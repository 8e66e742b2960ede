package inference

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"gearshift/serving/openai/wire"
)

// The path of a request has the model, and perhaps its version, between these.
const (
	PathPrefix = "/v2/models/"
	PathSuffix = "/infer"
)

// HeaderLength is the field of the header that says how long the JSON is that binary data
// follows.
const HeaderLength = "Inference-Header-Content-Length"

// The parameters of the binary tensor data extension: the size of a tensor's data, whether an
// output is wanted as binary data, and whether all are.
const (
	binarySize   = "binary_data_size"
	binaryData   = "binary_data"
	binaryOutput = "binary_data_output"
)

// Request is a request to infer.
type Request struct {
	ID string
	// Parameters are all of them but BinaryOutput.
	Parameters map[string]json.RawMessage
	// BinaryOutput says that outputs are wanted as binary data where they say nothing.
	BinaryOutput bool
	Inputs       []Tensor
	// Outputs are those wanted; none are all.
	Outputs []Output
}

// Output is an output that a request wants.
type Output struct {
	Name       string
	Parameters map[string]json.RawMessage // but Binary
	// Binary is whether it is wanted as binary data; nil is what the request says.
	Binary *bool
}

// Answer is the answer to a request to infer.
type Answer struct {
	Model, Version, ID string
	Parameters         map[string]json.RawMessage
	Outputs            []Tensor
}

// Output is the answer's output of the name, or nil.
func (a *Answer) Output(name string) *Tensor { return find(a.Outputs, name) }

func find(list []Tensor, name string) *Tensor {
	i := slices.IndexFunc(list, func(t Tensor) bool { return t.Name == name })
	if i < 0 {
		return nil
	}
	return &list[i]
}

// Wants reports whether the output of the name is wanted as binary data.
func (q *Request) Wants(name string) (binary bool) {
	for i := range q.Outputs {
		if o := &q.Outputs[i]; o.Name == name && o.Binary != nil {
			return *o.Binary
		}
	}
	return q.BinaryOutput
}

// ReadRequest reads a request. Its tensors share the body's memory.
func ReadRequest(h http.Header, body []byte) (*Request, error) {
	p, err := open(h, body)
	if err != nil {
		return nil, fmt.Errorf("the body is no inference request: %w", err)
	}
	q := &Request{}
	err = p.members(p.text, func(name string, value []byte) error {
		switch name {
		case "id":
			return p.value(value, "id", "a string", &q.ID)
		case "parameters":
			return p.parameters(value, name, &q.Parameters)
		case "inputs":
			return p.list(value, "input", func(value []byte) error { return p.tensor(value, "input", &q.Inputs) })
		case "outputs":
			return p.list(value, "output", func(value []byte) error { return p.wanted(value, &q.Outputs) })
		}
		return nil
	})
	if err == nil {
		q.BinaryOutput, _, err = truth(q.Parameters, binaryOutput)
	}
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	return q, nil
}

// ReadAnswer reads an answer. Its tensors share the body's memory.
func ReadAnswer(h http.Header, body []byte) (*Answer, error) {
	p, err := open(h, body)
	if err != nil {
		return nil, fmt.Errorf("the body is no answer to an inference request: %w", err)
	}
	a := &Answer{}
	err = p.members(p.text, func(name string, value []byte) error {
		switch name {
		case "model_name":
			return p.value(value, name, "a string", &a.Model)
		case "model_version":
			return p.value(value, name, "a string", &a.Version)
		case "id":
			return p.value(value, name, "a string", &a.ID)
		case "parameters":
			return p.parameters(value, name, &a.Parameters)
		case "outputs":
			return p.list(value, "output", func(value []byte) error { return p.tensor(value, "output", &a.Outputs) })
		}
		return nil
	})
	if err == nil {
		err = p.end()
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

// parts are a body's JSON and the binary data after it.
type parts struct {
	text   []byte
	data   []byte
	total  int  // of the data at first
	header bool // there is one that says where the JSON ends
}

// open takes the body apart.
func open(h http.Header, body []byte) (*parts, error) {
	p := &parts{text: body}
	if text := h.Get(HeaderLength); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 || n > len(body) {
			return nil, fmt.Errorf("%s is %q; want the length of its JSON, at most the body's %d bytes", HeaderLength, text, len(body))
		}
		p.text, p.data, p.total, p.header = body[:n:n], body[n:], len(body)-n, true
	}
	var object map[string]json.RawMessage
	if !json.Valid(p.text) {
		if err := json.Unmarshal(p.text, &object); err != nil {
			return nil, err
		}
	}
	if !wire.Members(p.text, func([]byte, int, int) bool { return true }) {
		return nil, errors.New("its JSON is no object")
	}
	return p, nil
}

// end reports data that no tensor has.
func (p *parts) end() error {
	if len(p.data) > 0 {
		return fmt.Errorf("%d bytes follow the JSON, and the tensors' %s add up to %d", p.total, binarySize, p.total-len(p.data))
	}
	return nil
}

// The bounds of what is decoded of a body, which takes many times the memory of its text: the members of
// an object, and the dimensions of a shape.
const (
	mostMembers    = 256
	mostDimensions = 64
)

// members calls f with each member of the object, none of which may be there twice.
func (p *parts) members(object []byte, f func(name string, value []byte) error) (err error) {
	seen := map[string]bool{}
	fine := wire.Members(object, func(key []byte, start, end int) bool {
		name := string(key)
		if seen[name] {
			err = fmt.Errorf("the member %q is there twice", name)
			return false
		}
		if seen[name] = true; len(seen) > mostMembers {
			err = fmt.Errorf("more than %d members in an object", mostMembers)
			return false
		}
		err = f(name, object[start:end])
		return err == nil
	})
	if err == nil && !fine {
		err = fmt.Errorf("%.40q is no object", object)
	}
	return err
}

// list calls f with each element of the list.
func (p *parts) list(list []byte, kind string, f func(value []byte) error) (err error) {
	if !wire.Elements(list, func(value []byte) {
		if err == nil {
			err = f(value)
		}
	}) {
		return fmt.Errorf("%ss: want a list", kind)
	}
	return err
}

// value decodes a small value.
func (p *parts) value(value []byte, where, want string, into any) error {
	if json.Unmarshal(value, into) != nil {
		return fmt.Errorf("%s: %.40s; want %s", where, value, want)
	}
	return nil
}

// parameters decodes the parameters of a body, or of a tensor.
func (p *parts) parameters(value []byte, where string, into *map[string]json.RawMessage) error {
	count := 0
	wire.Members(value, func([]byte, int, int) bool { count++; return count <= mostMembers })
	if count > mostMembers {
		return fmt.Errorf("%s: more than %d of them", where, mostMembers)
	}
	return p.value(value, where, "an object", into)
}

// bounded reports whether a list has at most so many elements.
func bounded(list []byte, most int) bool {
	count := 0
	wire.Elements(list, func([]byte) { count++ })
	return count <= most
}

// mostTensors bounds those of a request.
const mostTensors = 256

// tensor reads one, with its binary data if it has some.
func (p *parts) tensor(value []byte, kind string, list *[]Tensor) error {
	var t Tensor
	given := false
	err := p.members(value, func(name string, value []byte) error {
		where := fmt.Sprintf("%s %d: %s", kind, len(*list), name)
		switch name {
		case "name":
			return p.value(value, where, "a string", &t.Name)
		case "datatype":
			return p.value(value, where, "a string", &t.Datatype)
		case "shape":
			if !bounded(value, mostDimensions) {
				return fmt.Errorf("%s: more than %d dimensions", where, mostDimensions)
			}
			return p.value(value, where, "a list of whole numbers", &t.Shape)
		case "parameters":
			return p.parameters(value, where, &t.Parameters)
		case "data":
			t.Data, given = value, true
		}
		return nil
	})
	if err != nil {
		return err
	}
	if find(*list, t.Name) != nil {
		return fmt.Errorf("%s %q is there twice", kind, t.Name)
	}
	if len(*list) >= mostTensors {
		return fmt.Errorf("more than %d %ss", mostTensors, kind)
	}
	if size, ok := t.Parameters[binarySize]; ok {
		if err := p.binary(&t, size, given); err != nil {
			return fmt.Errorf("%s %q: %w", kind, t.Name, err)
		}
	} else if !given {
		return fmt.Errorf("%s %q has no data", kind, t.Name)
	}
	*list = append(*list, t)
	return nil
}

// binary gives the tensor its part of what follows the JSON.
func (p *parts) binary(t *Tensor, size json.RawMessage, given bool) error {
	n, err := strconv.Atoi(string(size))
	switch {
	case err != nil || n < 0:
		return fmt.Errorf("%s is %.40s; want a number of bytes", binarySize, size)
	case given:
		return fmt.Errorf("there are both data and %s", binarySize)
	case !p.header:
		return fmt.Errorf("there is %s without a header field %s", binarySize, HeaderLength)
	case n > len(p.data):
		return fmt.Errorf("%s is %d, and %d of the %d bytes after the JSON are left", binarySize, n, len(p.data), p.total)
	}
	t.Data, t.Binary, p.data = p.data[:n:n], true, p.data[n:]
	delete(t.Parameters, binarySize)
	return nil
}

// wanted reads an output that a request wants.
func (p *parts) wanted(value []byte, list *[]Output) error {
	var o Output
	err := p.members(value, func(name string, value []byte) error {
		where := fmt.Sprintf("output %d: %s", len(*list), name)
		switch name {
		case "name":
			return p.value(value, where, "a string", &o.Name)
		case "parameters":
			return p.parameters(value, where, &o.Parameters)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if slices.ContainsFunc(*list, func(known Output) bool { return known.Name == o.Name }) {
		return fmt.Errorf("output %q is there twice", o.Name)
	}
	if len(*list) >= mostTensors {
		return fmt.Errorf("more than %d outputs", mostTensors)
	}
	binary, there, err := truth(o.Parameters, binaryData)
	if err != nil {
		return fmt.Errorf("output %q: %w", o.Name, err)
	}
	if there {
		o.Binary = &binary
	}
	*list = append(*list, o)
	return nil
}

// truth takes a parameter that is true or false out of the others.
func truth(parameters map[string]json.RawMessage, name string) (value, there bool, err error) {
	text, there := parameters[name]
	if !there {
		return false, false, nil
	}
	delete(parameters, name)
	if value = string(text) == "true"; !value && string(text) != "false" {
		return false, true, fmt.Errorf("the parameter %s is %.40s; want true or false", name, text)
	}
	return value, true, nil
}

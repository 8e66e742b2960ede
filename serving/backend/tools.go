package backend

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"gearshift/serving/openai/wire"
)

// tool is a function that the client offers.
type tool struct {
	Function *struct {
		Name       string          `json:"name"`
		Parameters json.RawMessage `json:"parameters"`
	} `json:"function"`
}

// called is the function that the answer must call: the one that "tool_choice"
// names, or the first if it is "required". Left to itself a simulated engine
// answers with text, so it is nil for anything else.
func (o *order) called() (*wire.Function, *wire.Error) {
	name, must, fault := toolChoice(o.ToolChoice)
	if fault != nil || !must {
		return nil, fault
	}
	for _, t := range o.Tools {
		if t.Function != nil && (name == "" || t.Function.Name == name) {
			return &wire.Function{Name: t.Function.Name, Arguments: string(example(t.Function.Parameters, 0))}, nil
		}
	}
	e := invalid("tool_choice", `"tool_choice" asks for a call, and "tools" has no function to call`)
	if name != "" {
		e.Message = fmt.Sprintf("\"tool_choice\" names the function %q, which is not among \"tools\"", name)
	}
	return nil, &e
}

// toolChoice reads the member: whether a call must be, and of which function.
func toolChoice(value json.RawMessage) (name string, must bool, fault *wire.Error) {
	var word string
	if len(value) == 0 || json.Unmarshal(value, &word) == nil { // null too
		switch word {
		case "", "none", "auto":
			return "", false, nil
		case "required":
			return "", true, nil
		}
	}
	var named struct {
		Type     string
		Function struct{ Name string }
	}
	if word == "" && json.Unmarshal(value, &named) == nil {
		if named.Type != "function" {
			return "", false, nil // a narrower offer, or another kind of tool
		}
		if named.Function.Name != "" {
			return named.Function.Name, true, nil
		}
	}
	e := invalid("tool_choice", `"tool_choice" must be "none", "auto", "required", or {"type": "function", "function": {"name": "…"}}`)
	return "", false, &e
}

// schemaDepth bounds how deep an example follows its schema.
const schemaDepth = 8

// example is a value such as the JSON schema describes, with all of its
// properties. What the schema does not say becomes an empty object.
func example(schema json.RawMessage, depth int) []byte {
	var kind string
	var first, properties, items json.RawMessage
	wire.Members(schema, func(key []byte, start, end int) bool {
		value := json.RawMessage(schema[start:end])
		switch string(key) {
		case "type":
			_ = json.Unmarshal(value, &kind)
			wire.Elements(value, func(one []byte) {
				if kind == "" {
					_ = json.Unmarshal(one, &kind)
				}
			})
		case "const":
			first = value
		case "enum":
			wire.Elements(value, func(one []byte) {
				if first == nil {
					first = one
				}
			})
		case "properties":
			properties = value
		case "items":
			items = value
		}
		return true
	})
	switch {
	case first != nil:
		return first
	case kind == "string":
		return []byte(`"` + vocabulary[1] + `"`)
	case kind == "integer" || kind == "number":
		return []byte("1")
	case kind == "boolean":
		return []byte("true")
	case kind == "null":
		return []byte("null")
	case kind == "array" && items != nil && depth < schemaDepth:
		return append(append([]byte{'['}, example(items, depth+1)...), ']')
	case kind == "array":
		return []byte("[]")
	case depth == schemaDepth:
		return []byte("{}")
	}
	return exampleObject(properties, depth)
}

func exampleObject(properties json.RawMessage, depth int) []byte {
	out := bytes.NewBufferString("{")
	wire.Members(properties, func(key []byte, start, end int) bool {
		name, err := json.Marshal(string(key))
		if err != nil { // strings always encode
			panic(err)
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(append(name, ':'))
		out.Write(example(properties[start:end], depth+1))
		return true
	})
	out.WriteByte('}')
	return out.Bytes()
}

func (w *work) callID() string { return fmt.Sprintf("call_%012x", w.ID()) }

// callPiece writes the next token's share of the call's arguments, before the
// first the call's name.
func (e *events) callPiece() {
	if e.sent == 0 {
		e.choice(wire.Choice{Delta: &wire.Delta{Role: "assistant", ToolCalls: []wire.ToolCall{
			{Index: new(int), ID: e.callID(), Type: "function", Function: wire.Function{Name: e.call.Name}},
		}}})
	}
	_, output := e.Usage()
	if text := share(e.call.Arguments, e.sent, output); text != "" {
		e.choice(wire.Choice{Delta: &wire.Delta{ToolCalls: []wire.ToolCall{{Index: new(int), Function: wire.Function{Arguments: text}}}}})
	}
}

// share is the i-th of n parts of the text, in whole characters.
func share(text string, i, n int) string {
	characters := strings.Split(text, "")
	return strings.Join(characters[len(characters)*i/n:len(characters)*(i+1)/n], "")
}

package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"unicode/utf8"
)

// Request is a client's body, untouched, with the few members that a router
// reads. Everything else in it, known or not, is the upstream's business.
type Request struct {
	// Body is the text as it came.
	Body   []byte
	buffer *Buffer // that Body is in; nil if it is the request's own
	// Model is empty if the body names none.
	Model string
	// Task is metadata.task, empty if there is none, or if it is no string: metadata is
	// the application's own.
	Task string
	// Stream says that the answer is asked for as events.
	Stream bool
	// Previous is the response that one of the Responses API goes on from, empty if
	// there is none. Unstored says that the answer is not to be kept.
	Previous string
	Unstored bool

	form    bool // the body is a form, not an object
	media   int  // tokens of a form's files
	asked   asked
	seen    seen
	models  []span            // the values of "model": one, but JSON allows more
	renamed bool              // Model differs from the body; see [Request.Rename]
	parts   [promptParts]span // the parts of the prompt
	inputs  []member          // of an input to classify; see [Request.Inputs]
}

type span struct{ start, end int }

// maxModels bounds the values of "model" in one body: each is remembered, beyond what the
// body itself is charged for.
const maxModels = 8

// ParseRequest reads a request of any of the endpoints. The error is an [Error] that says
// where the text is malformed, or which member has a wrong type. The request
// keeps body, which must not change.
func ParseRequest(body []byte) (*Request, error) {
	long, err := valid(body)
	if err != nil {
		return nil, err
	}
	r := &Request{Body: body, seen: long}
	var fault error
	var other, name string // a member whose name differs from another's only in case
	object := long.members(body, func(key []byte, start, end int) bool {
		if of := alias(key); of != "" {
			other, name = string(key), of
		}
		r.asked.member(long, key, body[start:end])
		fault = r.member(key, body[start:end], span{start, end})
		return fault == nil
	})
	switch {
	case !object:
		return nil, errNoObject
	case fault == nil && name != "" && (name != "model" || len(r.models) > 0): // else there is no model at all
		return nil, ambiguous(other, name)
	}
	return r, fault
}

// In says that the request's body lies in the buffer, which its texts then hold.
func (r *Request) In(b *Buffer) { r.buffer = b }

// Rename replaces the name of the model that the body asks for, if the body names one; an empty name replaces nothing.
func (r *Request) Rename(model string) {
	if model != "" && len(r.models) > 0 {
		r.Model, r.renamed = model, true
	}
}

func (r *Request) member(key []byte, value []byte, at span) error {
	switch string(key) {
	case "model":
		model, ok := text(value)
		if !ok {
			return wrongType("model", "a string")
		}
		return r.named(model, at)
	case "metadata":
		return r.metadata(value)
	case "stream":
		r.Stream = string(value) == "true"
	case "previous_response_id":
		r.Previous, _ = text(value) // elsewhere an unknown member
	case "store":
		r.Unstored = string(value) == "false"
	default:
		r.takes(string(key), at)
	}
	return nil
}

// named notes a value of "model". The last one counts.
func (r *Request) named(model string, at span) error {
	if len(r.models) == maxModels {
		return Error{Type: InvalidRequest, Param: "model", Code: "repeated_member", Message: fmt.Sprintf(`"model" comes more than %d times; want it once`, maxModels)}
	}
	r.Model = model
	r.models = append(r.models, at)
	return nil
}

func (r *Request) metadata(value []byte) error {
	if isNull(value) {
		return nil
	}
	object := Members(value, func(key []byte, start, end int) bool {
		if string(key) == "task" {
			r.Task, _ = text(value[start:end])
		}
		return true
	})
	if !object {
		return wrongType("metadata", "an object")
	}
	return nil
}

// For returns the body with the model's name replaced, without what the cut leaves out, which must be an effect of the
// request's [Parts], and with every other byte as it was. The original stays untouched, and what is not replaced is not
// copied.
func (r *Request) For(model string, c Cut) *Text {
	var few [2]edit
	edits := few[:0]
	if r.Model != model || r.renamed || len(r.models) != 1 {
		value := []byte(model)
		if !r.form {
			var err error
			if value, err = json.Marshal(model); err != nil { // strings always encode
				panic(err)
			}
		}
		for _, at := range r.models {
			edits = append(edits, edit{at, value})
		}
	}
	if c != (Cut{}) {
		edits = r.cut(c, edits)
		slices.SortFunc(edits, func(a, b edit) int { return a.start - b.start })
	}
	return newText(r.buffer, r.edited(edits)...)
}

// edited is the body in pieces, with the edits made, which are in order.
func (r *Request) edited(edits []edit) [][]byte {
	pieces, last := make([][]byte, 0, 1+2*len(edits)), 0
	for _, e := range edits {
		pieces = append(pieces, r.Body[last:e.start], e.text)
		last = e.end
	}
	return append(pieces, r.Body[last:])
}

// valid says where the text stops being JSON, or UTF-8.
func valid(body []byte) (seen, error) {
	c := checker{text: body}
	switch {
	case !c.whole():
		return nil, malformed(body)
	case c.foreign:
		return c.seen, encoded(body)
	}
	return c.seen, nil
}

// malformed says where text that is not JSON stops being it. The decoder alone
// knows the position, so it runs only on text already found broken.
func malformed(body []byte) error {
	if len(bytes.TrimSpace(body)) == 0 {
		return Error{Type: InvalidRequest, Code: "invalid_json", Message: "the body is empty; it must be a JSON object"}
	}
	var ignored any
	err := json.Unmarshal(body, &ignored)
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) {
		return Error{Type: InvalidRequest, Code: "invalid_json", Message: fmt.Sprintf("malformed JSON: %v", err)}
	}
	// Offset counts the bytes read, so the offender is the one before it; text
	// that ends too soon has its fault after its last byte.
	at := int(max(0, min(syntax.Offset-1, int64(len(body)))))
	if syntax.Error() == "unexpected end of JSON input" {
		at = len(body)
	}
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	column := at - bytes.LastIndexByte(body[:at], '\n')
	return Error{
		Type: InvalidRequest, Code: "invalid_json",
		Message: fmt.Sprintf("malformed JSON at line %d, column %d (byte %d): %v", line, column, at, err),
	}
}

// encoded says where text stops being UTF-8, which JSON has to be: a decoder
// that is strict, as the replicas' may be, would take what passes here for a
// fault of the router.
func encoded(body []byte) error {
	if utf8.Valid(body) {
		return nil
	}
	at := 0
	for at < len(body) {
		r, n := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		at += n
	}
	line := 1 + bytes.Count(body[:at], []byte("\n"))
	return Error{
		Type: InvalidRequest, Code: "invalid_json",
		Message: fmt.Sprintf("malformed JSON at line %d, column %d (byte %d): the text is not UTF-8", line, at-bytes.LastIndexByte(body[:at], '\n'), at),
	}
}

func wrongType(param, want string) error {
	return Error{
		Type: InvalidRequest, Param: Optional(param), Code: "invalid_type",
		Message: fmt.Sprintf("%q must be %s", param, want),
	}
}

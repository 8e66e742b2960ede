package scoring

import (
	"bytes"
	"encoding/json"
	"errors"
)

// Reference is the right answer to a prompt, or a schema that answers must be valid by.
type Reference struct {
	// Answers are texts of which each is right.
	Answers []string
	// All says that an answer must have all of them: with [Contains] alone.
	All bool
	// Schema is a JSON schema, for [JSONSchema].
	Schema []byte
}

// errForm is the fault of an answer of another JSON type.
var errForm = errors.New(`want a text, a number, a list of these, or {"any": […]} or {"all": […]}`)

// UnmarshalJSON reads the "answer" of a prompt: a text or a number, a list of which any is right,
// the same as {"any": […]}, or {"all": […]}. It leaves the schema alone.
func (r *Reference) UnmarshalJSON(text []byte) error {
	r.Answers, r.All = nil, false
	if bytes.HasPrefix(text, []byte("{")) {
		var lists map[string][]scalar
		if json.Unmarshal(text, &lists) != nil || len(lists) != 1 {
			return errForm
		}
		for name, list := range lists {
			if name != "any" && name != "all" {
				return errForm
			}
			r.All = name == "all"
			r.add(list)
		}
		return nil
	}
	if bytes.HasPrefix(text, []byte("[")) {
		var list []scalar
		if err := json.Unmarshal(text, &list); err != nil {
			return errForm
		}
		r.add(list)
		return nil
	}
	var one scalar
	if err := one.UnmarshalJSON(text); err != nil {
		return err
	}
	r.add([]scalar{one})
	return nil
}

func (r *Reference) add(list []scalar) {
	for _, s := range list {
		if s != "" {
			r.Answers = append(r.Answers, string(s))
		}
	}
}

// scalar is a text, or a number or truth value as it is written; null is empty.
type scalar string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *scalar) UnmarshalJSON(text []byte) error {
	switch {
	case string(text) == "null":
		*s = ""
	case bytes.HasPrefix(text, []byte(`"`)):
		return json.Unmarshal(text, (*string)(s))
	case bytes.HasPrefix(text, []byte("{")), bytes.HasPrefix(text, []byte("[")):
		return errForm
	default:
		*s = scalar(text)
	}
	return nil
}

package scoring

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// outside refuses to load what a schema refers to: neither files nor servers are asked for it.
type outside struct{}

// Load implements [jsonschema.URLLoader].
func (outside) Load(string) (any, error) {
	return nil, errors.New("a schema may refer only to itself")
}

// schema returns a scorer of answers by the JSON schema: 1 for one whose JSON is valid. Drafts 4
// to 2020-12 are read, by the schema's "$schema", the last if it has none.
func schema(text []byte) (Scorer, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("no schema to validate with")
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the schema is no JSON: %w", err)
	}
	const name = "schema:///given.json"
	c := jsonschema.NewCompiler()
	c.UseLoader(outside{})
	if err := c.AddResource(name, doc); err != nil {
		return nil, unusable(err)
	}
	compiled, err := c.Compile(name)
	if err != nil {
		return nil, unusable(err)
	}
	return func(answer string) float64 {
		value, ok := parseJSON(answer)
		return worth(ok && compiled.Validate(value) == nil)
	}, nil
}

// unusable returns the fault of a schema in one line.
func unusable(err error) error {
	return fmt.Errorf("the schema cannot be used: %s", strings.Join(strings.Fields(err.Error()), " "))
}

// parseJSON returns the JSON that an answer is, or that it has in its last code fence.
func parseJSON(answer string) (value any, ok bool) {
	if value, err := jsonschema.UnmarshalJSON(strings.NewReader(answer)); err == nil {
		return value, true
	}
	for block := range fenced(answer) {
		if v, err := jsonschema.UnmarshalJSON(strings.NewReader(block)); err == nil {
			value, ok = v, true
		}
	}
	return value, ok
}

// fenced yields the code blocks of a Markdown text. One that does not end goes to the text's end.
func fenced(text string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := -1 // of the block that is open
		at := 0
		for line := range strings.Lines(text) {
			if strings.HasPrefix(strings.TrimSpace(line), "```") {
				if start < 0 {
					start = at + len(line)
				} else if yield(text[start:at]) {
					start = -1
				} else {
					return
				}
			}
			at += len(line)
		}
		if start >= 0 {
			yield(text[start:])
		}
	}
}

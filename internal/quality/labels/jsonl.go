package labels

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"gearshift/workloads/prompts"
)

// mostLine bounds a line of JSON, in bytes.
const mostLine = mostPrompt + 1<<20

// jsonl reads JSON lines. Empty lines are none.
func (r *reader) jsonl(text io.Reader) error {
	lines := bufio.NewScanner(text)
	lines.Buffer(make([]byte, 64<<10), mostLine)
	r.at.line = 0
	for lines.Scan() {
		r.at.line++
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		err := r.object(lines.Bytes())
		if err != nil && lines.Err() != nil {
			return lines.Err() // the line is a part of one, as the file could not be read on
		}
		if err != nil {
			return err
		}
	}
	if errors.Is(lines.Err(), bufio.ErrTooLong) {
		r.at.line++
		return r.fault("%w; want at most %d bytes", errLong, mostLine)
	}
	return lines.Err()
}

// object reads one line.
func (r *reader) object(line []byte) error {
	var o struct {
		Prompt *string         `json:"prompt"`
		Task   *string         `json:"task"`
		Group  json.RawMessage `json:"group"`
		Scores json.RawMessage `json:"scores"`
	}
	err := json.Unmarshal(line, &o)
	if mistyped := (*json.UnmarshalTypeError)(nil); errors.As(err, &mistyped) {
		if mistyped.Field == "" {
			return r.fault("JSON of kind %s; want an object such as %s", mistyped.Value, Example)
		}
		return r.fault("%q is a %s; want a text", mistyped.Field, mistyped.Value)
	}
	switch {
	case err != nil && (bytes.Contains(line, []byte("NaN")) || bytes.Contains(line, []byte("Infinity"))):
		return r.fault("JSON has no NaN and no Infinity; leave out the score of a model that has none")
	case err != nil:
		return r.fault("not JSON: %w; want an object such as %s", err, Example)
	case o.Prompt == nil:
		return r.fault(`no "prompt"; want an object such as %s`, Example)
	}
	p := prompts.Prompt{Text: *o.Prompt, Group: strings.Trim(string(o.Group), `"`)}
	if o.Task != nil {
		p.Task = *o.Task
	}
	scores, err := r.scores(o.Scores)
	if err != nil {
		return err
	}
	return r.add(p, scores)
}

// scores reads an object of numbers by model, in its order; null stands for none.
func (r *reader) scores(text json.RawMessage) (list []score, err error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	in := json.NewDecoder(bytes.NewReader(text))
	if first, _ := in.Token(); first != json.Delim('{') {
		return nil, r.fault(`"scores" is %.40s; want an object such as {"large": 1, "small": 0}`, text)
	}
	met := map[string]bool{}
	for in.More() {
		key, err := in.Token()
		if err != nil {
			return nil, r.fault(`"scores": %w`, err)
		}
		model, _ := key.(string) // of an object that was read before
		var value any
		if err := in.Decode(&value); err != nil { // a number beyond those of a float64
			return nil, r.fault("score of %q is too large; want a number from 0 to 1", model)
		}
		if met[model] {
			return nil, r.fault("two scores of %q; want one", model)
		}
		met[model] = true
		switch v := value.(type) {
		case nil:
		case float64:
			list = append(list, score{model, v})
		default:
			quoted, _ := json.Marshal(value) // what was JSON is again
			return nil, r.fault("score %.40s of %q; want a number from 0 to 1", quoted, model)
		}
	}
	return list, nil
}

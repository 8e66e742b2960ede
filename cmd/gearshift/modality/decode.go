package modality

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"gearshift/router/modality"
)

// file is a queue as it is written. What has no default is a pointer.
type file struct {
	FreeAt  float64         `json:"free_at"`
	Mode    modality.Mode   `json:"mode"`
	Mixing  modality.Mixing `json:"mixing"`
	Options *[]option       `json:"options"`
	Jobs    *[]job          `json:"jobs"`
}

type option struct {
	Name    *string    `json:"name"`
	Quality *float64   `json:"quality"`
	Latency *[]float64 `json:"latency"`
}

type job struct {
	ID         *string  `json:"id"`
	Size       *int     `json:"size"`
	MinQuality float64  `json:"min_quality"`
	Deadline   *float64 `json:"deadline"`
}

// keys are those of the objects, by where they are.
var keys = map[string][]string{
	"the queue": {"free_at", "mode", "mixing", "options", "jobs"},
	"options":   {"name", "quality", "latency"},
	"jobs":      {"id", "size", "min_quality", "deadline"},
}

// decode reads the text and names the line or the entry of a fault. Options that are given are
// the queue's, which has none of its own then.
func decode(text []byte, options []modality.Option) (*queue, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		return nil, errors.New("it is empty; want an object with options and jobs")
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := walk(d, text, "the queue"); err != nil {
		return nil, syntax(err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("line %d: there is more than one JSON value", line(text, d.InputOffset()))
	}
	var f file
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, mismatch(err, text)
	}
	return f.queue(options)
}

// walk reads a value and refuses keys that an object does not have, or has twice: the
// decoder would take the last, and mix the fields of two jobs.
func walk(d *json.Decoder, text []byte, where string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			if err := walk(d, text, where); err != nil {
				return err
			}
		}
		_, err = d.Token()
	case json.Delim('{'):
		var seen []string
		for d.More() {
			token, err := d.Token()
			if err != nil {
				return err
			}
			key, _ := token.(string)
			at := line(text, d.InputOffset())
			if known := keys[where]; known != nil && !slices.Contains(known, key) {
				return fmt.Errorf("line %d: unknown key %q in %s; want %s", at, key, where, strings.Join(known, ", "))
			}
			if slices.Contains(seen, key) {
				return fmt.Errorf("line %d: the key %q is there twice", at, key)
			}
			seen = append(seen, key)
			if err := walk(d, text, key); err != nil {
				return err
			}
		}
		_, err = d.Token()
	}
	return err
}

// syntax names the line of an error of the JSON itself.
func syntax(err error, text []byte) error {
	var fault *json.SyntaxError
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
		return fmt.Errorf("line %d: the JSON ends before it is complete", line(text, int64(len(bytes.TrimRight(text, "\n")))))
	case errors.As(err, &fault):
		return fmt.Errorf("line %d: not JSON: %s", line(text, fault.Offset), fault.Error())
	}
	return err
}

// mismatch says what a value should have been.
func mismatch(err error, text []byte) error {
	var fault *json.UnmarshalTypeError
	if !errors.As(err, &fault) {
		return syntax(err, text)
	}
	where, want := fault.Field, "a list"
	if where == "" {
		where = "the queue"
	}
	switch fault.Type.Kind().String() {
	case "float64":
		want = "a number up to 1e+15"
	case "int":
		want = "a whole number"
	case "string":
		want = "a string"
	case "struct":
		want = "an object"
	}
	return fmt.Errorf("line %d: %s is %s; want %s", line(text, fault.Offset), where, fault.Value, want)
}

// queue checks that nothing is missing.
func (f *file) queue(options []modality.Option) (*queue, error) {
	q := &queue{FreeAt: f.FreeAt, Mode: f.Mode, Mixing: f.Mixing, Options: options}
	if q.Mode == "" {
		q.Mode = modality.PrefixSafe
	}
	if q.Mixing == "" {
		q.Mixing = modality.Mixed
	}
	switch {
	case f.Options != nil && options != nil:
		return nil, errors.New("options: they are those of the scenario's model; want no list here, or no --scenario")
	case f.Options == nil && options == nil:
		return nil, errors.New("options is missing; want a list of combinations of inputs")
	case f.Jobs == nil:
		return nil, errors.New("jobs is missing; want a list, which may be empty")
	case !(q.FreeAt >= -modality.Largest && q.FreeAt <= modality.Largest):
		return nil, fmt.Errorf("free_at: %g must be a number from %g to %g", q.FreeAt, -modality.Largest, modality.Largest)
	}
	if f.Options == nil {
		f.Options = new([]option)
	}
	for i, o := range *f.Options {
		switch {
		case o.Name == nil:
			return nil, fmt.Errorf("options[%d]: name is missing", i)
		case o.Quality == nil:
			return nil, fmt.Errorf("options[%d] %q: quality is missing; want a number", i, *o.Name)
		case o.Latency == nil:
			return nil, fmt.Errorf("options[%d] %q: latency is missing; want the time of a batch of 1, 2, … requests", i, *o.Name)
		}
		q.Options = append(q.Options, modality.Option{Name: *o.Name, Quality: *o.Quality, Latency: *o.Latency})
	}
	for i, j := range *f.Jobs {
		switch {
		case j.ID == nil || *j.ID == "":
			return nil, fmt.Errorf("jobs[%d]: id is missing", i)
		case j.Size == nil:
			return nil, fmt.Errorf("jobs[%d] %q: size is missing; want how many requests it has", i, *j.ID)
		case j.Deadline == nil:
			return nil, fmt.Errorf("jobs[%d] %q: deadline is missing; want a time", i, *j.ID)
		}
		q.Jobs = append(q.Jobs, modality.Job{ID: *j.ID, Size: *j.Size, MinQuality: j.MinQuality, Deadline: *j.Deadline})
	}
	return q, nil
}

// line is that of an offset, from 1.
func line(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(0, offset), int64(len(text)))], []byte("\n"))
}

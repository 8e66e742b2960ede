package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// This file reads inputs in JSON that people and programs write by hand: unknown keys,
// keys that are there twice and values of another kind are refused, with the line.

// Form is what an input looks like.
type Form struct {
	Name string // of the whole, as in "the queue"
	Want string // what an empty input lacks
	// Keys are those of the objects, by the key that they are the value of, or are in the list
	// of; those of the whole by its name. The keys of objects that are not there are free.
	Keys map[string][]string
}

// Decode reads the text into v, and names the line of a fault.
func (f *Form) Decode(text []byte, v any) error {
	if len(bytes.TrimSpace(text)) == 0 {
		return fmt.Errorf("it is empty; want %s", f.Want)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := f.walk(d, text, f.Name); err != nil {
		return syntax(err, text)
	}
	if _, err := d.Token(); err != io.EOF {
		return fmt.Errorf("line %d: there is more than one JSON value", line(text, d.InputOffset()))
	}
	if err := json.Unmarshal(text, v); err != nil {
		return f.mismatch(err, text)
	}
	return nil
}

// walk reads a value and refuses keys that an object does not have, or has twice: the
// decoder would take the last, and mix the fields of two entries.
func (f *Form) walk(d *json.Decoder, text []byte, where string) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token {
	case json.Delim('['):
		for d.More() {
			if err := f.walk(d, text, where); err != nil {
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
			if known := f.Keys[where]; known != nil && !slices.Contains(known, key) {
				return fmt.Errorf("line %d: unknown key %q in %s; want %s", at, key, where, strings.Join(known, ", "))
			}
			if slices.Contains(seen, key) {
				return fmt.Errorf("line %d: the key %q is there twice", at, key)
			}
			seen = append(seen, key)
			if err := f.walk(d, text, key); err != nil {
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
func (f *Form) mismatch(err error, text []byte) error {
	var fault *json.UnmarshalTypeError
	if !errors.As(err, &fault) {
		return syntax(err, text)
	}
	where, want := fault.Field, "a list"
	if where == "" {
		where = f.Name
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

// line is that of an offset, from 1.
func line(text []byte, offset int64) int {
	return 1 + bytes.Count(text[:min(max(0, offset), int64(len(text)))], []byte("\n"))
}

// mostInput bounds the input.
const mostInput = 64 << 20

// Read reads the file, or standard input for -, and says what it is called.
func Read(path string, stdin io.Reader) (text []byte, name string, err error) {
	if name = path; path == "-" {
		name = "standard input"
	} else {
		f, err := os.Open(path)
		if err != nil {
			return nil, name, err
		}
		defer f.Close()
		stdin = f
	}
	text, err = io.ReadAll(io.LimitReader(stdin, mostInput+1))
	if err == nil && len(text) > mostInput {
		err = fmt.Errorf("%s: larger than %d MiB", name, mostInput>>20)
	}
	return text, name, err
}

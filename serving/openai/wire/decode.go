package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
)

// Decode reads a JSON object into the struct that into points to. The error is
// an [Error] in the words of JSON, with the member at fault. Strict refuses
// members that the struct does not have, and names those that it has.
func Decode(body []byte, into any, strict bool) error {
	d := json.NewDecoder(bytes.NewReader(body))
	if strict {
		d.DisallowUnknownFields()
	}
	err := d.Decode(into)
	if err == nil {
		if _, err = d.Token(); err == io.EOF {
			return exact(body, into)
		}
		return Error{Type: InvalidRequest, Code: "invalid_json", Message: "the body holds more than one JSON value"}
	}
	if _, fault := valid(body); fault != nil {
		return fault
	}
	var mismatch *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &mismatch):
		// The decoder has no type for an unknown member, and its word for it
		// is the one text that is left.
		name := strings.Trim(strings.TrimPrefix(err.Error(), "json: unknown field "), `"`)
		return Error{
			Type: InvalidRequest, Param: Optional(name), Code: "unknown_member",
			Message: fmt.Sprintf("there is no %q here; there are %s", name, strings.Join(members(into), ", ")),
		}
	case mismatch.Field == "":
		return errNoObject
	}
	want := wanted(mismatch.Type)
	if mismatch.Type.Kind() != reflect.Slice && isList(into, mismatch.Field) {
		want = "a list of which each is " + want
	}
	return wrongType(mismatch.Field, want)
}

// isList says whether the struct behind the pointer has a list of that name: what is
// amiss is then one of its elements.
func isList(into any, name string) bool {
	i := slices.Index(members(into), name)
	return i >= 0 && reflect.TypeOf(into).Elem().Field(i).Type.Kind() == reflect.Slice
}

// errNoObject is for a body that is JSON, but no object.
var errNoObject = Error{Type: InvalidRequest, Code: "invalid_type", Message: "the body must be a JSON object"}

// wanted is a Go type in the words of JSON.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a string"
	case reflect.Int, reflect.Int64:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Slice {
			return "a list of lists"
		}
		return "a list"
	}
	return "an object"
}

// members are the names that the struct behind the pointer has in JSON.
func members(into any) []string {
	t := reflect.TypeOf(into).Elem()
	names := make([]string, t.NumField())
	for i := range names {
		names[i], _, _ = strings.Cut(t.Field(i).Tag.Get("json"), ",")
	}
	return names
}

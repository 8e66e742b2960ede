package scenario

import (
	"bytes"
	"errors"
	"io"
	"reflect"

	"go.yaml.in/yaml/v3"
)

// decode reads the one document of data into the struct that v points to.
func decode(r *report, data []byte, v any) {
	d := &decoder{report: r}
	if s, ok := v.(*Scenario); ok {
		d.s, d.sections = s, s.sections
	}
	var doc, next yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch err := documents.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.unreadable("", "the file is empty")
		return
	case err != nil:
		d.syntax(data, err)
		return
	}
	if root := doc.Content[0]; root.Kind != yaml.MappingNode {
		r.lines[""] = root.Line
	}
	d.value("", doc.Content[0], reflect.ValueOf(v).Elem())
	if err := documents.Decode(&next); err == nil {
		d.addAt(next.Line, "", "a second document begins; a scenario is one")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(data, err)
	}
}

// syntax reports what is not YAML. Nothing of the file can be judged then.
func (d *decoder) syntax(data []byte, err error) {
	line, message := notYAML(data, err)
	d.addAt(line, "", "not YAML: %s", message)
	d.breaks("")
}

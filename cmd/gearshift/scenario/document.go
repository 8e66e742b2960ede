package scenario

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"regexp"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// decode reads the one document of data into the struct that v points to.
func decode(r *report, data []byte, v any) {
	d := &decoder{r}
	var doc, next yaml.Node
	documents := yaml.NewDecoder(bytes.NewReader(data))
	switch err := documents.Decode(&doc); {
	case errors.Is(err, io.EOF):
		d.unreadable("", "the file is empty")
		return
	case err != nil:
		d.syntax(err)
		return
	}
	d.value("", doc.Content[0], reflect.ValueOf(v).Elem())
	if err := documents.Decode(&next); err == nil {
		d.addAt(next.Line, "", "a second document begins; a scenario is one")
	} else if !errors.Is(err, io.EOF) {
		d.syntax(err)
	}
}

var (
	yamlError = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)
	// parserProblem are the messages of the yaml package's parser, which counts
	// lines from 0 in them; those of its scanner count from 1.
	parserProblem = regexp.MustCompile(`^did not find expected (<|node content|'-' indicator|key|',' or)`)
)

// syntax reports what is not YAML. Nothing of the file can be judged then.
func (d *decoder) syntax(err error) {
	line, message := 1, yamlError.ReplaceAllString(err.Error(), "")
	if m := yamlError.FindStringSubmatch(err.Error()); m != nil && m[1] != "" {
		line, _ = strconv.Atoi(m[1])
		if parserProblem.MatchString(message) {
			line++
		}
	}
	d.addAt(line, "", "not YAML: %s", message)
	d.breaks("")
}

// Package output is how commands write: results for people and programs, progress on a
// terminal, and files that appear whole or not at all.
package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"go.yaml.in/yaml/v3"
	"golang.org/x/term"
)

// Checked is a writer that keeps its first fault, since no command has succeeded whose
// results did not all get through.
type Checked struct {
	io.Writer
	Fault error
}

// Write implements [io.Writer].
func (c *Checked) Write(p []byte) (int, error) {
	n, err := c.Writer.Write(p)
	if err != nil && c.Fault == nil {
		c.Fault = err
	}
	return n, err
}

// JSON writes v for people and programs alike.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// YAML returns a document as it is written, indented by two.
func YAML(doc *yaml.Node) ([]byte, error) {
	var out bytes.Buffer
	e := yaml.NewEncoder(&out)
	e.SetIndent(2)
	if err := e.Encode(doc); err != nil {
		return nil, err
	}
	return out.Bytes(), e.Close()
}

// IsTerminal reports whether a person watches w, and lines may overwrite each other.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// countEvery is how often [Counting] writes a line without a terminal.
const countEvery = 10 * time.Second

// Counting reports progress: on a terminal in a line that updates, else in a line every
// ten seconds.
func Counting(stderr io.Writer, what string) func(done, total int) {
	if !IsTerminal(stderr) {
		return counting(stderr, what, time.Now)
	}
	return func(done, total int) {
		fmt.Fprintf(stderr, "\r\x1b[K%s %d/%d", what, done, total)
		if done == total {
			fmt.Fprint(stderr, "\r\x1b[K")
		}
	}
}

// counting is Counting without a terminal.
func counting(w io.Writer, what string, now func() time.Time) func(done, total int) {
	last := now()
	return func(done, total int) {
		if t := now(); t.Sub(last) >= countEvery {
			last = t
			fmt.Fprintf(w, "%s %d/%d\n", what, done, total)
		}
	}
}

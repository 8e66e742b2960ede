package sampling

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"gearshift/router/quality/scoring"
)

// Label is a line of a file of labels: a prompt and the score of each size's answer.
type Label struct {
	Prompt string             `json:"prompt"`
	Scores map[string]float64 `json:"scores"`
	Task   string             `json:"task,omitempty"`
	Group  json.RawMessage    `json:"group,omitempty"`
	By     scoring.Kind       `json:"by,omitempty"` // how the answers were scored
}

// Labels is a file of labels to which lines are added.
type Labels struct {
	file  *os.File
	sizes []string // sorted
	by    scoring.Kind
	done  map[string]bool // prompts that have a label, by their keys
	// Partial reports that the file ended within a line, as after a crash, which was dropped.
	Partial bool
}

// Open opens a file of labels to go on with it, or makes one that only its owner may read: it has
// the prompts. It drops a last line that is not whole. It is an error if the file has anything but
// labels of the sizes, or of answers scored in another way.
func Open(path string, sizes []string, by scoring.Kind) (*Labels, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	l := &Labels{file: file, sizes: slices.Sorted(slices.Values(sizes)), by: by, done: map[string]bool{}}
	if err := l.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return l, nil
}

// read takes in the lines that are there.
func (l *Labels) read() error {
	text, err := io.ReadAll(l.file)
	if err != nil {
		return err
	}
	n, at := 0, 0
	for line := range bytes.Lines(text) {
		n++
		fault := l.enter(line)
		ends := line[len(line)-1] == '\n'
		if fault != nil && !ends && begins(line) && !json.Valid(line) { // it was being written
			l.Partial = true
			return l.file.Truncate(int64(at))
		}
		if fault != nil {
			return fmt.Errorf("line %d %w; want labels of %s by %s, or another file as --out", n, fault, strings.Join(l.sizes, ", "), l.by)
		}
		at += len(line)
		if !ends {
			if _, err := l.file.WriteString("\n"); err != nil {
				return err
			}
		}
	}
	return nil
}

// begins reports whether a text may be the beginning of a label.
func begins(text []byte) bool {
	const label = `{"prompt":"`
	n := min(len(text), len(label))
	return string(text[:n]) == label[:n]
}

// enter notes that the label of a line is there, and returns what is wrong with it.
func (l *Labels) enter(line []byte) error {
	if len(bytes.TrimSpace(line)) == 0 {
		return nil
	}
	var label Label
	if err := json.Unmarshal(line, &label); err != nil || label.Prompt == "" || len(label.Scores) == 0 {
		return errors.New("is no label")
	}
	if got := slices.Sorted(maps.Keys(label.Scores)); !slices.Equal(got, l.sizes) {
		return fmt.Errorf("has scores of %s", strings.Join(got, ", "))
	}
	if label.By != "" && label.By != l.by {
		return fmt.Errorf("has scores by %s", label.By)
	}
	p := Prompt{Text: label.Prompt, Task: label.Task}
	l.done[p.key()] = true
	return nil
}

// Left returns the prompts that have no label yet, in their order.
func (l *Labels) Left(list []Prompt) (left []Prompt) {
	for _, p := range list {
		if !l.done[p.key()] {
			left = append(left, p)
		}
	}
	return left
}

// Add appends a label in one piece, so that a process that is killed leaves whole lines, except the
// last, and two that write to the same file only ask twice.
func (l *Labels) Add(label Label) error {
	label.By = l.by
	var line bytes.Buffer
	e := json.NewEncoder(&line) // ends with a line break
	e.SetEscapeHTML(false)
	if err := e.Encode(label); err != nil {
		return err
	}
	_, err := l.file.Write(line.Bytes())
	return err
}

// Close syncs and closes the file.
func (l *Labels) Close() error { return errors.Join(l.file.Sync(), l.file.Close()) }

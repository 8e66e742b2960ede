// Package labels reads files of labelled prompts: what the answers of several models to each
// prompt were worth, from 0 to 1.
//
// A file is JSON lines or CSV, compressed with gzip or not. Any fault is an error of the form
// "file:line: what is wrong; what would be right".
package labels

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"gearshift/workloads/prompts"
	"gearshift/workloads/traces"
)

// Set holds the prompts of the files, in their order. The columns are in the order in which they were
// first met, or in that of [Options.Columns].
type Set struct {
	prompts.Set
	Sources []Source
}

// Source is a file that was read.
type Source struct {
	Name   string // without folders
	SHA256 string // of its bytes
}

// Options choose what is read of the files.
type Options struct {
	// Columns are the models whose scores are read, in this order; others are ignored. Empty
	// reads all.
	Columns []string
	// Unscored has prompts without a score read too.
	Unscored bool
}

// The bounds of what is read, in bytes.
const (
	mostPrompt = 4 << 20
	mostText   = 1 << 30 // of a file, unpacked
)

// Read reads the files, or sets that are packed into the program (see [BuiltIn]). All of them
// have the same names for models.
func Read(paths []string, o Options) (*Set, error) {
	r := &reader{Options: o, spelt: map[string]spelling{}, index: map[string]int{}}
	for _, name := range o.Columns {
		name = strings.TrimSpace(name)
		if _, again := r.index[name]; again {
			return nil, fmt.Errorf("the model %q is named twice", name)
		}
		r.column(name)
	}
	for _, path := range paths {
		read := r.file
		if strings.HasPrefix(path, builtIn) {
			read = r.packed
		}
		if err := read(path); err != nil {
			return nil, err
		}
	}
	return r.finish(paths)
}

// reader collects a set.
type reader struct {
	Options
	set   Set
	spelt map[string]spelling // by folded name
	index map[string]int      // of columns, by name
	found []bool              // by column: some prompt has its score
	at    position
}

// position names a place in a file.
type position struct {
	file string
	line int
}

func (p position) String() string { return fmt.Sprintf("%s:%d", p.file, p.line) }

// spelling is a name, and where it was first met.
type spelling struct {
	name string
	at   position
}

// fault returns an error at the reader's position.
func (r *reader) fault(format string, args ...any) error {
	return fmt.Errorf("%s: %w", r.at, fmt.Errorf(format, args...))
}

// file reads one file.
func (r *reader) file(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read labels: %w", err)
	}
	defer f.Close()
	r.at = position{file: path, line: 1}
	sum := sha256.New()
	raw := io.TeeReader(f, sum)
	text, err := traces.Plain(raw)
	if err == nil {
		limited := &io.LimitedReader{R: text, N: mostText + 1}
		if csvNamed(path) {
			err = r.csv(limited)
		} else {
			err = r.jsonl(limited)
		}
		if limited.N == 0 {
			err = fmt.Errorf("%s: larger than %d MiB; split it, or give a part of it", path, mostText>>20)
		}
	}
	if err == nil {
		_, err = io.Copy(io.Discard, raw) // what follows a compressed text counts for the sum
	}
	if err != nil {
		return positioned(path, err)
	}
	r.set.Sources = append(r.set.Sources, sourceOf(path, sum))
	return nil
}

// positioned names the file in errors that do not.
func positioned(path string, err error) error {
	if strings.HasPrefix(err.Error(), path) {
		return err
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%s: its compressed text is cut short; want the whole file", path)
	}
	return fmt.Errorf("%s: cannot read labels: %w", path, err)
}

func sourceOf(path string, sum hash.Hash) Source {
	return Source{Name: filepath.Base(path), SHA256: hex.EncodeToString(sum.Sum(nil))}
}

// csvNamed reports whether a file is CSV by its name.
func csvNamed(path string) bool {
	return strings.EqualFold(filepath.Ext(strings.TrimSuffix(strings.ToLower(path), ".gz")), ".csv")
}

// score is a score of one model.
type score struct {
	model string
	value float64
}

// add takes a prompt. Scores are those that are known.
func (r *reader) add(p prompts.Prompt, scores []score) error {
	switch {
	case strings.TrimSpace(p.Text) == "":
		return r.fault(`the prompt is empty; want its text, or no such line`)
	case len(p.Text) > mostPrompt:
		return r.fault("the prompt has %d bytes; want at most %d", len(p.Text), mostPrompt)
	case len(scores) == 0 && !r.Unscored:
		return r.fault(`no model has a score; want one or more, as in "scores": {"large": 1, "small": 0}`)
	}
	for range r.set.Columns {
		p.Scores = append(p.Scores, float32(math.NaN()))
	}
	known := 0
	for _, s := range scores {
		if err := r.check(s); err != nil {
			return err
		}
		i, ok := r.index[s.model]
		if !ok && len(r.Options.Columns) > 0 {
			continue
		}
		if !ok {
			i = r.column(s.model)
			p.Scores = append(p.Scores, float32(math.NaN()))
		}
		p.Scores[i], r.found[i] = float32(s.value), true
		known++
	}
	if known > 0 || r.Unscored {
		r.set.Prompts = append(r.set.Prompts, p)
	}
	return nil
}

// check returns what is wrong with a score.
func (r *reader) check(s score) error {
	switch {
	case strings.TrimSpace(s.model) == "":
		return r.fault("a score of a model without a name; want its name")
	case !(s.value >= 0 && s.value <= 1):
		return r.fault("score %v of %q; want a number from 0 to 1", s.value, s.model)
	}
	former, known := r.spelt[folded(s.model)]
	if !known {
		r.spelt[folded(s.model)] = spelling{s.model, r.at}
	} else if former.name != s.model {
		return r.fault("the model %q is called %q in %s; want one spelling", s.model, former.name, former.at)
	}
	return nil
}

// folded returns a model's name without differences of case and of marks between words.
func folded(name string) string {
	return strings.Map(func(c rune) rune {
		if strings.ContainsRune(" _.-/:", c) {
			return '-'
		}
		return c
	}, strings.ToLower(strings.TrimSpace(name)))
}

// column adds a model.
func (r *reader) column(name string) int {
	i := len(r.set.Columns)
	r.set.Columns, r.found = append(r.set.Columns, name), append(r.found, false)
	r.index[name] = i
	return i
}

// finish brings the scores of all prompts to the same length.
func (r *reader) finish(paths []string) (*Set, error) {
	if len(r.set.Prompts) == 0 && len(r.spelt) == 0 {
		return nil, fmt.Errorf("%s: no labelled prompt; want lines such as %s", strings.Join(paths, ", "), Example)
	}
	if !r.Unscored {
		if i := slices.Index(r.found, false); i >= 0 {
			return nil, fmt.Errorf("no prompt has a score of %q; there are scores of %s", r.set.Columns[i], r.names())
		}
	}
	for i := range r.set.Prompts {
		p := &r.set.Prompts[i]
		for len(p.Scores) < len(r.set.Columns) {
			p.Scores = append(p.Scores, float32(math.NaN()))
		}
	}
	return &r.set, nil
}

// names lists the models that were met.
func (r *reader) names() string {
	var list []string
	for _, s := range r.spelt {
		list = append(list, s.name)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// Example is a line of a file.
const Example = `{"prompt": "What is 2 + 2?", "scores": {"large": 1, "small": 0}}`

// errLong replaces a scanner's error of a long line.
var errLong = errors.New("the line is too long")

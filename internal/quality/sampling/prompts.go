package sampling

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"

	"gearshift/router/quality/scoring"
	"gearshift/workloads/traces"
)

// Prompt is a text to ask, with a scorer of its answers.
type Prompt struct {
	Text, Task string
	Group      json.RawMessage // for the reader's own use; nil if there is none
	// Score values an answer; nil where that takes other answers.
	Score scoring.Scorer
}

// key distinguishes prompts: by task and text.
func (p *Prompt) key() string { return p.Task + "\x00" + p.Text }

// longestLine bounds a line of prompts, in bytes: labels of longer ones could not be read.
const longestLine = 4 << 20

// ReadFile reads a file of prompts as [Read] does, compressed with gzip or not.
func ReadFile(path string, kind scoring.Kind, answers string) ([]Prompt, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read prompts: %w", err)
	}
	defer file.Close()
	text, err := traces.Plain(file)
	if err != nil {
		return nil, fmt.Errorf("%s: cannot read prompts: %w", path, err)
	}
	return Read(text, path, kind, answers)
}

// Read reads prompts, JSON objects of a line each: "prompt", and where the kind needs them the
// field of that name with the right answer, or "schema". "task" and "group" go to the label; other
// fields mean nothing. A prompt that comes twice in a task is read once. Errors begin with the
// name and the line.
func Read(in io.Reader, name string, kind scoring.Kind, answers string) (list []Prompt, err error) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, longestLine)
	known := map[string]bool{}
	n := 1
	for ; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		p, err := parse(lines.Bytes(), kind, answers)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if !known[p.key()] {
			list = append(list, p)
		}
		known[p.key()] = true
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: the line is too long; want at most %d MiB", name, n, longestLine>>20)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf(`%s: no prompts; want a line such as {"prompt": "What is 6 × 7?", "answer": "42"} for each`, name)
	}
	return list, nil
}

func parse(line []byte, kind scoring.Kind, answers string) (p Prompt, err error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil {
		return p, fmt.Errorf("no JSON object: %w", err)
	}
	for i, to := range []*string{&p.Text, &p.Task} {
		name := []string{"prompt", "task"}[i]
		if text, ok := fields[name]; ok && json.Unmarshal(text, to) != nil {
			return p, fmt.Errorf("%q is no text", name)
		}
	}
	p.Group = fields["group"]
	if strings.TrimSpace(p.Text) == "" {
		return p, errors.New(`no "prompt"`)
	}
	var r scoring.Reference
	switch kind {
	case scoring.Agreement, scoring.Judge:
		return p, nil
	case scoring.JSONSchema:
		r.Schema = fields["schema"]
		if r.Schema == nil {
			return p, errors.New(`no "schema" to validate answers with`)
		}
	default:
		text, ok := fields[answers]
		if !ok {
			return p, fmt.Errorf("no %q, which --score %s compares answers with", answers, kind)
		}
		if err := json.Unmarshal(text, &r); err != nil {
			return p, fmt.Errorf("%q: %w", answers, err)
		}
	}
	p.Score, err = scoring.New(kind, r)
	return p, err
}

// Draw returns prompts in an order that the seed draws, at most limit of them (0: all) and at most
// that share. A run that ends early has then asked some of everything that the file has, and a
// higher limit with the same seed adds to what a lower one drew.
func Draw(list []Prompt, seed uint64, share float64, limit int) []Prompt {
	drawn := make([]Prompt, len(list))
	for to, from := range rand.New(rand.NewPCG(seed, 0)).Perm(len(list)) {
		drawn[to] = list[from]
	}
	n := max(1, int(share*float64(len(list))))
	if limit > 0 {
		n = min(n, limit)
	}
	return drawn[:min(n, len(drawn))]
}

// short returns the beginning of a text, in one line.
func short(text string) string {
	const most = 120
	runes := []rune(strings.Join(strings.Fields(text), " "))
	if len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return string(runes)
}

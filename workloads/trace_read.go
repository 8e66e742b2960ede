package workloads

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"
)

// LoadTrace reads a trace, built in (see [Forms]) or a file; see [ReadTrace].
func LoadTrace(ref string) (*Trace, error) {
	f, err := openTrace(ref)
	if err != nil {
		return nil, fmt.Errorf("cannot read trace: %w", err)
	}
	defer f.Close()
	return ReadTrace(ref, f)
}

// ReadTrace reads a trace in one of three forms: JSON lines where the name ends
// in .jsonl or .ndjson or the text begins with "{", else comma-separated values
// whose header says which.
//
//	{"at_s": 0.25, "task": "copa", "prompt_tokens": 90, "output_tokens": 256}   one a line; task may be left out
//	TIMESTAMP,ContextTokens,GeneratedTokens                                     Azure; the first request is time zero
//	req_time_s,client,prompt_len,output_len                                     chatbot arena, as kept by VTC
//
// Further CSV columns are ignored, further JSON keys are not. A row that is not
// right, or earlier than the row before, is an error of the form
// "file:line: column X: what is wrong; what would be right".
func ReadTrace(name string, r io.Reader) (*Trace, error) {
	in := bufio.NewReader(r)
	if mark, err := in.Peek(3); err == nil && bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3) // just peeked: cannot fail
	}
	t := &Trace{Name: name}
	var err error
	if first, _ := in.Peek(1); isJSONL(name) || string(first) == "{" {
		err = t.readJSONL(in)
	} else {
		err = t.readCSV(in)
	}
	if err != nil {
		return nil, err
	}
	if len(t.Records) == 0 {
		return nil, fmt.Errorf("%s: no requests; at least one would be right", name)
	}
	return t, nil
}

func isJSONL(name string) bool {
	ext := strings.ToLower(filepath.Ext(name))
	return ext == ".jsonl" || ext == ".ndjson"
}

// add appends a record after the checks that all forms share. The names are of
// the columns that the file has them in.
func (t *Trace) add(r Record, timeColumn, promptColumn, outputColumn string) error {
	if n := len(t.Records); n > 0 && r.At < t.Records[n-1].At {
		return fault(t.Name, r.Line, timeColumn, "rows in order of time",
			"%s before line %d", t.Records[n-1].At-r.At, t.Records[n-1].Line)
	}
	for _, c := range []struct {
		column string
		tokens int
	}{{promptColumn, r.PromptTokens}, {outputColumn, r.OutputTokens}} {
		if c.tokens < 1 || c.tokens > MaxTokens {
			return fault(t.Name, r.Line, c.column, countExample, "%d tokens", c.tokens)
		}
	}
	t.Records = append(t.Records, r)
	return nil
}

// Examples of what would be right.
var (
	countExample   = fmt.Sprintf("a whole number from 1 to %d", MaxTokens)
	secondsExample = "seconds since the start, such as 12.5"
)

// maxSeconds keeps times well within a Duration.
const maxSeconds = 9e9

// fault is the one form of all errors about a column of a trace.
func fault(file string, line int, column, right, what string, args ...any) error {
	return fmt.Errorf("%s:%d: column %s: %s; %s would be right", file, line, column, fmt.Sprintf(what, args...), right)
}

// seconds converts to a Duration; false where x is no such time.
func seconds(x float64) (time.Duration, bool) {
	if !(x >= 0 && x <= maxSeconds) {
		return 0, false
	}
	whole := time.Duration(x)
	// Whole seconds apart, so that the nanoseconds round right at any size.
	return whole*time.Second + time.Duration((x-float64(whole))*1e9+0.5), true
}

// Package traces reads recorded requests in the forms in which they are published, and
// writes them as JSON lines.
package traces

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Record is one request of a trace.
type Record struct {
	// At is the time since the trace began.
	At time.Duration
	// Task is a name, or empty where the trace does not say.
	Task string
	// PromptTokens and OutputTokens are both at least 1.
	PromptTokens, OutputTokens int
	// Line is where the record was read, from 1.
	Line int
}

// Trace is requests that were recorded. Read-only once read.
type Trace struct {
	// Name is the file, for messages.
	Name string
	// Records are in order of time, at least one.
	Records []Record
	// Skipped counts the requests without prompt or output tokens among those read.
	Skipped int
	// Doubt says what the reading assumes that the file does not say; empty if nothing.
	Doubt string
}

// MaxTokens is the longest prompt or output that a request may have.
const MaxTokens = 10_000_000

// Reading is how a trace is read. The zero value reads all of it, without the requests of
// no tokens.
type Reading struct {
	// Requests is how many are read at most; 0 for all. What follows them is not read.
	Requests int
	// KeepZero keeps requests with zero prompt or output tokens, with 1 token instead of 0.
	KeepZero bool
}

// Load reads a trace, built in (azure-code, arena) or a file; see [Reading.Read].
func (o Reading) Load(ref string) (*Trace, error) {
	f, err := openTrace(ref)
	if err != nil {
		return nil, fmt.Errorf("cannot read trace: %w", err)
	}
	defer f.Close()
	return o.Read(ref, f)
}

// Read reads a trace, compressed with gzip or not: JSON lines where the name ends
// in .jsonl or .ndjson or the text begins with "{", else comma-separated values
// with a header. Each form has its columns, in any order and case:
//
//	{"at_s": 0.25, "task": "copa", "prompt_tokens": 90, "output_tokens": 256}   task may be left out
//	TIMESTAMP,ContextTokens,GeneratedTokens             Azure
//	Timestamp,Request tokens,Response tokens            BurstGPT, in seconds
//	{"timestamp": 0, "input_length": 1, "output_length": 1}   Mooncake, in milliseconds; guidellm and Alibaba, in seconds
//	{"session_id": "a", "delay": 100, "input_length": 1, "output_length": 1}   aiperf: a turn that follows another
//	arrived_at,num_prefill_tokens,num_decode_tokens     vidur, in seconds
//	arrival_timestamp,prompt_size,token_size            splitwise-sim, in seconds
//	req_time_s,client,prompt_len,output_len             chatbot arena, as kept by VTC
//
// Other combinations of these names and their like are read too. The unit of times that do not
// name it is found as [unit.milliseconds] has it, and Doubt says so where it is not sure.
//
// Times are dates, or seconds from the start or since 1970; of the last and of dates the
// first request is time zero. Further columns are ignored. Rows have to be in order of
// time. Requests without tokens, such as failed ones, are left out and counted. Any
// other row that is not right is an error of the form
// "file:line: column X: what is wrong; what would be right".
func (o Reading) Read(name string, r io.Reader) (*Trace, error) {
	text, err := Plain(r)
	if err != nil {
		return nil, fmt.Errorf("cannot read trace %q: %w", name, err)
	}
	in := bufio.NewReader(&lineGuard{r: text})
	t := &tracer{Trace: &Trace{Name: name}, Reading: o, turns: map[string]instant{}}
	if first, _ := in.Peek(1); isJSONL(name) || string(first) == "{" {
		err = t.readJSONL(in)
	} else {
		err = t.readCSV(in)
	}
	switch {
	case err != nil:
		return nil, err
	case len(t.Records) == 0 && t.Skipped > 0:
		return nil, fmt.Errorf("%s: no requests; at least one with tokens would be right, all %d have none", name, t.Skipped)
	case len(t.Records) == 0:
		return nil, fmt.Errorf("%s: no requests; at least one would be right", name)
	}
	t.settle()
	return t.Trace, nil
}

// Plain returns the text of a file, unpacked if it is compressed and without a byte-order mark.
func Plain(r io.Reader) (io.Reader, error) {
	in := bufio.NewReader(r)
	if mark, _ := in.Peek(2); bytes.Equal(mark, []byte("\x1f\x8b")) {
		unpacked, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = bufio.NewReader(unpacked)
	}
	if mark, _ := in.Peek(3); bytes.Equal(mark, []byte("\ufeff")) {
		_, _ = in.Discard(3) // just peeked: cannot fail
	}
	return in, nil
}

func isJSONL(name string) bool {
	name = strings.ToLower(name)
	ext := filepath.Ext(strings.TrimSuffix(name, ".gz"))
	return ext == ".jsonl" || ext == ".ndjson"
}

// lineGuard ends a text with an overlong line, so that it is not kept in memory.
type lineGuard struct {
	r      io.Reader
	length int
}

// maxLine bounds a line of a trace.
const maxLine = 1 << 20

var errLongLine = fmt.Errorf("a line is longer than %d bytes", maxLine)

// Read implements [io.Reader].
func (g *lineGuard) Read(p []byte) (int, error) {
	n, err := g.r.Read(p)
	if at := bytes.LastIndexByte(p[:n], '\n'); at >= 0 {
		g.length = n - at
	} else if g.length += n; g.length > maxLine {
		return n, errLongLine
	}
	return n, err
}

// tracer is a trace that is being read.
type tracer struct {
	*Trace
	Reading
	begun bool
	zero  time.Time // of a clock whose times are no times since the start
	last  time.Duration
	line  int // of the last row
	unit  unit
	// turns holds the time of each session's last turn, and delayed reports that one has no time.
	turns   map[string]instant
	delayed bool
}

// full reports whether no more is wanted.
func (t *tracer) full() bool { return t.Requests > 0 && len(t.Records) >= t.Requests }

// add appends a record after the checks that all forms share.
func (t *tracer) add(r Record, at instant, c columns) error {
	if !t.begun {
		t.begun = true
		if at.absolute {
			t.zero = at.Time
		}
	}
	r.At = at.Sub(t.zero)
	if r.At > maxSeconds*time.Second || r.At < 0 && t.line == 0 {
		return fault(t.Name, r.Line, c.time, "within 285 years of the first", "%q is too late", at.text)
	}
	if gap := t.last - r.At; t.line > 0 && gap > 0 && len(t.turns) == 0 {
		if ms, _ := t.unit.milliseconds(0); ms {
			gap /= 1000
		}
		return fault(t.Name, r.Line, c.time, "rows in order of time", "%s before line %d", gap, t.line)
	}
	t.last, t.line = r.At, r.Line
	for _, part := range []struct {
		column string
		tokens *int
	}{{c.prompt, &r.PromptTokens}, {c.output, &r.OutputTokens}} {
		if *part.tokens < 0 || *part.tokens > MaxTokens {
			return fault(t.Name, r.Line, part.column, countExample, "%d tokens", *part.tokens)
		}
	}
	if r.PromptTokens == 0 || r.OutputTokens == 0 {
		if t.Skipped++; !t.KeepZero {
			return nil
		}
		r.PromptTokens, r.OutputTokens = max(1, r.PromptTokens), max(1, r.OutputTokens)
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

// readFault returns an error of what the text comes from.
func (t *tracer) readFault(err error) error {
	if errors.Is(err, errLongLine) {
		return fmt.Errorf("%s: after line %d: %w; a request a line would be right", t.Name, t.line, err)
	}
	return fmt.Errorf("cannot read trace %q: %w", t.Name, err)
}

// builtin are the recorded traces that are built in; testdata/README.md says
// where they are from and under which licence.
//
//go:embed testdata/AzureLLMInferenceTrace_code.csv testdata/arena_real_trace.csv
var builtin embed.FS

// traceFiles are the built-in traces by name; the forms of workloads name them.
var traceFiles = map[string]string{
	"azure-code": "testdata/AzureLLMInferenceTrace_code.csv",
	"arena":      "testdata/arena_real_trace.csv",
}

// Digest returns the SHA-256 of a trace's bytes as they are stored, in hexadecimal digits.
func Digest(ref string) (string, error) {
	f, err := openTrace(ref)
	if err != nil {
		return "", fmt.Errorf("cannot read trace: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("cannot read trace %q: %w", ref, err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// openTrace opens a built-in trace by name, or a file by path. A built-in name
// comes first; "./name" is always a file.
func openTrace(ref string) (fs.File, error) {
	if file, ok := traceFiles[ref]; ok {
		return builtin.Open(file)
	}
	f, err := os.Open(ref)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w; built in are %s", err, strings.Join(slices.Sorted(maps.Keys(traceFiles)), " and "))
	}
	return f, err
}

package workloads

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"gearshift/router/fleet"
)

// jsonRecord is one line. Pointers tell a missing key from a zero.
type jsonRecord struct {
	At           *float64 `json:"at_s"`
	Task         string   `json:"task"`
	PromptTokens *int     `json:"prompt_tokens"`
	OutputTokens *int     `json:"output_tokens"`
}

const jsonExample = `{"at_s": 0.25, "task": "copa", "prompt_tokens": 90, "output_tokens": 256}`

func (t *Trace) readJSONL(r io.Reader) error {
	lines := bufio.NewScanner(r)
	n := 1
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		record, err := t.jsonRow(line, n)
		if err != nil {
			return err
		}
		if err := t.add(record, "at_s", "prompt_tokens", "output_tokens"); err != nil {
			return err
		}
	}
	if err := lines.Err(); errors.Is(err, bufio.ErrTooLong) {
		return fmt.Errorf("%s:%d: longer than %d bytes; an object such as %s would be right", t.Name, n, bufio.MaxScanTokenSize, jsonExample)
	} else if err != nil {
		return fmt.Errorf("%s:%d: %w", t.Name, n, err)
	}
	return nil
}

func (t *Trace) jsonRow(line []byte, n int) (Record, error) {
	var row jsonRecord
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&row); err != nil {
		return Record{}, t.jsonFault(err, n)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return Record{}, fmt.Errorf("%s:%d: more than one object; one a line would be right", t.Name, n)
	}
	switch {
	case row.At == nil:
		return Record{}, fault(t.Name, n, "at_s", secondsExample, "missing")
	case row.PromptTokens == nil:
		return Record{}, fault(t.Name, n, "prompt_tokens", countExample, "missing")
	case row.OutputTokens == nil:
		return Record{}, fault(t.Name, n, "output_tokens", countExample, "missing")
	}
	at, ok := seconds(*row.At)
	if !ok {
		return Record{}, fault(t.Name, n, "at_s", secondsExample, "%v is not a time", *row.At)
	}
	return Record{At: at, Task: row.Task, PromptTokens: *row.PromptTokens, OutputTokens: *row.OutputTokens, Line: n}, nil
}

// jsonFault puts an error of the decoder into the form of the others.
func (t *Trace) jsonFault(err error, n int) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) && kind.Field != "" {
		right := countExample
		switch kind.Field {
		case "at_s":
			right = secondsExample
		case "task":
			right = "the name of a task"
		}
		return fault(t.Name, n, kind.Field, right, "%s is not right here", kind.Value)
	}
	if kind != nil { // without a field: the line is another thing than an object
		return fmt.Errorf("%s:%d: found %s; an object such as %s would be right", t.Name, n, kind.Value, jsonExample)
	}
	return fmt.Errorf("%s:%d: %s; an object such as %s would be right", t.Name, n, strings.TrimPrefix(err.Error(), "json: "), jsonExample)
}

// WriteTrace writes a stream to its end as JSON lines, the form that
// [ReadTrace] documents, and returns the number of requests. Read back with its
// own lengths, it gives the same stream but for the true rate.
func WriteTrace(w io.Writer, s Stream, tasks []fleet.Task) (int, error) {
	names := make([][]byte, len(tasks))
	for i, task := range tasks {
		name, err := json.Marshal(task.Name)
		if err != nil {
			return 0, fmt.Errorf("cannot write trace: %w", err)
		}
		names[i] = name
	}
	out := bufio.NewWriter(w)
	var line []byte
	var n int
	for a, ok := s.Next(); ok; a, ok = s.Next() {
		line = append(line[:0], `{"at_s":`...)
		line = appendSeconds(line, a.At)
		line = append(append(line, `,"task":`...), names[a.Task]...)
		line = strconv.AppendInt(append(line, `,"prompt_tokens":`...), int64(a.PromptTokens), 10)
		line = strconv.AppendInt(append(line, `,"output_tokens":`...), int64(a.OutputTokens), 10)
		if _, err := out.Write(append(line, "}\n"...)); err != nil {
			return n, fmt.Errorf("cannot write trace: %w", err)
		}
		n++
	}
	if err := out.Flush(); err != nil {
		return n, fmt.Errorf("cannot write trace: %w", err)
	}
	return n, nil
}

// appendSeconds writes all nine digits, so that no time is rounded.
func appendSeconds(line []byte, at time.Duration) []byte {
	line = strconv.AppendInt(line, int64(at/time.Second), 10)
	fraction := strconv.AppendInt(nil, int64(time.Second+at%time.Second), 10)
	fraction[0] = '.' // in the place of the leading 1
	return append(line, fraction...)
}

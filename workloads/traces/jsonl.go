package traces

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
)

const jsonExample = `{"at_s": 0.25, "task": "copa", "prompt_tokens": 90, "output_tokens": 256}`

func (t *tracer) readJSONL(r io.Reader) error {
	lines := bufio.NewScanner(r)
	n := 1
	for ; !t.full() && lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		record, at, f, err := t.jsonRow(line, n)
		if err != nil {
			return err
		}
		if err := t.add(record, at, f.columns); err != nil {
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

// jsonFields are the members of a row, by their names in lower case.
type jsonFields map[string]json.RawMessage

func (t *tracer) jsonRow(line []byte, n int) (record Record, at instant, f form, err error) {
	var members jsonFields
	decoder := json.NewDecoder(bytes.NewReader(line))
	if err := decoder.Decode(&members); err != nil {
		return record, at, f, t.jsonFault(err, n)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return record, at, f, fmt.Errorf("%s:%d: more than one object; one a line would be right", t.Name, n)
	}
	row := make(jsonFields, len(members))
	for name, value := range members {
		row[strings.ToLower(name)] = value
	}
	f, ok := formOf(func(name string) bool { return row.has(name) || name == mooncake.time && row.has(sessionColumn) })
	if !ok {
		f = closestTo(row.has)
	}
	session := ""
	if f.columns == mooncake.columns {
		session = row.text(sessionColumn)
	}
	for _, part := range []struct{ name, right string }{{f.time, f.example}, {f.prompt, countExample}, {f.output, countExample}} {
		if _, follows := t.turns[session]; !row.has(part.name) && !(part.name == f.time && follows) {
			return record, at, f, fault(t.Name, n, part.name, part.right, "missing")
		}
	}
	record = Record{Line: n}
	text := row.text(f.time)
	if at, ok = t.when(f, text, session, row.text(delayColumn)); !ok {
		part := f.time
		if !row.has(part) {
			part = delayColumn
		}
		return record, at, f, fault(t.Name, n, part, f.example, "%s", row.wrong(part, "%s is not a time"))
	}
	at.text = text
	t.unit.see(f, at, row.has)
	for _, part := range []struct {
		name   string
		tokens *int
	}{{f.prompt, &record.PromptTokens}, {f.output, &record.OutputTokens}} {
		if *part.tokens, err = tokenCount(row.text(part.name)); err != nil {
			return record, at, f, fault(t.Name, n, part.name, countExample, "%s", row.wrong(part.name, "number %s is not right here"))
		}
	}
	if task := row["task"]; f.columns == forms[0].columns && len(task) > 0 && json.Unmarshal(task, &record.Task) != nil {
		return record, at, f, fault(t.Name, n, "task", "the name of a task", "%s", row.wrong("task", "number %s is not right here"))
	}
	return record, at, f, nil
}

func (f jsonFields) has(name string) bool {
	value := f[strings.ToLower(name)]
	return len(value) > 0 && string(value) != "null"
}

// text returns a number, or a string that may hold one; empty if there is neither.
func (f jsonFields) text(name string) string {
	value := f[strings.ToLower(name)]
	var s string
	if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &s) == nil {
		return s
	}
	if string(value) == "null" {
		return ""
	}
	return string(value)
}

// wrong says what a value is that is not right; number is how to say it of a number.
func (f jsonFields) wrong(name, number string) string {
	switch value := f[strings.ToLower(name)]; value[0] {
	case '"':
		return "string is not right here"
	case '{':
		return "object is not right here"
	case '[':
		return "array is not right here"
	case 't', 'f':
		return "bool is not right here"
	default:
		return fmt.Sprintf(number, value)
	}
}

// jsonFault puts an error of the decoder into the form of the others.
func (t *tracer) jsonFault(err error, n int) error {
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) { // the line is another thing than an object
		return fmt.Errorf("%s:%d: found %s; an object such as %s would be right", t.Name, n, kind.Value, jsonExample)
	}
	return fmt.Errorf("%s:%d: %s; an object such as %s would be right", t.Name, n, strings.TrimPrefix(err.Error(), "json: "), jsonExample)
}

// Write writes records to their end as JSON lines, the form that [Reading.Read]
// documents, and returns their number.
func Write(w io.Writer, next func() (Record, bool)) (int, error) {
	out := bufio.NewWriter(w)
	names := map[string][]byte{} // of tasks, as JSON
	var line []byte
	var n int
	for r, ok := next(); ok; r, ok = next() {
		if names[r.Task] == nil {
			names[r.Task], _ = json.Marshal(r.Task) // text never fails
		}
		line = append(line[:0], `{"at_s":`...)
		line = appendSeconds(line, r.At)
		line = append(append(line, `,"task":`...), names[r.Task]...)
		line = strconv.AppendInt(append(line, `,"prompt_tokens":`...), int64(r.PromptTokens), 10)
		line = strconv.AppendInt(append(line, `,"output_tokens":`...), int64(r.OutputTokens), 10)
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

package workloads

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The two headers.
var (
	azureHeader = []string{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}
	arenaHeader = []string{"req_time_s", "client", "prompt_len", "output_len"}
)

// csvForm is where a CSV trace has its parts, and how it says the time.
type csvForm struct {
	header               []string
	time, prompt, output int // columns
	parse                func(string) (time.Time, bool)
	example              string
	absolute             bool // the first request is time zero
}

func (t *Trace) readCSV(r io.Reader) error {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = -1 // counted here, for the message
	rows.ReuseRecord = true
	first, err := rows.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return t.csvFault(err)
	}
	form, ok := detect(slices.Clone(first))
	if !ok {
		return fmt.Errorf("%s:1: header %q is not known; %s or %s, or lines of JSON in a .jsonl file, would be right",
			t.Name, strings.Join(first, ","), strings.Join(azureHeader, ","), strings.Join(arenaHeader, ","))
	}
	var zero time.Time
	for {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.csvFault(err)
		}
		line, _ := rows.FieldPos(0)
		at, record, err := t.csvRow(form, row, line)
		if err != nil {
			return err
		}
		if len(t.Records) == 0 && form.absolute {
			zero = at
		}
		if record.At = at.Sub(zero); record.At > maxSeconds*time.Second {
			return fault(t.Name, line, form.header[form.time], "within 285 years of the first", "%q is too late", row[form.time])
		}
		if err := t.add(record, form.header[form.time], form.header[form.prompt], form.header[form.output]); err != nil {
			return err
		}
	}
}

// detect finds the form that has all its columns in the header, in any order.
func detect(header []string) (csvForm, bool) {
	azure := csvForm{header: header, parse: parseTimestamp, example: "2023-11-16 18:17:03.9799600", absolute: true}
	arena := csvForm{header: header, parse: parseSeconds, example: secondsExample}
	if azure.place(azureHeader[0], azureHeader[1], azureHeader[2]) {
		return azure, true
	}
	return arena, arena.place(arenaHeader[0], arenaHeader[2], arenaHeader[3])
}

func (f *csvForm) place(time, prompt, output string) bool {
	f.time, f.prompt, f.output = slices.Index(f.header, time), slices.Index(f.header, prompt), slices.Index(f.header, output)
	return min(f.time, f.prompt, f.output) >= 0
}

func (t *Trace) csvRow(f csvForm, row []string, line int) (time.Time, Record, error) {
	record := Record{Line: line}
	if len(row) != len(f.header) {
		return time.Time{}, record, fmt.Errorf("%s:%d: %d columns; %d would be right, %s", t.Name, line, len(row), len(f.header), strings.Join(f.header, ","))
	}
	at, ok := f.parse(row[f.time])
	if !ok {
		return at, record, fault(t.Name, line, f.header[f.time], f.example, "%q is not a time", row[f.time])
	}
	var err error
	if record.PromptTokens, err = strconv.Atoi(row[f.prompt]); err != nil {
		return at, record, fault(t.Name, line, f.header[f.prompt], countExample, "%q is not a whole number", row[f.prompt])
	}
	if record.OutputTokens, err = strconv.Atoi(row[f.output]); err != nil {
		return at, record, fault(t.Name, line, f.header[f.output], countExample, "%q is not a whole number", row[f.output])
	}
	return at, record, nil
}

// parseTimestamp accepts both years' form of the Azure traces: the later one
// ends in a zone.
func parseTimestamp(s string) (time.Time, bool) {
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04:05Z07:00"} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// parseSeconds counts from the zero time, as the arena trace does from zero.
func parseSeconds(s string) (time.Time, bool) {
	x, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return time.Time{}, false
	}
	at, ok := seconds(x)
	return time.Time{}.Add(at), ok
}

// csvFault puts an error of the CSV syntax itself into the form of the others.
func (t *Trace) csvFault(err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: character %d: %w; plain values between commas would be right", t.Name, syntax.Line, syntax.Column, syntax.Err)
	}
	return fmt.Errorf("cannot read trace %q: %w", t.Name, err)
}

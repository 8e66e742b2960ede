package traces

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// csvForm is where a CSV trace has its parts.
type csvForm struct {
	form
	header               []string
	time, prompt, output int // columns
	task, session, delay int // −1: there is none
}

func (t *tracer) readCSV(r io.Reader) error {
	rows := csv.NewReader(r)
	rows.FieldsPerRecord = -1 // counted here, for the message
	rows.ReuseRecord = true
	first, err := rows.Read()
	if err != nil && !errors.Is(err, io.EOF) {
		return t.csvFault(err)
	}
	f, ok := detect(slices.Clone(first))
	if !ok {
		return fmt.Errorf("%s:1: header %q is not known; TIMESTAMP,ContextTokens,GeneratedTokens or req_time_s,client,prompt_len,output_len, or lines of JSON in a .jsonl file, would be right, "+
			"or the columns of BurstGPT, Mooncake, splitwise-sim or vidur", t.Name, strings.Join(first, ","))
	}
	for !t.full() {
		row, err := rows.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return t.csvFault(err)
		}
		if blank(row) {
			continue
		}
		line, _ := rows.FieldPos(0)
		record, at, err := t.csvRow(f, row, line)
		if err != nil {
			return err
		}
		if err := t.add(record, at, f.columns); err != nil {
			return err
		}
	}
	return nil
}

// blank reports whether a row has nothing in it, as those that spreadsheets leave at the end.
func blank(row []string) bool {
	return !slices.ContainsFunc(row, func(s string) bool { return strings.TrimSpace(s) != "" })
}

// detect finds the form that has all its columns in the header, in any order.
func detect(header []string) (csvForm, bool) {
	index := func(name string) int {
		return slices.IndexFunc(header, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) })
	}
	f, ok := formOf(func(name string) bool { return index(name) >= 0 })
	if !ok {
		return csvForm{}, false
	}
	c := csvForm{form: f, header: header, time: index(f.columns.time), prompt: index(f.columns.prompt), output: index(f.columns.output), task: -1, session: -1, delay: -1}
	c.columns = columns{header[c.time], header[c.prompt], header[c.output]} // as the file has them
	if f.columns == forms[0].columns {
		c.task = index("task")
	}
	if f.columns == mooncake.columns {
		c.session, c.delay = index(sessionColumn), index(delayColumn)
	}
	return c, true
}

func (t *tracer) csvRow(f csvForm, row []string, line int) (Record, instant, error) {
	record := Record{Line: line}
	if len(row) != len(f.header) {
		return record, instant{}, fmt.Errorf("%s:%d: %d columns; %d would be right, %s", t.Name, line, len(row), len(f.header), strings.Join(f.header, ","))
	}
	value := func(column int) string {
		if column < 0 {
			return ""
		}
		return strings.TrimSpace(row[column])
	}
	at, ok := t.when(f.form, value(f.time), strings.Clone(value(f.session)), value(f.delay))
	if !ok {
		return record, at, fault(t.Name, line, f.header[f.time], f.example, "%q is not a time", row[f.time])
	}
	if f.task >= 0 {
		record.Task = strings.Clone(row[f.task])
	}
	at.text = row[f.time]
	t.unit.see(f.form, at, func(name string) bool {
		return slices.ContainsFunc(f.header, func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) })
	})
	var err error
	if record.PromptTokens, err = tokenCount(row[f.prompt]); err != nil {
		return record, at, fault(t.Name, line, f.header[f.prompt], countExample, "%q %v", row[f.prompt], err)
	}
	if record.OutputTokens, err = tokenCount(row[f.output]); err != nil {
		return record, at, fault(t.Name, line, f.header[f.output], countExample, "%q %v", row[f.output], err)
	}
	return record, at, nil
}

// csvFault puts an error of the CSV syntax itself into the form of the others.
func (t *tracer) csvFault(err error) error {
	var syntax *csv.ParseError
	if errors.As(err, &syntax) {
		return fmt.Errorf("%s:%d: character %d: %w; plain values between commas would be right", t.Name, syntax.Line, syntax.Column, syntax.Err)
	}
	return t.readFault(err)
}

package fit

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"gearshift/workloads/traces"
)

// Request is one served request: its tokens, and its times in seconds from the
// first arrival of the log.
type Request struct {
	ID                         string
	PromptTokens, OutputTokens int
	Arrival, First, Last       float64
	// Scheduled is when its prefill began, or its arrival where the log lacks it.
	Scheduled float64
}

// TTFT returns the time to the first token, in seconds.
func (r Request) TTFT() float64 { return r.First - r.Arrival }

// EndToEnd returns the time to the last token, in seconds.
func (r Request) EndToEnd() float64 { return r.Last - r.Arrival }

// TPOT returns the time per token after the first, in seconds; zero for one token.
func (r Request) TPOT() float64 {
	if r.OutputTokens < 2 {
		return 0
	}
	return (r.Last - r.First) / float64(r.OutputTokens-1)
}

// Log is a list of requests by arrival.
type Log struct {
	Name     string
	Requests []Request
	// Failed are the requests that are left out: those of no tokens, or with an error.
	Failed int
	// Doubt says why the times are probably of another unit; empty if they are not.
	Doubt string
}

// The fields of a row, each with the names that logs give it.
var (
	idNames      = []string{"request_id", "id"}
	promptNames  = []string{"input_toks", "input_tokens", "prompt_tokens", "prompt_toks"}
	outputNames  = []string{"output_toks", "output_tokens", "completion_tokens", "generated_tokens"}
	arrivalNames = []string{"arrival_time", "arrival_ts", "arrival"}
	queuedNames  = []string{"queued_ts", "queued_time", "queued"}
	startNames   = []string{"scheduled_ts", "scheduled_time", "scheduled"}
	firstNames   = []string{"first_token_ts", "first_token_time", "first_token"}
	lastNames    = []string{"last_token_ts", "last_token_time", "last_token", "finished_ts"}
	errorNames   = []string{"error", "error_message", "exception"}
	successNames = []string{"success", "ok"}
)

// row is a request as the log has it. Arrivals may be on another clock than the
// engine's own times.
type row struct {
	Request
	line   int
	first  string  // what the log calls the first token's time
	queued float64 // NaN if the log lacks it, as may be Scheduled
}

const maxRow = 1 << 20

// ReadLog reads a log of JSON lines, or of comma-separated values with a header,
// compressed with gzip or not. Requests that failed are left out. An error names the file, the
// line and what is wrong there. Clock is how many of the earliest rows may show how the clock of
// the arrivals lies to the engine's; 0 for all.
func ReadLog(r io.Reader, name string, clock int) (*Log, error) {
	r, err := traces.Plain(r)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var rows []row
	var c columns
	failed, n := 0, 1
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxRow)
	for ; lines.Scan(); n++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		fields, err := c.fields(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		if fields == nil { // a header
			continue
		}
		if hasFailed(fields) {
			failed++
			continue
		}
		one, err := parse(fields)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		one.line = n
		rows = append(rows, one)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("%s:%d: the line is longer than %d bytes; want token counts and times, and no texts", name, n, maxRow)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) == 0 && failed > 0 {
		return nil, fmt.Errorf("%s: no requests; want some that did not fail, all %d did", name, failed)
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("%s: no requests; want one JSON object a line", name)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.Arrival, b.Arrival) })
	doubt := doubtful(rows)
	log, err := align(rows, name, clock)
	if err != nil && doubt != "" {
		return nil, fmt.Errorf("%w; %s", err, doubt)
	}
	if err != nil {
		return nil, err
	}
	log.Failed, log.Doubt = failed, doubt
	return log, nil
}

func parse(fields map[string]any) (row, error) {
	f := reader{fields: fields}
	var one row
	one.PromptTokens, one.OutputTokens = f.tokens(promptNames), f.tokens(outputNames)
	one.Arrival, one.First, one.Last = f.time(arrivalNames), f.time(firstNames), f.time(lastNames)
	one.queued, one.Scheduled = f.optional(queuedNames), f.optional(startNames)
	one.first = f.name(firstNames)
	for _, name := range idNames {
		if id, ok := fields[name]; ok {
			one.ID = fmt.Sprint(id)
			break
		}
	}
	if f.fault != nil {
		return row{}, f.fault
	}
	return one, f.ordered(one)
}

// ordered refuses times that run backwards on the engine's clock.
func (f *reader) ordered(r row) error {
	at, name := r.queued, f.name(queuedNames)
	for _, next := range []struct {
		at   float64
		name string
	}{{r.Scheduled, f.name(startNames)}, {r.First, r.first}, {r.Last, f.name(lastNames)}} {
		if math.IsNaN(next.at) {
			continue
		}
		if next.at < at {
			return fmt.Errorf("%s %v lies before %s %v", next.name, next.at, name, at)
		}
		at, name = next.at, next.name
	}
	if r.OutputTokens > 1 && r.Last <= r.First {
		return fmt.Errorf("%s and %s are the same for %d output tokens", r.first, f.name(lastNames), r.OutputTokens)
	}
	return nil
}

// sameClock is the greatest time in seconds from an arrival to a first token
// that is taken for a wait and not for another clock.
const sameClock = 86_400

// align puts arrivals on the engine's clock and starts it at the first of them.
// Clocks that differ are laid together so that the quickest request came in at once,
// which takes rows that say when the engine had theirs: first tokens come later.
func align(rows []row, name string, clock int) (*Log, error) {
	if clock <= 0 || clock > len(rows) {
		clock = len(rows)
	}
	shift := 0.0
	if d := rows[0].First - rows[0].Arrival; d < 0 || d > sameClock {
		shift = math.Inf(1)
		for _, r := range rows[:clock] {
			if at := r.entered(); !math.IsNaN(at) {
				shift = min(shift, at-r.Arrival)
			}
		}
		if math.IsInf(shift, 1) {
			return nil, fmt.Errorf("%s:%d: %s is on another clock than the arrival, and neither %s nor %s says how far apart the two are",
				name, rows[0].line, rows[0].first, queuedNames[0], startNames[0])
		}
	}
	start := rows[0].Arrival + shift
	log := &Log{Name: name}
	for _, r := range rows {
		one := r.Request
		one.Arrival = r.Arrival + shift - start
		one.First, one.Last = r.First-start, r.Last-start
		one.Scheduled = one.Arrival
		if !math.IsNaN(r.Scheduled) {
			one.Scheduled = max(r.Scheduled-start, one.Arrival)
		}
		switch {
		case one.First < one.Arrival:
			return nil, fmt.Errorf("%s:%d: %s is %.6g s before the arrival", name, r.line, r.first, one.Arrival-one.First)
		case one.First == one.Arrival:
			return nil, fmt.Errorf("%s:%d: %s is the same as the arrival; want times as exact as the engine has them", name, r.line, r.first)
		}
		log.Requests = append(log.Requests, one)
	}
	return log, nil
}

// entered returns the earliest time that the engine itself reports of the request before its
// first token; NaN if the log lacks it.
func (r row) entered() float64 {
	if !math.IsNaN(r.queued) {
		return r.queued
	}
	return r.Scheduled
}

// reader takes fields out of a row and keeps the first fault.
type reader struct {
	fields map[string]any
	fault  error
}

// name returns what the log calls the field, or its first name where the log lacks it.
func (f *reader) name(names []string) string {
	for _, name := range names {
		if f.fields[name] != nil {
			return name
		}
	}
	return names[0]
}

func (f *reader) number(names []string, required bool) float64 {
	name := f.name(names)
	v := f.fields[name]
	if v == nil {
		if required && f.fault == nil {
			f.fault = fmt.Errorf("field %s is missing", name)
		}
		return math.NaN()
	}
	n, ok := numeric(v)
	if !ok && f.fault == nil {
		text, _ := json.Marshal(v) // which it was read from: one line, whatever is in it
		f.fault = fmt.Errorf("%s: %s is not a number", name, text)
	}
	if n < 0 && f.fault == nil {
		f.fault = fmt.Errorf("%s: %v is negative", name, n)
	}
	return n
}

func (f *reader) time(names []string) float64     { return f.number(names, true) }
func (f *reader) optional(names []string) float64 { return f.number(names, false) }

func (f *reader) tokens(names []string) int {
	n := f.number(names, true)
	if f.fault == nil && (n < 1 || n != math.Trunc(n) || n > math.MaxInt32) {
		f.fault = fmt.Errorf("%s: %v is not a whole number of at least 1", f.name(names), n)
	}
	if f.fault != nil {
		return 0
	}
	return int(n)
}

package fit

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gearshift/workloads/traces"
)

// columns are the header of a log of comma-separated values; none of JSON lines.
type columns struct {
	names []string
	begun bool
}

// fields returns those of a row, by their names in lower case; nil for a header.
func (c *columns) fields(line []byte) (map[string]any, error) {
	header := !c.begun && line[0] != '{' && line[0] != '[' && bytes.IndexByte(line, ',') >= 0
	c.begun = true
	if !header && c.names == nil {
		return ofJSON(line)
	}
	values, err := csv.NewReader(bytes.NewReader(line)).Read()
	if err != nil {
		return nil, fmt.Errorf("not comma-separated values: %w", err)
	}
	if header {
		for _, name := range values {
			c.names = append(c.names, strings.ToLower(strings.TrimSpace(name)))
		}
		return nil, nil
	}
	if len(values) != len(c.names) {
		return nil, fmt.Errorf("%d columns; want %d, as the header has", len(values), len(c.names))
	}
	fields := make(map[string]any, len(values))
	for i, value := range values {
		if value = strings.TrimSpace(value); value != "" {
			fields[c.names[i]] = value
		}
	}
	return fields, nil
}

func ofJSON(line []byte) (map[string]any, error) {
	var members map[string]any
	if err := json.Unmarshal(line, &members); err != nil {
		return nil, fmt.Errorf("not a JSON object: %w", err)
	}
	fields := make(map[string]any, len(members))
	for name, value := range members {
		fields[strings.ToLower(name)] = value
	}
	return fields, nil
}

// hasFailed reports whether a request has no tokens, or an error in the log.
func hasFailed(fields map[string]any) bool {
	for _, name := range errorNames {
		switch v := fields[name].(type) {
		case nil:
		case string:
			if v = strings.ToLower(strings.TrimSpace(v)); v != "" && v != "none" && v != "null" && v != "nan" && v != "false" && v != "0" {
				return true
			}
		case bool:
			if v {
				return true
			}
		case float64:
			if v != 0 {
				return true
			}
		default:
			return true
		}
	}
	for _, name := range successNames {
		if v, ok := fields[name]; ok && (v == false || strings.EqualFold(fmt.Sprint(v), "false")) {
			return true
		}
	}
	f := reader{fields: fields}
	for _, names := range [][]string{promptNames, outputNames} {
		if n, ok := numeric(fields[f.name(names)]); ok && n == 0 {
			return true
		}
	}
	return false
}

// numeric returns a number, also as text, or a date as seconds since 1970.
func numeric(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case string:
		v = strings.TrimSpace(v)
		if x, err := strconv.ParseFloat(v, 64); err == nil && !math.IsNaN(x) && !math.IsInf(x, 0) {
			return x, true
		}
		if at, ok := traces.Timestamp(v); ok {
			return float64(at.Unix()) + float64(at.Nanosecond())*1e-9, true
		}
	}
	return 0, false
}

// slowToken is a time per token, in seconds, that no engine takes, and slowFirst one to the
// first token.
const slowToken, slowFirst = 1, 600

// lastDate is beyond all dates in seconds since 1970, and before those of this century in
// milliseconds.
const lastDate = 1e11

// doubtful says why the times of the rows are probably not in seconds: engines take
// milliseconds for a token, and seconds since 1970 have ten digits.
func doubtful(rows []row) string {
	var steps, firsts []float64
	for _, r := range rows {
		if r.OutputTokens > 1 {
			steps = append(steps, r.TPOT())
		}
		if wait := r.First - r.Arrival; wait > 0 {
			firsts = append(firsts, wait)
		}
	}
	slow := 0.0 // times what an engine takes at most
	var evidence []string
	if len(steps) > 0 {
		slow = Quantile(steps, 0.5) / slowToken
		evidence = append(evidence, fmt.Sprintf("steps of %.3g s a token in the median", slow*slowToken))
	} else if len(firsts) > 0 {
		slow = Quantile(firsts, 0.5) / slowFirst
		evidence = append(evidence, fmt.Sprintf("first tokens after %.3g s in the median", slow*slowFirst))
	}
	at := max(rows[0].Arrival, rows[0].First)
	if at > lastDate {
		evidence = append(evidence, fmt.Sprintf("a time of %.13g s", at))
	}
	if slow < 1 && at <= lastDate {
		return ""
	}
	unit := "milliseconds"
	switch {
	case at > 1e6*lastDate || at <= lastDate && slow > 1e6:
		unit = "nanoseconds"
	case at > 1e3*lastDate || at <= lastDate && slow > 1e3:
		unit = "microseconds"
	}
	return fmt.Sprintf("%s: doubtful; %s? want seconds", strings.Join(evidence, ", "), unit)
}

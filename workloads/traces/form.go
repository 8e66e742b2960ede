package traces

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"time"
)

// columns are what a form calls its parts.
type columns struct{ time, prompt, output string }

// form is a way to write traces.
type form struct {
	columns
	clock   func(text string) (instant, bool)
	example string // of a time
	// unclear says that times from the start are in seconds or in milliseconds: clock reads them as
	// seconds, and [tracer.settle] finds out.
	unclear bool
}

// mooncake is the form that Mooncake has in milliseconds, guidellm and Alibaba in seconds, and aiperf
// with turns that have a delay in place of a time.
var mooncake = form{columns{"timestamp", "input_length", "output_length"}, anyClock(1), "milliseconds since the start, such as 3000", true}

// forms are those that are read, the first whose columns are there. Names are compared
// in lower case.
var forms = []form{
	{columns{"at_s", "prompt_tokens", "output_tokens"}, sinceStart, secondsExample, false},
	{columns{"TIMESTAMP", "ContextTokens", "GeneratedTokens"}, anyClock(1), "2023-11-16 18:17:03.9799600", false},
	{columns{"Timestamp", "Request tokens", "Response tokens"}, anyClock(1), secondsExample, false},
	mooncake,
	{columns{"arrived_at", "num_prefill_tokens", "num_decode_tokens"}, anyClock(1), secondsExample, false},
	{columns{"arrival_timestamp", "prompt_size", "token_size"}, anyClock(1), secondsExample, false},
	{columns{"req_time_s", "prompt_len", "output_len"}, sinceStart, secondsExample, false},
}

// What the parts of a form are called elsewhere. Names of times that end in a unit have it.
var (
	times   = []string{"arrival_time_s", "time_s", "timestamp_s", "arrival_time_ms", "arrival_ms", "time_ms", "timestamp_ms", "timestamp", "arrival_time", "arrived_at", "arrival_timestamp", "start_time", "request_time", "arrival", "time"}
	prompts = []string{"prompt_tokens", "input_tokens", "request_tokens", "context_tokens", "ContextTokens", "Request tokens", "input_length", "prompt_length", "prompt_len", "input_len", "num_prefill_tokens", "prompt_size", "isl"}
	outputs = []string{"output_tokens", "completion_tokens", "generated_tokens", "response_tokens", "GeneratedTokens", "Response tokens", "output_length", "output_len", "response_length", "num_decode_tokens", "token_size", "osl"}
)

// formOf returns the form whose columns all are among the names.
func formOf(has func(name string) bool) (form, bool) {
	for _, f := range forms {
		if has(f.time) && has(f.prompt) && has(f.output) {
			return f, true
		}
	}
	first := func(names []string) string {
		for _, name := range names {
			if has(name) {
				return name
			}
		}
		return ""
	}
	f := form{columns{first(times), first(prompts), first(outputs)}, anyClock(1), secondsExample, false}
	switch {
	case f.time == "" || f.prompt == "" || f.output == "":
		return form{}, false
	case strings.HasSuffix(f.time, "_ms"):
		f.clock, f.example = anyClock(1e-3), mooncake.example
	default:
		f.unclear = !strings.HasSuffix(f.time, "_s")
	}
	return f, true
}

// closestTo returns the form of which the most columns are there: it says best what is missing.
func closestTo(has func(name string) bool) form {
	best, most := forms[0], 0
	for _, f := range forms {
		n := 0
		for _, name := range []string{f.time, f.prompt, f.output} {
			if has(name) {
				n++
			}
		}
		if n > most {
			best, most = f, n
		}
	}
	return best
}

// instant is a time as a trace has it.
type instant struct {
	time.Time
	absolute bool // the first of them is time zero
	text     string
}

// sinceStart reads seconds since the start of the trace.
func sinceStart(text string) (instant, bool) {
	x, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil {
		return instant{}, false
	}
	d, ok := Seconds(x)
	return instant{time.Time{}.Add(d), false, text}, ok
}

// anyClock reads a date, or a number: of the unit, in seconds, since the start; or since 1970,
// in seconds, milliseconds, microseconds or nanoseconds, whichever make a date of today.
func anyClock(unit float64) func(string) (instant, bool) {
	return func(text string) (instant, bool) {
		text = strings.TrimSpace(text)
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			at, ok := Timestamp(text)
			return instant{at, true, text}, ok
		}
		for _, epoch := range []float64{1e-9, 1e-6, 1e-3, 1} {
			const first, last = 946_684_800, 4_102_444_800 // the years 2000 to 2100
			if s := x * epoch; s >= first && s < last && (epoch <= unit || unit == 1) {
				whole := math.Floor(s)
				return instant{time.Unix(int64(whole), 0).Add(exact(text, epoch, s-whole)), true, text}, true
			}
		}
		d, ok := Seconds(x * unit)
		return instant{time.Time{}.Add(d), false, text}, ok
	}
}

// exact returns the part of a second of a time since 1970, of which a float would lose digits.
func exact(text string, epoch, part float64) time.Duration {
	whole, fraction, _ := strings.Cut(text, ".")
	if strings.ContainsAny(text, "eE+-") {
		return time.Duration(part * 1e9)
	}
	digits := int(math.Round(-math.Log10(epoch))) // of whole that are below a second
	if digits > len(whole) {
		return 0
	}
	below := (whole[len(whole)-digits:] + fraction + "000000000")[:9]
	n, _ := strconv.Atoi(below)
	return time.Duration(n)
}

// Timestamp reads the date of ISO 8601, with T or a space, in any zone or none.
func Timestamp(s string) (time.Time, bool) {
	s = strings.TrimSuffix(s, " UTC")
	if len(s) > 10 && (s[10] == 'T' || s[10] == 't') {
		s = s[:10] + " " + s[11:]
	}
	for _, zone := range []string{"", "Z07:00", "Z0700", "Z07", " Z07:00", " Z0700"} {
		if at, err := time.Parse("2006-01-02 15:04:05"+zone, s); err == nil {
			return at, true
		}
	}
	return time.Time{}, false
}

// Seconds converts to a Duration; false where x is no time, or one beyond 285 years.
func Seconds(x float64) (time.Duration, bool) {
	if !(x >= 0 && x <= maxSeconds) {
		return 0, false
	}
	whole := time.Duration(x)
	// Whole seconds apart, so that the nanoseconds round right at any size.
	return whole*time.Second + time.Duration((x-float64(whole))*1e9+0.5), true
}

var errNoCount = errors.New("is not a whole number")

// tokenCount reads a number of tokens, also as pandas writes those of a column with gaps: 48.0.
func tokenCount(text string) (int, error) {
	text = strings.TrimSpace(text)
	if n, err := strconv.Atoi(text); err == nil {
		return n, nil
	}
	x, err := strconv.ParseFloat(text, 64)
	if err != nil || x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, errNoCount
	}
	return int(x), nil
}

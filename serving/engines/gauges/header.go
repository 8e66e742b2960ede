package gauges

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"gearshift/router/signals"
)

// The fields of ORCA, in the canonical form of net/http. A client asks with the first for the form
// of the second.
const (
	FormatHeader  = "Endpoint-Load-Metrics-Format"
	MetricsHeader = "Endpoint-Load-Metrics"
)

// Format is a form of the header.
type Format uint8

// The forms. None is what a client wants that does not ask.
const (
	NoFormat Format = iota
	Text
	JSON
)

// FormatAsked returns the form in which the client of the request wants the load.
func FormatAsked(h http.Header) Format {
	values := h[FormatHeader]
	if len(values) == 0 {
		return NoFormat
	}
	switch value := strings.TrimSpace(values[0]); {
	case strings.EqualFold(value, "TEXT"):
		return Text
	case strings.EqualFold(value, "JSON"):
		return JSON
	}
	return NoFormat
}

// longestHeader is the most of a header that is read, and entries the most of its values.
const longestHeader, entries = 8 << 10, 128

// ErrNoLoad is the error of a header that says nothing of a load.
var ErrNoLoad = errors.New("it says nothing of a load")

// ParseLoad reads the value of a header in any form, with or without the word before it: TEXT, JSON, or
// none, as the newer front end of vLLM has it. Values that are unknown are passed over. What it
// returns may be impossible; see [signals.Store.Hear].
func ParseLoad(value string) (signals.Load, error) {
	if len(value) > longestHeader {
		return signals.NewLoad(), fmt.Errorf("cannot read %s: it has %d bytes; want at most %d", MetricsHeader, len(value), longestHeader)
	}
	l, err := parse(strings.TrimSpace(value))
	if err != nil {
		return signals.NewLoad(), fmt.Errorf("cannot read %s: %w", MetricsHeader, err)
	}
	return l, nil
}

func parse(value string) (signals.Load, error) {
	if rest, ok := cutWord(value, "TEXT"); ok {
		return parseText(rest)
	}
	if rest, ok := cutWord(value, "JSON"); ok {
		return parseJSON(rest)
	}
	if strings.HasPrefix(value, "{") {
		return parseJSON(value)
	}
	return parseText(value)
}

// cutWord returns the text after a word in any case, and blanks.
func cutWord(text, word string) (rest string, ok bool) {
	if len(text) <= len(word) || !strings.EqualFold(text[:len(word)], word) || text[len(word)] != ' ' && text[len(word)] != '\t' {
		return text, false
	}
	return strings.TrimLeft(text[len(word):], " \t"), true
}

// named begins the names of values that are not ORCA's own.
const named = "named_metrics."

// parseText reads name=value pairs with commas between them.
func parseText(text string) (signals.Load, error) {
	var r reader
	r.begin()
	for n := 0; text != "" && n < entries; n++ {
		var pair string
		pair, text, _ = strings.Cut(text, ",")
		name, value, ok := strings.Cut(pair, "=")
		if !ok {
			continue
		}
		if number, ok := parseNumber(strings.TrimSpace(value)); ok {
			r.take(strings.TrimPrefix(strings.TrimSpace(name), named), number)
		}
	}
	return r.end()
}

// parseNumber reads a number. One that overflows is infinite, which is refused later.
func parseNumber(text string) (float64, bool) {
	if v, ok := parseShort(text); ok {
		return v, true
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil || errors.Is(err, strconv.ErrRange)
}

// parseShort reads what nearly all numbers are: some digits, with a point among them. There are few
// enough for the quotient to be the nearest number to what they say.
func parseShort(text string) (v float64, ok bool) {
	const most = 15
	digits, scale, point := uint64(0), 1.0, false
	for i := range len(text) {
		switch c := text[i]; {
		case c >= '0' && c <= '9':
			digits = 10*digits + uint64(c-'0')
			if point {
				scale *= 10
			}
		case c == '.' && !point:
			point = true
		default:
			return 0, false
		}
	}
	if len(text) == 0 || len(text) > most || text == "." {
		return 0, false
	}
	return float64(digits) / scale, true
}

// object is the JSON form. Triton and others put values of their own beside ORCA's.
type object map[string]json.RawMessage

func parseJSON(text string) (signals.Load, error) {
	var o object
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return signals.NewLoad(), err
	}
	var r reader
	r.begin()
	r.takeAll(o)
	for _, name := range [...]string{"named_metrics", "namedMetrics"} {
		var more object
		if json.Unmarshal(o[name], &more) == nil {
			r.takeAll(more)
		}
	}
	return r.end()
}

// takeAll reads the numbers of an object in the order of their names, of which two may stand for
// one value. Numbers may be strings, and names in camel case, as protobuf's JSON has both.
func (r *reader) takeAll(o object) {
	for _, name := range slices.Sorted(maps.Keys(o)) {
		raw := o[name]
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw)
		}
		if number, ok := parseNumber(strings.TrimSpace(text)); ok {
			r.take(snakeCase(strings.TrimPrefix(name, named)), number)
		}
	}
}

// snakeCase returns the name of a field as a protobuf definition has it.
func snakeCase(name string) string {
	var b strings.Builder
	for i, c := range name {
		if c >= 'A' && c <= 'Z' {
			if i > 0 {
				b.WriteByte('_')
			}
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// reader puts values together by their names.
type reader struct {
	load             signals.Load
	running, waiting float64
	read             bool
}

func (r *reader) begin() {
	r.load, r.running, r.waiting = signals.NewLoad(), signals.Unsaid, signals.Unsaid
}

// take reads one value. Names are those of ORCA, vLLM, Triton, and this program's own.
func (r *reader) take(name string, v float64) {
	into := r.field(name)
	switch {
	case into != nil:
		*into = sense(v)
	case name == modelID:
		r.load.Model = identity(v)
	case name == instanceID:
		r.load.Instance = identity(v)
	default:
		return
	}
	r.read = true
}

// sense keeps apart what is not said from a number below zero, which none of the values can be.
func sense(v float64) float64 {
	if v < 0 {
		return math.Inf(-1)
	}
	return v
}

func identity(v float64) uint32 {
	if v >= 1 && v <= math.MaxUint32 {
		return uint32(v)
	}
	return 0
}

// Names of this program's own.
const (
	requestsMetric = "gearshift.host_requests"
	examples       = "gearshift.outstanding_examples"
	workSeconds    = "gearshift.outstanding_work_seconds"
	coresMetric    = "gearshift.host_cores"
	kvTokens       = "gearshift.kv_cache_tokens"
	answered       = "gearshift.requests_answered"
	modelID        = "gearshift.model_id"
	instanceID     = "gearshift.instance_id"
)

// field returns where the value of the name belongs; nil if it is unknown.
func (r *reader) field(name string) *float64 {
	switch name {
	case "num_requests_running":
		return &r.running
	case "num_requests_waiting":
		return &r.waiting
	case "kv_cache_usage_perc", "kv_cache_utilization", "gpu_cache_usage_perc":
		return &r.load.KVUse
	case "cpu_utilization":
		return &r.load.CPU
	case "application_utilization":
		return &r.load.Utilization
	case "rps_fractional", "rps":
		return &r.load.Rate
	case "eps":
		return &r.load.Errors
	case requestsMetric:
		return &r.load.Host
	case examples:
		return &r.load.Examples
	case workSeconds:
		return &r.load.Work
	case coresMetric:
		return &r.load.Cores
	case kvTokens:
		return &r.load.KVTokens
	case answered:
		return &r.load.Answered
	}
	return nil
}

// end puts running and waiting requests together.
func (r *reader) end() (signals.Load, error) {
	if !r.read {
		return r.load, ErrNoLoad
	}
	r.load.Waiting = r.waiting
	if r.running != signals.Unsaid {
		r.load.Requests = r.running
		if r.waiting > 0 {
			r.load.Requests += r.waiting
		}
	}
	return r.load, nil
}

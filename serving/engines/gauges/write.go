package gauges

import (
	"math"
	"strconv"

	"gearshift/router/signals"
)

// value is one of a header.
type value struct {
	name  string
	named bool // among the named metrics
	v     float64
}

// values lists what the load says, under the names of ORCA, vLLM, and this program's own.
func values(l *signals.Load) [15]value {
	running := float64(signals.Unsaid)
	if l.Requests >= 0 {
		running = max(0, l.Requests-max(0, l.Waiting))
	}
	return [...]value{
		{"cpu_utilization", false, l.CPU},
		{"application_utilization", false, l.Utilization},
		{"rps_fractional", false, l.Rate},
		{"eps", false, l.Errors},
		{"kv_cache_usage_perc", true, l.KVUse},
		{"num_requests_running", true, running},
		{"num_requests_waiting", true, l.Waiting},
		{requestsMetric, true, l.Host},
		{examples, true, l.Examples},
		{workSeconds, true, l.Work},
		{coresMetric, true, l.Cores},
		{kvTokens, true, l.KVTokens},
		{answered, true, l.Answered},
		{modelID, true, numberOf(l.Model)},
		{instanceID, true, numberOf(l.Instance)},
	}
}

func numberOf(id uint32) float64 {
	if id == 0 {
		return signals.Unsaid
	}
	return float64(id)
}

// WriteLoad returns the header's value in the form; empty for None.
func WriteLoad(f Format, l *signals.Load) string {
	var room [640]byte
	switch f {
	case Text:
		return string(appendText(room[:0], l))
	case JSON:
		return string(appendJSON(room[:0], l))
	}
	return ""
}

func appendText(b []byte, l *signals.Load) []byte {
	b = append(b, "TEXT "...)
	first := true
	for _, x := range values(l) {
		if x.v < 0 {
			continue
		}
		if !first {
			b = append(b, ", "...)
		}
		first = false
		if x.named {
			b = append(b, named...)
		}
		b = append(append(b, x.name...), '=')
		b = appendNumber(b, x.v)
	}
	return b
}

func appendJSON(b []byte, l *signals.Load) []byte {
	b = append(b, "JSON {"...)
	inner, first := false, true
	for _, x := range values(l) {
		if x.v < 0 {
			continue
		}
		if x.named && !inner {
			if !first {
				b = append(b, ',')
			}
			b, inner, first = append(b, `"named_metrics":{`...), true, true
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = append(append(append(b, '"'), x.name...), `":`...)
		b = appendNumber(b, x.v)
	}
	if inner {
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendNumber writes a number with at most six places.
func appendNumber(b []byte, v float64) []byte {
	return strconv.AppendFloat(b, math.Round(v*1e6)/1e6, 'f', -1, 64)
}

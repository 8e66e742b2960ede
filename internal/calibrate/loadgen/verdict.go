package loadgen

import (
	"fmt"
	"strings"
	"time"
)

// What a router makes of a trace, by the share of requests that are answered in time.
const (
	keepsUp = 0.99 // and above
	lags    = 0.90 // and above; below it does not keep up
)

// mostLate is how late a client may be before its load is another than the trace's.
const mostLate = 100 * time.Millisecond

// Verdict is the report in a sentence.
func (r ReplayReport) Verdict() string {
	if r.Completed == 0 {
		return fmt.Sprintf("no answer: none of %d requests was answered (%s)", r.Requests, r.Faults())
	}
	var b strings.Builder
	switch {
	case r.DeadlineMet >= keepsUp:
		b.WriteString("it keeps up: ")
	case r.DeadlineMet >= lags:
		b.WriteString("it falls behind at times: ")
	default:
		b.WriteString("it does not keep up: ")
	}
	fmt.Fprintf(&b, "%.1f %% of %d requests were answered in time, for a utility of %.3f each", 100*r.DeadlineMet, r.Requests, r.Utility)
	if failed := r.Requests - r.Completed; failed > 0 {
		fmt.Fprintf(&b, "; %d failed (%s)", failed, r.Faults())
	}
	if late := time.Duration(r.LateMS * float64(time.Millisecond)); late > mostLate {
		fmt.Fprintf(&b, "; doubtful: this client itself sent up to %.0f ms late", r.LateMS)
	}
	return b.String()
}

package evaluation

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gearshift/env"
)

// Served is what became of requests that may have to wait, as shares of all.
type Served struct {
	// Refused by reason; those that never were are left out.
	Refused map[string]float64 `json:"refused"`
	// Degraded is the share that the gate had a variant answer other than the policy's.
	Degraded float64 `json:"degraded"`
	// Waited is the share that was answered after a wait.
	Waited float64 `json:"waited"`
	// Wait is how long those that were answered waited.
	Wait Percentiles `json:"wait_ms"`
	// Controllers is how often the fleet's controllers did something, by what, in the mean of a run; nil
	// without any.
	Controllers map[string]float64 `json:"controllers,omitempty"`
}

// Acted lists what the controllers did, in words; empty without any.
func (s *Served) Acted() string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Controllers)) {
		parts = append(parts, fmt.Sprintf("%s %.4g", name, s.Controllers[name]))
	}
	return strings.Join(parts, ", ")
}

// RefusedShare returns the share for all reasons together.
func (s *Served) RefusedShare() (sum float64) {
	for _, reason := range slices.Sorted(maps.Keys(s.Refused)) {
		sum += s.Refused[reason]
	}
	return sum
}

// String returns the shares in words.
func (s *Served) String() string {
	var parts []string
	for _, reason := range slices.Sorted(maps.Keys(s.Refused)) {
		parts = append(parts, fmt.Sprintf("%.1f%% refused (%s)", 100*s.Refused[reason], reason))
	}
	if len(parts) == 0 {
		parts = append(parts, "none refused")
	}
	return fmt.Sprintf("%s, %.1f%% degraded, %.1f%% waited, p50/p99 %.0f/%.0f ms",
		strings.Join(parts, ", "), 100*s.Degraded, 100*s.Waited, s.Wait.P50, s.Wait.P99)
}

// waits counts, of one episode, what Served reports: numbers of requests at first, and shares
// of all in the end.
type waits struct {
	refused          map[string]float64
	degraded, waited float64
	ms               []float32 // of the requests that were answered
	acted            []env.Count
}

func (x *waits) add(o *env.Outcome) {
	if o.Refused != "" {
		if x.refused == nil {
			x.refused = map[string]float64{}
		}
		x.refused[o.Refused]++
		return
	}
	if o.Degraded {
		x.degraded++
	}
	if o.Waited > 0 {
		x.waited++
	}
	x.ms = append(x.ms, milliseconds(o.Waited))
}

// over divides by a number of requests, or of workloads.
func (x *waits) over(n float64) {
	for reason := range x.refused {
		x.refused[reason] /= n
	}
	x.degraded /= n
	x.waited /= n
}

// merge adds o.
func (x *waits) merge(o *waits) {
	for reason, n := range o.refused {
		if x.refused == nil {
			x.refused = map[string]float64{}
		}
		x.refused[reason] += n
	}
	x.degraded += o.degraded
	x.waited += o.waited
	x.ms, x.acted = append(x.ms, o.ms...), append(x.acted, o.acted...)
}

// servedOf returns the mean over the runs that had requests.
func servedOf(runs []tally) *Served {
	var sum waits
	var n float64
	for i := range runs {
		if runs[i].requests > 0 {
			sum.merge(&runs[i].waits)
			n++
		}
	}
	sum.over(n)
	if sum.refused == nil {
		sum.refused = map[string]float64{}
	}
	s := &Served{Refused: sum.refused, Degraded: sum.degraded, Waited: sum.waited, Wait: percentiles(sum.ms)}
	for _, c := range sum.acted {
		if s.Controllers == nil {
			s.Controllers = map[string]float64{}
		}
		s.Controllers[c.Name] += float64(c.N) / n
	}
	return s
}

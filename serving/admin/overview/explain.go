package overview

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"gearshift/router"
	"gearshift/router/fleet"
)

// This file says what a choice was based on, for the client or the operator who asks.

// Explanation is what a choice was based on, and what else there was.
type Explanation struct {
	Variant string `json:"variant"`
	Replica string `json:"replica"`
	Policy  string `json:"policy"`
	// Why is the policy's own word on it, Fallback why it did not decide; each
	// is empty if there is nothing to say.
	Why      string `json:"why,omitempty"`
	Fallback string `json:"fallback,omitempty"`
	// The request: its task, its deadlines per output token, to the first of them and to
	// the end of the answer, and an estimate of its prompt's length.
	Task         string  `json:"task"`
	DeadlineMS   float64 `json:"deadline_ms"`
	FirstTokenMS float64 `json:"first_token_ms,omitempty"`
	TotalMS      float64 `json:"total_ms,omitempty"`
	PromptTokens int     `json:"prompt_tokens"`
	// MinQuality is what it asks for at least; zero if any will do.
	MinQuality float64 `json:"min_quality,omitempty"`
	// Sure says how far the predicted qualities are based on its prompt; nil without a prediction.
	Sure *float64 `json:"sure,omitempty"`
	// Rate of arrivals per second as the policy saw it, and requests in flight.
	Rate     float64 `json:"rate"`
	InFlight int     `json:"in_flight"`
	// Alternatives are the variants, in the table's order, the chosen one too.
	Alternatives []Alternative `json:"alternatives,omitempty"`
	// Omitted counts alternatives left out, for want of room.
	Omitted int `json:"omitted,omitempty"`
	// Signals are what was known of the load of the variant's replicas, of the chosen one first,
	// where the balancer chooses by that.
	Signals []Signal `json:"signals,omitempty"`
}

// Signal is what was known of a replica's load when the choice was made.
type Signal struct {
	Replica string `json:"replica"`
	// Source is where it came from, and AgeMS how old it was.
	Source string  `json:"source"`
	AgeMS  float64 `json:"age_ms"`
	// Model and Host count requests, and WorkMS is outstanding work on one core.
	Model  int     `json:"model"`
	Host   int     `json:"host"`
	WorkMS float64 `json:"work_ms"`
}

// Alternative is what was known of a variant when it was, or was not, chosen.
type Alternative struct {
	Variant string `json:"variant"`
	// Quality is that of its answers to the task.
	Quality float64 `json:"quality"`
	// Predicted is the quality of its answer that is predicted for the request, by which it was
	// decided, and Assured its lower bound; nil without a prediction.
	Predicted *float64 `json:"predicted,omitempty"`
	Assured   *float64 `json:"assured,omitempty"`
	// Available says that a replica of it could take the request.
	Available bool `json:"available"`
	// Unavailable is why not, if the variant does not answer the task or is not loaded.
	Unavailable string `json:"unavailable,omitempty"`
	// InFlight counts the requests on all its replicas.
	InFlight int `json:"in_flight"`
	// KVUse is the share of its emptiest available replica's KV cache in use; nil
	// if its size is unknown or there is none.
	KVUse *float64 `json:"kv_use,omitempty"`
	// PaceMS is the time per output token forecast on its best available replica,
	// and Misses the deadlines missed by it, others' among them; nil without
	// forecasts.
	PaceMS *float64 `json:"pace_ms,omitempty"`
	// FirstTokenMS and TotalMS are the times to the first token and to the end of the answer
	// forecast there; nil without a deadline for them.
	FirstTokenMS *float64 `json:"first_token_ms,omitempty"`
	TotalMS      *float64 `json:"total_ms,omitempty"`
	Misses       *float64 `json:"misses,omitempty"`
	// Expected is the utility of its answer if that takes as long as forecast there: by the
	// quality that is predicted for the request, else by that for the task.
	Expected *float64 `json:"expected,omitempty"`
	// Value is what a learned policy expects of it; nil of other policies.
	Value *float64 `json:"value,omitempty"`
}

// Observer sees one choice that is to be explained.
type Observer struct {
	request fleet.Request
	ledger  *fleet.Ledger
	values  []float64
	why     string
	// Explanation is there once the choice is made. Until then, another goroutine may be
	// writing it.
	Explanation *Explanation
}

// Explain makes an Observer of the request's choice.
func Explain(r fleet.Request, l *fleet.Ledger) *Observer { return &Observer{request: r, ledger: l} }

// ObserveExplanation implements [router.ExplanationObserver].
func (x *Observer) ObserveExplanation(values []float32, why string) {
	x.why = why
	for _, q := range values {
		x.values = append(x.values, float64(q))
	}
}

// Observe implements [router.Observer].
func (x *Observer) Observe(v *fleet.View, c router.Choice) {
	t, task := v.Table, &v.Table.Tasks[x.request.Task]
	deadlines := task.Deadlines(&x.request)
	e := &Explanation{
		Variant: t.Variants[c.Variant].Name, Replica: t.Replicas[c.Replica].Name, Policy: c.Policy,
		Why: x.why, Fallback: c.Reason, Task: task.Name,
		DeadlineMS: Short(fleet.Milliseconds(deadlines.PerToken)), FirstTokenMS: Short(fleet.Milliseconds(deadlines.FirstToken)), TotalMS: Short(fleet.Milliseconds(deadlines.Total)),
		PromptTokens: x.request.PromptTokens,
		MinQuality:   Short(x.request.MinQuality), Rate: Short(v.Rate),
		Alternatives: make([]Alternative, len(t.Variants)),
	}
	if p := &x.request.Predicted; p.Known {
		e.Sure = Pointer(float64(p.Sure))
	}
	for m := range e.Alternatives {
		e.Alternatives[m] = alternative(v, m, &x.request)
		if !e.Alternatives[m].Available {
			e.Alternatives[m].Unavailable = unavailable(x.ledger, x.request.Task, m)
		}
		e.InFlight += e.Alternatives[m].InFlight
		if m < len(x.values) {
			e.Alternatives[m].Value = Pointer(x.values[m])
		}
	}
	x.Explanation = e
}

// alternative returns what the view shows of the variant for the request.
func alternative(v *fleet.View, variant int, r *fleet.Request) Alternative {
	task := &v.Table.Tasks[r.Task]
	a := Alternative{
		Variant: v.Table.Variants[variant].Name, Quality: Short(task.Quality[variant]),
		Available: v.VariantAvailable(variant), InFlight: v.VariantInFlight(variant),
	}
	if r.Predicted.Known {
		a.Predicted, a.Assured = Pointer(v.Table.Quality(r, variant)), Pointer(v.Table.Assured(r, variant))
	}
	best := -1
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) {
			continue
		}
		if use := v.KVUse(i); v.Table.Replicas[i].KVTokens > 0 && (a.KVUse == nil || use < *a.KVUse) {
			a.KVUse = Pointer(use)
		}
		if len(v.Forecasts) > i && (best < 0 || v.Forecasts[i].Pace < v.Forecasts[best].Pace) {
			best = i
		}
	}
	if best >= 0 {
		f, d := &v.Forecasts[best], task.Deadlines(r)
		a.PaceMS, a.Misses = Pointer(f.Pace*fleet.Milliseconds(task.Allowed(r.Deadline))), Pointer(f.Misses)
		a.Expected = Pointer(task.Worth(v.Table.Quality(r, variant), f.Expects(d), d))
		if d.FirstToken > 0 {
			a.FirstTokenMS = Pointer(f.First * fleet.Milliseconds(d.FirstToken))
		}
		if d.Total > 0 {
			a.TotalMS = Pointer(f.Total * fleet.Milliseconds(d.Total))
		}
	}
	return a
}

// maxExplanation bounds the explanation in a header, in bytes: servers and proxies
// refuse headers of more than 8 KiB in all.
const maxExplanation = 4 << 10

// Header is the explanation as compact JSON in ASCII. What does not fit is left
// out, alternatives first.
func (e *Explanation) Header() string {
	some := *e
	for {
		text, err := json.Marshal(&some)
		if err != nil {
			return "{}"
		}
		line := ASCII(text)
		if len(line) <= maxExplanation {
			return line
		}
		if len(some.Signals) > 0 {
			some.Signals = nil
			continue
		}
		n := len(some.Alternatives)
		if n == 0 {
			return "{}"
		}
		some.Alternatives = some.Alternatives[:n/2]
		some.Omitted = len(e.Alternatives) - n/2
	}
}

// ASCII escapes in JSON what a header cannot carry.
func ASCII(text []byte) string {
	var out strings.Builder
	for _, r := range string(text) {
		if r < utf8.RuneSelf {
			out.WriteByte(byte(r))
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&out, `\u%04x`, unit)
		}
	}
	return out.String()
}

// unavailable says in a few words why a variant without an available replica has none, if
// that is not its load or its health.
func unavailable(l *fleet.Ledger, task, variant int) string {
	t := l.Table()
	if !t.Answers(task, variant) {
		return "does not answer the task"
	}
	found := map[fleet.State]bool{}
	for _, i := range t.ReplicasOf(variant) {
		found[l.Placed(i)] = true
	}
	switch {
	case found[fleet.Up] || found[fleet.Draining]:
		return ""
	case found[fleet.Loading]:
		return "loading"
	case found[fleet.Warm]:
		return "asleep"
	}
	return "not loaded"
}

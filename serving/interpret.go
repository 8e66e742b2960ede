package serving

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	prompts "gearshift/router/quality"
	"gearshift/serving/config"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/wire"
	"gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
	"gearshift/serving/work"
)

// interpreter finds out what requests ask for.
type interpreter struct {
	settings  func() *Config
	catalogue *catalogue.Catalogue
	predicts  *quality.Predictors
	feedback  *feedback.Service // nil: no answer is scored
	prompts   work.Prompts
	affinity  config.Affinity
}

// understand reads the parameters that route a request, of a client that may know of the allowed
// variants; zero is all of them.
func (x *interpreter) understand(h http.Header, k *call, allowed uint64) (fault *wire.Refusal) {
	r := k.Request
	if k.variant, fault = x.catalogue.Variant(r.Model, allowed); fault != nil {
		return fault
	}
	if k.fleet.Task, fault = x.catalogue.Task(h, r.Task, k.variant); fault != nil {
		return fault
	}
	if fault = x.catalogue.Answers(k.fleet.Task, k.variant); fault != nil {
		return fault
	}
	for i, into := range []*time.Duration{&k.fleet.Deadline, &k.fleet.FirstToken, &k.fleet.Total} {
		if *into, fault = deadlines[i].read(h); fault != nil {
			return fault
		}
	}
	x.predict(h, k)
	if fault = x.catalogue.SetMinQuality(h, &k.fleet, k.variant); fault != nil {
		return fault
	}
	k.prompt, k.fleet.Session = r.Prompt(), session(x.affinity, h)
	k.fleet.PromptTokens = x.prompts.Tokens(k.fleet.Task, k.prompt)
	if n, most := r.AnswersOfOne(), x.settings().MaxAnswers; n > most {
		return wire.Bad(http.StatusBadRequest, "n", "invalid_value", fmt.Sprintf("the request asks for %d answers to a prompt, by n or best_of; at most %d (serving.max_answers)", n, most))
	}
	if n := r.Answers(); n > 1 {
		k.fleet.Answers = n
	}
	return nil
}

// predict sets the quality that is predicted for the call, and has it remembered if its answer may be
// scored.
func (x *interpreter) predict(h http.Header, k *call) {
	var keep func(*prompts.Sample)
	if k.scored && x.feedback != nil && x.feedback.On() {
		keep = func(s *prompts.Sample) {
			k.ticket = x.feedback.Begin(&feedback.Request{Owner: k.owner, ID: k.id, Task: k.fleet.Task, Predicted: &k.fleet.Predicted, Sample: s})
		}
	}
	k.onTrial = x.predicts.Predict(k.Request, x.catalogue.Named(h, k.Request.Task), &k.fleet, keep)
}

// deadline is one that a request may set, in milliseconds.
type deadline struct {
	headers []string // the first one present counts
	key     string   // of a body
	unit    string
}

// The deadlines of a request: per output token, for the first of them, and for the end of the answer.
var deadlines = [...]deadline{
	{[]string{"X-Llm-D-Slo-Tpot-Ms", "X-Slo-Tpot-Ms"}, "deadline_ms", "milliseconds per output token"},
	{[]string{"X-Llm-D-Slo-Ttft-Ms", "X-Slo-Ttft-Ms"}, "first_token_ms", "milliseconds until the first token"},
	{[]string{"X-Gearshift-Total-Ms"}, "total_ms", "milliseconds until the end of the answer"},
}

// read reads the deadline from a header; zero if it is not there.
func (d *deadline) read(h http.Header) (time.Duration, *wire.Refusal) {
	for _, name := range d.headers {
		text := strings.TrimSpace(wire.Field(h, name))
		if text == "" {
			continue
		}
		ms, err := strconv.ParseFloat(text, 64)
		is, ok := fromMilliseconds(ms)
		if err != nil || !ok {
			return 0, d.bad(strings.ToLower(name), text)
		}
		return is, nil
	}
	return 0, nil
}

func (d *deadline) bad(param, text string) *wire.Refusal {
	return wire.Bad(http.StatusBadRequest, param, "invalid_deadline", fmt.Sprintf("deadline %q; it must be a positive number of %s", text, d.unit))
}

// fromMilliseconds is false unless they are a positive Duration.
func fromMilliseconds(ms float64) (time.Duration, bool) {
	ns := ms * float64(time.Millisecond)
	if !(ns >= 1 && ns < math.MaxInt64) { // NaN fails too
		return 0, false
	}
	return time.Duration(ns), true
}

// session is the hash of the session that the headers name; zero if they name none.
// It is FNV-1a, so that every router comes to the same.
func session(a config.Affinity, h http.Header) uint64 {
	if !a.On() {
		return 0
	}
	name := h.Get(a.Header)
	if name == "" {
		return 0
	}
	hash := uint64(0xcbf29ce484222325)
	for _, c := range []byte(name) {
		hash = (hash ^ uint64(c)) * 0x100000001b3
	}
	return max(hash, 1)
}

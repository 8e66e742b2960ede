package backend

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"gearshift/serving/openai/wire"
)

// replica answers for one engine of a host.
type replica struct {
	host   *host
	engine int // of the host
	index  int // of the table
	model  string
	kept   *responseStore
}

// order is what a simulated engine heeds in a request. Sampling parameters and
// stop sequences have no meaning for it and are ignored.
type order struct {
	Messages            json.RawMessage `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	N                   *int            `json:"n"`
	Tools               []tool          `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`

	call *wire.Function // to answer with in place of text, or nil
}

// RoundTrip implements [http.RoundTripper]. The work is cancelled with the
// request's context, or when a streamed answer's body is closed.
func (r *replica) RoundTrip(request *http.Request) (*http.Response, error) {
	body, err := readBody(request)
	if err != nil {
		return nil, err
	}
	if id, ok := strings.CutPrefix(request.URL.Path, ResponsesPath+"/"); ok {
		return r.kept.answer(request, id)
	}
	switch {
	case AsksToInfer(request):
		return r.infer(request, body)
	case AsksForMetadata(request):
		return Describe(request, r.model, SimulatedSignature())
	}
	if request.Method == http.MethodPost {
		switch request.URL.Path {
		case ClassifyPath:
			return r.classify(request, body)
		case EmbeddingsPath:
			return r.embed(request, body)
		case ResponsesPath:
			return r.respond(request, body)
		case MessagesPath, CountTokensPath:
			return r.messages(request, body)
		}
	}
	chat := request.URL.Path == ChatPath
	if !chat && request.URL.Path != CompletionPath || request.Method != http.MethodPost {
		return Refuse(request, http.StatusNotFound, NoEndpoint("the simulated backend", request)), nil
	}
	o, j, fault := r.order(body, chat)
	if fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	if err := request.Context().Err(); err != nil {
		return nil, err
	}
	fits, err := r.host.submit(j)
	if err != nil {
		return nil, err
	}
	if !fits {
		_, name := o.input(chat)
		fault := invalid(name, fmt.Sprintf("%d prompt tokens and %d output tokens exceed the KV cache of %s", j.prompt, j.output, r.model))
		fault.Code = "context_length_exceeded"
		return Refuse(request, http.StatusBadRequest, fault), nil
	}
	w := newWork(request.Context(), simulation{j, r.host}, r.model, chat)
	w.call, w.usage = o.call, o.StreamOptions.usage()
	if o.Stream {
		return w.stream(request), nil
	}
	return w.whole(request)
}

// order reads the request and decides how long its answer will be.
func (r *replica) order(body []byte, chat bool) (o order, j *job, fault *wire.Error) {
	if fault = ReadMembers(body, &o); fault != nil {
		return o, nil, fault
	}
	if fault = o.wanting(chat); fault != nil {
		return o, nil, fault
	}
	if o.N != nil && *o.N != 1 {
		e := invalid("n", "the simulated backend gives one answer to a request")
		return o, nil, &e
	}
	if o.call, fault = o.called(); fault != nil {
		return o, nil, fault
	}
	limit, name := o.MaxCompletionTokens, "max_completion_tokens"
	if limit == nil {
		limit, name = o.MaxTokens, "max_tokens"
	}
	if limit != nil && *limit < 1 {
		e := invalid(name, fmt.Sprintf("%q must be at least 1", name))
		return o, nil, &e
	}
	prompt := wire.PromptOf(body)
	// It has no chat template, and so no marks.
	j = &job{replica: r.index, engine: r.engine, prompt: max(1, prompt.Tokens()-prompt.Marks), wake: make(chan struct{}, 1)}
	switch {
	case limit != nil && o.IgnoreEOS:
		j.output = *limit
	case limit != nil:
		j.output = min(*limit, r.host.length())
	default:
		j.output = r.host.length()
	}
	j.cut = limit != nil && j.output == *limit
	return o, j, nil
}

// input is what the answer goes on from, and its member's name.
func (o *order) input(chat bool) (input json.RawMessage, name string) {
	if chat {
		return o.Messages, "messages"
	}
	return o.Prompt, "prompt"
}

// wanting says what the input lacks, as far as OpenAI's own servers insist.
func (o *order) wanting(chat bool) *wire.Error {
	input, name := o.input(chat)
	var message string
	switch {
	case len(input) == 0 || string(input) == "null":
		message = fmt.Sprintf("%q is missing", name)
	case chat && !listOf(input, "{"):
		message = `"messages" must be a list of at least one message, such as {"role": "user", "content": "…"}`
	case !chat && input[0] != '"' && !listOf(input, `"[0123456789`):
		message = `"prompt" must be a string, or a list of strings or tokens that is not empty`
	default:
		return nil
	}
	e := invalid(name, message)
	return &e
}

// listOf says that the JSON value is a list, not empty, of values that begin
// with one of the characters.
func listOf(value []byte, first string) bool {
	count, other := 0, false
	list := wire.Elements(value, func(element []byte) {
		count++
		other = other || strings.IndexByte(first, element[0]) < 0
	})
	return list && count > 0 && !other
}

func invalid(param, message string) wire.Error {
	return wire.Error{Type: wire.InvalidRequest, Param: wire.Optional(param), Code: "invalid_value", Message: message}
}

// NoEndpoint is the error of an engine that is not made for what was asked.
func NoEndpoint(engine string, r *http.Request) wire.Error {
	return wire.Error{Type: wire.InvalidRequest, Code: wire.UnsupportedEndpoint, Message: engine + " has no " + r.Method + " " + r.URL.Path}
}

// simulation is a job as an answer of filler words.
type simulation struct {
	*job
	host *host
}

// ID implements [Generation].
func (s simulation) ID() uint64 { return s.id }

// Wait implements [Generation].
func (s simulation) Wait(pieces int) (now int, done bool, err error) {
	for {
		now, done, err = s.host.seen(s.job)
		if done || now > pieces {
			return now, done, err
		}
		<-s.wake
	}
}

// Piece implements [Generation].
func (s simulation) Piece(i int) string { return filler(s.id, i, 1) }

// Finish implements [Generation].
func (s simulation) Finish() wire.Optional {
	if s.cut {
		return "length"
	}
	return "stop"
}

// Usage implements [Generation].
func (s simulation) Usage() (prompt, output int) { return s.prompt, s.output }

// Cancel implements [Generation].
func (s simulation) Cancel(cause error) { s.host.cancel(s.job, cause) }

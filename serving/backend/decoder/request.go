package decoder

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"gearshift/serving/backend"
	"gearshift/serving/openai/wire"
)

// order is what the engine heeds in a request.
type order struct {
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	} `json:"messages"`
	Prompt              json.RawMessage `json:"prompt"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	Temperature         *float64        `json:"temperature"`
	TopP                *float64        `json:"top_p"`
	Seed                *int64          `json:"seed"`
	Stop                json.RawMessage `json:"stop"`
	IgnoreEOS           bool            `json:"ignore_eos"`
	// What would change the answer and is not there is refused, not ignored.
	N                *int            `json:"n"`
	FrequencyPenalty float64         `json:"frequency_penalty"`
	PresencePenalty  float64         `json:"presence_penalty"`
	LogitBias        map[string]int  `json:"logit_bias"`
	Logprobs         json.RawMessage `json:"logprobs"`
	Echo             bool            `json:"echo"`
	ToolChoice       json.RawMessage `json:"tool_choice"`
	BestOf           *int            `json:"best_of"`
	Suffix           string          `json:"suffix"`
	ResponseFormat   *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	// These are vLLM's.
	TopK              int      `json:"top_k"` // 0 and −1: all
	MinP              float64  `json:"min_p"`
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	MinTokens         int      `json:"min_tokens"`
	StopTokens        []int64  `json:"stop_token_ids"`
	// Of these, anything but null, false and what is empty asks for something. All but
	// the first are vLLM's.
	FunctionCall      json.RawMessage `json:"function_call"`
	PromptLogprobs    json.RawMessage `json:"prompt_logprobs"`
	TruncatePrompt    json.RawMessage `json:"truncate_prompt_tokens"`
	IncludeStop       json.RawMessage `json:"include_stop_str_in_output"`
	BadWords          json.RawMessage `json:"bad_words"`
	AllowedTokens     json.RawMessage `json:"allowed_token_ids"`
	BeamSearch        json.RawMessage `json:"use_beam_search"`
	StructuredOutputs json.RawMessage `json:"structured_outputs"`
	GuidedJSON        json.RawMessage `json:"guided_json"`
	GuidedRegex       json.RawMessage `json:"guided_regex"`
	GuidedChoice      json.RawMessage `json:"guided_choice"`
	GuidedGrammar     json.RawMessage `json:"guided_grammar"`
}

// maxStops is how many stop strings OpenAI allows.
const maxStops = 4

// Generate implements [backend.Generator].
func (e *Engine) Generate(body []byte, chat bool) (backend.Generation, *wire.Error, error) {
	s, fault := e.read(body, chat)
	if fault != nil {
		return nil, fault, nil
	}
	if err := e.submit(s); err != nil {
		return nil, nil, err
	}
	return s, nil, nil
}

// read makes a sequence of the request.
func (e *Engine) read(body []byte, chat bool) (*sequence, *wire.Error) {
	var o order
	if fault := backend.ReadMembers(body, &o); fault != nil {
		return nil, fault
	}
	if fault := o.unheeded(); fault != nil {
		return nil, fault
	}
	s := &sequence{engine: e, ignoreEnd: o.IgnoreEOS, wake: make(chan struct{}, 1)}
	for _, read := range []func(*sequence) *wire.Error{
		func(s *sequence) *wire.Error { return e.prompt(s, &o, chat) },
		o.sampling, o.stops,
		func(s *sequence) *wire.Error { return e.limit(s, &o) },
	} {
		if fault := read(s); fault != nil {
			return nil, fault
		}
	}
	return s, nil
}

// asks says whether a value asks for anything: null, false and what is empty do not.
func asks(value json.RawMessage) bool {
	var v any
	if len(value) == 0 || json.Unmarshal(value, &v) != nil {
		return false
	}
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case string:
		return v != ""
	case []any:
		return len(v) > 0
	case map[string]any:
		return len(v) > 0
	}
	return true // a number, zero too
}

// demandsCall says whether a choice among tools leaves the engine none.
func demandsCall(choice json.RawMessage) bool {
	return asks(choice) && string(choice) != `"none"` && string(choice) != `"auto"`
}

// unheeded refuses what the engine does not have.
func (o *order) unheeded() *wire.Error {
	switch {
	case o.N != nil && *o.N != 1:
		return invalid("n", "this engine gives one answer to a request")
	case o.BestOf != nil && *o.BestOf != 1:
		return invalid("best_of", "this engine gives one answer to a request")
	case o.ResponseFormat != nil && o.ResponseFormat.Type != "text":
		return invalid("response_format", "this engine answers in text alone")
	case asks(o.Logprobs): // a completion's 0 asks for those of the tokens chosen
		return invalid("logprobs", "this engine gives no logprobs")
	case o.Echo:
		return invalid("echo", "this engine does not echo prompts")
	case demandsCall(o.ToolChoice):
		return invalid("tool_choice", "this engine calls no tools; it takes none and auto")
	case demandsCall(o.FunctionCall):
		return invalid("function_call", "this engine calls no tools; it takes none and auto")
	}
	for _, unknown := range []struct {
		name  string
		asked bool
	}{
		{"frequency_penalty", o.FrequencyPenalty != 0}, {"presence_penalty", o.PresencePenalty != 0}, {"logit_bias", len(o.LogitBias) > 0}, {"suffix", o.Suffix != ""},
		{"top_k", o.TopK > 0}, {"min_p", o.MinP != 0}, {"repetition_penalty", o.RepetitionPenalty != nil && *o.RepetitionPenalty != 1},
		{"min_tokens", o.MinTokens > 0}, {"stop_token_ids", len(o.StopTokens) > 0},
		{"prompt_logprobs", asks(o.PromptLogprobs)}, {"truncate_prompt_tokens", asks(o.TruncatePrompt)}, {"include_stop_str_in_output", asks(o.IncludeStop)},
		{"bad_words", asks(o.BadWords)}, {"allowed_token_ids", asks(o.AllowedTokens)}, {"use_beam_search", asks(o.BeamSearch)},
		{"structured_outputs", asks(o.StructuredOutputs)}, {"guided_json", asks(o.GuidedJSON)}, {"guided_regex", asks(o.GuidedRegex)},
		{"guided_choice", asks(o.GuidedChoice)}, {"guided_grammar", asks(o.GuidedGrammar)},
	} {
		if unknown.asked {
			return invalid(unknown.name, "this engine has no "+unknown.name)
		}
	}
	return nil
}

// prompt reads the prompt's tokens. The turns of a chat follow each other on
// lines of their own: a model without a template of its own knows no roles.
func (e *Engine) prompt(s *sequence, o *order, chat bool) *wire.Error {
	var fault *wire.Error
	if chat {
		s.prompt, fault = e.turns(o)
	} else {
		s.prompt, fault = e.text(o.Prompt)
	}
	name := "prompt"
	if chat {
		name = "messages"
	}
	switch {
	case fault != nil:
		return fault
	case len(s.prompt) == 0 && chat:
		return invalid(name, `the "content" is empty in every message`)
	case len(s.prompt) == 0:
		return invalid(name, `"prompt" is empty`)
	case len(s.prompt) >= e.config.Context:
		return e.tooLong(name, fmt.Sprintf("the prompt has %d tokens", len(s.prompt)))
	}
	return nil
}

func (e *Engine) tooLong(name, what string) *wire.Error {
	fault := invalid(name, fmt.Sprintf("%s; the context of %s is %d tokens, prompt and answer together", what, e.config.Name, e.config.Context))
	fault.Code = "context_length_exceeded"
	return fault
}

func (e *Engine) turns(o *order) ([]int64, *wire.Error) {
	if len(o.Messages) == 0 {
		return nil, invalid("messages", `"messages" must be a list of at least one message, such as {"role": "user", "content": "…"}`)
	}
	var texts []string
	for i, m := range o.Messages {
		text, ok := content(m.Content)
		if !ok {
			return nil, invalid("messages", fmt.Sprintf(`the "content" of message %d must be a string or a list of parts of type "text"`, i))
		}
		texts = append(texts, text)
	}
	return e.encode("messages", strings.Join(texts, "\n"))
}

// encode makes tokens of the text, unless so long a text is too many whatever
// they are.
func (e *Engine) encode(name, text string) ([]int64, *wire.Error) {
	if longest := e.tokenizer.Longest(); len(text) > longest*e.config.Context {
		return nil, e.tooLong(name, fmt.Sprintf("the prompt of %d bytes has at least %d tokens", len(text), len(text)/longest))
	}
	return e.tokenizer.Prompt(text), nil
}

// content is a message's text.
func content(value json.RawMessage) (string, bool) {
	var text string
	if len(value) == 0 || json.Unmarshal(value, &text) == nil { // null too
		return text, true
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(value, &parts) != nil {
		return "", false
	}
	for _, p := range parts {
		if p.Type != "text" {
			return "", false
		}
		text += p.Text
	}
	return text, true
}

// text is a completion's prompt: a string, tokens, or a list of one of these.
func (e *Engine) text(value json.RawMessage) ([]int64, *wire.Error) {
	var one []json.RawMessage
	if json.Unmarshal(value, &one) == nil && len(one) == 1 && (one[0][0] == '"' || one[0][0] == '[') {
		value = one[0]
	}
	var text string
	if len(value) > 0 && string(value) != "null" && json.Unmarshal(value, &text) == nil {
		return e.encode("prompt", text)
	}
	var tokens []int64
	if json.Unmarshal(value, &tokens) != nil || len(tokens) == 0 {
		return nil, invalid("prompt", `"prompt" must be a string or a list of tokens, and one alone`)
	}
	size := e.model.Layout().Vocabulary
	if i := slices.IndexFunc(tokens, func(t int64) bool { return t < 0 || t >= int64(size) }); i >= 0 {
		return nil, invalid("prompt", fmt.Sprintf("the token %d is none of the model's, which has %d", tokens[i], size))
	}
	return tokens, nil
}

func (o *order) sampling(s *sequence) *wire.Error {
	s.temperature, s.topP = 1, 1
	if o.Temperature != nil {
		s.temperature = *o.Temperature
	}
	if o.TopP != nil {
		s.topP = *o.TopP
	}
	switch {
	case !(s.temperature >= 0 && s.temperature <= 2):
		return invalid("temperature", `"temperature" must be from 0 to 2`)
	case !(s.topP > 0 && s.topP <= 1):
		return invalid("top_p", `"top_p" must be above 0 and at most 1`)
	}
	if o.Seed != nil {
		s.random = rand.New(rand.NewPCG(uint64(*o.Seed), 0x73616d706c65))
	}
	return nil
}

func (o *order) stops(s *sequence) *wire.Error {
	var one string
	if len(o.Stop) == 0 || string(o.Stop) == "null" {
		return nil
	}
	if json.Unmarshal(o.Stop, &one) == nil {
		s.stops = []string{one}
	} else if json.Unmarshal(o.Stop, &s.stops) != nil {
		return invalid("stop", `"stop" must be a string or a list of strings`)
	}
	if len(s.stops) > maxStops || slices.Contains(s.stops, "") {
		return invalid("stop", fmt.Sprintf(`"stop" must be at most %d strings, none of them empty`, maxStops))
	}
	return nil
}

// limit is how many tokens may be generated. Without one of the client's own it
// is what the context and the cache have room for.
func (e *Engine) limit(s *sequence, o *order) *wire.Error {
	limit, name := o.MaxCompletionTokens, "max_completion_tokens"
	if limit == nil {
		limit, name = o.MaxTokens, "max_tokens"
	}
	room := e.config.Context - len(s.prompt)
	if cache := e.config.KVTokens - len(s.prompt); cache < room {
		if cache < 1 || limit != nil && *limit > cache {
			fault := invalid(name, fmt.Sprintf("%d prompt tokens, with those to generate, exceed the KV cache of %s, %d tokens", len(s.prompt), e.config.Name, e.config.KVTokens))
			fault.Code = "context_length_exceeded"
			return fault
		}
		room = cache
	}
	switch {
	case limit == nil:
		s.limit = room
	case *limit < 1:
		return invalid(name, fmt.Sprintf("%q must be at least 1", name))
	case *limit > room:
		return e.tooLong(name, fmt.Sprintf("%d prompt tokens and %q = %d are more", len(s.prompt), name, *limit))
	default:
		s.limit = *limit
	}
	return nil
}

func invalid(param, message string) *wire.Error {
	return &wire.Error{Type: wire.InvalidRequest, Param: wire.Optional(param), Code: "invalid_value", Message: message}
}

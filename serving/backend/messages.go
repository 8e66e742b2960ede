package backend

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/openai/wire"
)

// The paths of Anthropic's Messages API.
const (
	MessagesPath    = "/v1/messages"
	CountTokensPath = MessagesPath + "/count_tokens"
)

// messagesOrder is what a simulated engine heeds in a request of the Messages API.
type messagesOrder struct {
	Messages  json.RawMessage `json:"messages"`
	System    json.RawMessage `json:"system"`
	MaxTokens *int            `json:"max_tokens"`
	IgnoreEOS bool            `json:"ignore_eos"`
	Stream    bool            `json:"stream"`
}

// chat is the request as that of a chat.
func (o *messagesOrder) chat() map[string]any {
	turns := []json.RawMessage{}
	if len(o.System) > 0 && string(o.System) != "null" {
		turns = append(turns, slices.Concat([]byte(`{"role":"system","content":`), o.System, []byte("}")))
	}
	wire.Elements(o.Messages, func(turn []byte) { turns = append(turns, turn) })
	return map[string]any{
		"messages": turns, "max_tokens": *o.MaxTokens, "ignore_eos": o.IgnoreEOS, "stream": o.Stream,
		"stream_options": map[string]any{"include_usage": true},
	}
}

func (o *messagesOrder) read(body []byte, counts bool) *wire.Error {
	if fault := ReadMembers(body, o); fault != nil {
		return fault
	}
	var fault wire.Error
	switch {
	case !listOf(o.Messages, "{"):
		fault = invalid("messages", `"messages" must be a list of at least one message, such as {"role": "user", "content": "…"}`)
	case !counts && (o.MaxTokens == nil || *o.MaxTokens < 1):
		fault = invalid("max_tokens", `"max_tokens" is needed, and must be at least 1`)
	default:
		return nil
	}
	return &fault
}

// messages answers as the Messages API does, by a chat with the engine.
func (r *replica) messages(request *http.Request, body []byte) (*http.Response, error) {
	var o messagesOrder
	counts := request.URL.Path == CountTokensPath
	if fault := o.read(body, counts); fault != nil {
		return Respond(request, http.StatusBadRequest, fault.Messages(http.StatusBadRequest)), nil
	}
	if counts {
		return respondJSON(request, object{"input_tokens": wire.PromptOf(body).Tokens()})
	}
	stream, whole, refusal, err := r.ask(request, ChatPath, o.chat())
	if err != nil || refusal != nil {
		return refusal, err
	}
	if stream != nil {
		e := &messagesEvents{input: wire.PromptOf(body).Tokens()}
		return retell(request, stream, e, &e.written), nil
	}
	choice := whole.Choices[0]
	out := answerOf(*whole, stopReason(choice.FinishReason), whole.Usage.PromptTokens, whole.Usage.CompletionTokens)
	out["content"] = []object{{"type": "text", "text": *choice.Message.Content}}
	return respondJSON(request, out)
}

// answerOf is the message of an answer, without its content.
func answerOf(a wire.Answer, stop any, input, output int) object {
	return object{
		"id": "msg_" + strings.TrimPrefix(a.ID, "chatcmpl-"), "type": "message", "role": "assistant", "model": a.Model, "content": []object{},
		"stop_reason": stop, "stop_sequence": nil, "usage": object{"input_tokens": input, "output_tokens": output},
	}
}

func stopReason(finish wire.Optional) string {
	if finish == "length" {
		return "max_tokens"
	}
	return "end_turn"
}

// messagesEvents makes the events of a chat those of the Messages API.
type messagesEvents struct {
	written
	input  int // tokens, before the engine has reported them
	begun  bool
	finish wire.Optional
	usage  wire.Usage
}

func (e *messagesEvents) chunk(a wire.Answer) {
	if !e.begun {
		e.begun = true
		e.write("message_start", object{"message": answerOf(a, nil, e.input, 1)})
		e.write("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	}
	if a.Usage != nil {
		e.usage = *a.Usage
	}
	for _, c := range a.Choices {
		if c.Delta != nil && c.Delta.Content != "" {
			e.write("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": c.Delta.Content}})
		}
		if c.FinishReason != "" {
			e.finish = c.FinishReason
		}
	}
}

// end writes the events after the last token.
func (e *messagesEvents) end() {
	e.write("content_block_stop", object{"index": 0})
	e.write("message_delta", object{
		"delta": object{"stop_reason": stopReason(e.finish), "stop_sequence": nil},
		"usage": object{"input_tokens": e.usage.PromptTokens, "output_tokens": e.usage.CompletionTokens},
	})
	e.write("message_stop", object{})
}

package backend

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/wire"
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
		response := Respond(request, http.StatusOK, nil)
		response.Header = http.Header{"Content-Type": {"text/event-stream"}, "Cache-Control": {"no-cache"}}
		response.ContentLength = -1
		response.Body = &messagesEvents{ReadCloser: stream, lines: bufio.NewScanner(stream), input: wire.PromptOf(body).Tokens()}
		return response, nil
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
	io.ReadCloser // the chat's
	lines         *bufio.Scanner
	ready         []byte // written but not yet read
	input         int    // tokens, before the engine has told them
	begun, ended  bool
	finish        wire.Optional
	usage         wire.Usage
}

// Read implements io.Reader.
func (e *messagesEvents) Read(p []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.ended {
			return 0, io.EOF
		}
		if !e.lines.Scan() {
			if err := e.lines.Err(); err != nil {
				return 0, err
			}
			return 0, io.ErrUnexpectedEOF
		}
		data, ok := strings.CutPrefix(e.lines.Text(), "data: ")
		switch {
		case !ok:
		case data == "[DONE]":
			e.close()
		default:
			e.chunk([]byte(data))
		}
	}
	n := copy(p, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

func (e *messagesEvents) chunk(data []byte) {
	var a wire.Answer
	if err := json.Unmarshal(data, &a); err != nil { // the simulation's own
		panic(err)
	}
	if !e.begun {
		e.begun = true
		e.event("message_start", object{"message": answerOf(a, nil, e.input, 1)})
		e.event("content_block_start", object{"index": 0, "content_block": object{"type": "text", "text": ""}})
	}
	if a.Usage != nil {
		e.usage = *a.Usage
	}
	for _, c := range a.Choices {
		if c.Delta != nil && c.Delta.Content != "" {
			e.event("content_block_delta", object{"index": 0, "delta": object{"type": "text_delta", "text": c.Delta.Content}})
		}
		if c.FinishReason != "" {
			e.finish = c.FinishReason
		}
	}
}

// close writes the events after the last token.
func (e *messagesEvents) close() {
	e.ended = true
	e.event("content_block_stop", object{"index": 0})
	e.event("message_delta", object{
		"delta": object{"stop_reason": stopReason(e.finish), "stop_sequence": nil},
		"usage": object{"input_tokens": e.usage.PromptTokens, "output_tokens": e.usage.CompletionTokens},
	})
	e.event("message_stop", object{})
}

func (e *messagesEvents) event(kind string, o object) {
	o["type"] = kind
	text, err := json.Marshal(o)
	if err != nil { // plain values always encode
		panic(err)
	}
	e.ready = append(append(append(e.ready, "event: "+kind+"\ndata: "...), text...), "\n\n"...)
}

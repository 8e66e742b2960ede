package backend

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/openai/wire"
)

// responseOrder is what a simulated engine heeds in a request of the Responses
// API.
type responseOrder struct {
	Input           json.RawMessage `json:"input"`
	Instructions    string          `json:"instructions"`
	MaxOutputTokens *int            `json:"max_output_tokens"`
	IgnoreEOS       bool            `json:"ignore_eos"`
	Stream          bool            `json:"stream"`
	Previous        string          `json:"previous_response_id"`
	Store           *bool           `json:"store"`

	id    string
	turns []any // of the conversation, up to the input
}

// chat is the request as that of a chat.
func (o *responseOrder) chat() map[string]any {
	messages := o.turns
	if o.Instructions != "" { // they hold for this answer alone
		messages = slices.Concat([]any{object{"role": "system", "content": o.Instructions}}, o.turns)
	}
	order := map[string]any{
		"messages": messages, "ignore_eos": o.IgnoreEOS, "stream": o.Stream,
		"stream_options": map[string]any{"include_usage": true},
	}
	if o.MaxOutputTokens != nil {
		order["max_tokens"] = *o.MaxOutputTokens
	}
	return order
}

// items are the input as messages of a chat.
func (o *responseOrder) items() (list []any) {
	if o.Input[0] == '"' {
		return []any{object{"role": "user", "content": o.Input}}
	}
	wire.Elements(o.Input, func(item []byte) { list = append(list, json.RawMessage(item)) })
	return list
}

func (o *responseOrder) read(body []byte) *wire.Error {
	if fault := ReadMembers(body, o); fault != nil {
		return fault
	}
	var fault wire.Error
	switch {
	case len(o.Input) == 0 || string(o.Input) == "null":
		fault = invalid("input", `"input" is missing`)
	case o.Input[0] != '"' && !listOf(o.Input, "{"):
		fault = invalid("input", `"input" must be a string, or a list of at least one item, such as {"role": "user", "content": "…"}`)
	case o.MaxOutputTokens != nil && *o.MaxOutputTokens < 1:
		fault = invalid("max_output_tokens", `"max_output_tokens" must be at least 1`)
	default:
		return nil
	}
	return &fault
}

// respond answers as the Responses API does, by a chat with the engine.
func (r *replica) respond(request *http.Request, body []byte) (*http.Response, error) {
	var o responseOrder
	if fault := o.read(body); fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	if fault := r.kept.follow(&o); fault != nil {
		return Refuse(request, http.StatusBadRequest, *fault), nil
	}
	stream, whole, refusal, err := r.ask(request, ChatPath, o.chat())
	if err != nil || refusal != nil {
		return refusal, err
	}
	if stream != nil {
		e := &responseEvents{replica: r, order: o}
		return retell(request, stream, e, &e.written), nil
	}
	choice := whole.Choices[0]
	whole.ID = o.id
	out := responseOf(*whole, *choice.Message.Content, string(choice.FinishReason))
	r.kept.keep(o, out, *choice.Message.Content)
	return respondJSON(request, out)
}

// object is any JSON object that is only written.
type object map[string]any

// responseOf is the response of an answer so far. Without a reason it goes on.
func responseOf(a wire.Answer, text, finish string) object {
	out := object{
		"id": "resp_" + a.ID, "object": "response", "created_at": a.Created, "model": a.Model,
		"status": "in_progress", "error": nil, "incomplete_details": nil, "instructions": nil, "metadata": object{},
		"output": []object{}, "parallel_tool_calls": true, "temperature": 1, "tool_choice": "auto", "tools": []object{}, "top_p": 1, "usage": nil,
	}
	if finish == "" {
		return out
	}
	out["status"], out["output"] = "completed", []object{message(a, text, "completed")}
	if finish == "length" {
		out["status"], out["incomplete_details"] = "incomplete", object{"reason": "max_output_tokens"}
	}
	if a.Usage != nil {
		out["usage"] = object{
			"input_tokens": a.Usage.PromptTokens, "input_tokens_details": object{"cached_tokens": 0},
			"output_tokens": a.Usage.CompletionTokens, "output_tokens_details": object{"reasoning_tokens": 0},
			"total_tokens": a.Usage.TotalTokens,
		}
	}
	return out
}

func message(a wire.Answer, text, status string) object {
	content := []object{}
	if status == "completed" {
		content = append(content, part(text))
	}
	return object{"type": "message", "id": "msg_" + a.ID, "role": "assistant", "status": status, "content": content}
}

func part(text string) object {
	return object{"type": "output_text", "text": text, "annotations": []object{}}
}

// responseEvents makes the events of a chat those of the Responses API.
type responseEvents struct {
	written
	replica *replica
	order   responseOrder
	sent    int // events
	text    strings.Builder
	last    wire.Answer
	finish  string
}

func (e *responseEvents) chunk(a wire.Answer) {
	a.ID = e.order.id
	if e.sent == 0 {
		e.event("response.created", object{"response": responseOf(a, "", "")})
		e.event("response.in_progress", object{"response": responseOf(a, "", "")})
		e.event("response.output_item.added", object{"output_index": 0, "item": message(a, "", "in_progress")})
		e.event("response.content_part.added", e.at(a, object{"part": part("")}))
	}
	e.last = a
	for _, c := range a.Choices {
		if c.Delta != nil && c.Delta.Content != "" {
			e.text.WriteString(string(c.Delta.Content))
			e.event("response.output_text.delta", e.at(a, object{"delta": c.Delta.Content, "logprobs": []object{}}))
		}
		if c.FinishReason != "" {
			e.finish = string(c.FinishReason)
		}
	}
}

// at says in an event which part of the answer it is about.
func (e *responseEvents) at(a wire.Answer, o object) object {
	o["item_id"], o["output_index"], o["content_index"] = "msg_"+a.ID, 0, 0
	return o
}

// end writes the events after the last token.
func (e *responseEvents) end() {
	text := e.text.String()
	e.event("response.output_text.done", e.at(e.last, object{"text": text, "logprobs": []object{}}))
	e.event("response.content_part.done", e.at(e.last, object{"part": part(text)}))
	e.event("response.output_item.done", object{"output_index": 0, "item": message(e.last, text, "completed")})
	whole := responseOf(e.last, text, e.finish)
	e.replica.kept.keep(e.order, whole, text)
	e.event("response."+whole["status"].(string), object{"response": whole})
}

func (e *responseEvents) event(kind string, o object) {
	o["sequence_number"] = e.sent
	e.sent++
	e.write(kind, o)
}

// Package wire is the part of the OpenAI HTTP interface that a router and its
// backends read or write: errors, models, answers and their stream of events.
// Requests and answers that only pass through are never decoded and encoded
// again; what the router needs of them is read from their bytes in place.
package wire

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
)

// Optional is a string whose empty value is null in JSON.
type Optional string

// MarshalJSON implements [json.Marshaler].
func (o Optional) MarshalJSON() ([]byte, error) {
	if o == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(o))
}

// Error is the body of every answer that is not a success.
type Error struct {
	Message string   `json:"message"`
	Type    string   `json:"type"`
	Param   Optional `json:"param"`
	Code    Optional `json:"code"`
	// RequestID is what the header X-Request-Id says too.
	RequestID string `json:"request_id,omitempty"`
}

// Error implements the error interface.
func (e Error) Error() string { return e.Message }

// JSON is the error in its envelope, {"error": …}.
func (e Error) JSON() []byte {
	b, err := json.Marshal(struct {
		Error Error `json:"error"`
	}{e})
	if err != nil { // strings always encode
		panic(err)
	}
	return b
}

// Inference is the error in the form of the Open Inference Protocol, whose clients take "error" to
// be a text, with the code and the request's ID next to it.
func (e Error) Inference() []byte {
	b, err := json.Marshal(struct {
		Error     string   `json:"error"`
		Code      Optional `json:"code"`
		RequestID string   `json:"request_id,omitempty"`
	}{e.Message, e.Code, e.RequestID})
	if err != nil { // strings always encode
		panic(err)
	}
	return b
}

// Event is the error as an event of a stream that breaks off. That of the
// Responses API has a name, and its fields lie open; clients of either kind find
// what they look for.
func (e Error) Event(responses bool) []byte {
	if !responses {
		return slices.Concat([]byte("data: "), e.JSON(), []byte("\n\n"))
	}
	b, err := json.Marshal(struct {
		Type    string   `json:"type"`
		Code    Optional `json:"code"`
		Message string   `json:"message"`
		Param   Optional `json:"param"`
		Error   Error    `json:"error"`
	}{"error", e.Code, e.Message, e.Param, e})
	if err != nil { // strings always encode
		panic(err)
	}
	return slices.Concat([]byte("event: error\ndata: "), b, []byte("\n\n"))
}

// The types of errors that OpenAI's clients know.
const (
	InvalidRequest = "invalid_request_error"
	RateLimit      = "rate_limit_error"
	ServerError    = "server_error"
	Timeout        = "timeout_error"
)

// UnsupportedEndpoint is the code of an error that says that an engine, or no engine, is
// made for the endpoint that was asked.
const UnsupportedEndpoint = "unsupported_endpoint"

// Model is one entry of the list of models.
type Model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // always "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
	// MaxModelLen bounds the tokens of a prompt and its answer together, as vLLM
	// and SGLang call it, and ContextLength the same in OpenRouter's word; zero is unknown.
	MaxModelLen   int `json:"max_model_len,omitempty"`
	ContextLength int `json:"context_length,omitempty"`
}

// Models is the list itself.
type Models struct {
	Object string  `json:"object"` // always "list"
	Data   []Model `json:"data"`
}

// Usage counts the tokens of one answer.
type Usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
}

// Message is one turn of a chat.
type Message struct {
	Role      string     `json:"role,omitempty"`
	Content   *string    `json:"content"` // nil beside ToolCalls; empty is an answer too
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// ToolCall asks the client to call a function, or is one piece of that.
type ToolCall struct {
	Index    *int     `json:"index,omitempty"` // of a piece: which call it goes on with
	ID       string   `json:"id,omitempty"`
	Type     string   `json:"type,omitempty"` // "function"
	Function Function `json:"function"`
}

// Function is the function that a ToolCall is for.
type Function struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"` // JSON text
}

// Choice is one answer, or one piece of it. Of Message (a chat's answer), Delta
// (a chat's piece) and Text (a completion's answer or piece) one is set.
type Choice struct {
	Index        int       `json:"index"`
	Message      *Message  `json:"message,omitempty"`
	Delta        *Delta    `json:"delta,omitempty"`
	Text         *string   `json:"text,omitempty"`
	Logprobs     *struct{} `json:"logprobs"`
	FinishReason Optional  `json:"finish_reason"`
}

// Delta is what one event adds to a chat's answer.
type Delta struct {
	Role      string     `json:"role,omitempty"`
	Content   string     `json:"content,omitempty"`
	ToolCalls []ToolCall `json:"tool_calls,omitempty"`
}

// Answer is a whole answer, or one event of its stream.
type Answer struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"` // seconds since 1970
	Model   string   `json:"model"`
	Choices []Choice `json:"choices"`
	Usage   *Usage   `json:"usage,omitempty"`
}

// The values of Answer.Object.
const (
	ChatObject       = "chat.completion"
	ChatChunkObject  = "chat.completion.chunk"
	CompletionObject = "text_completion"
)

// Refusal is an error with the status that says so to the client.
type Refusal struct {
	Status int
	Error
}

// Bad refuses a request that is itself at fault.
func Bad(status int, param, code, message string) *Refusal {
	return &Refusal{status, Error{Type: InvalidRequest, Param: Optional(param), Code: Optional(code), Message: message}}
}

// RefusalOf answers to an error of reading JSON; nil to none.
func RefusalOf(err error) *Refusal {
	if err == nil {
		return nil
	}
	var e Error
	if !errors.As(err, &e) {
		e = Error{Type: InvalidRequest, Message: err.Error()}
	}
	return &Refusal{http.StatusBadRequest, e}
}

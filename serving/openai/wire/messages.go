package wire

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
)

// What a Meter knows of Anthropic's Messages API. A stream begins with message_start, has
// its content in content_block_delta, its usage and why it ended in message_delta, and is
// whole at message_stop.

// message takes in the type of an event. It reports whether that only announces an
// answer.
func (m *Meter) message(kind []byte) bool {
	switch string(kind) {
	case `"message_start"`:
		m.known, m.opened = true, true
		return true
	case `"content_block_start"`, `"content_block_stop"`, `"ping"`:
		return true
	case `"message_stop"`:
		m.finished, m.hollow = true, m.hollow || !m.begun
	}
	return false
}

// begins takes in the message that the first event carries. It has the answer's ID, and states
// the prompt, and the output up to then, which is not its count.
func (m *Meter) begins(message []byte) {
	Members(message, func(key []byte, start, end int) bool {
		switch string(key) {
		case "id":
			m.names(message[start:end])
		case "usage":
			stated := m.stated
			m.usage(message[start:end])
			m.stated = stated
		}
		return true
	})
}

// block counts the words of what an event adds to a block of content. A signature, or
// why the answer ended, is none.
func block(delta []byte) (n int) {
	Members(delta, func(key []byte, start, end int) bool {
		switch string(key) {
		case "text", "thinking", "partial_json":
			n = max(n, spoken(delta[start:end]))
		}
		return true
	})
	return n
}

// overloaded is the status of Anthropic's own servers that are: 503 of others.
const overloaded = 529

// blame takes in an error by its type, where that names no status: the engine had sent its
// header before it found that it cannot answer.
func (m *Meter) blame(event []byte) {
	Members(event, func(key []byte, start, end int) bool {
		if string(key) != "error" || m.fault != 0 {
			return true
		}
		Members(event[start:end], func(key []byte, from, to int) bool {
			if string(key) == "type" {
				switch string(event[start:end][from:to]) {
				case `"overloaded_error"`:
					m.fault = http.StatusServiceUnavailable
				case `"api_error"`:
					m.fault = http.StatusInternalServerError
				case `"rate_limit_error"`:
					m.fault = http.StatusTooManyRequests
				}
			}
			return true
		})
		return false
	})
}

// Messages is the error as the Messages API has it, for an answer of the status.
func (e Error) Messages(status int) []byte { return e.message(messagesType(status)) }

// MessagesEvent is the error as an event of a stream of the Messages API that breaks off.
func (e Error) MessagesEvent() []byte {
	kind := "api_error"
	switch e.Type {
	case InvalidRequest:
		kind = InvalidRequest
	case RateLimit, Timeout:
		kind = e.Type
	}
	return slices.Concat([]byte("event: error\ndata: "), e.message(kind), []byte("\n\n"))
}

func (e Error) message(kind string) []byte {
	var out struct {
		Type  string `json:"type"`
		Error struct {
			Type    string   `json:"type"`
			Message string   `json:"message"`
			Param   Optional `json:"param"`
			Code    Optional `json:"code"`
		} `json:"error"`
		RequestID string `json:"request_id,omitempty"`
	}
	out.Type, out.RequestID = "error", e.RequestID
	out.Error.Type, out.Error.Message, out.Error.Param, out.Error.Code = kind, e.Message, e.Param, e.Code
	b, err := json.Marshal(out)
	if err != nil { // strings always encode
		panic(err)
	}
	return b
}

// messagesType is the type of an error that an answer of the status has.
func messagesType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return RateLimit
	case http.StatusServiceUnavailable, overloaded:
		return "overloaded_error"
	case http.StatusGatewayTimeout, http.StatusRequestTimeout:
		return Timeout
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return InvalidRequest
}

// MessagesPath is where Anthropic's Messages API is.
const MessagesPath = "/v1/messages"

// ResponsesPath leads to OpenAI's Responses API.
const ResponsesPath = "/v1/responses"

// SpeaksMessages reports whether who asks at the path expects errors as Anthropic has them.
func SpeaksMessages(path string) bool {
	rest, ok := strings.CutPrefix(path, MessagesPath)
	return ok && (rest == "" || rest[0] == '/')
}

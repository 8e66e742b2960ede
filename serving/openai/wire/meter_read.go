package wire

import (
	"bytes"
	"net/http"
	"strconv"
)

// read takes in an event or a whole answer. It reports false for what is no
// object.
func (m *Meter) read(object []byte) bool {
	opens, speaks, bad, bare := false, false, false, true
	ok := Members(object, func(key []byte, start, end int) bool {
		value := object[start:end]
		bare = false
		switch string(key) {
		case "choices":
			opens, m.known = true, true
			Elements(value, m.choice)
		case "usage":
			opens = true
			m.usage(value)
		case "prompt_progress": // of llama.cpp, for clients that asked to see it
			speaks = !isNull(value)
		case "error":
			m.erred(value)
		case "object":
			if string(value) == `"error"` { // older servers of vLLM have no envelope for it
				m.erred(object)
			}
		case "type": // of an event of the Responses API, as all below, or of the Messages API
			announces := m.kind(value) || m.message(value)
			opens, speaks = opens || announces, speaks || !announces
			bad = string(value) == `"error"`
		case "delta":
			if m.events && value[0] == '{' {
				m.pieces += block(value)
			} else if m.events {
				m.pieces += spoken(value)
			}
		case "message": // as it begins
			if m.events {
				m.begins(value)
			}
		case "response":
			m.response(value)
		case "id":
			m.names(value)
		default:
			if !m.events {
				m.part(string(key), value)
			}
		}
		return true
	})
	if bad {
		m.blame(object)
	}
	if m.events {
		m.begun = m.begun || ok && (speaks || !opens)
		m.hollow = m.hollow || m.bare && !m.filled
	} else {
		m.hollow = m.hollow || ok && !m.failed && (bare || m.generated && !m.begun)
	}
	return ok
}

// part takes in what only answers in one piece have: content, or why there is none.
func (m *Meter) part(key string, value []byte) {
	switch key {
	case "content": // of the Messages API
		m.pieces += contentTokens(value)
		m.begun = m.begun || !empty(value)
	case "output":
		m.pieces += spokenTokens(value)
		m.begun = m.begun || !empty(value)
	case "stop_reason", "incomplete_details":
		m.begun = m.begun || !empty(value)
	case "status":
		switch string(value) {
		case `"queued"`, `"in_progress"`: // in the background
			m.begun = true
		case `"failed"`:
			m.failed = true
		}
	case "data":
		m.hollow = m.hollow || empty(value)
	}
}

// longestID bounds what is kept of a stream's ID. None is as long.
const longestID = 1 << 10

// names takes in an ID, of which a stream's first is its own.
func (m *Meter) names(id []byte) {
	switch {
	case !m.events:
		m.id = id // what is pending is not written over
	case m.id == nil && len(id) <= longestID:
		m.id = append(m.short[:0], id...)
	}
}

// kind takes in the type of an event. It reports whether that only announces an
// answer.
func (m *Meter) kind(value []byte) bool {
	switch string(value) {
	case `"response.created"`, `"response.queued"`, `"response.in_progress"`, `"response.output_item.added"`,
		`"response.content_part.added"`, `"response.reasoning_summary_part.added"`:
		m.known, m.opened = true, true
		return true
	case `"keepalive"`:
		return true
	case `"response.completed"`:
		m.finished, m.bare = true, !m.begun
	case `"response.incomplete"`, `"transcript.text.done"`:
		m.finished = true
	case `"response.failed"`, `"error"`:
		m.finished, m.failed = true, true
	}
	return false
}

// response takes in the whole answer that the first and last events carry.
func (m *Meter) response(value []byte) {
	Members(value, func(key []byte, start, end int) bool {
		switch string(key) {
		case "usage":
			m.usage(value[start:end])
		case "error":
			m.erred(value[start:end])
		case "id":
			if m.id == nil {
				m.names(value[start:end])
			}
		case "output":
			m.filled = m.filled || !empty(value[start:end])
		}
		return true
	})
}

// erred takes in an error.
func (m *Meter) erred(value []byte) {
	if isNull(value) {
		return
	}
	m.failed = true
	Members(value, func(key []byte, start, end int) bool {
		switch string(key) {
		case "code": // a number of vLLM, SGLang and llama.cpp, text of LiteLLM
			m.fault, _ = strconv.Atoi(string(bytes.Trim(value[start:end], `"`)))
		case "type":
			switch string(value[start:end]) {
			case `"invalid_request_error"`, `"BadRequestError"`, `"not_found_error"`, `"NotFoundError"`,
				`"exceed_context_size_error"`, `"authentication_error"`, `"permission_error"`:
				m.refused = true
			}
		}
		return true
	})
}

func (m *Meter) usage(value []byte) {
	prompt, fresh := 0, 0
	Members(value, func(key []byte, start, end int) bool {
		n := whole(value[start:end])
		switch string(key) {
		case "completion_tokens", "output_tokens":
			if n > 0 { // of none, the content knows better: Ollama's completions state 0 until the end
				m.stated = n
			}
		case "prompt_tokens":
			prompt = n
		case "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens":
			fresh += n // Anthropic's input is without what is cached
		}
		return true
	})
	if prompt == 0 {
		prompt = fresh
	}
	if prompt > 0 {
		m.prompt = prompt
	}
}

// whole is a number of tokens; zero if the value is none, or more than any answer has.
func whole(value []byte) (n int) {
	if d := digits(value); d == 0 || d < len(value) || d > 9 {
		return 0
	}
	for _, c := range value {
		n = 10*n + int(c-'0')
	}
	return n
}

// choice takes in a choice, of which some engines say the same twice: its content, which
// is text of a completion, a chat's message, or anything but the role in an event's
// delta; and why it ended, if it says. Old servers of Ollama have "" until then.
func (m *Meter) choice(choice []byte) {
	n, index, over, says := 0, 0, false, m.events
	Members(choice, func(key []byte, start, end int) bool {
		value := choice[start:end]
		switch string(key) {
		case "text":
			if m.events {
				n = max(n, spoken(value))
			} else {
				n, says = length(value)
			}
		case "message":
			if !m.events {
				n, says = messageTokens(value), !isNull(value)
				m.begun = m.begun || delta(value) > 0
			}
		case "delta":
			if m.events {
				n = max(n, delta(value))
			}
		case "index":
			index = wholeNumber(value)
		case "finish_reason":
			if over = !empty(value); over {
				m.stops(value)
			}
		case "logprobs": // of a token that has no text
			m.begun = m.begun || delta(value) > 0
		case "error":
			m.erred(value)
		}
		return true
	})
	m.pieces += n
	m.begun = m.begun || n > 0 || over && says
	m.choices.seen(index, over)
}

// stops takes in why a choice has ended. Some reasons are no answer's, but those of an engine
// that fails or gives it up. What clients do with such a reason differs, and few fail.
func (m *Meter) stops(reason []byte) {
	if string(reason) == `"stop"` { // most
		return
	}
	for _, word := range []string{"error", "abort", "overload", "fail", "cancel", "insufficient"} {
		if bytes.Contains(reason, []byte(word)) {
			m.failed, m.hollow = true, true
			if word == "abort" && m.fault == 0 {
				m.fault = http.StatusServiceUnavailable
			}
		}
	}
}

// wholeNumber is the number that the text is, 0 if it is none.
func wholeNumber(text []byte) int {
	if len(text) == 1 && text[0] >= '0' && text[0] <= '9' { // most are
		return int(text[0] - '0')
	}
	n, _ := strconv.Atoi(string(text))
	return n
}

func delta(value []byte) (n int) {
	Members(value, func(key []byte, start, end int) bool {
		if string(key) != "role" {
			n = max(n, spoken(value[start:end]))
		}
		return true
	})
	return n
}

// spoken counts the words of an event's content; what has none is one token, if there is
// anything.
func spoken(content []byte) int {
	if empty(content) {
		return 0
	}
	n, _ := words(content)
	return max(1, n)
}

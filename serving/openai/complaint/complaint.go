// Package complaint finds out what an engine's error is about, where that is not the client's
// doing: a model or an endpoint that the engine does not have, or a prompt that another size
// could hold.
package complaint

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"gearshift/serving/openai/wire"
)

// Kind says what an error is about.
type Kind uint8

// What an error may be about.
const (
	// Other: something else, or unknown.
	Other Kind = iota
	// Model: the engine does not have the model that it was asked for.
	Model
	// Path: it does not have what the request was sent to.
	Path
	// Context: prompt and answer are longer than its context.
	Context
	// Endpoint: it says itself that it is not made for the endpoint, as a classifier
	// is not for chats. Unlike [Path], that is no sign of a wrong base.
	Endpoint
)

// String says what the engine lacks.
func (k Kind) String() string {
	return [...]string{"", "it does not have the model", "it does not have the endpoint", "its context is too short", "it is not made for the endpoint"}[k]
}

// Worth reports whether an error of the status may be about any of this.
func Worth(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusNotFound, http.StatusMethodNotAllowed,
		http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity, http.StatusNotImplemented,
		http.StatusInternalServerError: // Triton's, and older servers', for a prompt that is too long
		return true
	}
	return false
}

// Of is what an error is about, of a request for the model. Texts may repeat what a client
// wrote, so that a status other than 404 is taken for a missing model only by its code, or
// where the text begins with that.
func Of(status int, body []byte, model string) Kind {
	e := read(body)
	switch status {
	case http.StatusNotFound:
		switch {
		case e.code == wire.UnsupportedEndpoint:
			return Endpoint
		case e.noModel():
			return Model
		case e.param != "" && e.param != "model": // something that the client named
			return Other
		case e.beginsWithModel(model), e.aboutModel(model):
			return Model
		}
		return Path
	case http.StatusMethodNotAllowed:
		return Path
	case http.StatusNotImplemented:
		if e.message == "" || e.lacksChat() {
			return Path
		}
		return Other
	}
	switch {
	case e.tooLong(status):
		return Context
	case status == http.StatusInternalServerError:
	case e.noModel(), e.beginsWithModel(model):
		return Model
	}
	return Other
}

// fault is an error, as any engine writes it.
type fault struct {
	message, kind, code, param string
}

// read takes in the forms of errors: OpenAI's, vLLM's older one without an envelope,
// FastAPI's detail, a list of errors, and a bare text.
func read(body []byte) (f fault) {
	f.take(event(bytes.TrimSpace(body)), 3)
	return f
}

// Message returns what an error says, for people; empty if that is not found.
func Message(body []byte) string { return read(body).message }

// event is the data of the last event of a stream that has some, or else the text as it is.
func event(body []byte) []byte {
	if form := wire.FormOf(body); form != wire.Events {
		return body
	}
	var last []byte
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(line, []byte("data:")); ok && bytes.IndexByte(data, '{') >= 0 {
			last = data
		}
	}
	return last
}

// take fills in what the JSON value says, and what lies in it, so many levels deep.
func (f *fault) take(value json.RawMessage, deep int) {
	var list []json.RawMessage
	if json.Unmarshal(value, &list) == nil && len(list) > 0 && deep > 0 {
		f.take(list[0], deep-1)
		return
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		if f.message == "" {
			f.message = text
		}
		return
	}
	var o struct {
		Error, Errors, Detail, Message, Msg, Type, Code, Param json.RawMessage
		ErrorType                                              json.RawMessage `json:"error_type"`
		ErrorMsg                                               json.RawMessage `json:"error_msg"`
	}
	if json.Unmarshal(value, &o) != nil {
		return
	}
	for _, part := range []struct {
		to    *string
		value json.RawMessage
	}{{&f.message, o.Message}, {&f.message, o.Msg}, {&f.message, o.ErrorMsg}, {&f.kind, o.Type}, {&f.kind, o.ErrorType}, {&f.code, o.Code}, {&f.param, o.Param}} {
		var text string
		if *part.to == "" && json.Unmarshal(part.value, &text) == nil {
			*part.to = text
		}
	}
	if deep > 0 {
		for _, inner := range []json.RawMessage{o.Error, o.Errors, o.Detail} {
			if len(inner) > 0 {
				f.take(inner, deep-1)
			}
		}
	}
}

// noModel reports whether the error's code is that of a missing model.
func (f *fault) noModel() bool {
	for _, code := range []string{f.code, f.kind} {
		switch strings.ToLower(code) {
		case "model_not_found", "modelnotfound", "model_not_found_error", "deploymentnotfound", "invalid_model":
			return true
		}
	}
	return false
}

var absent = []string{"not found", "does not exist", "not exist", "no such", "unknown", "could not find", "not available"}

// aboutModel says of the text of a 404 that it is about the model, and not about what it
// quotes.
func (f *fault) aboutModel(model string) bool {
	text := unquoted(strings.ToLower(f.message))
	return (strings.Contains(text, "model") || model != "" && strings.Contains(text, strings.ToLower(model))) && containsAny(text, absent)
}

// starts are how texts begin that say of a model, whose name follows, that it is not there;
// ends are what may have to come after the name.
var starts = []struct {
	start string
	ends  []string
}{
	{"the model ", []string{"does not exist", "was not found", "is not found"}},
	{"model ", []string{"not found", "does not exist", "is not found", "is not available", "was not found"}},
	{"models/", []string{"is not found"}},
	{"unknown model ", nil}, {"unknown model: ", nil},
	{"invalid model ", nil}, {"invalid model: ", nil},
	{"invalid model name passed in model=", nil},
	{"no such model ", nil}, {"no such model: ", nil},
	{"could not find model ", nil}, {"could not find model with id ", nil},
}

// beginsWithModel reports whether the text begins by saying that the model is not there.
func (f *fault) beginsWithModel(model string) bool {
	text := strings.NewReplacer("`", "", "'", "", `"`, "").Replace(strings.ToLower(f.message))
	text = strings.TrimPrefix(text, "/chat/completions: ") // LiteLLM
	for _, s := range starts {
		after, ok := strings.CutPrefix(text, s.start)
		if !ok {
			continue
		}
		if after, ok = strings.CutPrefix(after, strings.ToLower(model)); ok && (s.ends == nil || startsAny(strings.TrimSpace(after), s.ends)) {
			return true
		}
	}
	return false
}

// lacksChat reports whether an engine was started for something else than to generate.
func (f *fault) lacksChat() bool {
	text := strings.ToLower(f.message)
	return strings.Contains(text, "not support chat") || strings.Contains(text, "not support completion") || strings.Contains(text, "unsupported method")
}

func containsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.Contains(text, part) {
			return true
		}
	}
	return false
}

func startsAny(text string, parts []string) bool {
	for _, part := range parts {
		if strings.HasPrefix(text, part) {
			return true
		}
	}
	return false
}

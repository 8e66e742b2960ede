package wire

import (
	"encoding/json"
	"strconv"
	"strings"
)

// lengths are the members by which servers say how long a model's context is.
type lengths struct {
	Loaded        contextLength `json:"loaded_context_length"` // LM Studio, of a model in memory
	MaxModelLen   contextLength `json:"max_model_len"`         // vLLM, SGLang
	ContextLength contextLength `json:"context_length"`        // OpenRouter, Ollama, Together
	ContextWindow contextLength `json:"context_window"`        // Groq
	ContextSize   contextLength `json:"context_size"`          // Novita
	MaxLength     contextLength `json:"max_context_length"`    // LM Studio, Mistral
	MaxContext    contextLength `json:"max_context"`           // ArliAI
	MaxInput      contextLength `json:"max_input_tokens"`      // LiteLLM
	Meta          struct {
		Context contextLength `json:"n_ctx"`
		Trained contextLength `json:"n_ctx_train"`
	} `json:"meta"` // llama.cpp, llama-swap
}

// context is the length that requests meet first; zero if the server does not say.
func (l *lengths) context() int {
	return firstOf(l.Loaded, l.MaxModelLen, l.Meta.Context, l.ContextLength, l.ContextWindow, l.ContextSize, l.MaxLength, l.MaxContext, l.MaxInput, l.Meta.Trained)
}

// firstOf is the first length that is known; zero if none is.
func firstOf(list ...contextLength) int {
	for _, n := range list {
		if n > 0 {
			return int(n)
		}
	}
	return 0
}

// contextLength is a length, zero if it is not known: some servers write null, a string or nonsense, which
// does not make the rest of their list worth less.
type contextLength int

// UnmarshalJSON implements [json.Unmarshaler].
func (t *contextLength) UnmarshalJSON(text []byte) error {
	if n, err := strconv.ParseFloat(strings.Trim(string(text), `"`), 64); err == nil && n >= 1 && n < 1<<40 {
		*t = contextLength(n)
	}
	return nil
}

// Context bounds the tokens of a prompt and its answer together; zero if the list
// does not say. A server of one model has that whatever it is called.
func (l Listing) Context(name string) int {
	m, found := l.find(name)
	if !found {
		if len(l.models) != 1 {
			return 0
		}
		m = l.models[0]
	}
	return m.context()
}

// Page is the path at which servers that are known for it say more of contexts than their lists
// do; empty if there is none.
func (l Listing) Page() string {
	if len(l.models) == 0 {
		return ""
	}
	switch first := l.models[0]; {
	case len(l.models) == 1 && first.OwnedBy == "llamacpp":
		return "/props" // which divides its context among slots
	case first.OwnedBy == "library":
		return "/api/ps" // Ollama, of the models in memory
	case first.OwnedBy == "organization_owner":
		return "/api/v0/models" // LM Studio
	case len(l.models) == 1 && first.OwnedBy == first.ID:
		return "/info" // TGI
	}
	return ""
}

// PageContext is the context of the model by what [List.Page] has; zero if it does not say.
func PageContext(body []byte, name string) int {
	if list, ok := ParseListing(body); ok {
		return list.Context(name)
	}
	var page struct {
		Defaults struct {
			Context contextLength `json:"n_ctx"`
		} `json:"default_generation_settings"`
		Total  contextLength `json:"max_total_tokens"`
		Models []struct {
			Name string `json:"name"`
			lengths
		} `json:"models"`
	}
	if json.Unmarshal(body, &page) != nil {
		return 0
	}
	for _, m := range page.Models {
		if (&model{ID: m.Name}).is(name) {
			return m.context()
		}
	}
	return firstOf(page.Defaults.Context, page.Total)
}

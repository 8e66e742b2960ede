package wire

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// This file reads what OpenAI-compatible servers say of their models at /v1/models:
// whether they have one, and how long its context is.

// Listing lists the models that a server has.
type Listing struct {
	models []model
	// open says that others may do as well: the list is a part, or names do not matter.
	open bool
}

// model is an entry, as far as any engine has it.
type model struct {
	ID      string   `json:"id"`
	OwnedBy string   `json:"owned_by"`
	Root    string   `json:"root"`
	Aliases []string `json:"aliases"`
	// Lifecycle is what Azure says of the models that may be deployed there. Requests name
	// deployments, which are not listed.
	Lifecycle string `json:"lifecycle_status"`
	lengths
}

// ParseListing reads a list. It reports false if the text is none, or an empty one: it then says
// nothing of any model.
func ParseListing(body []byte) (Listing, bool) {
	var list struct {
		Data    []model `json:"data"`
		HasMore bool    `json:"has_more"`
	}
	if json.Unmarshal(body, &list) != nil {
		return Listing{}, false
	}
	l := Listing{open: list.HasMore}
	for _, m := range list.Data {
		if m.ID == "" {
			return Listing{}, false
		}
		l.models = append(l.models, m)
	}
	l.open = l.open || indifferent(l.models)
	return l, len(l.models) > 0
}

// indifferent reports whether the server answers whatever model a request names: llama.cpp with
// one model, SGLang and TGI, which lists its model as its own owner. Of Azure's list
// this is unknown.
func indifferent(models []model) bool {
	for _, m := range models {
		switch {
		case m.Lifecycle != "", m.OwnedBy == "sglang":
			return true
		case len(models) == 1 && (m.OwnedBy == "llamacpp" || m.OwnedBy == m.ID):
			return true
		}
	}
	return false
}

// Has reports whether the server has the model, by any of the names that engines take.
// It has what the list does not rule out.
func (l Listing) Has(name string) bool {
	_, found := l.find(name)
	return found || l.open
}

// find is the entry of the model.
func (l Listing) find(name string) (model, bool) {
	for _, m := range l.models {
		if m.is(name) {
			return m, true
		}
	}
	return model{}, false
}

// is reports whether the server takes the name for the model. vLLM takes none but the ID:
// its root is where it was loaded from.
func (m *model) is(name string) bool {
	const latest = ":latest" // Ollama's tag where none is given
	id := strings.TrimPrefix(m.ID, "models/")
	switch {
	case m.ID == name, id == name, m.Root == name && m.OwnedBy != "vllm":
		return true
	case strings.HasSuffix(id, "*") && strings.HasPrefix(name, strings.TrimSuffix(id, "*")): // LiteLLM's openai/*
		return true
	case strings.EqualFold(strings.TrimSuffix(id, latest), strings.TrimSuffix(name, latest)) && strings.HasSuffix(id, latest):
		return true
	case m.OwnedBy == "library" && strings.EqualFold(id, name):
		return true
	case !strings.Contains(id, ":") && strings.HasPrefix(name, id+":"): // with an adapter or a provider
		return true
	}
	for _, alias := range m.Aliases {
		if alias == name {
			return true
		}
	}
	return false
}

const (
	// mostNamed is how many models a note names, and longestName how much of each.
	mostNamed   = 8
	longestName = 100
)

// Note says in words that the server has other models than the one of the name.
func (l Listing) Note(name string) string {
	var b strings.Builder
	b.WriteString("server has ")
	for i, m := range l.models {
		if i == mostNamed {
			fmt.Fprintf(&b, "%d more, ", len(l.models)-i)
			break
		}
		b.WriteString(printable(m.ID))
		b.WriteString(", ")
	}
	b.WriteString("not ")
	b.WriteString(printable(name))
	return b.String()
}

// printable is a name fit for a line of a log.
func printable(name string) string {
	name = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name)
	if runes := []rune(name); len(runes) > longestName {
		name = string(runes[:longestName]) + "…"
	}
	return name
}

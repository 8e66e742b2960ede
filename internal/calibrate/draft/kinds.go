package draft

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// sglang asks SGLang, whose server has one model.
func (e *askedEngine) sglang(ctx context.Context) bool {
	var info struct {
		Tokens   int `json:"max_total_num_tokens"`
		Context  int `json:"context_length"`
		Input    int `json:"max_req_input_len"`
		Running  int `json:"max_running_requests"`
		Page     int `json:"page_size"`
		Internal []struct {
			Running int `json:"effective_max_running_requests_per_dp"`
			Memory  struct {
				Weight float64 `json:"weight"`  // GB
				Cache  float64 `json:"kvcache"` // GB
				Tokens int     `json:"token_capacity"`
			} `json:"memory_usage"`
		} `json:"internal_states"`
	}
	if e.get(ctx, e.root+"/get_server_info", &info) != nil && e.get(ctx, e.root+"/server_info", &info) != nil {
		return false
	}
	if info.Tokens == 0 && info.Input == 0 && info.Context == 0 {
		return false // another server's page of that name
	}
	for i := range e.out.Models {
		m := &e.out.Models[i]
		first(&m.KVTokens, info.Tokens)
		first(&m.Context, info.Context, e.list.Context(m.ID), info.Input)
		first(&m.Sequences, info.Running)
		first(&m.Block, info.Page)
		for _, s := range info.Internal {
			first(&m.Sequences, s.Running)
			if s.Memory.Weight > 0 {
				m.WeightBytes = int64(s.Memory.Weight * (1 << 30))
			}
			if s.Memory.Cache > 0 && s.Memory.Tokens > 0 {
				m.KVBytes = int64(s.Memory.Cache * (1 << 30) / float64(s.Memory.Tokens))
			}
		}
	}
	return true
}

// first sets a number that is not known yet to the first of those that is.
func first(to *int, from ...int) {
	for _, n := range from {
		if *to == 0 && n > 0 {
			*to = n
		}
	}
}

// llamaCpp asks llama.cpp, whose slots each have a part of the context.
func (e *askedEngine) llamaCpp(ctx context.Context) bool {
	var props struct {
		Slots    int    `json:"total_slots"`
		Path     string `json:"model_path"`
		Settings struct {
			Context int `json:"n_ctx"`
		} `json:"default_generation_settings"`
	}
	if e.get(ctx, e.root+"/props", &props) != nil || props.Slots == 0 && props.Settings.Context == 0 {
		return false
	}
	context := props.Settings.Context
	if context == 0 || props.Slots == 0 { // some builds say it of the slots alone
		var slots []struct {
			Context int `json:"n_ctx"`
		}
		if e.get(ctx, e.root+"/slots", &slots) == nil && len(slots) > 0 {
			first(&context, slots[0].Context)
			first(&props.Slots, len(slots))
		}
	}
	for i := range e.out.Models {
		m := &e.out.Models[i]
		first(&m.Context, context)
		first(&m.Sequences, props.Slots)
		first(&m.KVTokens, m.Context*m.Sequences)
		if m.Quantization == "" {
			m.Quantization = props.Path
		}
		if all, _ := Parameters(m.ID); m.Parameters == 0 && all == 0 {
			m.Parameters, _ = Parameters(props.Path)
		}
	}
	return true
}

// ollama asks Ollama, which lists what it could load. What answers with no text is left out.
func (e *askedEngine) ollama(ctx context.Context) bool {
	var tags struct {
		Models []struct {
			Name    string `json:"name"`
			Size    int64  `json:"size"`
			Details struct {
				Parameters   string `json:"parameter_size"`
				Quantization string `json:"quantization_level"`
			} `json:"details"`
		} `json:"models"`
	}
	if e.get(ctx, e.root+"/api/tags", &tags) != nil || tags.Models == nil {
		return false
	}
	loaded := e.loaded(ctx)
	kept := e.out.Models[:0]
	for _, m := range e.out.Models {
		for _, t := range tags.Models {
			if t.Name == m.ID {
				m.WeightBytes, m.Quantization = t.Size, t.Details.Quantization
				m.Parameters, _ = Parameters(t.Details.Parameters)
			}
		}
		if e.show(ctx, &m) {
			first(&m.Context, loaded[m.ID])
			kept = append(kept, m)
		}
	}
	e.out.Models = kept
	return true
}

// loaded returns the context of each model that Ollama has loaded.
func (e *askedEngine) loaded(ctx context.Context) map[string]int {
	var ps struct {
		Models []struct {
			Name    string `json:"name"`
			Context int    `json:"context_length"`
		} `json:"models"`
	}
	_ = e.get(ctx, e.root+"/api/ps", &ps) // older ones do not have it
	by := map[string]int{}
	for _, m := range ps.Models {
		by[m.Name] = m.Context
	}
	return by
}

// show asks Ollama for one model, and says whether it completes text.
func (e *askedEngine) show(ctx context.Context, m *Model) bool {
	body, err := json.Marshal(map[string]string{"model": m.ID})
	if err != nil {
		return false
	}
	var info struct {
		Parameters   string         `json:"parameters"`
		Model        map[string]any `json:"model_info"`
		Capabilities []string       `json:"capabilities"`
	}
	read := func(r io.Reader) error { return json.NewDecoder(r).Decode(&info) }
	if e.exchange(ctx, http.MethodPost, e.root+"/api/show", bytes.NewReader(body), read) != nil {
		return true // it is listed, and that is all that is known
	}
	if len(info.Capabilities) > 0 && !slices.Contains(info.Capabilities, "completion") {
		return false
	}
	architecture, _ := info.Model["general.architecture"].(string)
	of := func(key string) float64 {
		x, _ := info.Model[architecture+"."+key].(float64)
		return x
	}
	if n, ok := info.Model["general.parameter_count"].(float64); ok && n > 0 {
		m.Parameters = n
	}
	for line := range strings.Lines(info.Parameters) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), " "); ok && name == "num_ctx" {
			m.Context, _ = strconv.Atoi(strings.TrimSpace(value))
		}
	}
	// A key and a value of each head that keeps them, in each layer, of two bytes.
	head := of("attention.key_length")
	if heads := of("attention.head_count"); head == 0 && heads > 0 {
		head = of("embedding_length") / heads
	}
	m.KVBytes = int64(2 * of("block_count") * of("attention.head_count_kv") * head * 2)
	return true
}

// repository notes which models of an engine's repository it does not answer for: those that are not loaded.
func (e *askedEngine) repository(ctx context.Context) {
	var index []struct {
		Name  string `json:"name"`
		State string `json:"state"`
	}
	read := func(r io.Reader) error { return json.NewDecoder(r).Decode(&index) }
	if e.out.Kind != Gearshift && len(e.out.Models) > 0 || e.exchange(ctx, http.MethodPost, e.root+"/v2/repository/index", strings.NewReader("{}"), read) != nil {
		return
	}
	for _, m := range index {
		if m.State != "READY" {
			e.out.Unloaded = append(e.out.Unloaded, m.Name)
		}
	}
}

package wire_test

import (
	"fmt"
	"strings"
	"testing"

	"gearshift/serving/openai/wire"
)

const (
	vllm     = `{"object":"list","data":[{"id":"served","object":"model","owned_by":"vllm","root":"org/model","parent":null,"max_model_len":4096},{"id":"lora","object":"model","owned_by":"vllm","root":"/loras/a","parent":"served","max_model_len":null}]}`
	sglang   = `{"object":"list","data":[{"id":"org/model","object":"model","owned_by":"sglang","root":"org/model","max_model_len":32768}]}`
	ollama   = `{"object":"list","data":[{"id":"llama3.2:latest","object":"model","created":1,"owned_by":"library"},{"id":"qwen2.5:7b","object":"model","created":1,"owned_by":"library"}]}`
	llamaCpp = `{"models":[{"name":"/m/a.gguf"}],"object":"list","data":[{"id":"/m/a.gguf","object":"model","owned_by":"llamacpp","meta":{"vocab_type":1,"n_ctx_train":131072}}]}`
	llamas   = `{"object":"list","data":[{"id":"a","object":"model","owned_by":"llamacpp","aliases":["alias-of-a"],"status":{"value":"loaded"}},{"id":"b","object":"model","owned_by":"llamacpp"}]}`
	tgi      = `{"object":"list","data":[{"id":"org/model","object":"model","created":0,"owned_by":"org/model"}]}`
	gemini   = `{"object":"list","data":[{"id":"models/gemini-a","object":"model","owned_by":"google"}]}`
	azure    = `{"data":[{"id":"gpt-a","object":"model","lifecycle_status":"generally-available"}],"object":"list"}`
	pages    = `{"data":[{"id":"a"}],"has_more":true}`
	bare     = `{"data":[{"id":"A"},{"id":"B"}]}`
	wild     = `{"data":[{"id":"openai/*","object":"model","owned_by":"openai"},{"id":"named","object":"model","owned_by":"openai"}],"object":"list"}`
	routed   = `{"data":[{"id":"org/model","context_length":8192,"owned_by":"org"}, {"id":"other"}]}`
)

func TestHas(t *testing.T) {
	for _, c := range []struct {
		list, name string
		want       bool
	}{
		{vllm, "served", true},
		{vllm, "lora", true},
		{vllm, "org/model", false}, // vLLM answers 404 to it
		{vllm, "Served", false},
		{vllm, "other", false},
		{sglang, "whatever", true},
		{ollama, "llama3.2", true},
		{ollama, "llama3.2:latest", true},
		{ollama, "Llama3.2", true},
		{ollama, "llama3.2:1b", false},
		{ollama, "qwen2.5:7b", true},
		{ollama, "qwen2.5", false},
		{llamaCpp, "small", true}, // it takes any name
		{llamas, "a", true},
		{llamas, "alias-of-a", true},
		{llamas, "c", false},
		{tgi, "tgi", true},
		{gemini, "gemini-a", true},
		{gemini, "models/gemini-a", true},
		{gemini, "gemini-b", false},
		{azure, "my-deployment", true},
		{pages, "b", true},
		{bare, "A", true},
		{bare, "C", false},
		{wild, "openai/any", true},
		{wild, "named", true},
		{wild, "other/any", false},
		{routed, "org/model:provider", true},
		{routed, "org/models", false},
	} {
		l, ok := wire.ParseListing([]byte(c.list))
		if !ok {
			t.Fatalf("not a list: %s", c.list)
		}
		if got := l.Has(c.name); got != c.want {
			t.Errorf("%q of %s: %v", c.name, c.list, got)
		}
	}
}

// What is no list, or an empty one, says nothing.
func TestNoList(t *testing.T) {
	for _, text := range []string{"", "{}", `{"data":[]}`, `{"data":null}`, "[]", `[{"id":"a"}]`, `{"data":[{}]}`, `{"data":["a"]}`, "<html>", `{"object":"list","data":{"a":1}}`, "# HELP vllm:x\n"} {
		if _, ok := wire.ParseListing([]byte(text)); ok {
			t.Errorf("%q is taken for a list", text)
		}
	}
}

func TestNote(t *testing.T) {
	l, _ := wire.ParseListing([]byte(bare))
	if got := l.Note("C"); got != "server has A, B, not C" {
		t.Error(got)
	}
	var many []string
	for i := range 20 {
		many = append(many, fmt.Sprintf(`{"id":"m%d"}`, i))
	}
	l, _ = wire.ParseListing([]byte(`{"data":[` + strings.Join(many, ",") + `]}`))
	if got := l.Note("C"); got != "server has m0, m1, m2, m3, m4, m5, m6, m7, 12 more, not C" {
		t.Error(got)
	}
	l, _ = wire.ParseListing([]byte(`{"data":[{"id":"a\nlevel=INFO"},{"id":"` + strings.Repeat("x", 500) + `"}]}`))
	if got := l.Note("C"); strings.Contains(got, "\n") || len(got) > 200 {
		t.Errorf("%q", got)
	}
}

// What the lists of some servers do not say stands on pages of theirs.
func TestPages(t *testing.T) {
	const studio = `{"data":[{"id":"qwen","object":"model","owned_by":"organization_owner"},{"id":"b","object":"model","owned_by":"organization_owner"}]}`
	for _, c := range []struct {
		list, path string
		body, name string
		want       int
	}{
		{llamaCpp, "/props", `{"default_generation_settings":{"n_ctx":2048},"total_slots":4}`, "small", 2048},
		{llamaCpp, "/props", `{}`, "small", 0},
		{llamaCpp, "/props", ``, "small", 0},
		{llamaCpp, "/props", `{"default_generation_settings":{"n_ctx":-1}}`, "small", 0},
		{tgi, "/info", `{"model_id":"org/model","max_concurrent_requests":128,"max_input_tokens":3000,"max_total_tokens":4096}`, "tgi", 4096},
		{ollama, "/api/ps", `{"models":[{"name":"llama3.2:latest","model":"llama3.2:latest","context_length":8192}]}`, "llama3.2", 8192},
		{ollama, "/api/ps", `{"models":[{"name":"llama3.2:latest","context_length":8192}]}`, "qwen2.5:7b", 0},
		{ollama, "/api/ps", `{"models":[]}`, "llama3.2", 0},
		{studio, "/api/v0/models", `{"object":"list","data":[{"id":"qwen","type":"llm","state":"loaded","max_context_length":32768,"loaded_context_length":4096},{"id":"b","state":"not-loaded","max_context_length":2048}]}`, "qwen", 4096},
		{studio, "/api/v0/models", `{"data":[{"id":"qwen"},{"id":"b","max_context_length":2048}]}`, "b", 2048},
		{vllm, "", "", "served", 0},
	} {
		l, _ := wire.ParseListing([]byte(c.list))
		if got := l.Page(); got != c.path {
			t.Errorf("%s: page %q, want %q", c.list, got, c.path)
		}
		if got := wire.PageContext([]byte(c.body), c.name); got != c.want {
			t.Errorf("%q of %s: %d, want %d", c.name, c.body, got, c.want)
		}
	}
}

func TestContext(t *testing.T) {
	for _, c := range []struct {
		list, name string
		want       int
	}{
		{vllm, "served", 4096}, {vllm, "lora", 0}, {vllm, "other", 0}, {sglang, "whatever", 32768},
		{llamaCpp, "small", 131072}, {ollama, "llama3.2", 0}, {routed, "org/model", 8192},
		{`{"data":[{"id":"a","meta":{"n_ctx":2048,"n_ctx_train":8192}}]}`, "a", 2048},
		{`{"data":[{"id":"a","max_model_len":-1}]}`, "a", 0},
		{`{"data":[{"id":"a","max_model_len":"4096"}]}`, "a", 4096},
		{`{"data":[{"id":"a","max_model_len":{"a":1},"context_window":2048}]}`, "a", 2048},
		{`{"data":[{"id":"a","max_context_length":32768,"loaded_context_length":4096}]}`, "a", 4096},
		{`{"data":[{"id":"a","max_input_tokens":262144,"max_output_tokens":8192}]}`, "a", 262144},
		{`{"data":[{"id":"a","max_context":524288}]}`, "a", 524288},
	} {
		l, ok := wire.ParseListing([]byte(c.list))
		if got := l.Context(c.name); !ok || got != c.want {
			t.Errorf("%q of %s: %d, want %d", c.name, c.list, got, c.want)
		}
	}
}

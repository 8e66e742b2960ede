package draft_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"gearshift/internal/calibrate/draft"
	"gearshift/internal/calibrate/loadgen"
)

// server answers each method and path with a text.
func server(t *testing.T, pages map[string]string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		page, ok := pages[r.Method+" "+r.URL.Path+" "+string(body)]
		if !ok {
			page, ok = pages[r.Method+" "+r.URL.Path]
		}
		if !ok {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, page)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func ask(t *testing.T, target draft.Target, probe bool) (draft.Engine, error) {
	t.Helper()
	transport := loadgen.Transport()
	defer transport.CloseIdleConnections()
	a := draft.Asker{Client: &http.Client{Transport: transport}, Timeout: 5 * time.Second, Probe: probe}
	return a.Ask(t.Context(), target)
}

// Each kind of engine is known by what it answers, and tells what a scenario needs.
func TestEnginesOfEachKind(t *testing.T) {
	for name, c := range map[string]struct {
		pages map[string]string
		want  draft.Engine
	}{
		"vLLM": {map[string]string{
			"GET /v1/models": `{"object":"list","data":[{"id":"meta-llama/Llama-3.1-8B","object":"model","owned_by":"vllm","root":"meta-llama/Llama-3.1-8B","parent":null,"max_model_len":8192},
				{"id":"sql-lora","object":"model","owned_by":"vllm","parent":"meta-llama/Llama-3.1-8B"}]}`,
			"GET /metrics": `# HELP vllm:cache_config_info Information of the LLMEngine CacheConfig
# TYPE vllm:cache_config_info gauge
vllm:cache_config_info{block_size="16",cache_dtype="auto",engine="0",gpu_memory_utilization="0.9",num_gpu_blocks="10000",num_gpu_blocks_override="None"} 1.0
# TYPE vllm:request_success_total counter
vllm:request_success_total{engine="0",finished_reason="stop",model_name="meta-llama/Llama-3.1-8B"} 900.0
vllm:request_success_total{engine="0",finished_reason="length",model_name="meta-llama/Llama-3.1-8B"} 100.0
# TYPE vllm:prompt_tokens_total counter
vllm:prompt_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 350000.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="meta-llama/Llama-3.1-8B"} 120000.0
`},
			draft.Engine{Kind: draft.VLLM, Models: []draft.Model{{ID: "meta-llama/Llama-3.1-8B", Context: 8192, KVTokens: 160000, Block: 16, Answered: 1000, MeanPrompt: 350, MeanOutput: 120}}},
		},
		"vLLM before its cache is known": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"opt-1.3b","owned_by":"vllm","max_model_len":2048}]}`,
			"GET /metrics":   "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"None\"} 1.0\n",
		}, draft.Engine{Kind: draft.VLLM, Models: []draft.Model{{ID: "opt-1.3b", Context: 2048}}}},
		"vLLM with two data-parallel engines": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"opt-1.3b","owned_by":"vllm","max_model_len":2048}]}`,
			"GET /metrics":   "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"100\"} 1.0\nvllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"50\"} 1.0\n",
		}, draft.Engine{Kind: draft.VLLM, Models: []draft.Model{{ID: "opt-1.3b", Context: 2048, KVTokens: 2400, Block: 16}}}},
		"SGLang": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"qwen/qwen2.5-0.5b-instruct","owned_by":"sglang","root":"qwen","max_model_len":32768}]}`,
			"GET /get_server_info": `{"model_path":"qwen/qwen2.5-0.5b-instruct","context_length":null,"max_running_requests":null,"page_size":1,"status":"ready","max_total_num_tokens":20480,
				"max_req_input_len":20474,"internal_states":[{"effective_max_running_requests_per_dp":128,"memory_usage":{"weight":0.98,"kvcache":0.234375,"token_capacity":20480}}],"version":"0.5"}`,
		}, draft.Engine{Kind: draft.SGLang, Models: []draft.Model{{ID: "qwen/qwen2.5-0.5b-instruct", Context: 32768, KVTokens: 20480, Block: 1, Sequences: 128, WeightBytes: 1052266987, KVBytes: 12288}}}},
		"SGLang under its newer path": {map[string]string{
			"GET /v1/models":   `{"data":[{"id":"q","owned_by":"sglang"}]}`,
			"GET /server_info": `{"context_length":4096,"max_running_requests":64,"max_total_num_tokens":20480,"page_size":16}`,
		}, draft.Engine{Kind: draft.SGLang, Models: []draft.Model{{ID: "q", Context: 4096, KVTokens: 20480, Block: 16, Sequences: 64}}}},
		"llama.cpp": {map[string]string{
			"GET /v1/models": `{"object":"list","data":[{"id":"small","object":"model","owned_by":"llamacpp","meta":{"vocab_type":2,"n_vocab":151936,"n_ctx_train":32768,"n_embd":896,"n_params":494032768,"size":397807616}}]}`,
			"GET /props":     `{"default_generation_settings":{"n_ctx":2048,"params":{}},"total_slots":8,"model_path":"qwen2.5-0.5b-q4_k_m.gguf"}`,
		}, draft.Engine{Kind: draft.LlamaCpp, Models: []draft.Model{{ID: "small", Context: 2048, Sequences: 8, KVTokens: 16384, Parameters: 494032768, WeightBytes: 397807616, Quantization: "qwen2.5-0.5b-q4_k_m.gguf"}}}},
		"llama.cpp that tells its context by slots": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"m","owned_by":"llamacpp"}]}`,
			"GET /props":     `{"total_slots":2,"model_path":"/models/Llama-3.2-3B-Q8_0.gguf"}`,
			"GET /slots":     `[{"id":0,"n_ctx":1024},{"id":1,"n_ctx":1024}]`,
		}, draft.Engine{Kind: draft.LlamaCpp, Models: []draft.Model{{ID: "m", Context: 1024, Sequences: 2, KVTokens: 2048, Parameters: 3e9, Quantization: "/models/Llama-3.2-3B-Q8_0.gguf"}}}},
		"Ollama": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"llama3.2:3b","owned_by":"library"},{"id":"nomic-embed-text:latest","owned_by":"library"}]}`,
			"GET /api/tags": `{"models":[{"name":"llama3.2:3b","model":"llama3.2:3b","size":2019393189,"details":{"parameter_size":"3.2B","quantization_level":"Q4_K_M"}},
				{"name":"nomic-embed-text:latest","size":274302450,"details":{"parameter_size":"137M","quantization_level":"F16"}}]}`,
			"GET /api/ps": `{"models":[{"name":"llama3.2:3b","context_length":8192}]}`,
			`POST /api/show {"model":"llama3.2:3b"}`: `{"parameters":"stop \"x\"","capabilities":["completion","tools"],"model_info":{"general.architecture":"llama","general.parameter_count":3212749888,
				"llama.context_length":131072,"llama.block_count":28,"llama.attention.head_count":24,"llama.attention.head_count_kv":8,"llama.embedding_length":3072}}`,
			`POST /api/show {"model":"nomic-embed-text:latest"}`: `{"capabilities":["embedding"],"model_info":{}}`,
		}, draft.Engine{Kind: draft.Ollama, Models: []draft.Model{{ID: "llama3.2:3b", Context: 8192, Parameters: 3212749888, WeightBytes: 2019393189, KVBytes: 2 * 28 * 8 * 128 * 2, Quantization: "Q4_K_M"}}}},
		"Ollama with num_ctx": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"mine","owned_by":"library"}]}`,
			"GET /api/tags":  `{"models":[{"name":"mine","size":1000,"details":{"parameter_size":"494.03M","quantization_level":"Q8_0"}}]}`,
			"POST /api/show": `{"parameters":"temperature 0.7\nnum_ctx                        16384\n","model_info":{"general.architecture":"qwen2"}}`,
		}, draft.Engine{Kind: draft.Ollama, Models: []draft.Model{{ID: "mine", Context: 16384, Parameters: 494.03e6, WeightBytes: 1000, Quantization: "Q8_0"}}}},
		"gearshift engine with a repository": {map[string]string{
			"GET /v1/models":            `{"data":[{"id":"small","owned_by":"gearshift-engine"}]}`,
			"POST /v2/repository/index": `[{"name":"small","version":"1","state":"READY"},{"name":"large","version":"1","state":"UNAVAILABLE","reason":"unloaded"}]`,
		}, draft.Engine{Kind: draft.Gearshift, Models: []draft.Model{{ID: "small"}}, Unloaded: []string{"large"}}},
		"TGI": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"org/model-7b","owned_by":"org/model-7b"}]}`,
			"GET /info":      `{"model_id":"org/model-7b","max_input_tokens":4095,"max_total_tokens":4096}`,
		}, draft.Engine{Kind: draft.Other, Models: []draft.Model{{ID: "org/model-7b", Context: 4096}}}},
		"a router": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"org/model-7b","context_length":8192,"owned_by":"org"},{"id":"b-7b","max_input_tokens":"4096"}]}`,
		}, draft.Engine{Kind: draft.Other, Models: []draft.Model{{ID: "org/model-7b", Context: 8192}, {ID: "b-7b", Context: 4096}}}},
		"another": {map[string]string{"GET /v1/models": `{"data":[{"id":"x-7b"}]}`}, draft.Engine{Kind: draft.Other, Models: []draft.Model{{ID: "x-7b"}}}},
		// Whatever it answers elsewhere, an unknown server stays one.
		"another that answers everything": {map[string]string{
			"GET /v1/models": `{"data":[{"id":"x-7b","owned_by":"me"}]}`, "GET /props": `{}`, "GET /get_server_info": `[]`, "GET /server_info": `{}`, "GET /api/tags": `{"ok":true}`, "GET /metrics": "<html>",
		}, draft.Engine{Kind: draft.Other, Models: []draft.Model{{ID: "x-7b"}}}},
	} {
		t.Run(name, func(t *testing.T) {
			base := server(t, c.pages)
			got, err := ask(t, draft.Target{Host: "h", URL: base + "/"}, false)
			if err != nil {
				t.Fatal(err)
			}
			c.want.Host, c.want.URL = "h", base+"/v1"
			if fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", c.want) {
				t.Errorf("\n%+v\nwant\n%+v", got, c.want)
			}
		})
	}
}

// A base is taken as it is meant: with its version, without, or under a path.
func TestBases(t *testing.T) {
	for path, models := range map[string]string{"": "/v1/models", "/v1": "/v1/models", "/v1/": "/v1/models", "/openai/v3": "/openai/v3/models", "/serve": "/serve/v1/models"} {
		base := server(t, map[string]string{"GET " + models: `{"data":[{"id":"m"}]}`})
		e, err := ask(t, draft.Target{URL: base + path}, false)
		if err != nil || e.URL+"/models" != base+models {
			t.Errorf("%q: %s, %v", path, e.URL, err)
		}
	}
}

func TestKeysAreSent(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer sesame" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
	}))
	t.Cleanup(s.Close)
	if e, err := ask(t, draft.Target{URL: s.URL, KeyEnv: "K", Key: "sesame"}, false); err != nil || e.Key != "K" {
		t.Errorf("%+v, %v", e, err)
	}
	for key, want := range map[string]string{"": "requires an API key; want --key-env VARIABLE", "wrong": "requires an API key, and not that of K"} {
		target := draft.Target{URL: s.URL, Key: key}
		if key != "" {
			target.KeyEnv = "K"
		}
		if _, err := ask(t, target, false); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// An engine that is of no use has one line, which says what was tried.
func TestEnginesThatDoNotAnswer(t *testing.T) {
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	t.Cleanup(slow.Close)
	for name, c := range map[string]struct{ url, want string }{
		"nobody there":   {gone.URL, "does not answer: tried GET " + gone.URL + "/v1/models: "},
		"another page":   {server(t, nil), "is not an OpenAI-compatible server: tried GET"},
		"HTML":           {server(t, map[string]string{"GET /v1/models": "<html>"}), "is not a list of models"},
		"cut short":      {server(t, map[string]string{"GET /v1/models": `{"data":[`}), "is not a list of models"},
		"another list":   {server(t, map[string]string{"GET /v1/models": `{"data":"x"}`}), "is not a list of models"},
		"no model":       {server(t, map[string]string{"GET /v1/models": `{"data":[]}`}), "lists no model that answers with text"},
		"no answer":      {slow.URL, "does not answer: tried GET " + slow.URL + "/v1/models for 50ms"},
		"nothing loaded": {server(t, map[string]string{"GET /v1/models": `{"data":[]}`, "POST /v2/repository/index": `[{"name":"large","state":"UNAVAILABLE"}]`}), "has no model loaded; its repository has large: load them"},
		"not a URL":      {"gpu0:8000", "is not a URL"},
		"without a host": {"http:///v1", "is not a URL"},
	} {
		a := draft.Asker{Client: http.DefaultClient, Timeout: 50 * time.Millisecond}
		if _, err := a.Ask(context.Background(), draft.Target{URL: c.url}); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", name, err, c.want)
		}
	}
}

// A probe times the tokens; a model that is for completions alone has those.
func TestProbe(t *testing.T) {
	for _, path := range []string{"/v1/chat/completions", "/v1/completions"} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/v1/models":
				_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			case path:
				for range 5 {
					_, _ = io.WriteString(w, "data: {\"choices\":[{\"index\":0}]}\n\n")
					_ = http.NewResponseController(w).Flush()
					time.Sleep(10 * time.Millisecond)
				}
				_, _ = io.WriteString(w, "data: [DONE]\n\n")
			default:
				w.WriteHeader(http.StatusBadRequest)
			}
		}))
		// A busy machine may read several events at once, so that they seem to come sooner.
		e, err := ask(t, draft.Target{URL: s.URL}, true)
		for try := 0; try < 4 && err == nil && e.Models[0].Step < 5*time.Millisecond; try++ {
			e, err = ask(t, draft.Target{URL: s.URL}, true)
		}
		if err != nil || e.Models[0].Step < 5*time.Millisecond {
			t.Errorf("%s: %+v, %v", path, e.Models, err)
		}
		s.Close()
	}
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}))
	t.Cleanup(slow.Close)
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			http.Error(w, `{"error":{"message":"out of memory"}}`, http.StatusInternalServerError)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"m"}]}`)
	}))
	t.Cleanup(broken.Close)
	for at, want := range map[string]string{slow.URL: "within 2s; want an engine that has loaded the model", broken.URL: `: status 500: "out of memory"`} {
		a := draft.Asker{Client: http.DefaultClient, Timeout: 200 * time.Millisecond, Probe: true}
		if _, err := a.Ask(t.Context(), draft.Target{URL: at}); err == nil || !strings.HasSuffix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v; want %q", err, want)
		}
	}
	base := server(t, map[string]string{"GET /v1/models": `{"data":[{"id":"m"}]}`})
	if _, err := ask(t, draft.Target{URL: base}, true); err == nil || !strings.Contains(err.Error(), "does not complete with the model m: tried POST") {
		t.Errorf("%v", err)
	}
}

// TestSocket: an engine on a Unix socket is asked there, and stays under the URL that it was given by.
func TestSocket(t *testing.T) {
	folder, err := os.MkdirTemp("", "s") // a test's own has a longer name than a socket may
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) })
	at := "unix://" + folder + "/a.sock"
	if _, err := ask(t, draft.Target{URL: at}, false); err == nil || !strings.HasPrefix(err.Error(), at+" does not answer: tried GET unix:"+folder+"/a.sock/v1/models: ") {
		t.Errorf("without a socket: %v", err)
	}
	l, err := net.Listen("unix", folder+"/a.sock")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v1/models" || r.Host != "localhost" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, `{"data":[{"id":"opt-1.3b","owned_by":"vllm","max_model_len":2048}]}`)
	}))
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	e, err := ask(t, draft.Target{URL: at}, false)
	if err != nil || e.URL != at || len(e.Models) != 1 || e.Models[0].Context != 2048 {
		t.Errorf("%+v, %v", e, err)
	}
}

package engineserver

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const chat = "/v1/chat/completions"

func TestAnswers(t *testing.T) {
	withRig(t, nil, func(r *rig) {
		if status, text := r.get("POST", chat, ask); status != http.StatusOK || !strings.Contains(text, `"completion_tokens":5`) || !strings.Contains(text, `"model":"small"`) {
			t.Errorf("status %d, %s", status, text)
		}
		if status, text := r.get("POST", "/v1/completions", `{"model":"large","prompt":"once"}`); status != http.StatusOK || !strings.Contains(text, `"text_completion"`) {
			t.Errorf("status %d, %s", status, text)
		}
		if status, text := r.get("POST", "/v1/embeddings", `{"model":"large","input":"once"}`); status != http.StatusOK || !strings.Contains(text, `"embedding"`) {
			t.Errorf("status %d, %s", status, text)
		}
		if status, text := r.get("POST", "/v1/responses", `{"model":"large","input":"once"}`); status != http.StatusOK || !strings.Contains(text, `"response"`) {
			t.Errorf("status %d, %s", status, text)
		}
		var models struct {
			Data []struct {
				ID  string
				Max int `json:"max_model_len"`
			}
		}
		_, text := r.get("GET", "/v1/models", "")
		if err := json.Unmarshal([]byte(text), &models); err != nil || len(models.Data) != 2 || models.Data[1].ID != "large" || models.Data[1].Max != 4096 {
			t.Errorf("%v, %s", err, text)
		}
		if status, text := r.get("GET", "/health", ""); status != http.StatusOK || text != `{"models":{"large":"ready","small":"ready"}}`+"\n" {
			t.Errorf("status %d, %s", status, text)
		}
	})
}

func TestResponsesAreKept(t *testing.T) {
	withRig(t, func(c *Config) { c.Key = "sesame" }, func(r *rig) {
		if status, _ := r.get("GET", "/v1/responses/resp_1", ""); status != http.StatusUnauthorized {
			t.Errorf("without the key: status %d", status)
		}
	})
	withRig(t, nil, func(r *rig) {
		id := func(status int, text string) string {
			var a struct{ ID string }
			if err := json.Unmarshal([]byte(text), &a); err != nil || status != http.StatusOK || a.ID == "" {
				t.Fatalf("status %d, %v, %s", status, err, text)
			}
			return a.ID
		}
		_, whole := r.get("POST", "/v1/responses", `{"model":"large","input":"once upon a time"}`)
		first := id(http.StatusOK, whole)
		if status, text := r.get("GET", "/v1/responses/"+first, ""); status != http.StatusOK || text != whole {
			t.Errorf("status %d, %s; want %s", status, text, whole)
		}
		status, text := r.get("POST", "/v1/responses", `{"model":"large","input":"and then","previous_response_id":"`+first+`"}`)
		second := id(status, text)
		if want := fmt.Sprintf(`"input_tokens":%d,`, 4+drawn+2); !strings.Contains(text, want) {
			t.Errorf("%s; want %s: the whole conversation", text, want)
		}
		if status, text := r.get("POST", "/v1/responses", `{"model":"small","input":"b","previous_response_id":"`+first+`"}`); status != http.StatusBadRequest || !strings.Contains(text, "previous_response_not_found") {
			t.Errorf("another engine goes on from it: status %d, %s", status, text)
		}
		_, text = r.get("POST", "/v1/responses", `{"model":"small","input":"b","store":false}`)
		unkept := id(http.StatusOK, text)
		_, text = r.get("POST", "/v1/responses", `{"model":"small","input":"b","stream":true}`)
		_, text, _ = strings.Cut(text, `"response":{`)
		streamed := regexp.MustCompile(`"id":"(resp_[^"]+)"`).FindStringSubmatch(text)[1]
		for _, c := range []struct {
			method, path string
			status       int
		}{
			{"POST", second + "/cancel", 400}, {"DELETE", second, 200}, {"GET", second, 404}, {"DELETE", second, 404},
			{"GET", unkept, 404}, {"GET", streamed, 200}, {"GET", first, 200}, {"GET", first + "/input_items", 404},
		} {
			if status, text := r.get(c.method, "/v1/responses/"+c.path, ""); status != c.status {
				t.Errorf("%s %s: status %d, %s; want %d", c.method, c.path, status, text, c.status)
			}
		}
	})
}

func TestRefusals(t *testing.T) {
	withRig(t, nil, func(r *rig) {
		for _, c := range []struct {
			method, path, body string
			status             int
			code               string
		}{
			{"POST", chat, `{"model":"huge",` + hello + `}`, 404, "model_not_found"},
			{"POST", chat, `{` + hello + `}`, 404, "model_not_found"},
			{"POST", chat, `{"model":`, 400, "invalid_json"},
			{"POST", chat, `{"model":"small"}`, 400, "invalid_value"},
			{"GET", chat, "", 404, "unknown_url"},
			{"POST", "/v1/images", "{}", 404, "unknown_url"},
			{"POST", "/fault", "hang=2", 400, "invalid_fault"},
		} {
			if status, text := r.get(c.method, c.path, c.body); status != c.status || !strings.Contains(text, `"code":"`+c.code+`"`) {
				t.Errorf("%s %s %s: status %d, %s", c.method, c.path, c.body, status, text)
			}
		}
	})
}

// Each event is on its way when its step ends, not when the answer does.
func TestEventsAreFlushed(t *testing.T) {
	withRig(t, nil, func(r *rig) {
		start := time.Now()
		response, err := r.begin(r.t.Context(), "POST", chat, stream)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
			t.Errorf("content type %q", kind)
		}
		buffer := make([]byte, 4<<10)
		for i := range drawn {
			if n, err := response.Body.Read(buffer); err != nil || !strings.Contains(string(buffer[:n]), `"content":"`) {
				t.Fatalf("token %d: %v, %s", i, err, buffer[:n])
			}
			if took, want := time.Since(start), time.Duration(i+1)*10*time.Millisecond; took != want {
				t.Errorf("token %d came after %v, want %v", i, took, want)
			}
		}
		if rest, err := io.ReadAll(response.Body); err != nil {
			t.Errorf("%v, %s", err, rest)
		}
	})
}

const (
	running = `vllm:num_requests_running{engine="0",model_name="small"}`
	waiting = `vllm:num_requests_waiting{engine="0",model_name="small"}`
)

func TestClientsThatGoEndTheirWork(t *testing.T) {
	for name, body := range map[string]string{"streamed": endless + `,"stream":true}`, "in one piece": endless + `}`} {
		t.Run(name, func(t *testing.T) {
			withRig(t, nil, func(r *rig) {
				ctx, leave := context.WithCancel(r.t.Context())
				left := make(chan error)
				go func() {
					_, _, err := r.do(ctx, "POST", chat, body)
					left <- err
				}()
				time.Sleep(55 * time.Millisecond)
				if n := r.metric(running); n != "1" {
					t.Errorf("%s running", n)
				}
				leave()
				if err := <-left; err == nil {
					t.Error("no error")
				}
				time.Sleep(20 * time.Millisecond) // to the end of the step in progress
				synctest.Wait()
				if n := r.metric(running); n != "0" {
					t.Errorf("%s still running", n)
				}
				if n := r.metric(`vllm:request_success_total{engine="0",finished_reason="abort",model_name="small"}`); n != "1" {
					t.Errorf("%s aborted", n)
				}
			})
		})
	}
}

func TestMetrics(t *testing.T) {
	withRig(t, nil, func(r *rig) {
		done := make(chan struct{})
		for range 10 { // two more than the batch takes
			go func() {
				_, _, _ = r.do(r.t.Context(), "POST", chat, ask)
				done <- struct{}{}
			}()
		}
		time.Sleep(35 * time.Millisecond)
		if a, b := r.metric(running), r.metric(waiting); a != "8" || b != "2" {
			t.Errorf("%s running, %s waiting", a, b)
		}
		usage, old := r.metric(`vllm:kv_cache_usage_perc{engine="0",model_name="small"}`), r.metric(`vllm:gpu_cache_usage_perc{engine="0",model_name="small"}`)
		if usage == "0" || usage != old {
			t.Errorf("cache usage %s, by its older name %s", usage, old)
		}
		for range 10 {
			<-done
		}
		for sample, want := range map[string]string{
			running: "0", waiting: "0",
			`vllm:e2e_request_latency_seconds_count{engine="0",model_name="small"}`:                      "10",
			`vllm:time_to_first_token_seconds_bucket{engine="0",model_name="small",le="0.1"}`:            "10",
			`vllm:time_to_first_token_seconds_count{engine="0",model_name="small"}`:                      "10",
			`vllm:time_per_output_token_seconds_sum{engine="0",model_name="large"}`:                      "0",
			`vllm:generation_tokens_total{engine="0",model_name="small"}`:                                "50",
			`vllm:prompt_tokens_total{engine="0",model_name="small"}`:                                    "40",
			`vllm:request_success_total{engine="0",finished_reason="stop",model_name="small"}`:           "10",
			`vllm:num_preemptions_total{engine="0",model_name="small"}`:                                  "0",
			`vllm:cache_config_info{block_size="16",engine="0",model_name="small",num_gpu_blocks="256"}`: "1",
		} {
			if got := r.metric(sample); got != want {
				t.Errorf("%s is %s, want %s", sample, got, want)
			}
		}
	})
}

func TestNewRefuses(t *testing.T) {
	c := testConfig(t)
	c.Engines.Table.Replicas[1].Variant = 0
	c.Engines.Table.Replicas[1].Name = c.Engines.Table.Replicas[0].Name
	if _, err := New(c); err == nil || !strings.Contains(err.Error(), `two replicas called "small"`) {
		t.Errorf("error %v", err)
	}
}

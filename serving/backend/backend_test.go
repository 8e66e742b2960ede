package backend

import (
	"context"
	"encoding/json"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/openai/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// drawn is the length of answers that no limit cuts short.
const drawn = 5

// simulated is a fleet of one host with replicas of "small" and "large", whose
// steps follow the profiles. The caller closes it.
func simulated(t *testing.T, small, large profile.Profile) *Simulated {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "host"}, {Name: "bare"}},
		[]fleet.Replica{{Name: "small@host"}, {Name: "large@host", Variant: 1}},
	)
	if err != nil {
		t.Fatal(err)
	}
	c := SimulatedConfig{Table: table, OutputTokens: func(*rand.Rand) int { return drawn }}
	for _, p := range []profile.Profile{small, large} {
		e, err := engine.New(engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 64, MaxSequences: 8, BlockTokens: 4}, &p, 1024)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines = append(c.Engines, e)
	}
	s, err := NewSimulated(c)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// post sends a body to the backend.
func post(ctx context.Context, rt http.RoundTripper, path, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://replica"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	return rt.RoundTrip(r)
}

// answer posts and reads the answer to its end.
func answer(t *testing.T, rt http.RoundTripper, path, body string) (int, string) {
	t.Helper()
	response, err := post(t.Context(), rt, path, body)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// decode reads one answer.
func decode(t *testing.T, text string) (a wire.Answer) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &a); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return a
}

// events splits a stream into its answers, and says whether it was closed.
func decodeEvents(t *testing.T, text string) (all []wire.Answer, done bool) {
	t.Helper()
	for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		switch {
		case !ok || done:
			t.Fatalf("event %q in %s", event, text)
		case data == "[DONE]":
			done = true
		default:
			all = append(all, decode(t, data))
		}
	}
	return all, done
}

// decodeResponse reads an answer of the Responses API.
func decodeResponse(t *testing.T, text string) (r struct {
	Object, Status string
	Output         []struct{ Content []struct{ Text string } }
	Usage          struct {
		Input  int `json:"input_tokens"`
		Output int `json:"output_tokens"`
	}
}) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil || len(r.Output) != 1 || len(r.Output[0].Content) != 1 {
		t.Fatalf("%v in %s", err, text)
	}
	return r
}

const hello = `"messages":[{"role":"user","content":"how do gears turn"}]`

// conform holds what every backend must do.
func conform(t *testing.T, rt http.RoundTripper) {
	t.Run("chat", func(t *testing.T) {
		status, text := answer(t, rt, ChatPath, `{"model":"small",`+hello+`,"max_tokens":3,"ignore_eos":true}`)
		a := decode(t, text)
		if status != http.StatusOK || a.Object != wire.ChatObject || a.ID == "" || a.Created == 0 || a.Model != "small" || len(a.Choices) != 1 {
			t.Fatalf("status %d, answer %s", status, text)
		}
		c := a.Choices[0]
		if c.Message.Role != "assistant" || len(strings.Fields(*c.Message.Content)) != 3 || c.FinishReason != "length" {
			t.Errorf("choice %s", text)
		}
		if *a.Usage != (wire.Usage{PromptTokens: 4, CompletionTokens: 3, TotalTokens: 7}) {
			t.Errorf("usage %+v", *a.Usage)
		}
	})
	t.Run("chat stream", func(t *testing.T) {
		_, text := answer(t, rt, ChatPath, `{"model":"small",`+hello+`,"max_tokens":3,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`)
		all, done := decodeEvents(t, text)
		if len(all) != 6 || !done {
			t.Fatalf("%d events, done %v: %s", len(all), done, text)
		}
		if d := all[0].Choices[0].Delta; d.Role != "assistant" || all[0].Object != wire.ChatChunkObject {
			t.Errorf("first event of %s", text)
		}
		if all[4].Choices[0].FinishReason != "length" || all[5].Usage.CompletionTokens != 3 || len(all[5].Choices) != 0 {
			t.Errorf("last events of %s", text)
		}
	})
	t.Run("completion", func(t *testing.T) {
		_, text := answer(t, rt, CompletionPath, `{"model":"small","prompt":"a b","max_tokens":99}`)
		a := decode(t, text)
		if a.Object != wire.CompletionObject || len(strings.Fields(*a.Choices[0].Text)) != drawn || a.Choices[0].FinishReason != "stop" || a.Usage.PromptTokens != 2 {
			t.Errorf("answer %s", text)
		}
	})
	t.Run("completion stream", func(t *testing.T) {
		_, text := answer(t, rt, CompletionPath, `{"model":"small","prompt":"a b","stream":true}`)
		all, done := decodeEvents(t, text)
		if len(all) != drawn+1 || !done || all[drawn].Choices[0].FinishReason != "stop" || all[0].Usage != nil {
			t.Errorf("events %s", text)
		}
	})
	t.Run("response", func(t *testing.T) {
		status, text := answer(t, rt, ResponsesPath, `{"model":"small","input":"how do gears turn","instructions":"be brief","max_output_tokens":3,"ignore_eos":true}`)
		r := decodeResponse(t, text)
		if status != http.StatusOK || r.Object != "response" || r.Status != "incomplete" || len(strings.Fields(r.Output[0].Content[0].Text)) != 3 || r.Usage.Input != 6 || r.Usage.Output != 3 {
			t.Errorf("status %d, %s", status, text)
		}
	})
	t.Run("response stream", func(t *testing.T) {
		_, text := answer(t, rt, ResponsesPath, `{"model":"small","input":[{"role":"user","content":[{"type":"input_text","text":"a b"}]}],"stream":true}`)
		var kinds []string
		var last string
		for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
			name, data, _ := strings.Cut(event, "\ndata: ")
			kinds, last = append(kinds, strings.TrimPrefix(name, "event: response.")), data
		}
		want := "created in_progress output_item.added content_part.added" + strings.Repeat(" output_text.delta", drawn) +
			" output_text.done content_part.done output_item.done completed"
		if got := strings.Join(kinds, " "); got != want {
			t.Errorf("events %s", got)
		}
		var e struct{ Response json.RawMessage }
		if err := json.Unmarshal([]byte(last), &e); err != nil {
			t.Fatal(err)
		}
		if r := decodeResponse(t, string(e.Response)); r.Status != "completed" || len(strings.Fields(r.Output[0].Content[0].Text)) != drawn || r.Usage.Output != drawn || r.Usage.Input != 2 {
			t.Errorf("the last event is %s", last)
		}
	})
	t.Run("embeddings", func(t *testing.T) {
		vectors := func(body string) (all []string) {
			_, text := answer(t, rt, EmbeddingsPath, body)
			var a struct {
				Data  []struct{ Embedding json.RawMessage }
				Usage struct {
					Prompt int `json:"prompt_tokens"`
				}
			}
			if err := json.Unmarshal([]byte(text), &a); err != nil || a.Usage.Prompt == 0 {
				t.Fatalf("%v in %s", err, text)
			}
			for _, d := range a.Data {
				all = append(all, string(d.Embedding))
			}
			return all
		}
		two := vectors(`{"input":["a b","c"],"dimensions":2}`)
		if one := vectors(`{"input":"a b","dimensions":2}`); len(two) != 2 || len(one) != 1 || one[0] != two[0] || two[0] == two[1] {
			t.Errorf("vectors %v and %v", one, two)
		}
		if coded := vectors(`{"input":[15496,995],"dimensions":3,"encoding_format":"base64"}`); len(coded) != 1 || len(coded[0]) != len(`""`)+16 {
			t.Errorf("in base 64: %v", coded)
		}
	})
	t.Run("faults of the others", func(t *testing.T) {
		for _, c := range []struct{ path, body, param string }{
			{ResponsesPath, `{}`, "input"},
			{ResponsesPath, `{"input":[]}`, "input"},
			{ResponsesPath, `{"input":"a","max_output_tokens":0}`, "max_output_tokens"},
			{ResponsesPath, `{"input":"a","previous_response_id":"resp_1"}`, "previous_response_id"},
			{ResponsesPath, `{"input":"a","stream":1}`, "stream"},
			{EmbeddingsPath, `{}`, "input"},
			{EmbeddingsPath, `{"input":{}}`, "input"},
			{EmbeddingsPath, `{"input":"a","encoding_format":"x"}`, "encoding_format"},
			{EmbeddingsPath, `{"input":"a","dimensions":0}`, "dimensions"},
			{EmbeddingsPath, `{"input":["a"` + strings.Repeat(`,"a"`, 2048) + `]}`, "input"},
			{EmbeddingsPath, `{"input":["a"` + strings.Repeat(`,"a"`, 256) + `],"dimensions":4096}`, "dimensions"},
		} {
			if status, text := answer(t, rt, c.path, c.body); status != http.StatusBadRequest || !strings.Contains(text, `"param":"`+c.param+`"`) {
				t.Errorf("%s %s: status %d, %s", c.path, c.body, status, text)
			}
		}
	})
	t.Run("fault", func(t *testing.T) {
		for _, c := range []struct{ body, param string }{
			{`{`, ""},
			{`{"model":"small"}`, "messages"},
			{`{"messages":null}`, "messages"},
			{`{"messages":[]}`, "messages"},
			{`{"messages":"hello"}`, "messages"},
			{`{"messages":["hello"]}`, "messages"},
			{`[]`, ""},
			{`{` + hello + `,"max_tokens":"x"}`, "max_tokens"},
			{`{` + hello + `,"stream":1}`, "stream"},
			{`{` + hello + `,"stream_options":3}`, "stream_options"},
			{`{` + hello + `,"stream_options":{"include_usage":3}}`, "stream_options.include_usage"},
			{`{` + hello + `,"max_tokens":0}`, "max_tokens"},
			{`{` + hello + `,"max_completion_tokens":-3}`, "max_completion_tokens"},
			{`{` + hello + `,"n":2}`, "n"},
			{`{` + hello + `,"max_tokens":2000,"ignore_eos":true}`, "messages"},
		} {
			status, text := answer(t, rt, ChatPath, c.body)
			var e struct {
				Error struct{ Message, Type, Param string }
			}
			if err := json.Unmarshal([]byte(text), &e); err != nil || status != http.StatusBadRequest || e.Error.Param != c.param || e.Error.Message == "" || strings.Contains(text, "json:") {
				t.Errorf("%s: status %d, %s", c.body, status, text)
			}
		}
	})
	t.Run("fault of a prompt", func(t *testing.T) {
		for _, prompt := range []string{`null`, `[]`, `{}`, `5`, `[{}]`} {
			if status, text := answer(t, rt, CompletionPath, `{"prompt":`+prompt+`}`); status != http.StatusBadRequest || !strings.Contains(text, `"param":"prompt"`) {
				t.Errorf("prompt %s: status %d, %s", prompt, status, text)
			}
		}
		for _, prompt := range []string{`""`, `["a b"]`, `[15496, 995]`, `[[15496, 995]]`} {
			if status, text := answer(t, rt, CompletionPath, `{"max_tokens":1,"prompt":`+prompt+`}`); status != http.StatusOK {
				t.Errorf("prompt %s: status %d, %s", prompt, status, text)
			}
		}
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		response, err := post(ctx, rt, ChatPath, `{`+hello+`,"max_tokens":900,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := response.Body.Read(make([]byte, 64)); err != nil {
			t.Fatal(err)
		}
		cancel()
		if _, err := io.Copy(io.Discard, response.Body); err == nil {
			t.Error("a cancelled answer came to its end")
		}
	})
}

func TestSimulatedConforms(t *testing.T) {
	s := simulated(t, profile.Profile{Overhead: 1}, profile.Profile{Overhead: 1})
	defer s.Close()
	conform(t, s.Replica(0))
	h := s.hosts[0]
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.jobs) != 0 {
		t.Errorf("%d jobs left over", len(h.jobs))
	}
}

// relay puts a backend behind a real server, to test Upstream by.
func relay(rt http.RoundTripper) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		response, err := rt.RoundTrip(r)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		defer response.Body.Close()
		w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
		w.WriteHeader(response.StatusCode)
		buffer := make([]byte, 512)
		for {
			n, err := response.Body.Read(buffer)
			_, _ = w.Write(buffer[:n])
			w.(http.Flusher).Flush()
			if err != nil {
				return
			}
		}
	})
}

func TestUpstreamConforms(t *testing.T) {
	s := simulated(t, profile.Profile{Overhead: 1}, profile.Profile{Overhead: 1})
	defer s.Close()
	server := httptest.NewServer(relay(s.Replica(0)))
	defer server.Close()
	u, err := NewUpstream(UpstreamConfig{URL: server.URL + "/v1/"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	conform(t, u)
}

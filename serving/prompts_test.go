package serving_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
)

// roomy is a crowd before one replica whose KV cache holds 20,000 tokens.
func roomy(t *testing.T) *crowd {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: time.Hour, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a", KVTokens: 20_000}},
	)
	if err != nil {
		t.Fatal(err)
	}
	profiles := []*profile.Profile{{Sequence: 0.1}}
	core, err := router.New(router.Config{
		Ledger: fleet.NewLedger(table), Fallback: chooses(small), Balancer: emptiest{},
		Forecaster: profile.NewForecaster(profiles), Gate: router.AdmissionRule{DeadlineShare: 1, KV: 1, Output: 100, Profiles: profiles},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, func(o *serving.Options) {
		o.Router, o.Backends = core, []serving.Backend{{Transport: lasting(time.Minute)}}
		o.Config.Overload.MaxQueue = 0
	})
	g.core = core
	return &crowd{rig: g, answers: map[string]answer{}}
}

func said(t *testing.T, content any, more ...any) string {
	t.Helper()
	body := map[string]any{"model": "auto", "messages": []any{map[string]any{"role": "user", "content": content}}}
	for i := 0; i < len(more); i += 2 {
		body[more[i].(string)] = more[i+1]
	}
	b, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// As many requests find room whatever their prompts are made of, if these are as long to an
// engine: some 2,000 tokens each. Words alone counted before, so that all of the others found room.
func TestRoomIsForTokensOfAnyText(t *testing.T) {
	var han, json strings.Builder
	for i := range 2000 {
		han.WriteRune(rune(0x4e00 + i*7%2000))
	}
	for i := range 130 {
		fmt.Fprintf(&json, `{"k%d":[%d,%d]},`, i, i, i+1)
	}
	tool := map[string]any{"type": "function", "function": map[string]any{"name": "look_up", "description": strings.Repeat("words ", 60), "parameters": map[string]any{"type": "object"}}}
	tools := make([]any, 25)
	for i := range tools {
		tools[i] = tool
	}
	image := map[string]any{"type": "image_url", "image_url": map[string]any{"url": "http://a/x.png"}}
	for name, body := range map[string]string{
		"English":       said(t, strings.TrimSpace(strings.Repeat("word ", 2000))),
		"Chinese":       said(t, han.String()),
		"minified JSON": said(t, json.String()+json.String()),
		"tools":         said(t, "hi", "tools", tools),
		"images":        said(t, []any{map[string]any{"type": "text", "text": "describe"}, image, image, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x", "detail": "low"}}}),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := roomy(t)
				refused := 0
				for range 20 {
					g.all.Go(func() {
						if g.do("POST", chat, body).Code == http.StatusTooManyRequests {
							g.mu.Lock()
							refused++
							g.mu.Unlock()
						}
					})
					synctest.Wait()
				}
				if n := g.core.Ledger().InFlight(); n < 7 || n > 12 {
					t.Errorf("%d in flight, want 7 to 12", n)
				}
				g.all.Wait()
				if refused < 8 || refused > 13 {
					t.Errorf("%d refused, want 8 to 13", refused)
				}
			})
		})
	}
}

// usage answers every request with so many tokens of its prompt.
func usage(tokens *int) transport {
	return func(r *http.Request) (*http.Response, error) {
		if r.Body != nil {
			_, _ = io.Copy(io.Discard, r.Body)
		}
		return says(http.StatusOK, jsonType, fmt.Sprintf(`{"object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":%d,"completion_tokens":4}}`, *tokens))(r)
	}
}

// What engines count of prompts corrects the estimates of the task, and of no other. What is
// recorded is what the decision went by.
func TestEstimatesAreCorrectedByUsage(t *testing.T) {
	with, read := logging(t, nil)
	counted := 140
	g := newRig(t, usage(&counted), with)
	body := said(t, strings.TrimSpace(strings.Repeat("word ", 193))) // 200 with the marks
	for range 200 {
		g.do("POST", chat, body, "x-gearshift-task", "copy")
	}
	counted = 3 // a lie
	for range 50 {
		g.do("POST", chat, body, "x-gearshift-task", "copy")
	}
	g.do("POST", chat, body, "x-gearshift-task", "chat")
	rows := read().Runs[0].Rows
	if first := rows[0].Request.PromptTokens; first != 200 {
		t.Errorf("the first estimate is %d tokens, want 200", first)
	}
	for _, i := range []int{199, 249} {
		if got := rows[i].Request.PromptTokens; got < 138 || got > 142 {
			t.Errorf("estimate %d is %d tokens, want about 140", i, got)
		}
	}
	if other := rows[250].Request.PromptTokens; other != 200 {
		t.Errorf("the estimate of another task is %d tokens, want 200", other)
	}
	if got := g.counted("gearshift_prompt_tokens_ratio"); len(got) != 2 || !strings.HasPrefix(got[1], `gearshift_prompt_tokens_ratio{task="copy"} 0.7`) || got[0] != `gearshift_prompt_tokens_ratio{task="chat"} 1` {
		t.Errorf("ratios %q", got)
	}
	if got := g.counted("gearshift_prompt_tokens_counts_total"); len(got) != 1 || got[0] != `gearshift_prompt_tokens_counts_total{task="copy"} 200` {
		t.Errorf("counts %q", got)
	}
}

// A prompt of which the request does not show all, one that failed, and one given as token ids
// tell nothing of the estimate.
func TestWhatTellsNothingOfEstimates(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 200))
	counted := 400
	g := newRig(t, usage(&counted))
	g.do("POST", chat, said(t, []any{map[string]any{"type": "text", "text": long}, map[string]any{"type": "image_url", "image_url": map[string]any{"url": "x"}}}))
	g.do("POST", "/v1/responses", `{"model":"auto","input":"`+long+`","previous_response_id":"resp_1"}`)
	g.do("POST", "/v1/completions", `{"model":"auto","prompt":[`+strings.Repeat("1,", 300)+`1]}`)
	g.do("POST", chat, ask)
	if got := g.counted("gearshift_prompt_tokens_counts_total"); len(got) != 0 {
		t.Errorf("counts %q", got)
	}
	f := newRig(t, says(http.StatusBadRequest, jsonType, `{"error":{"message":"no"},"usage":{"prompt_tokens":900}}`))
	f.do("POST", chat, said(t, long))
	if got := f.counted("gearshift_prompt_tokens_counts_total"); len(got) != 0 {
		t.Errorf("counts of a failed one: %q", got)
	}
}

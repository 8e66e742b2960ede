package serving_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// What engines say of a prompt that is too long for them.
const (
	vllmTooLong  = `{"error":{"message":"This model's maximum context length is 2048 tokens. However, you requested 9000 tokens.","type":"BadRequestError","param":"input_tokens","code":400}}`
	llamaTooLong = `{"error":{"code":400,"message":"request (9412 tokens) exceeds the available context size (8192 tokens), try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9412,"n_ctx":8192}}`
	tgiTooLong   = "{\"error\":\"Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 9000\",\"error_type\":\"validation\"}"
)

// wordy is a chat of so many words for the model.
func wordy(model string, words int) string {
	return fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","content":"%s"}]}`, model, strings.Repeat("word ", words))
}

// lengths sets the contexts of the replicas.
func lengths(each ...int) func(*serving.Options) {
	return func(o *serving.Options) {
		for i, n := range each {
			o.Backends[i].Context = n
		}
	}
}

// A prompt that the policy's size cannot hold goes to one that can, at once.
func TestALongPromptGoesToASizeThatHoldsIt(t *testing.T) {
	for _, c := range []struct {
		name     string
		contexts []int
		words    int
		model    string
		want     string
		fallback string
	}{
		{"short", []int{1000, 1000, 9000}, 100, "auto", "small", ""},
		{"long", []int{1000, 1000, 9000}, 3000, "auto", "large", "prompt is too long for the chosen variant"},
		{"long, and one replica holds it", []int{1000, 9000, 9000}, 3000, "auto", "small", ""},
		{"long, and nothing is known", []int{0, 0, 0}, 3000, "auto", "small", ""},
		{"long, and the other is unknown", []int{1000, 1000, 0}, 3000, "auto", "large", "prompt is too long for the chosen variant"},
		{"too long for all", []int{1000, 1000, 1000}, 3000, "auto", "small", ""},
		{"pinned", []int{1000, 1000, 9000}, 3000, "small", "small", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, good, good, good), lengths(c.contexts...))
			w := g.do("POST", chat, wordy(c.model, c.words))
			if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Variant") != c.want || w.Header().Get("X-Gearshift-Fallback") != c.fallback {
				t.Errorf("status %d, %v", w.Code, w.Header())
			}
		})
	}
}

// Nothing is refused by an estimate: where the size that could hold a prompt is down, or
// full and the prompt may be shorter than it seems, another gets it.
func TestALongPromptIsNotRefusedByItsEstimate(t *testing.T) {
	for _, c := range []struct {
		name  string
		words int
		down  bool
		want  int
	}{
		{"down", 3000, true, http.StatusOK},
		{"full, and a little above", 1100, false, http.StatusOK},
		{"full, and far above", 3000, false, http.StatusTooManyRequests},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, good, good, good), lengths(1000, 1000, 90000), func(o *serving.Options) { o.Config.Overload.MaxQueue = 0 })
			if c.down {
				g.core.Ledger().SetUp(largeA, false)
			} else {
				g.core.Ledger().SetCap(largeA, 1)
				lease, ok := g.core.Ledger().Begin(largeA, 0)
				if !ok {
					t.Fatal("no place")
				}
				defer lease.End()
			}
			if w := g.do("POST", chat, wordy("auto", c.words)); w.Code != c.want {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
		})
	}
}

// An engine that finds a prompt too long has not failed. The request is tried on a longer
// context once; without one its client gets what the engine said.
func TestAPromptThatAnEngineFindsTooLong(t *testing.T) {
	type outcome struct {
		status int
		asked  []string
	}
	long := func(body string) transport { return says(400, jsonType, body) }
	for _, c := range []struct {
		name     string
		contexts []int
		model    string
		replicas []transport
		want     outcome
	}{
		{"vLLM", nil, "auto", []transport{long(vllmTooLong), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"llama.cpp", nil, "auto", []transport{long(llamaTooLong), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"TGI", nil, "auto", []transport{says(422, jsonType, tgiTooLong), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"as an event", nil, "auto", []transport{says(200, eventType, "data: "+vllmTooLong+"\n\n"), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"as an event without a status", nil, "auto", []transport{says(200, eventType, "event: error\ndata: {\"error\":{\"message\":\"The number of tokens to keep from the initial prompt is greater than the context length.\"}}\n\n"), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"with 500", nil, "auto", []transport{says(500, jsonType, `{"error":"the input length exceeds the context length"}`), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"with 500, and none is longer", nil, "small", []transport{says(500, jsonType, `{"error":"the input length exceeds the context length"}`), good, good}, outcome{500, []string{"small@a"}}},
		{"the same size has a longer one", []int{2048, 8192, 4096}, "auto", []transport{long(vllmTooLong), good, good}, outcome{200, []string{"small@a", "small@b"}}},
		{"the longest is taken", []int{2048, 4096, 8192}, "auto", []transport{long(vllmTooLong), good, good}, outcome{200, []string{"small@a", "large@a"}}},
		{"none is longer", []int{2048, 2048, 1024}, "auto", []transport{long(vllmTooLong), good, good}, outcome{400, []string{"small@a"}}},
		{"once", nil, "auto", []transport{long(vllmTooLong), long(vllmTooLong), long(vllmTooLong)}, outcome{400, []string{"small@a", "large@a"}}},
		{"pinned", nil, "small", []transport{long(vllmTooLong), good, good}, outcome{400, []string{"small@a"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, c.replicas[0], c.replicas[1], c.replicas[2]), lengths(c.contexts...), func(o *serving.Options) {
				o.Config.Retries.BudgetPercent, o.Config.Retries.BudgetMin = 0, 0 // such a try is no work
			})
			for range 2 * config.Default().Health.Failures {
				asked = nil
				w := g.do("POST", chat, wordy(c.model, 10))
				if w.Code != c.want.status || !slices.Equal(asked, c.want.asked) {
					t.Fatalf("status %d, asked %v, want %+v", w.Code, asked, c.want)
				}
				if w.Code == http.StatusBadRequest && !strings.Contains(w.Body.String(), `"error"`) || w.Code == http.StatusOK && w.Body.String() != fine {
					t.Errorf("the client got %s", w.Body)
				}
			}
			if got := g.states(); got != "up up up" {
				t.Errorf("states %s", got)
			}
			if n := g.core.Ledger().InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
			if strings.Contains(g.logs.String(), "replica failed") {
				t.Errorf("the log says %s", g.logs)
			}
		})
	}
}

// Engines say how long their contexts are.
func TestContextsAreThoseThatEnginesTell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		for i, n := range []int{1000, 1000, 9000} {
			list := fmt.Sprintf(`{"data":[{"id":"small","max_model_len":%d},{"id":"large","max_model_len":%d}]}`, n, n)
			engines[i].models.Store(&list)
		}
		time.Sleep(5 * time.Second)
		if got := g.Status().Replicas[largeA].Context; got != 9000 {
			t.Errorf("the status says %d", got)
		}
		for words, want := range map[int]string{100: "small", 3000: "large"} {
			if w := g.do("POST", chat, wordy("auto", words)); w.Header().Get("X-Gearshift-Variant") != want {
				t.Errorf("%d words: status %d, %v", words, w.Code, w.Header())
			}
		}
	})
}

// TestListedContexts: clients size their prompts by the list of models, where each size has its
// longest context, and auto the longest of those that the client may ask for.
func TestListedContexts(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"bob": {Grants: access.Grants{Models: []string{"small"}}}})
	g := newRig(t, says(200, jsonType, fine), lengths(1000, 4096, 9000), withKeys(file))
	unknown := newRig(t, says(200, jsonType, fine), lengths(0, 2048, 0))
	for _, c := range []struct {
		g    *rig
		key  string
		want string
	}{
		{g, secrets["bob"], "auto 4096, small 4096"},
		{unknown, "", "auto 2048, small 2048, large 0"},
	} {
		var list wire.Models
		w := c.g.do("GET", "/v1/models", "", "Authorization", "Bearer "+c.key)
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range list.Data {
			got = append(got, fmt.Sprint(m.ID, " ", m.MaxModelLen))
			one := c.g.do("GET", "/v1/models/"+m.ID, "", "Authorization", "Bearer "+c.key).Body.String()
			known := m.MaxModelLen > 0
			if m.ContextLength != m.MaxModelLen || strings.Contains(one, "max_model_len") != known || strings.Contains(one, fmt.Sprintf(`"context_length":%d`, m.MaxModelLen)) != known {
				t.Errorf("%s: %+v, alone %s", m.ID, m, one)
			}
		}
		if got := strings.Join(got, ", "); got != c.want {
			t.Errorf("listed %s, want %s", got, c.want)
		}
	}
}

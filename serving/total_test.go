package serving_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"gearshift/serving"
)

const total = "x-gearshift-total-ms"

func TestADeadlineForTheEnd(t *testing.T) {
	for _, c := range []struct{ ms, result string }{{"1e6", "met"}, {"0.000001", "missed"}} {
		g := newRig(t, says(http.StatusOK, jsonType, fine))
		if w := g.do("POST", chat, ask, total, c.ms, "x-llm-d-slo-tpot-ms", "1e6"); w.Code != http.StatusOK {
			t.Fatalf("status %d, %s", w.Code, w.Body)
		}
		if got, want := strings.Join(g.counted("gearshift_total_deadlines_total"), " "), `gearshift_total_deadlines_total{result="`+c.result+`",variant="small"} 1`; got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if got := strings.Join(g.counted("gearshift_deadlines_total"), " "); !strings.Contains(got, `result="`+c.result+`"`) {
			t.Errorf("deadline of %s ms: %q, want it %s", c.ms, got, c.result)
		}
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine))
	w := g.do("POST", chat, ask, total, "-5")
	if message, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || param != total || code != "invalid_deadline" || !strings.Contains(message, "until the end of the answer") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// An embedding has no output tokens: with a deadline for its end it is judged by that, and
// by none per token.
func TestEmbeddingsAreJudgedByTheEnd(t *testing.T) {
	const answer = `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`
	for _, c := range []struct{ header, ms, want string }{
		{total, "1e6", "met"}, {total, "0.000001", "missed"}, {"x-llm-d-slo-tpot-ms", "0.000001", ""},
	} {
		g := newRig(t, says(http.StatusOK, jsonType, answer))
		if w := g.do("POST", embeddings, `{"model":"auto","input":"a"}`, c.header, c.ms); w.Code != http.StatusOK {
			t.Fatalf("status %d, %s", w.Code, w.Body)
		}
		got := strings.Join(g.counted("gearshift_deadlines_total"), " ")
		if c.want == "" && got != "" || c.want != "" && !strings.Contains(got, `result="`+c.want+`"`) {
			t.Errorf("%s %s: %q, want %q", c.header, c.ms, got, c.want)
		}
	}
}

// A leased request is judged by what its caller says of it.
func TestRouteWithSeveralDeadlines(t *testing.T) {
	for _, c := range []struct{ ask, end, want string }{
		{`"first_token_ms":50,"total_ms":100`, `{"output_tokens":10,"first_token_ms":50}`, `{"deadline_met":true,"latency_ms":100,"per_token_ms":10,"utility":1.5}`},
		{`"first_token_ms":50`, `{"output_tokens":10,"first_token_ms":51}`, `{"deadline_met":false,"latency_ms":100,"per_token_ms":10,"utility":1.488}`},
		{`"first_token_ms":50`, `{"output_tokens":10}`, `{"deadline_met":true,"latency_ms":100,"per_token_ms":10,"utility":1.5}`},
		{`"total_ms":80`, `{"output_tokens":10}`, `{"deadline_met":false,"latency_ms":100,"per_token_ms":10,"utility":0}`},
		{`"total_ms":100`, `{"output_tokens":0}`, `{"deadline_met":true,"latency_ms":100,"utility":1.5}`},
		{`"total_ms":100`, ``, `{"latency_ms":100}`},
		{`"max_tokens":0`, `{"output_tokens":0}`, `{"latency_ms":100}`},
	} {
		h := &hand{}
		g := newRig(t, nil, func(o *serving.Options) { o.Clock = h.clock })
		r := g.route(t, `{"task":"copy","deadline_ms":12.5,`+c.ask+`}`)
		h.add(100 * time.Millisecond)
		if w := g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", c.end); w.Code != http.StatusOK || w.Body.String() != c.want {
			t.Errorf("%s, %s: status %d, %s, want %s", c.ask, c.end, w.Code, w.Body, c.want)
		}
	}
	g := newRig(t, nil)
	for body, param := range map[string]string{`{"first_token_ms":0}`: "first_token_ms", `{"total_ms":-1}`: "total_ms"} {
		w := g.do("POST", "/v1/gearshift/route", body)
		if _, _, got, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || got != param || code != "invalid_deadline" {
			t.Errorf("%s: status %d, %s", body, w.Code, w.Body)
		}
	}
	r := g.route(t, `{}`)
	w := g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", `{"first_token_ms":-1}`)
	if _, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || param != "first_token_ms" || code != "invalid_value" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

package serving_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/informed"
	"gearshift/serving/loads"
)

// withSignals has the balancer of the name hear what replicas say. It routes nothing by itself: the
// rig's router has another one, which only counts as the same to those that ask.
func withSignals(t testing.TB, name string, change func(*informed.Config)) func(*serving.Options) {
	return func(o *serving.Options) {
		if change != nil {
			change(&o.Config.Signals)
		}
		rule, ok, err := informed.RuleNamed(name, o.Config.Signals)
		if !ok || err != nil {
			t.Fatal(ok, err)
		}
		o.Balancer = informed.NewBalancer(name, o.Router.Table(), rule, nil, o.Config.Signals)
	}
}

// loaded answers with a load, if it is asked for one, and keeps the header of the request.
func loaded(kind, body, load string, seen *http.Header) transport {
	return func(r *http.Request) (*http.Response, error) {
		*seen = r.Header
		response, err := says(http.StatusOK, kind, body)(r)
		if err == nil && r.Header.Get("endpoint-load-metrics-format") != "" {
			response.Header.Set("endpoint-load-metrics", load)
		}
		return response, err
	}
}

func TestReplicasAreAskedForTheirLoad(t *testing.T) {
	for name, form := range map[string][2]string{"in one piece": {jsonType, fine}, "a stream": {eventType, stream}} {
		var seen http.Header
		g := newRig(t, loaded(form[0], form[1], "TEXT named_metrics.num_requests_running=7, named_metrics.num_requests_waiting=2", &seen), withSignals(t, "sampled:2", nil))
		body := ask
		if form[0] == eventType {
			body = strings.Replace(ask, "{", `{"stream":true,`, 1)
		}
		w := g.do("POST", chat, body)
		if got := seen.Get("endpoint-load-metrics-format"); w.Code != http.StatusOK || got != "TEXT" {
			t.Errorf("%s: status %d, the replica was asked for %q", name, w.Code, got)
		}
		if got := w.Header().Get("endpoint-load-metrics"); got != "" {
			t.Errorf("%s: a client that does not ask gets %q", name, got)
		}
		text := g.do("GET", "/metrics", "").Body.String()
		if !strings.Contains(text, `gearshift_signal_load{counter="model",replica="`) || !strings.Contains(text, `source="piggybacked"`) {
			t.Errorf("%s: there is no signal: %s", name, text)
		}
	}
}

func TestReplicasAreNotAskedWhereNothingNeedsIt(t *testing.T) {
	var seen http.Header
	g := newRig(t, loaded(jsonType, fine, "TEXT eps=0", &seen))
	g.do("POST", chat, ask)
	if _, ok := seen["Endpoint-Load-Metrics-Format"]; ok {
		t.Errorf("the replica was asked: %v", seen)
	}
	if text := g.do("GET", "/metrics", "").Body.String(); strings.Contains(text, "gearshift_signal") {
		t.Error("there are metrics of signals")
	}
}

// The router says its own load to clients that ask, on refusals too, so that a tier in front can
// hold back.
func TestTheRouterSaysItsOwnLoad(t *testing.T) {
	var seen http.Header
	g := newRig(t, loaded(jsonType, fine, "TEXT named_metrics.num_requests_running=99", &seen), withSignals(t, "sampled:2", nil))
	for form, body := range map[string]string{"TEXT": ask, "json": ask, "Text": "{"} {
		w := g.do("POST", chat, body, "endpoint-load-metrics-format", form)
		l, err := loads.Parse(w.Header().Get("endpoint-load-metrics"))
		if err != nil || l.Requests > 1 || l.Instance == 0 {
			t.Errorf("%s: status %d, %+v, %v", form, w.Code, l, err)
		}
	}
	w := g.do("GET", "/v1/loads", "")
	var page loads.Page
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Loads) != 2 || page.All != "auto" {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	for _, model := range []string{"auto", "small", "large"} {
		l, ours, err := loads.ParsePage(w.Body.Bytes(), model)
		if err != nil || !ours || l.Requests != 0 || l.Model != signals.ModelID(model) {
			t.Errorf("%s: %+v, %v, %v", model, l, ours, err)
		}
	}
}

package serving_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/signals"
	"gearshift/serving"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
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
		var status struct {
			Replicas []struct {
				Signal *informed.Status
			}
		}
		if err := json.Unmarshal(g.do("GET", "/v1/gearshift/status", "").Body.Bytes(), &status); err != nil || len(status.Replicas) != 3 || status.Replicas[0].Signal == nil || status.Replicas[0].Signal.Requests != 3 { // as much as the limit of 2 allows others
			t.Errorf("%s: %v, %+v", name, err, status)
		}
		text := g.do("GET", "/metrics", "").Body.String()
		if !strings.Contains(text, `gearshift_signal_load{counter="model",replica="`) || !strings.Contains(text, `source="piggybacked"`) {
			t.Errorf("%s: there is no signal: %s", name, text)
		}
	}
}

// An explanation says what was known of the load of the replicas.
func TestExplanationsHaveSignals(t *testing.T) {
	var seen http.Header
	g := newRig(t, loaded(jsonType, fine, "TEXT named_metrics.num_requests_running=1, named_metrics.gearshift.host_requests=5", &seen), withSignals(t, "sampled:2", nil))
	var e struct {
		Replica string
		Signals []struct {
			Replica, Source string
			Model, Host     int
		}
	}
	for range 2 { // the first teaches
		w := g.do("POST", chat, ask, "X-Gearshift-Explain", "1")
		if err := json.Unmarshal([]byte(w.Header().Get("X-Gearshift-Explain")), &e); err != nil {
			t.Fatalf("%v, %v", err, w.Header())
		}
	}
	if len(e.Signals) != 2 || e.Signals[0].Replica != e.Replica || e.Signals[0].Source == "own" || e.Signals[0].Host != 5 {
		t.Errorf("%+v", e)
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
		l, err := gauges.ParseLoad(w.Header().Get("endpoint-load-metrics"))
		if err != nil || l.Requests > 1 || l.Instance == 0 {
			t.Errorf("%s: status %d, %+v, %v", form, w.Code, l, err)
		}
	}
	w := g.do("GET", "/v1/loads", "")
	var page gauges.LoadsPage
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Loads) != 2 || page.All != "auto" {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	for _, model := range []string{"auto", "small", "large"} {
		l, ours, err := gauges.ParseLoads(w.Body.Bytes(), model)
		if err != nil || !ours || l.Requests != 0 || l.Model != signals.ModelID(model) {
			t.Errorf("%s: %+v, %v, %v", model, l, ours, err)
		}
	}
}

func TestLoadsArePushed(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withSignals(t, "sampled:2", nil))
	for name, c := range map[string]struct {
		path, body string
		status     int
		says       string
	}{
		"a load":          {"small@a", "num_requests_running=3,num_requests_waiting=1", http.StatusNoContent, ""},
		"JSON":            {"small@b", `{"named_metrics":{"num_requests_running":2}}`, http.StatusNoContent, ""},
		"no replica":      {"small@z", "num_requests_running=3", http.StatusNotFound, "small@z"},
		"nothing":         {"small@a", "custom=3", http.StatusBadRequest, "it says nothing of a load"},
		"an absurd one":   {"small@a", "num_requests_running=inf", http.StatusBadRequest, "the load is not used: it is impossible"},
		"another model's": {"small@a", "num_requests_running=3,gearshift.model_id=1", http.StatusBadRequest, "it is another model"},
	} {
		w := g.order("POST", "/admin/replicas/"+c.path+"/signal", c.body)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s: status %d, %s; want %d, %q", name, w.Code, w.Body, c.status, c.says)
		}
	}
	if text := g.do("GET", "/metrics", "").Body.String(); !strings.Contains(text, `source="pushed",variant="small"} 1`) {
		t.Errorf("no signal is pushed: %s", text)
	}
}

func TestReloadsChangeTheCounter(t *testing.T) {
	w := &ward{}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withSignals(t, "sampled:2", nil), withReloader(w))
	w.change.Config.Signals.Counter, w.change.Config.Signals.ChangeOver = "work", time.Hour
	w.change.Config.Signals.Source = informed.Header
	share := func() string {
		var found []string
		for line := range strings.Lines(g.do("GET", "/metrics", "").Body.String()) {
			if strings.HasPrefix(line, "gearshift_signal_counter_share") && strings.Contains(line, "small") {
				found = append(found, strings.TrimSpace(line))
			}
		}
		return strings.Join(found, "; ")
	}
	if got := share(); got != `gearshift_signal_counter_share{counter="model",variant="small"} 1` {
		t.Errorf("before: %s", got)
	}
	out, err := g.Reload("test")
	if err != nil || !slices.Contains(out.Changed, "serving.signals.counter") || !slices.Contains(out.NeedRestart, "serving.signals.source") {
		t.Errorf("%+v, %v", out, err)
	}
	if got := share(); !strings.Contains(got, `counter="model",variant="small"} 0.99`) || !strings.Contains(got, `counter="work"`) {
		t.Errorf("just after: %s", got)
	}
}

package engineserver

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/signals"
	"gearshift/serving/backend"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/wire"
)

// said asks for an answer with the header in the form, and returns its load.
func (r *rig) said(body, format string) (value string, l signals.Load) {
	r.t.Helper()
	ask, err := http.NewRequest("POST", "http://engine"+chat, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if format != "" {
		ask.Header.Set("endpoint-load-metrics-format", format)
	}
	response, err := r.client.Do(ask)
	if err != nil {
		r.t.Fatal(err)
	}
	response.Body.Close()
	if value = response.Header.Get("endpoint-load-metrics"); value != "" {
		if l, err = gauges.ParseLoad(value); err != nil {
			r.t.Fatal(err)
		}
	}
	return value, l
}

// hold begins a stream, and returns what ends it.
func (r *rig) hold(body string) (end func()) {
	r.t.Helper()
	response, err := r.client.Post("http://engine"+chat, "application/json", strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return func() { response.Body.Close() }
}

func TestTheLoadComesWithAnswers(t *testing.T) {
	withRig(t, func(c *Config) { c.Cores = 4 }, func(r *rig) {
		if value, _ := r.said(ask, ""); value != "" {
			t.Errorf("a client that does not ask gets %q", value)
		}
		for format, prefix := range map[string]string{"TEXT": "TEXT ", "text": "TEXT ", "Json": "JSON {"} {
			value, l := r.said(ask, format)
			if !strings.HasPrefix(value, prefix) {
				t.Errorf("%s: %s", format, value)
			}
			if l.Model != signals.ModelID("small") || l.Instance == 0 || l.Cores != 4 || l.Host != 1 || l.Answered < 1 {
				t.Errorf("%s: %+v", value, l)
			}
		}
		if value, l := r.said(stream, "TEXT"); l.Host != 1 || l.Requests != 1 {
			t.Errorf("at the beginning of a stream: %s", value)
		}
	})
}

func TestTheLoadCountsTheHostsRequests(t *testing.T) {
	withRig(t, func(c *Config) { c.Cores = 2 }, func(r *rig) {
		r.said(ask, "") // teaches how long a request takes
		defer r.hold(endless + `,"stream":true}`)()
		defer r.hold(strings.Replace(endless, "small", "large", 1) + `,"stream":true}`)()
		time.Sleep(100 * time.Millisecond)
		l := r.server.loadOf("small")
		if l.Requests != 1 || l.Host != 2 || l.Examples != 2 || l.Work <= 0 || l.Utilization <= 0 {
			t.Errorf("%+v", l)
		}
		_, text := r.get("GET", gauges.LoadsPath, "")
		var page gauges.LoadsPage
		if err := json.Unmarshal([]byte(text), &page); err != nil || len(page.Loads) != 2 {
			t.Fatalf("%v, %s", err, text)
		}
		large, ours, err := gauges.ParseLoads([]byte(text), "large")
		if err != nil || !ours || large.Requests != 1 || large.Host != 2 {
			t.Errorf("%+v, %v, %v, %s", large, ours, err, text)
		}
		_, text = r.get("GET", "/metrics", "")
		if !strings.Contains(text, "gearshift_engine_host_requests 2") || !strings.Contains(text, "gearshift_engine_host_cores 2") {
			t.Errorf("metrics: %s", text)
		}
	})
}

// A request with several inputs, or that asks for several answers, is as much work as several requests.
func TestTheUnitOfWorkIsTheExample(t *testing.T) {
	for body, want := range map[[2]string]int{
		{chat, ask}: 1,
		{chat, `{"model":"small",` + hello + `,"n":3}`}:                                  3,
		{backend.ClassifyPath, `{"model":"small","input":"x"}`}:                          1,
		{backend.ClassifyPath, `{"model":"small","inputs":[{"text":"x"},{"text":"y"}]}`}: 2,
	} {
		r, err := wire.ParseRequest([]byte(body[1]))
		if err != nil {
			t.Fatal(err)
		}
		if got := examplesOf(body[0], r); got != want {
			t.Errorf("%s: %d examples, want %d", body[1], got, want)
		}
	}
	synctest.Test(t, func(t *testing.T) {
		a := newActivity(2)
		end := a.begin("m", 4)
		time.Sleep(80 * time.Millisecond)
		end(false)
		defer a.begin("m", 1)(false)
		defer a.begin("n", 3)(false)
		defer a.begin("m", 2)(false)
		if r := a.of([]string{"m"}, 1); r.host != 3 || r.units != 6 || math.Abs(r.work-3*0.02) > 1e-9 || r.answered != 1 {
			t.Errorf("%+v; want 3 requests, 6 examples, and 20 ms for each of the three of the known model", r)
		}
	})
}

func TestTheLoadIsMisreportedOnDemand(t *testing.T) {
	for fault, wrong := range map[string]func(l, before signals.Load) bool{
		LoadZero:     func(l, _ signals.Load) bool { return l.Host == 0 },
		LoadFrozen:   func(l, before signals.Load) bool { return l == before },
		LoadJumps:    func(l, _ signals.Load) bool { return l.Host == 1e6 },
		LoadBack:     func(l, before signals.Load) bool { return l.Answered < before.Answered },
		LoadOverflow: func(l, _ signals.Load) bool { return !(l.Host < 1e300) },
		LoadAnother:  func(l, _ signals.Load) bool { return l.Model == signals.ModelID("small")+1 },
	} {
		t.Run(fault, func(t *testing.T) {
			withRig(t, func(c *Config) { c.Faults.Misreport = fault }, func(r *rig) {
				before := r.server.loadOf("small")
				if _, l := r.said(ask, "TEXT"); !wrong(l, before) {
					t.Errorf("%+v after %+v", l, before)
				}
			})
		})
	}
}

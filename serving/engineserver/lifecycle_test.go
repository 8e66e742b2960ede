package engineserver

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
)

// withModels gives the rig's engines models: of 2 and 3 MiB, which load in 10 and 20 s; the
// large one is cold at the start, and the memory has room for 4 MiB.
func withModels(c *Config) {
	t := c.Engines.Table
	t.Models = []fleet.Model{
		{Name: "weights-small", Memory: 2 << 20, Load: 10 * time.Second, Version: "3"},
		{Name: "weights-large", Memory: 3 << 20, Load: 20 * time.Second},
	}
	t.Variants[0].Model, t.Variants[1].Model = 0, 1
	t.Replicas[1].Initial = fleet.Cold
	c.Memory = 4 << 20
}

// expect sends a request and holds its answer against the status and parts of the body.
func (r *rig) expect(method, path, body string, status int, parts ...string) string {
	r.t.Helper()
	got, text := r.get(method, path, body)
	if got != status {
		r.t.Errorf("%s %s %s: status %d, %s; want %d", method, path, body, got, text, status)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			r.t.Errorf("%s %s %s: %s; want %q in it", method, path, body, text, p)
		}
	}
	return text
}

// states are the states and reasons in the index.
func (r *rig) states() map[string]string {
	r.t.Helper()
	var list []struct{ Name, State, Reason string }
	if err := json.Unmarshal([]byte(r.expect("POST", "/v2/repository/index", "", http.StatusOK)), &list); err != nil {
		r.t.Fatal(err)
	}
	states := map[string]string{}
	for _, m := range list {
		states[m.Name] = strings.TrimSpace(m.State + " " + m.Reason)
	}
	return states
}

// is holds the models' states against what they should be.
func (r *rig) is(small, large string) {
	r.t.Helper()
	if s := r.states(); s["small"] != small || s["large"] != large {
		r.t.Errorf("the states are %q; want %q and %q", s, small, large)
	}
}

const askLarge = `{"model":"large",` + hello + `}`

func TestLoadsAndUnloads(t *testing.T) {
	withRig(t, withModels, func(r *rig) {
		r.is("READY", "UNAVAILABLE not loaded")
		r.expect("POST", chat, askLarge, http.StatusNotFound, `"code":"model_not_found"`, `is not loaded; ready is small`)
		r.expect("POST", "/v2/repository/index", `{"ready":true}`, http.StatusOK, `[{"name":"small","version":"3","state":"READY","reason":""}]`)
		r.expect("POST", "/v2/repository/models/large/load", "", http.StatusInsufficientStorage,
			`"large\" needs 3.0 MiB, and 2.0 MiB of 4.0 MiB are free; unload small (2.0 MiB)`)
		r.expect("POST", "/v2/repository/models/small/unload", `{"parameters":{"unload_dependents":true}}`, http.StatusOK)
		r.is("UNAVAILABLE unloaded", "UNAVAILABLE not loaded")
		r.expect("POST", chat, ask, http.StatusNotFound, `"code":"model_not_found"`, "no model is ready")
		r.expect("GET", "/v1/models", "", http.StatusOK, `"data":[]`)
		begin := time.Now()
		r.expect("POST", "/v2/repository/models/large/load", "{}", http.StatusOK)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("a load of 20 s took %v", took)
		}
		r.expect("POST", chat, askLarge, http.StatusOK, `"model":"large"`)
		r.expect("GET", "/v1/models", "", http.StatusOK, `"id":"large"`)
		r.expect("GET", "/health", "", http.StatusOK, `"large":"ready","small":"unloaded"`)
		r.expect("GET", "/v2/models/large/ready", "", http.StatusOK, `"ready":true`)
		r.expect("GET", "/v2/models/small/ready", "", http.StatusBadRequest, `"ready":false`)
		r.expect("GET", "/v2/models/small/versions/3/ready", "", http.StatusBadRequest, `"ready":false`)
		r.expect("GET", "/v2/models/large", "", http.StatusOK, `"name":"large","versions":["1"]`, `"inputs":[]`)
		for sample, want := range map[string]string{
			`gearshift_engine_model_state{model_name="large",state="ready"}`:                   "1",
			`gearshift_engine_model_state{model_name="small",state="unloaded"}`:                "1",
			`gearshift_engine_model_memory_bytes{model_name="large"}`:                          "3.145728e+06",
			`gearshift_engine_model_load_seconds{model_name="large"}`:                          "20",
			`gearshift_engine_memory_held_bytes`:                                               "3.145728e+06",
			`vllm:request_success_total{engine="0",finished_reason="stop",model_name="large"}`: "1",
		} {
			if got := r.metric(sample); got != want {
				t.Errorf("%s is %s, want %s", sample, got, want)
			}
		}
	})
}

// A busy model's unload waits, and its requests end.
func TestUnloadOfABusyModel(t *testing.T) {
	withRig(t, withModels, func(r *rig) {
		answered := make(chan int)
		go func() {
			status, _, _ := r.do(r.t.Context(), "POST", chat, endless+"}")
			answered <- status
		}()
		synctest.Wait()
		begin := time.Now()
		r.expect("POST", "/v2/repository/models/small/unload", "", http.StatusOK)
		if took := time.Since(begin); took < 10*time.Second {
			t.Errorf("unloaded after %v, with a request of 20 s", took)
		}
		if status := <-answered; status != http.StatusOK {
			t.Errorf("the request that ran ended with %d", status)
		}
	})
}

func TestRepositoryRefuses(t *testing.T) {
	withRig(t, withModels, func(r *rig) {
		for _, c := range []struct {
			method, path, body string
			status             int
			want               string
		}{
			{"POST", "/v2/repository/models/huge/load", "", 404, `failed to load \"huge\": there is no model \"huge\" in the repository; there are small, large`},
			{"POST", "/v2/repository/models/huge/unload", "", 404, "there are small, large"},
			{"POST", "/v2/repository/models/large/load", `{"parameters":{"config":"{}"}}`, 400, "models are loaded as their folders have them"},
			{"POST", "/v2/repository/models/large/load", `{"parameters":{"file:1/model.onnx":""}}`, 400, "not supported"},
			{"POST", "/v2/repository/models/large/load", `{"parameters":{"force":true}}`, 400, `unknown parameter \"force\"`},
			{"POST", "/v2/repository/models/large/load", `{"force":true}`, 400, `unknown field \"force\"`},
			{"POST", "/v2/repository/models/large/unload", `{"parameters":{"unload_dependents":1}}`, 400, "want true or false"},
			{"POST", "/v2/repository/index", `{"ready":"yes"}`, 400, "cannot understand the body"},
			{"GET", "/v2/models/huge", "", 404, "there are small, large"},
			{"GET", "/v2/models/small/versions/2", "", 404, `has no version \"2\"; there is 3`},
			{"GET", "/v2/models/large", "", 404, "not loaded"},
			{"POST", "/v2/models/small/infer", `{"inputs":[]}`, 400, "takes no tensors"},
			{"POST", "/v2/models/large/infer", `{"inputs":[]}`, 404, "not loaded"},
			{"POST", "/sleep?level=3", "", 400, "want 1, which keeps"},
			{"POST", "/sleep?mode=keep", "", 400, "want wait"},
			{"POST", "/sleep?tags=weights", "", 400, `unknown parameter \"tags\"`},
			{"POST", "/wake_up?tags=cache", "", 400, "want weights or kv_cache"},
			{"POST", "/sleep?model=large", "", 404, "not loaded"},
			{"GET", "/is_sleeping?model=huge", "", 404, "there are small, large"},
		} {
			r.expect(c.method, c.path, c.body, c.status, c.want, `"error"`)
		}
		r.is("READY", "UNAVAILABLE not loaded")
	})
}

func TestServerMetadata(t *testing.T) {
	withRig(t, nil, func(r *rig) {
		r.expect("GET", "/v2", "", http.StatusOK, `"name":"gearshift-engine"`, "model_repository(unload_dependents)")
		r.expect("GET", "/v2/health/live", "", http.StatusOK, `{"live":true}`)
		r.expect("POST", "/fault", "sick", http.StatusOK)
		r.expect("GET", "/v2/health/ready", "", http.StatusBadRequest, `{"ready":false}`)
	})
}

// All models sleep together, as in vLLM, or one by its name.
func TestSleepAndWake(t *testing.T) {
	withRig(t, func(c *Config) { withModels(c); c.Memory = 0; c.Load = []string{"*"} }, func(r *rig) {
		r.is("READY", "READY")
		r.expect("GET", "/is_sleeping", "", http.StatusOK, "false")
		r.expect("POST", "/sleep?model=large&level=2", "", http.StatusOK)
		r.expect("GET", "/is_sleeping", "", http.StatusOK, "false")
		r.expect("GET", "/is_sleeping?model=large", "", http.StatusOK, `{"is_sleeping":true}`)
		r.is("READY", "UNAVAILABLE asleep at level 2")
		r.expect("POST", "/sleep", "", http.StatusOK)
		r.is("UNAVAILABLE asleep at level 1", "UNAVAILABLE asleep at level 2")
		r.expect("GET", "/is_sleeping", "", http.StatusOK, `{"is_sleeping":true}`)
		r.expect("POST", chat, ask, http.StatusServiceUnavailable, `"code":"model_asleep"`, `is asleep at level 1; POST /wake_up wakes it`)
		r.expect("POST", "/v2/models/small/infer", "{}", http.StatusServiceUnavailable, "asleep")
		r.expect("GET", "/v1/models", "", http.StatusOK, `"id":"small"`, `"state":"asleep"`)
		if got := r.metric(`vllm:engine_sleep_state{engine="0",model_name="large",sleep_state="discard_all"}`); got != "1" {
			t.Errorf("the sleep state is %s", got)
		}
		begin := time.Now()
		r.expect("POST", "/wake_up?tags=weights&model=small", "", http.StatusOK)
		if took := time.Since(begin); took != 500*time.Millisecond {
			t.Errorf("waking from level 1 took %v, with a load of 10 s", took)
		}
		r.expect("GET", "/is_sleeping?model=small", "", http.StatusOK, "true")
		r.expect("POST", "/wake_up?tags=kv_cache&model=small", "", http.StatusOK)
		r.expect("POST", chat, ask, http.StatusOK)
		begin = time.Now()
		r.expect("POST", "/wake_up", "", http.StatusOK)
		if took := time.Since(begin); took != 20*time.Second {
			t.Errorf("waking from level 2 took %v, with a load of 20 s", took)
		}
		r.is("READY", "READY")
	})
}

// A model falls asleep and wakes in times of its own, and is slow to answer first after that.
func TestModelsHaveTimesOfTheirOwn(t *testing.T) {
	own := func(c *Config) {
		withModels(c)
		m := &c.Engines.Table.Models[0]
		m.Sleep, m.Wake, m.FirstAnswer = 300*time.Millisecond, 800*time.Millisecond, 2*time.Second
	}
	withRig(t, own, func(r *rig) {
		took := func(method, path, body string) time.Duration {
			begin := time.Now()
			r.expect(method, path, body, http.StatusOK)
			return time.Since(begin)
		}
		usual := took("POST", chat, ask)
		if d := took("POST", "/sleep?model=small", ""); d != 300*time.Millisecond {
			t.Errorf("a sleep of 300 ms took %v", d)
		}
		if d := took("POST", "/wake_up?model=small", ""); d != 800*time.Millisecond {
			t.Errorf("a wake of 800 ms took %v", d)
		}
		if first, next := took("POST", chat, ask), took("POST", chat, ask); first != usual+2*time.Second || next != usual {
			t.Errorf("the first answer took %v and the next %v; want %v and %v", first, next, usual+2*time.Second, usual)
		}
	})
}

// A second engine of a size, at another share of memory, has its replica's name, and memory for one of the two.
func TestTwoEnginesOfASize(t *testing.T) {
	two := func(c *Config) {
		withModels(c)
		c.Engines.Table.Replicas[1].Variant, c.Engines.Table.Replicas[1].Initial = 0, fleet.Warm
		c.Engines.Table.Replicas[1].Name, c.Memory = "wide@host", 3<<20
	}
	withRig(t, two, func(r *rig) {
		if s := r.states(); s["small"] != "READY" || s["wide"] != "UNAVAILABLE asleep at level 1" {
			t.Errorf("the states are %q", s)
		}
		r.expect("POST", "/wake_up?model=wide", "", http.StatusInsufficientStorage, "unload small")
		r.expect("POST", "/sleep?model=small", "", http.StatusOK)
		r.expect("POST", "/wake_up?model=wide", "", http.StatusOK)
		r.expect("POST", chat, strings.Replace(ask, "small", "wide", 1), http.StatusOK)
	})
}

func TestLoadFaults(t *testing.T) {
	died := 0
	withRig(t, func(c *Config) { withModels(c); c.Memory = 0; c.Die = func() { died++ } }, func(r *rig) {
		r.expect("POST", "/fault", "fail_loading", http.StatusOK)
		r.expect("POST", "/v2/repository/models/large/load", "", http.StatusBadRequest, "as its faults say")
		r.is("READY", "UNAVAILABLE the load fails, as its faults say")
		r.expect("POST", chat, ask, http.StatusOK)

		r.expect("POST", "/fault", "hang_loading", http.StatusOK)
		loaded := make(chan int)
		go func() {
			status, _, _ := r.do(r.t.Context(), "POST", "/v2/repository/models/large/load", "")
			loaded <- status
		}()
		time.Sleep(time.Hour)
		r.is("READY", "LOADING loading")
		r.expect("POST", chat, ask, http.StatusOK)
		r.expect("POST", "/v2/repository/models/large/unload", "", http.StatusOK)
		if status := <-loaded; status != http.StatusConflict {
			t.Errorf("the load that hung ended with %d", status)
		}
		r.is("READY", "UNAVAILABLE an unload has cancelled the load")

		r.expect("POST", "/fault", "die_loading,no_sleep", http.StatusOK, "die_loading,no_sleep")
		r.expect("POST", "/v2/repository/models/large/load", "", http.StatusBadRequest)
		if died != 1 {
			t.Errorf("the process has died %d times", died)
		}
		for method, path := range map[string]string{"POST": "/sleep", "GET": "/is_sleeping"} {
			r.expect(method, path, "", http.StatusNotFound, `"code":"unknown_url"`)
		}
		r.expect("POST", "/fault", "die_loading,hang_loading", http.StatusBadRequest, "one of them")
	})
}

// A table's warm replica is asleep at the start.
func TestWarmAtTheStart(t *testing.T) {
	withRig(t, func(c *Config) { withModels(c); c.Engines.Table.Replicas[1].Initial = fleet.Warm; c.Memory = 0 }, func(r *rig) {
		r.is("READY", "UNAVAILABLE asleep at level 1")
	})
}

// The endpoints that change models need the key.
func TestLifecycleNeedsTheKey(t *testing.T) {
	withRig(t, func(c *Config) { c.Key = "sesame" }, func(r *rig) {
		for _, path := range []string{"/v2/repository/index", "/v2/repository/models/small/load", "/v2/repository/models/small/unload", "/sleep", "/wake_up", "/v2/models/small/infer"} {
			r.expect("POST", path, "", http.StatusUnauthorized)
		}
		r.expect("GET", "/v2/health/live", "", http.StatusOK)
	})
}

package agents

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// Each dialect says what its engines are asked for an order.
func TestOrders(t *testing.T) {
	for _, c := range []struct {
		dialect string
		order   Order
		want    []string
	}{
		{"triton", Order{Verb: control.Load}, []string{`POST /v2/repository/models/org%2Fsmall/load {}`}},
		{"triton", Order{Verb: control.Unload}, []string{`POST /v2/repository/models/org%2Fsmall/unload {}`}},
		{"vllm", Order{Verb: control.Sleep, Level: 1}, []string{`POST /sleep?level=1&mode=wait `}},
		{"vllm", Order{Verb: control.Sleep, Level: 2}, []string{`POST /sleep?level=2&mode=wait `}},
		{"vllm", Order{Verb: control.Wake, Level: 1}, []string{`POST /wake_up `}},
		{"vllm", Order{Verb: control.Wake, Level: 2}, []string{
			`POST /wake_up?tags=weights `, `POST /collective_rpc {"method":"reload_weights"}`, `POST /wake_up?tags=kv_cache `}},
		{"ollama", Order{Verb: control.Load}, []string{`POST /api/generate {"model":"org/small","keep_alive":-1,"stream":false}`}},
		{"ollama", Order{Verb: control.Unload}, []string{`POST /api/generate {"model":"org/small","keep_alive":0,"stream":false}`}},
		{"gearshift", Order{Verb: control.Load}, []string{`POST /v2/repository/models/org%2Fsmall/load {}`}},
		{"gearshift", Order{Verb: control.Sleep, Level: 2}, []string{`POST /sleep?level=2&mode=wait&model=org%2Fsmall `}},
		{"gearshift", Order{Verb: control.Wake, Level: 2}, []string{`POST /wake_up?model=org%2Fsmall `}},
	} {
		e := &engine{handler: says(http.StatusOK, `{"done":true}`)}
		if err := dialects[c.dialect].Do(t.Context(), e, "org/small", c.order); err != nil {
			t.Errorf("%s, %v: %v", c.dialect, c.order, err)
		}
		if got := e.all(); !slices.Equal(got, c.want) {
			t.Errorf("%s, %v: asked %q, want %q", c.dialect, c.order, got, c.want)
		}
	}
}

// What a kind of engine cannot do is refused in its name, with what it can.
func TestRefusals(t *testing.T) {
	for _, c := range []struct {
		dialect string
		order   Order
		want    string
	}{
		{"triton", Order{Verb: control.Load}, ""},
		{"triton", Order{Verb: control.Unload}, ""},
		{"triton", Order{Verb: control.Sleep, Level: 1}, "triton cannot put a model to sleep; it can load and unload"},
		{"triton", Order{Verb: control.Wake}, "triton cannot put a model to sleep; it can load and unload"},
		{"triton", Order{Verb: control.Activate}, "triton cannot activate a model"},
		{"vllm", Order{Verb: control.Unload}, "vLLM cannot unload a model; it can sleep"},
		{"vllm", Order{Verb: control.Load}, "vLLM cannot load a model; it serves the one that it was started with, and can sleep and wake"},
		{"vllm", Order{Verb: control.Sleep, Level: 2}, ""},
		{"vllm", Order{Verb: control.Sleep, Level: 3}, "vLLM has no sleep level 3; want 1, which"},
		{"vllm", Order{Verb: control.Wake}, ""},
		{"gearshift", Order{Verb: control.Load}, ""},
		{"gearshift", Order{Verb: control.Sleep, Level: 1}, ""},
		{"gearshift", Order{Verb: control.Sleep, Level: 3}, "gearshift engine has no sleep level 3; want 1, which"},
		{"gearshift", Order{Verb: control.Wake}, ""},
		{"gearshift", Order{Verb: control.Activate}, "gearshift engine cannot activate a model"},
		{"ollama", Order{Verb: control.Sleep, Level: 1}, "ollama cannot put a model to sleep; it can load and unload"},
		{"ollama", Order{Verb: control.Unload}, ""},
		{"llamacpp", Order{Verb: control.Wake}, "llama.cpp cannot put a model to sleep; it can load and unload"},
		{"llamacpp", Order{Verb: control.Load}, ""},
		{"ollama", Order{Verb: control.Notify}, "ollama cannot notify a model"},
	} {
		err := dialects[c.dialect].Refuses(c.order)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s, %v: %v, want %q", c.dialect, c.order, err, c.want)
		}
	}
}

// States are read from what engines of each kind answer.
func TestStates(t *testing.T) {
	models := []string{"small", "large"}
	const index = `[{"name":"small","version":"1","state":"READY","reason":""},{"name":"large","version":"1","state":"%s","reason":"%s"}]`
	for _, c := range []struct {
		dialect, answer string
		want            []Reading
	}{
		{"triton", fmt.Sprintf(index, "UNAVAILABLE", "unloaded"), []Reading{{State: fleet.Up}, {State: fleet.Cold}}},
		{"triton", fmt.Sprintf(index, "LOADING", ""), []Reading{{State: fleet.Up}, {State: fleet.Loading}}},
		{"triton", fmt.Sprintf(index, "UNLOADING", ""), []Reading{{State: fleet.Up}, {State: fleet.Draining}}},
		{"triton", fmt.Sprintf(index, "", ""), []Reading{{State: fleet.Up}, {State: fleet.Cold}}}, // never loaded
		{"triton", fmt.Sprintf(index, "UNAVAILABLE", `Internal:\nno such file`), []Reading{{State: fleet.Up}, {State: fleet.Cold, Note: "Internal: no such file"}}},
		{"triton", `[{"name":"small","version":"1","state":"UNAVAILABLE","reason":"unloaded"},{"name":"small","version":"2","state":"READY"}]`,
			[]Reading{{State: fleet.Up}, {State: fleet.Cold, Note: `the engine's repository has no model "large"`, unknown: true}}},
		{"vllm", `{"is_sleeping":true}`, []Reading{{State: fleet.Warm}, {State: fleet.Warm}}},
		{"vllm", `{"is_sleeping":false}`, []Reading{{State: fleet.Up}, {State: fleet.Up}}},
		{"ollama", `{"models":[{"name":"small:latest","model":"small:latest"}]}`, []Reading{{State: fleet.Up}, {State: fleet.Cold}}},
		{"ollama", `{"models":[{"name":"large:7b","model":"large:7b"}]}`, []Reading{{State: fleet.Cold}, {State: fleet.Cold}}},
		{"llamacpp", `{"data":[{"id":"small","status":{"value":"loaded","args":["llama-server"]}},{"id":"large","status":{"value":"unloaded","failed":true,"exit_code":1}}]}`,
			[]Reading{{State: fleet.Up}, {State: fleet.Cold, Note: "the last load failed, with exit code 1"}}},
		{"llamacpp", `{"data":[{"id":"small","status":{"value":"loading"}}]}`, []Reading{{State: fleet.Loading}, {State: fleet.Cold, Note: `the engine has no model "large"`, unknown: true}}},
		{"llamacpp", `{"data":[{"id":"small","status":{"value":"sleeping"}},{"id":"large","status":{"value":"unloaded"}}]}`, []Reading{{Note: "it sleeps until a request comes"}, {State: fleet.Cold}}},
		{"ollama", `{"models":null}`, []Reading{{State: fleet.Cold}, {State: fleet.Cold}}},
	} {
		got, err := dialects[c.dialect].States(t.Context(), &engine{handler: says(http.StatusOK, c.answer)}, models)
		if err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s, %s: %v, %v; want %v", c.dialect, c.answer, got, err, c.want)
		}
	}
}

// The index of a gearshift engine does not tell a model that sleeps from one that is not
// loaded: the sleep mode does.
func TestOwnStates(t *testing.T) {
	handler := http.NewServeMux()
	handler.Handle("POST /v2/repository/index", says(http.StatusOK, `[{"name":"up","state":"READY"},{"name":"asleep","state":"UNAVAILABLE"},{"name":"cold","state":"UNAVAILABLE"}]`))
	handler.HandleFunc("GET /is_sleeping", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"is_sleeping":%v}`, r.URL.Query().Get("model") == "asleep")
	})
	e := &engine{handler: handler}
	got, err := own{}.States(t.Context(), e, []string{"up", "asleep", "cold", "none"})
	want := []fleet.State{fleet.Up, fleet.Warm, fleet.Cold, fleet.Cold}
	for i := range want {
		if err != nil || got[i].State != want[i] {
			t.Fatalf("states %v, %v; want %v", got, err, want)
		}
	}
	if n := len(e.all()); n != 3 {
		t.Errorf("%d questions, want one for the index and one for each model that takes no requests", n)
	}
}

// What goes wrong is one line, in the engine's words where it has some.
func TestFaultsOfEngines(t *testing.T) {
	load, sleep := Order{Verb: control.Load}, Order{Verb: control.Sleep, Level: 1}
	for _, c := range []struct {
		dialect string
		order   Order
		status  int
		answer  string
		want    string
	}{
		{"triton", load, 400, `{"error":"failed to load 'small', no\n such file"}`, "the engine answers 400: failed to load 'small', no such file"},
		{"triton", load, 500, `<html>oops</html>`, "the engine answers 500 Internal Server Error"},
		{"triton", load, 404, `404 page not found`, "the engine has no model repository API"},
		{"triton", load, 404, `{"error":{"message":"no model small in the repository"}}`, "the engine answers 404: no model small in the repository"},
		{"triton", load, 503, strings.Repeat("x", 1000), "the engine answers 503: " + strings.Repeat("x", maxWords) + "…"},
		{"vllm", sleep, 404, `{"detail":"Not Found"}`, "the engine does not know sleep: start vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1"},
		{"vllm", sleep, 404, `{"error":{"message":"there is no POST /sleep","code":"unknown_url"}}`, "the engine does not know sleep"},
		{"vllm", sleep, 500, `{"error":{"message":"out of memory"}}`, "the engine answers 500: out of memory"},
		{"ollama", load, 404, `{"error":"model 'small' not found"}`, "the engine answers 404: model 'small' not found"},
		{"ollama", load, 404, `404 page not found`, "the engine has no /api/generate: it is no Ollama"},
		{"ollama", load, 200, `{"error":"llama runner process has terminated"}`, "the engine says: llama runner process has terminated"},
		{"ollama", load, 200, `hello`, "the engine's answer to POST /api/generate is not what the protocol says: "},
	} {
		err := dialects[c.dialect].Do(t.Context(), &engine{handler: says(c.status, c.answer)}, "small", c.order)
		if err == nil || !strings.HasPrefix(err.Error(), c.want) || strings.ContainsAny(err.Error(), "\n\r") {
			t.Errorf("%s, %d %s: %v, want %q", c.dialect, c.status, c.answer, err, c.want)
		}
	}
}

// An engine that does not answer the question for its states, or that is gone, is no
// engine in some state.
func TestNoStates(t *testing.T) {
	for name, want := range map[string]string{"triton": "the engine has no model repository API", "vllm": "the engine does not know sleep", "ollama": "the engine has no /api/ps"} {
		readings, err := dialects[name].States(t.Context(), &engine{handler: http.NotFoundHandler()}, []string{"small"})
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, %v; want %q", name, readings, err, want)
		}
		readings, err = dialects[name].States(t.Context(), &engine{err: errors.New("connection refused")}, []string{"small"})
		if err == nil || err.Error() != "the engine is gone: connection refused" {
			t.Errorf("%s: %v, %v; want that it is gone", name, readings, err)
		}
		ctx, cancel := context.WithDeadlineCause(t.Context(), longAgo, nil)
		readings, err = dialects[name].States(ctx, &engine{err: context.DeadlineExceeded}, []string{"small"})
		cancel()
		if err == nil || err.Error() != "the engine has not answered in time" {
			t.Errorf("%s: %v, %v; want that it was too slow", name, readings, err)
		}
	}
	if _, err := dialects["vllm"].States(t.Context(), &engine{handler: says(200, `{}`)}, []string{"small"}); err == nil {
		t.Error("no error of an answer that does not say whether the engine sleeps")
	}
}

var longAgo = time.Unix(0, 0)

func TestDialectNamed(t *testing.T) {
	if _, err := DialectNamed("tgi"); err == nil || err.Error() != `unknown dialect "tgi"; want gearshift, llamacpp, ollama, triton, vllm` {
		t.Errorf("error %v", err)
	}
	if d, err := DialectNamed(""); d != nil || err != nil {
		t.Errorf("no name: %v, %v", d, err)
	}
	for _, name := range Dialects() {
		if d, err := DialectNamed(name); d == nil || err != nil {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

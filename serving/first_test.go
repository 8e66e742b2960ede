package serving_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

// A class gets its size first under load: by its name, by its task, and after a reload.
func TestAClassGetsItsSizeFirst(t *testing.T) {
	first := &config.First{Variant: "small", From: 0.5}
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.Classes = []config.Class{{Name: "interactive"}, {Name: "batch", Tasks: []string{"copy"}, First: first}}
	})
	if err := g.core.SetPolicy(chooses(large)); err != nil {
		t.Fatal(err)
	}
	pinned := strings.Replace(ask, "auto", "large", 1)
	for _, c := range []struct {
		name            string
		load            float32
		body            string
		header          []string
		variant, policy string
	}{
		{"no class, no load", 0, ask, nil, "large", "wants@3"},
		{"no class, under load", 1, ask, nil, "large", "wants@3"},
		{"its class, below the load", 0.4, ask, []string{objective, "batch"}, "large", "wants@3"},
		{"its class", 0.5, ask, []string{objective, "batch"}, "small", "class"},
		{"the older name of the header", 0.5, ask, []string{"x-gateway-inference-objective", "batch"}, "small", "class"},
		{"the newer name counts", 0.5, ask, []string{objective, "interactive", "x-gateway-inference-objective", "batch"}, "large", "wants@3"},
		{"by its task", 0.9, ask, []string{"x-gearshift-task", "copy"}, "small", "class"},
		{"by its task, of another class by name", 0.9, ask, []string{"x-gearshift-task", "copy", objective, "interactive"}, "large", "wants@3"},
		{"of a higher quality", 0.9, ask, []string{objective, "batch", "x-gearshift-min-quality", "1"}, "large", "wants@3"},
		{"for a size by name", 0.9, pinned, []string{objective, "batch"}, "large", "pinned"},
	} {
		g.core.Ledger().SetBusy([]float32{c.load, c.load})
		w := g.do("POST", chat, c.body, append(c.header, "x-gearshift-explain", "1")...)
		h := w.Header()
		if w.Code != http.StatusOK || h.Get("X-Gearshift-Variant") != c.variant || h.Get("X-Gearshift-Policy") != c.policy || h.Get("X-Gearshift-Fallback") != "" {
			t.Errorf("%s: status %d, %s by %s; want %s by %s", c.name, w.Code, h.Get("X-Gearshift-Variant"), h.Get("X-Gearshift-Policy"), c.variant, c.policy)
		}
		if why := h.Get("X-Gearshift-Explain"); strings.Contains(why, `"why":"the class gets this size first`) != (c.policy == "class") {
			t.Errorf("%s: explained as %s", c.name, why)
		}
	}
	if got := g.counted("gearshift_choices_total"); !strings.Contains(strings.Join(got, "\n"), `gearshift_choices_total{policy="class",task="copy",variant="small",version=""} 1`) {
		t.Errorf("counted %v", got)
	}
}

func TestReloadOfTheSizeThatAClassGetsFirst(t *testing.T) {
	w := &ward{}
	c := newRig(t, says(http.StatusOK, jsonType, fine), withReloader(w), func(o *serving.Options) {
		o.Config.Classes = []config.Class{{Name: "batch"}}
	})
	reload := func(f func(*config.Config)) {
		t.Helper()
		f(&w.change.Config)
		if out, err := c.Reload("test"); err != nil || len(out.NeedRestart) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
	if err := c.core.SetPolicy(chooses(small)); err != nil {
		t.Fatal(err)
	}
	c.core.Ledger().SetBusy([]float32{0.6, 0.6})
	want := func(variant string) {
		t.Helper()
		if w := c.do("POST", chat, ask); w.Header().Get("X-Gearshift-Variant") != variant {
			t.Errorf("answered by %s, want %s", w.Header().Get("X-Gearshift-Variant"), variant)
		}
	}
	if want("small"); c.Prefers() {
		t.Error("no class gets a size first")
	}
	reload(func(f *config.Config) {
		f.Classes = []config.Class{{Name: "batch", First: &config.First{Variant: "large", From: 0.5}}}
	})
	if want("large"); !c.Prefers() {
		t.Error("a class gets a size first")
	}
	reload(func(f *config.Config) {
		f.Classes = []config.Class{{Name: "batch", First: &config.First{Variant: "large", From: 0.7}}}
	})
	want("small")
}

// A class's size or task that the fleet does not have is refused, by its key.
func TestClassesAreHeldAgainstTheFleet(t *testing.T) {
	for want, class := range map[string]config.Class{
		`classes[0].first.variant: there is no variant "tiny"; there are small, large`: {Name: "a", First: &config.First{Variant: "tiny"}},
		`classes[0].tasks[0]: there is no task "sing"; there are chat, copy`:           {Name: "a", Tasks: []string{"sing"}},
		`classes[0].first.from: 1.5 must be a load from 0 to 1`:                        {Name: "a", First: &config.First{Variant: "small", From: 1.5}},
		`classes[0].first.variant: is missing`:                                         {Name: "a", First: &config.First{From: 0.5}},
	} {
		o := serving.Options{Config: openConfig(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
		o.Config.Classes = []config.Class{class}
		if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A gateway's header replaces the model's name in the body, and the engine gets its own.
func TestAHeaderReplacesTheModelsName(t *testing.T) {
	var asked []string
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		body, _ := io.ReadAll(r.Body)
		asked = append(asked, string(body))
		return says(http.StatusOK, jsonType, fine)(r)
	}))
	other := strings.Replace(ask, "auto", "food-review", 1)
	for _, c := range []struct {
		body   string
		header []string
		want   string
	}{
		{other, []string{"x-llm-d-model-name-rewrite", "large"}, "large"},
		{other, []string{"x-gateway-model-name-rewrite", "large"}, "large"},
		{ask, []string{"x-llm-d-model-name-rewrite", "large", "x-gateway-model-name-rewrite", "small"}, "large"},
		{strings.Replace(ask, "auto", "large", 1), []string{"x-llm-d-model-name-rewrite", "auto"}, "small"},
		{strings.Replace(ask, "auto", "small", 1), []string{"x-llm-d-model-name-rewrite", "small"}, "small"},
	} {
		w := g.do("POST", chat, c.body, c.header...)
		if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Variant") != c.want {
			t.Errorf("%v: status %d, %s; want %s", c.header, w.Code, w.Header().Get("X-Gearshift-Variant"), c.want)
			continue
		}
		if last := asked[len(asked)-1]; !strings.Contains(last, `"model":"`+c.want+`"`) {
			t.Errorf("%v: the engine is asked %s, want model %s", c.header, last, c.want)
		}
	}
	w := g.do("POST", chat, ask, "x-llm-d-model-name-rewrite", "nothing-like-it")
	if _, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || code != "model_not_found" || param != "model" {
		t.Errorf("an unknown name: status %d, %s", w.Code, w.Body)
	}
	if w := g.do("POST", chat, `{"messages":[]}`, "x-llm-d-model-name-rewrite", "large"); w.Code != http.StatusBadRequest {
		t.Errorf("a body without a model: status %d", w.Code)
	}
}

// Where no header is configured for the tenant, llm-d's names it too.
func TestTheTenantIsThatOfAGateway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, header := range []string{"x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"} {
			for configured, want := range map[string]string{"x-gearshift-tenant": "before a1 b1 a2", "x-team": "before a1 a2 b1", "": "before a1 a2 b1"} {
				c := overloaded(t, lasting(time.Second), patient, func(o *serving.Options) { o.Config.Overload.TenantHeader = configured })
				c.send(t.Context(), "before")
				for _, name := range []string{"a1", "a2", "b1"} {
					c.send(t.Context(), name, header, name[:1])
				}
				if c.all.Wait(); strings.Join(c.finished, " ") != want {
					t.Errorf("%s with tenant_header %q: served %v, want %s", header, configured, c.finished, want)
				}
			}
		}
	})
}

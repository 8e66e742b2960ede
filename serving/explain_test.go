package serving_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/overview"
)

// valued is a policy that tells what it thinks of the variants.
type valued struct{ chooses }

func (valued) Explain(*fleet.View, *fleet.Request, []float32) ([]float32, string) {
	return []float32{0.25, 0.75}, "the highest value"
}

// forecasts foretell half the deadline on the first replica, and so on.
type forecasts struct{}

func (forecasts) Forecast(v *fleet.View, _ *fleet.Request) {
	v.Forecasts = v.Forecasts[:0]
	for i := range v.Table.Replicas {
		v.Forecasts = append(v.Forecasts, fleet.Forecast{Pace: float64(i+1) / 2, Misses: 0.125})
	}
}

func explanation(t *testing.T, w *httptest.ResponseRecorder) overview.Explanation {
	t.Helper()
	var e overview.Explanation
	if err := json.Unmarshal([]byte(w.Header().Get("X-Gearshift-Explain")), &e); err != nil {
		t.Fatalf("status %d, %q: %v", w.Code, w.Header().Get("X-Gearshift-Explain"), err)
	}
	return e
}

func TestExplanations(t *testing.T) {
	var core *router.Core
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		var err error
		if core, err = router.New(router.Config{
			Ledger: fleet.NewLedger(testTable(t)), Fallback: fallback{}, Balancer: emptiest{}, Forecaster: forecasts{},
		}); err != nil {
			t.Fatal(err)
		}
		if err := core.SetPolicy(valued{chooses(large)}); err != nil {
			t.Fatal(err)
		}
		o.Router = core
	})
	if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Explain") != "" {
		t.Error("an explanation that nobody asked for")
	}
	core.Ledger().SetUp(smallOnA, false)
	lease, _ := core.Ledger().Begin(smallOnB, 0)
	defer lease.End()
	e := explanation(t, g.do("POST", chat, ask, "x-gearshift-explain", "1", "x-llm-d-slo-tpot-ms", "20"))
	if e.Variant != "large" || e.Replica != "large@a" || e.Policy != "wants@3" || e.Why != "the highest value" || e.Task != "chat" ||
		e.DeadlineMS != 20 || e.InFlight != 1 || len(e.Alternatives) != 2 {
		t.Errorf("explained %+v", e)
	}
	// The first replica is down, so the second is what the small ones have to offer.
	small := e.Alternatives[0]
	if !small.Available || small.InFlight != 1 || small.Quality != 0.5 || *small.PaceMS != 20 || *small.Misses != 0.125 || *small.Value != 0.25 || small.KVUse != nil {
		t.Errorf("of the small %+v", small)
	}
	if e = explanation(t, g.do("POST", chat, strings.Replace(ask, "auto", "small", 1), "x-gearshift-explain", "1")); e.Policy != "pinned" || e.Why != "" || e.Alternatives[0].Value != nil {
		t.Errorf("of a pinned variant %+v", e)
	}
	core.Ledger().SetUp(largeA, false)
	if e = explanation(t, g.do("POST", chat, ask, "x-gearshift-explain", "1")); e.Fallback == "" || e.Policy != "first" || e.Alternatives[1].Available || e.Alternatives[1].PaceMS != nil {
		t.Errorf("of a fallback %+v", e)
	}
}

// However many variants there are and whatever their names, the header stays small
// and plain.
func TestExplanationsAreBounded(t *testing.T) {
	const n = 400
	task := fleet.Task{Name: "größe-大-🙂", Deadline: time.Second, Weight: 1, Quality: make([]float64, n)}
	var variants []fleet.Variant
	var replicas []fleet.Replica
	for i := range n {
		variants = append(variants, fleet.Variant{Name: fmt.Sprintf("größe-%d", i)})
		replicas = append(replicas, fleet.Replica{Name: fmt.Sprintf("r%d", i), Variant: i})
	}
	table, err := fleet.NewTable([]fleet.Task{task}, variants, []fleet.Host{{Name: "a"}}, replicas)
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
		if err != nil {
			t.Fatal(err)
		}
		o.Router = core
		for len(o.Backends) < n {
			o.Backends = append(o.Backends, o.Backends[0])
		}
	})
	w := g.do("POST", chat, ask, "x-gearshift-explain", "1")
	text := w.Header().Get("X-Gearshift-Explain")
	for _, b := range []byte(text) {
		if b < ' ' || b > '~' {
			t.Fatalf("byte %d in the header", b)
		}
	}
	if e := explanation(t, w); len(text) > 4096 || len(e.Alternatives) < 10 || len(e.Alternatives)+e.Omitted != n || e.Task != task.Name || e.Variant != "größe-0" {
		t.Errorf("%d bytes, %d alternatives, %d omitted, task %q", len(text), len(e.Alternatives), e.Omitted, e.Task)
	}
}

package serving_test

import (
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/experience"
	"gearshift/serving/work"
)

// logging makes a rig log what it routes; the function returned ends the log and
// reads it.
func logging(t *testing.T, change func(*experience.Config)) (func(*serving.Options), func() *experience.Log) {
	t.Helper()
	c := experience.DefaultConfig()
	c.Path = filepath.Join(t.TempDir(), "experience.jsonl")
	if change != nil {
		change(&c)
	}
	store, err := experience.New(c, experience.NewHeader(testTable(t)), nil)
	if err == nil {
		err = store.Begin()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return func(o *serving.Options) {
			recorder := experience.NewRecorder(o.Router, store)
			o.Router, o.Modules = recorder, append(o.Modules, serving.Parts{Metrics: recorder.Metrics(), Watcher: recorder})
		}, func() *experience.Log {
			if err := store.Close(); err != nil {
				t.Fatal(err)
			}
			log, err := experience.Load(c.Path)
			if err != nil {
				t.Fatal(err)
			}
			return log
		}
}

// A row tells the decision and what came of it, and none of the words.
func TestRequestsAreRecorded(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, says(200, jsonType, fine), with)
	busy, _ := g.core.Ledger().Begin(smallOnA, 0)
	g.do("POST", chat, ask, "x-gearshift-task", "copy", "x-llm-d-slo-tpot-ms", "70000")
	busy.End()
	g.do("POST", chat, strings.Replace(ask, "auto", "large", 1))
	rows := read().Runs[0].Rows
	if text := g.do("GET", "/metrics", "").Body.String(); !strings.Contains(text, `gearshift_experience_rows_total{result="written"} 2`) {
		t.Errorf("the metrics do not count two rows")
	}
	if len(rows) != 2 {
		t.Fatalf("%d rows", len(rows))
	}
	a, b := rows[0], rows[1]
	if a.Request.ID != 1 || a.Decision != 1 || b.Decision != 2 || a.Request.Task != 1 || a.Request.Deadline != 70*time.Second || a.Request.PromptTokens < 1 {
		t.Errorf("request %+v", a.Request)
	}
	if a.View.InFlight[smallOnA] != 1 || a.View.InFlight[smallOnB] != 0 || a.View.Now != a.Request.Arrival {
		t.Errorf("view %+v, which is to be that before the choice", a.View)
	}
	if a.Variant != small || a.Replica != smallOnB || a.Policy != "wants@3" || a.Propensity != 1 || a.Pinned {
		t.Errorf("choice %+v", a)
	}
	if a.Outcome != experience.Completed || a.OutputTokens != 4 || !a.Judged || !a.Met || a.Utility != 1.5 ||
		a.Latency <= 0 || a.PerToken != a.Latency/4 || a.EndReplica != smallOnB {
		t.Errorf("end %+v", a)
	}
	if !b.Pinned || b.Propensity != 0 || b.Variant != large {
		t.Errorf("a pinned request: %+v", b)
	}
}

// Rows are used again, and hold nothing of what they held before.
func TestRowsOfPinnedRequestsHaveNoPropensity(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, says(200, jsonType, fine), with)
	for range 200 {
		g.do("POST", chat, ask)
		g.do("POST", chat, strings.Replace(ask, "auto", "large", 1))
	}
	for i, row := range read().Runs[0].Rows {
		if pinned := i%2 == 1; row.Pinned != pinned || (row.Propensity == 0) != pinned {
			t.Fatalf("row %d: %+v", i, row)
		}
	}
}

// Work that fails or is moved is recorded too; what is not placed is not.
func TestWhatBecomesOfWorkIsRecorded(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, says(500, jsonType, `{}`), with)
	if err := g.core.Try(chooses(large), 0.75); err != nil {
		t.Fatal(err)
	}
	g.do("POST", chat, ask)
	for i := range 3 { // two places each on three replicas
		g.core.Ledger().SetUp(i, false)
	}
	g.do("POST", chat, ask)
	rows := read().Runs[0].Rows
	if len(rows) != 1 || rows[0].Outcome != "failed" || rows[0].Utility != 0 || !rows[0].Judged || rows[0].Met {
		t.Errorf("%+v", rows)
	}
	if want := map[int]float64{large: 0.75, small: 0.25}[rows[0].Variant]; rows[0].Propensity != want {
		t.Errorf("variant %d with propensity %v, want %v", rows[0].Variant, rows[0].Propensity, want)
	}
}

// Of work that is moved, both the choice and where it ended are kept.
func TestMovedWorkIsRecorded(t *testing.T) {
	with, read := logging(t, nil)
	dead := transport(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	})
	g := newRig(t, says(200, jsonType, fine), with, func(o *serving.Options) { o.Backends[smallOnA].Transport = dead })
	g.do("POST", chat, ask)
	rows := read().Runs[0].Rows
	if len(rows) != 1 || rows[0].Replica != smallOnA || rows[0].EndReplica != smallOnB || rows[0].Outcome != experience.Completed {
		t.Errorf("%+v", rows)
	}
}

// observer counts what it is shown.
type observer struct{ seen, asked int }

func (w *observer) Observe(*fleet.View, router.Choice)   { w.seen++ }
func (w *observer) ObserveExplanation([]float32, string) { w.asked++ }

// instant chooses without any cost of its own.
type instant struct{ work.Router }

func (instant) Route(_ int, _ *fleet.Request, _ time.Duration, w router.Observer) (router.Choice, error) {
	if q, ok := w.(interface{ ObserveExplanation([]float32, string) }); ok {
		q.ObserveExplanation(nil, "")
	}
	w.Observe(&fleet.View{}, router.Choice{})
	return router.Choice{}, nil
}

// A request that is not sampled costs no memory, and every observer sees its own.
func TestRecorderCost(t *testing.T) {
	none, read := logging(t, func(c *experience.Config) { c.Sample = 1e-12 })
	plain := instant{testRouter(t, nil)}
	recorded := &serving.Options{Router: plain}
	none(recorded)
	w := &observer{}
	route := func(r work.Router) func() {
		return func() {
			if _, err := r.Route(work.Auto, &fleet.Request{ID: 7}, time.Second, w); err != nil {
				t.Fatal(err)
			}
		}
	}
	want, got := testing.AllocsPerRun(100, route(plain)), testing.AllocsPerRun(100, route(recorded.Router))
	if got > want {
		t.Errorf("%v allocations with a recorder, %v without", got, want)
	}
	if w.seen != 202 {
		t.Errorf("the observer has seen %d choices of 202", w.seen)
	}
	all, _ := logging(t, nil)
	sampled := &serving.Options{Router: plain}
	all(sampled)
	route(sampled.Router)()
	if w.seen != 203 || w.asked != 203 {
		t.Error("the observer does not see a request that is recorded, or hear the reasons")
	}
	if n := read().Len(); n != 0 {
		t.Errorf("%d rows of requests that are not sampled", n)
	}
}

// Many at once are all recorded, each once.
func TestRecorderAtOnce(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, says(200, jsonType, fine), with)
	const n = 200
	ended := make(chan struct{}, n)
	for range n {
		go func() {
			for g.do("POST", chat, ask).Code != 200 { // full: again
			}
			ended <- struct{}{}
		}()
	}
	for range n {
		<-ended
	}
	if rows := read().Len(); rows != n {
		t.Errorf("%d rows of %d requests", rows, n)
	}
}

func TestExperienceFaults(t *testing.T) {
	c := config.Default()
	c.Experience.Sample, c.Experience.Buffer = 2, 0
	err := fmt.Sprint(c.Validate())
	for _, key := range []string{"experience.sample: 2", "experience.buffer: 0"} {
		if !strings.Contains(err, key) {
			t.Errorf("%q is not in %s", key, err)
		}
	}
	if work.Completed.String() != experience.Completed {
		t.Error("a completed request goes by two names")
	}
}

// Policies are steered and reloaded while their requests are logged.
func TestPoliciesAreSteeredBesideARecorder(t *testing.T) {
	with, read := logging(t, nil)
	w := &ward{policies: candidates()}
	g := newRig(t, says(200, jsonType, fine), withToken, withReloader(w), with)
	g.obeys(t, "canary", `{"policy":"next","share":1}`)
	g.do("POST", chat, ask)
	g.obeys(t, "promote", "")
	if p := g.policies(t); p.InCharge != "next@4" || p.Trial != nil {
		t.Errorf("%+v", p)
	}
	if rows := read().Runs[0].Rows; len(rows) != 1 || rows[0].Policy != "next@4" {
		t.Errorf("rows %+v", rows)
	}
}

// The log says which outcomes clients told of their leases.
func TestToldOutcomesAreMarkedInTheLog(t *testing.T) {
	with, read := logging(t, nil)
	g := newRig(t, says(200, jsonType, fine), with)
	r := g.route(t, `{"prompt_tokens":3}`)
	g.do("POST", routePath+"/"+r.Lease+"/end", `{"output_tokens":5}`)
	g.do("POST", chat, ask)
	rows := read().Runs[0].Rows
	if len(rows) != 2 || !rows[0].Reported || rows[0].Known() || rows[0].OutputTokens != 5 || rows[1].Reported || !rows[1].Known() {
		t.Errorf("rows %+v", rows)
	}
}

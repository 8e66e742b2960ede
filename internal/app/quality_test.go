package app

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router/quality"
	"gearshift/serving"
	"gearshift/workloads"
)

// fitted is a predictor in the store's form, with scores of these models.
func fitted(t *testing.T, seed uint64, columns ...string) []byte {
	t.Helper()
	var f quality.Features
	var examples []quality.Example
	for i := range 40 {
		f.Read(&quality.Prompt{Parts: [][]byte{fmt.Appendf(nil, "prompt of seed %d with number %d", seed, i)}}, 1)
		examples = append(examples, quality.Example{Sample: f.Clone(), Scores: []float32{float32(i % 2), 1}})
	}
	m, _, err := quality.Fit(examples, columns, quality.Options{Key: 1})
	if err != nil {
		t.Fatal(err)
	}
	return m.Encode()
}

// predicted is a router for tiny with a predictor of the name, as serve has it.
type predicted struct {
	*qualities
	server   *serving.Server
	reloader *Reloader
	store    *checkpoints.Predictors
	logs     bytes.Buffer
	dir      string
	file     string
}

func newPredicted(t *testing.T) *predicted {
	t.Helper()
	dir := t.TempDir()
	(&predicted{file: filepath.Join(dir, "mine.yaml")}).write(t, "mine")
	return newPredictedIn(t, dir)
}

// start makes the router.
func (p *predicted) start(t *testing.T) {
	t.Helper()
	s, err := scenario.Load(p.file)
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: p.file, Store: filepath.Join(p.dir, "store.db"), Policy: "static:small", Engine: onnxruntime.Native}
	x := assembly{o: o, s: s, config: o.config(s), log: slog.New(slog.NewTextHandler(&p.logs, nil)), backends: NewBackends, adminToken: "asked-for-by-nobody"}
	t.Cleanup(x.close)
	if key, err := x.assemble(); err != nil {
		t.Fatal(key, err)
	}
	p.server, p.reloader = x.server, x.routing
	for _, m := range x.options.Modules {
		if q, ok := m.(*qualities); ok {
			p.qualities = q
		}
	}
}

// write has the scenario name the predictor.
func (p *predicted) write(t *testing.T, predictor string) {
	t.Helper()
	text, err := workloads.Scenario("tiny")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(p.file, append(text, "\nquality: {predictor: "+predictor+"}\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
}

// put stores a predictor, and returns the version.
func (p *predicted) put(t *testing.T, data []byte) int {
	t.Helper()
	version, _, err := p.store.Put("mine", data, checkpoints.Predictor{}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	return version
}

// check reloads, and compares what is in charge, and whether a fault of it is reported.
func (p *predicted) check(t *testing.T, when, want string, fault bool) {
	t.Helper()
	if _, err := p.server.Reload("test"); err != nil {
		t.Fatal(err)
	}
	r, got := p.predictors.Report(), ""
	if r.InCharge != nil {
		got = r.InCharge.Predictor
	}
	if got != want || (r.Fault != "") != fault {
		t.Errorf("%s: %q is in charge, want %q; fault %q", when, got, want, r.Fault)
	}
}

// A predictor that is missing, broken or made for other models never predicts, and the last good one
// stays.
func TestThePredictorOfTheScenario(t *testing.T) {
	p := newPredicted(t)
	p.check(t, "without a store", "", true)
	if !strings.Contains(p.logs.String(), "cannot predict quality: the qualities of tasks decide") {
		t.Errorf("the log says %s", p.logs.String())
	}
	p.put(t, fitted(t, 1, "small", "large"))
	p.check(t, "once there is one", "mine@1", false)
	p.put(t, fitted(t, 2, "small", "large"))
	p.check(t, "once there is a newer one", "mine@2", false)
	if err := p.store.Promote("mine", 1, "test"); err != nil {
		t.Fatal(err)
	}
	p.check(t, "once the first is in production", "mine@1", false)
	for _, bad := range [][]byte{fitted(t, 3, "a", "b"), []byte("nothing")} {
		version := p.put(t, bad)
		if err := p.store.Promote("mine", version, "test"); err != nil {
			t.Fatal(err)
		}
		p.check(t, "once a bad one is in production", "mine@1", true)
	}
	if !strings.Contains(p.logs.String(), "mine@1 stays in charge") {
		t.Errorf("the log says %s", p.logs.String())
	}
	p.write(t, "mine@2")
	p.check(t, "once the scenario names another version", "mine@2", false)
	store := p.qualities.store.source.Store
	path := store.Path
	store.Path += ".gone"
	p.check(t, "once the store cannot be found", "mine@2", true)
	store.Path = path
	p.check(t, "once it is back", "mine@2", false)
	p.write(t, "''")
	p.check(t, "once the scenario names none", "", false)
}

// A scenario with labelled prompts can have a predictor fitted to them, and goes on without one where it has
// none.
func TestAPredictorFittedToTheScenariosPrompts(t *testing.T) {
	p := newPredicted(t)
	p.put(t, fitted(t, 1, "small", "large"))
	var labels []byte
	for i := range 200 {
		labels = fmt.Appendf(labels, "{\"prompt\": \"what is %d and %d\", \"scores\": {\"small\": %d, \"large\": 1}}\n", i, i*i, i%2)
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(p.file), "labels.jsonl"), labels, 0o600); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	text = bytes.Replace(text, []byte("workload:\n"), []byte("workload:\n  prompts: labels.jsonl\n"), 1)
	text = bytes.Replace(text, []byte("predictor: mine"), []byte("predictor: fit"), 1)
	if err := os.WriteFile(p.file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scenario.Load(p.file)
	if err != nil {
		t.Fatal(err)
	}
	q := newQualities(s, p.reloader)
	if in := q.predictors.InCharge(); in == nil || in.Name != "fit" || in.Digest == "" || in.Regression().Labels() < 50 {
		t.Errorf("%+v is in charge; %+v", in, q.predictors.Report())
	}
}

func TestOrdersAboutPredictors(t *testing.T) {
	p := newPredicted(t)
	p.put(t, fitted(t, 1, "small", "large"))
	p.put(t, fitted(t, 2, "small", "large"))
	if err := p.store.Promote("mine", 1, "test"); err != nil {
		t.Fatal(err)
	}
	p.check(t, "at first", "mine@1", false)
	order := func(order, ref string, share float64, reason, fault string) {
		t.Helper()
		if _, err := p.order(order, ref, share, reason); fault == "" && err != nil || fault != "" && (err == nil || !strings.Contains(err.Error(), fault)) {
			t.Errorf("%s %s: %v, want %q", order, ref, err, fault)
		}
	}
	order("end", "", 0, "", "no predictor is on trial")
	order("rollback", "", 0, "", "none was in charge before")
	order("canary", "mine", 0, "", "share 0; want a part of the requests")
	order("canary", "other", 0.5, "", "other")
	order("stop", "", 0, "", "there are shadow, canary, end, promote and rollback")
	order("shadow", "mine", 0, "", "")
	if r := p.predictors.Report(); r.Trial == nil || r.Trial.Predictor != "mine@2" || r.Trial.State != "shadow" {
		t.Errorf("%+v is on trial", r.Trial)
	}
	order("canary", "", 0.25, "", "")
	if r := p.predictors.Report(); r.Trial == nil || r.Trial.Share != 0.25 || r.InCharge.Share != 0.75 {
		t.Errorf("%+v is on trial beside %+v", r.Trial, r.InCharge)
	}
	order("promote", "", 0, "", "it has no report")
	order("promote", "", 0, "it is better", "")
	p.check(t, "once the one on trial is promoted", "mine@2", false)
	if ref, err := p.store.Production(); err != nil || ref.Version != 2 {
		t.Errorf("%v is in production, %v", ref, err)
	}
	order("rollback", "", 0, "", "")
	p.check(t, "once that is rolled back", "mine@1", false)
	if ref, err := p.store.Production(); err != nil || ref.Version != 1 {
		t.Errorf("%v is in production, %v", ref, err)
	}
	if r := p.predictors.Report(); r.Trial != nil || r.Earlier != "" {
		t.Errorf("on trial %+v, earlier %q", r.Trial, r.Earlier)
	}
}

package dashboard_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/admin/overview"
	"gearshift/serving/config"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// always is a policy, and the balancer of its one replica.
type always struct{}

func (always) Name() string { return "always@1" }
func (always) Scratch() int { return 0 }
func (always) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	if v.VariantAvailable(0) {
		return 0
	}
	return -1
}
func (always) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	return v.ReplicasOf(variant)[0]
}

// upstream answers with a status.
type upstream struct{ status int }

const answer = `{"choices":[{"message":{"content":"a b"}}],"usage":{"completion_tokens":2}}`

func (u *upstream) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: u.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), ContentLength: int64(len(answer)),
	}, nil
}

// rig is a server with a dashboard, whose clock the test moves.
type rig struct {
	*serving.Server
	upstream upstream
	now      time.Time
	page     *dashboard.Dashboard
	core     *router.Core
}

func newRig(t *testing.T, token string) *rig {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: time.Hour, Weight: 1, Quality: []float64{0.5}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a", KVTokens: 100}})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{upstream: upstream{http.StatusOK}, now: time.Unix(1_000_000, 0)}
	if g.core, err = router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: always{}, Balancer: always{}}); err != nil {
		t.Fatal(err)
	}
	if err := g.core.SetPolicy(always{}); err != nil {
		t.Fatal(err)
	}
	g.page = dashboard.New(table, dashboard.About{Version: "1", Scenario: "test"}, func() time.Time { return g.now })
	config := config.Default()
	config.Retries.Max = 0
	g.Server, err = serving.New(serving.Options{
		Config: config, Router: g.core, Backends: []serving.Backend{{Transport: &g.upstream}}, Modules: []serving.Module{g.page}, AdminToken: token,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Close)
	return g
}

func (g *rig) ask(model string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(`{"model":"`+model+`","messages":[]}`))
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, r)
	return w
}

func (g *rig) admin(method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, "http://127.0.0.1:8081"+path, nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.AdminHandler().ServeHTTP(w, r)
	return w
}

// The page shows applications where there are some that survive their hosts.
func TestFailoverIsShown(t *testing.T) {
	g := newRig(t, "")
	if text := g.admin("GET", "/admin/dashboard").Body.String(); strings.Contains(text, `"failover"`) {
		t.Errorf("without failover: %s", text)
	}
	g.page.Failover = func() any { return map[string]int{"unrecovered": 3} }
	if text := g.admin("GET", "/admin/dashboard").Body.String(); !strings.Contains(text, `"failover":{"unrecovered":3}`) {
		t.Errorf("with failover: %s", text)
	}
}

// The page shows how busy the busiest hosts are, where somebody measures it.
func TestTheTailIsShown(t *testing.T) {
	g := newRig(t, "")
	if text := g.admin("GET", "/admin/dashboard").Body.String(); strings.Contains(text, `"tail"`) {
		t.Errorf("without a measurement: %s", text)
	}
	g.page.Tail = func() any { return map[string]float64{"top": 0.5} }
	if text := g.admin("GET", "/admin/dashboard").Body.String(); !strings.Contains(text, `"tail":{"top":0.5}`) {
		t.Errorf("with one: %s", text)
	}
}

// The page shows streaming clients, where there can be any.
func TestStreamsAreShown(t *testing.T) {
	g := newRig(t, "")
	if text := g.admin("GET", "/admin/dashboard").Body.String(); strings.Contains(text, `"streams"`) {
		t.Errorf("without streams: %s", text)
	}
	g.page.Streams = func() any { return map[string]int{"total": 3} }
	if text := g.admin("GET", "/admin/dashboard").Body.String(); !strings.Contains(text, `"streams":{"total":3}`) {
		t.Errorf("with streams: %s", text)
	}
}

// shown is what the page gets, as far as the tests look.
type shown struct {
	Boot    int64
	Status  overview.Status
	Seconds []struct {
		At                            int64
		Chosen                        []int
		Met, Missed, Failed, Rejected int
		Utility                       float64
	}
	Decisions []dashboard.Decision
	Revision  uint64
}

func (g *rig) data(t *testing.T, second int64, revision uint64) shown {
	t.Helper()
	var out shown
	query := url.Values{"second": {fmt.Sprint(second)}, "revision": {fmt.Sprint(revision)}}
	text, err := json.Marshal(g.page.Data(g.Status(), g.Policies(), query))
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestWhatThePageIsTold(t *testing.T) {
	g := newRig(t, "")
	if d := g.data(t, 0, 0); len(d.Seconds) != 0 || len(d.Decisions) != 0 || *d.Status.Replicas[0].KVUse != 0 {
		t.Errorf("before any request: %+v", d)
	}
	g.ask("auto")
	g.now = g.now.Add(2 * time.Second)
	g.ask("small")
	g.ask("huge") // refused: the client's own fault
	first := g.data(t, 0, 0)
	if len(first.Seconds) != 2 || first.Seconds[0].Chosen[0] != 1 || first.Seconds[1].Met != 1 || first.Seconds[1].Utility != 0.5 || first.Seconds[1].Rejected != 0 {
		t.Errorf("seconds %+v", first.Seconds)
	}
	if len(first.Decisions) != 2 {
		t.Fatalf("decisions %+v", first.Decisions)
	}
	d := first.Decisions[0]
	if d.Number != 1 || d.Variant != "small" || d.Host != "a" || d.Policy != "always@1" || d.Outcome != "completed" || d.Status != 200 || d.Tokens != 2 ||
		d.Met == nil || !*d.Met || d.Utility != 0.5 || d.DeadlineMS != 3.6e6 || d.Explanation == nil || len(d.Explanation.Alternatives) != 1 {
		t.Errorf("decision %+v, %+v", d, d.Explanation)
	}
	if first.Decisions[1].Policy != "pinned" || first.Decisions[1].Asked != "small" {
		t.Errorf("a pinned one: %+v", first.Decisions[1])
	}
	// Only what is new comes again.
	g.ask("auto")
	next := g.data(t, first.Seconds[1].At, first.Revision)
	if len(next.Seconds) != 1 || next.Seconds[0].Chosen[0] != 2 || len(next.Decisions) != 1 || next.Decisions[0].Number != 3 || next.Boot != first.Boot {
		t.Errorf("then %+v", next)
	}
}

func TestWhatIsLostIsShown(t *testing.T) {
	g := newRig(t, "")
	g.upstream.status = http.StatusInternalServerError
	g.ask("auto")
	g.core.Ledger().SetUp(0, false)
	if w := g.ask("auto"); w.Code != http.StatusServiceUnavailable {
		t.Fatal(w.Code, w.Body)
	}
	d := g.data(t, 0, 0)
	if s := d.Seconds[0]; s.Missed != 1 || s.Failed != 1 || s.Rejected != 1 || s.Utility != 0 {
		t.Errorf("second %+v", s)
	}
	if len(d.Decisions) != 2 || d.Decisions[0].Outcome != "failed" || d.Decisions[1].Outcome != "rejected" || d.Decisions[1].Code != "no_replica" || d.Decisions[1].Variant != "" {
		t.Errorf("decisions %+v", d.Decisions)
	}
}

// A request that is still under way has its row, which its end completes.
func TestDecisionsUnderWay(t *testing.T) {
	g := newRig(t, "")
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("POST", "/v1/gearshift/route", strings.NewReader("{}")))
	var lease struct{ Lease string }
	if err := json.Unmarshal(w.Body.Bytes(), &lease); err != nil {
		t.Fatal(err)
	}
	before := g.data(t, 0, 0)
	if len(before.Decisions) != 1 || before.Decisions[0].Outcome != "" || before.Decisions[0].Operation != "route" {
		t.Fatalf("decisions %+v", before.Decisions)
	}
	g.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("POST", "/v1/gearshift/route/"+lease.Lease+"/end", strings.NewReader(`{"output_tokens":3}`)))
	after := g.data(t, 0, before.Revision)
	if len(after.Decisions) != 1 || after.Decisions[0].Number != 1 || after.Decisions[0].Outcome != "completed" || after.Decisions[0].Tokens != 3 || after.Decisions[0].Explanation == nil {
		t.Errorf("decisions %+v", after.Decisions)
	}
}

// However many requests there are, some are explained, and what is kept is bounded.
func TestWhatIsKeptIsBounded(t *testing.T) {
	g := newRig(t, "")
	for range 100 {
		g.ask("auto")
	}
	d := g.data(t, 0, 0)
	if n := len(d.Decisions); n != 10 || d.Seconds[0].Chosen[0] != 100 {
		t.Errorf("%d of 100 requests kept, %d counted", n, d.Seconds[0].Chosen[0])
	}
	for range 2000 {
		g.now = g.now.Add(time.Second)
		g.ask("auto")
	}
	d = g.data(t, 0, 0)
	if len(d.Decisions) != 200 || len(d.Seconds) != 900 || d.Decisions[199].Number != 2010 {
		t.Errorf("%d decisions, %d seconds", len(d.Decisions), len(d.Seconds))
	}
	// A clock that is set back loses nothing and makes no gap.
	g.now = g.now.Add(-time.Hour)
	g.ask("auto")
	if d = g.data(t, 0, 0); len(d.Seconds) != 900 || d.Seconds[899].Chosen[0] != 2 {
		t.Errorf("%d seconds", len(d.Seconds))
	}
}

func TestThePageIsServedToAnyoneAndItsDataIsNot(t *testing.T) {
	const token = "a-token-of-the-right-length"
	g := newRig(t, token)
	for path, kind := range map[string]string{"/": "text/html", "/assets/main.js": "text/javascript", "/assets/style.css": "text/css", "/assets/icon.svg": "image/svg+xml"} {
		w := g.admin("GET", path)
		if w.Code != http.StatusOK || !strings.HasPrefix(w.Header().Get("Content-Type"), kind) || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: status %d, header %v", path, w.Code, w.Header())
		}
	}
	if w := g.admin("GET", "/assets/other.js"); w.Code != http.StatusNotFound {
		t.Errorf("a file that is not there: status %d", w.Code)
	}
	const path = "/admin/dashboard"
	if w := g.admin("GET", path); w.Code != http.StatusUnauthorized {
		t.Errorf("%s without the token: status %d", path, w.Code)
	}
	if w := g.admin("GET", path, "Authorization", "Bearer "+token); w.Code != http.StatusOK {
		t.Errorf("%s with the token: status %d, %s", path, w.Code, w.Body)
	}
	w := httptest.NewRecorder()
	g.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("%s on the clients' listener: status %d", path, w.Code)
	}
}

// Without a token this machine may look, and do nothing.
func TestWithoutATokenThisMachineMayLook(t *testing.T) {
	g := newRig(t, "")
	if w := g.admin("GET", "/admin/dashboard"); w.Code != http.StatusOK {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if w := g.admin("POST", "/admin/drain"); w.Code != http.StatusForbidden {
		t.Errorf("an order: status %d", w.Code)
	}
}

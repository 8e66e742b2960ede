package serving_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/admin/trial"
	"gearshift/serving/admission"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
)

const routePath = "/v1/gearshift/route"

// wide is a router over a fleet of 2 × 300 places with 40,000 tokens of memory each.
func wide(t *testing.T) *router.Core {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}},
		[]fleet.Replica{{Name: "one", Limit: 300, KVTokens: 40_000}, {Name: "two", Limit: 300, KVTokens: 40_000}},
	)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	return core
}

// newWide serves it with the default configuration.
func newWide(t *testing.T, change ...func(*serving.Options)) *rig {
	core := wide(t)
	engine := says(http.StatusOK, jsonType, fine)
	g := newRig(t, engine, append([]func(*serving.Options){func(o *serving.Options) {
		o.Config, o.Router, o.Backends = config.Default(), core, []serving.Backend{{Transport: engine}, {Transport: engine}}
		o.Config.Overload.MaxQueue = 0
	}}, change...)...)
	g.core = core
	return g
}

// A stranger who asks for leases and never ends them takes a small share of the fleet,
// whatever the body says, and the others are served.
func TestAStrangerCannotStopTheFleetByLeases(t *testing.T) {
	for name, body := range map[string]string{"empty": "", "an empty object": "{}", "long prompts": `{"prompt_tokens":19000}`, "one token": `{"prompt_tokens":1}`} {
		t.Run(name, func(t *testing.T) {
			g := newWide(t)
			given := 0
			for range 616 {
				w := g.do("POST", routePath, body)
				switch w.Code {
				case http.StatusOK:
					given++
					continue
				case http.StatusTooManyRequests, http.StatusBadRequest:
				default:
					t.Fatalf("status %d, %s", w.Code, w.Body)
				}
				if w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") == "" {
					t.Fatalf("header %v", w.Header())
				}
			}
			if given > 60 || g.core.Ledger().InFlight() != given {
				t.Errorf("%d leases given, %d in flight", given, g.core.Ledger().InFlight())
			}
			if held, _ := heldTokens(g); held > 8000 {
				t.Errorf("leases hold %d tokens of 80000", held)
			}
			if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
				t.Errorf("another's request: status %d, %s", w.Code, w.Body)
			}
		})
	}
}

func heldTokens(g *rig) (sum int, v fleet.View) {
	g.core.Ledger().View(0, &v)
	for _, n := range v.Held {
		sum += int(n)
	}
	return sum, v
}

func TestAnEmptyBodyAsksForNoLease(t *testing.T) {
	g := newRig(t, nil)
	for _, body := range []string{"", " \n"} {
		w := g.do("POST", routePath, body)
		if message, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || code != "missing_body" || !strings.Contains(message, "prompt_tokens") {
			t.Errorf("%q: status %d, %s", body, w.Code, w.Body)
		}
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

// A lease takes one of the requests that its key may have at a time, until it ends,
// in whatever way.
func TestALeaseCountsAgainstItsKey(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Concurrency: 2}, "bob": {}})
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), withToken)
		alice := []string{"Authorization", "Bearer " + secrets["alice"]}
		take := func() (r routed) {
			t.Helper()
			w := g.do("POST", routePath, `{"prompt_tokens":1}`, alice...)
			if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK {
				t.Fatalf("status %d, %s", w.Code, w.Body)
			}
			return r
		}
		full := func(want bool) {
			t.Helper()
			w := g.do("POST", chat, ask, alice...)
			if refused := w.Code == http.StatusTooManyRequests && w.Header().Get("X-Gearshift-Reason") == "concurrency_limit_exceeded"; refused != want {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
		}
		first := take()
		full(false)
		second := take()
		full(true)
		if w := g.do("POST", routePath, `{"prompt_tokens":1}`, alice...); w.Code != http.StatusTooManyRequests {
			t.Errorf("a third lease: status %d", w.Code)
		}
		if w := g.do("POST", routePath+"/"+first.Lease+"/end", `{"output_tokens":3}`, alice...); w.Code != http.StatusOK {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		full(false)
		take()
		full(true)
		if w := g.order("DELETE", "/admin/leases/"+second.Lease, ""); w.Code != http.StatusOK {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		full(false)
		take()
		full(true)
		time.Sleep(config.Default().LeaseTimeout + time.Second)
		synctest.Wait()
		if list := g.counted("gearshift_key_in_flight"); len(list) != 0 {
			t.Errorf("in flight after all leases have expired: %v", list)
		}
	})
}

// To anyone but the key that took it there is no such lease.
func TestNobodyEndsAnothersLease(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}, "bob": {}})
	g := newRig(t, nil, withKeys(file))
	w := g.do("POST", routePath, `{"prompt_tokens":1}`, "Authorization", "Bearer "+secrets["alice"])
	var r routed
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil {
		t.Fatal(err)
	}
	end := func(key, id string) (int, string) {
		w := g.do("POST", routePath+"/"+id+"/end", `{"output_tokens":9}`, "Authorization", "Bearer "+secrets[key])
		w.Header().Del("X-Request-Id")
		text := w.Body.String()
		if i := strings.Index(text, `"request_id"`); i >= 0 {
			text = text[:i]
		}
		return w.Code, text
	}
	status, text := end("bob", r.Lease)
	unknown, same := end("bob", strings.Repeat("0", 32))
	if status != http.StatusNotFound || status != unknown || text != same {
		t.Errorf("another's lease: %d %s, one that is none: %d %s", status, text, unknown, same)
	}
	if n := g.core.Ledger().InFlight(); n != 1 {
		t.Errorf("%d in flight", n)
	}
	if status, text := end("alice", r.Lease); status != http.StatusOK {
		t.Errorf("its own: %d %s", status, text)
	}
}

// What a caller says of the length of an answer is bounded by what it asked for, and
// by what the replica can hold.
func TestToldLengthsAreBounded(t *testing.T) {
	for _, c := range []struct {
		body string
		most int
	}{{`{"prompt_tokens":100,"max_tokens":50}`, 50}, {`{"prompt_tokens":100}`, 39_900}, {`{"prompt_tokens":100,"max_tokens":9999999}`, 39_900}} {
		h := &hand{}
		g := newWide(t, func(o *serving.Options) { o.Clock = h.clock })
		r := g.route(t, c.body)
		h.add(time.Second)
		w := g.do("POST", routePath+"/"+r.Lease+"/end", `{"output_tokens":2000000000}`)
		want := float64(1000) / float64(c.most)
		var out struct {
			PerToken float64 `json:"per_token_ms"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || out.PerToken < 0.99*want || out.PerToken > 1.01*want {
			t.Errorf("%s: %s, want %v ms per token", c.body, w.Body, want)
		}
	}
}

// A lease lives as long as its answer may take, not ten minutes.
func TestLeasesExpireByTheirForecast(t *testing.T) {
	g := newWide(t, func(o *serving.Options) { o.OutputTokens = 100 })
	for body, want := range map[string]float64{
		`{"prompt_tokens":1}`:                  10 + 2*400*.04,
		`{"max_tokens":10}`:                    10 + 2*10*.04,
		`{"max_tokens":10,"deadline_ms":1000}`: 10 + 2*10,
		`{"max_tokens":16000000}`:              600,
		`{"deadline_ms":1e12}`:                 600,
	} {
		if r := g.route(t, body); r.ExpiresS < want-.01 || r.ExpiresS > want+.01 {
			t.Errorf("%s: expires after %v s, want %v", body, r.ExpiresS, want)
		}
	}
}

func TestTheRouteEndpointCanBeOff(t *testing.T) {
	w := &ward{}
	g := newRig(t, nil, withReloader(w))
	r := g.route(t, `{"prompt_tokens":1}`)
	w.change.Config.Leases.Enabled = false
	if out, err := g.Reload("test"); err != nil || len(out.NeedRestart) != 0 {
		t.Fatalf("%+v, %v", out, err)
	}
	off := g.do("POST", routePath, `{"prompt_tokens":1}`)
	if _, _, _, code := readError(t, off.Body.Bytes()); off.Code != http.StatusNotFound || code != "leases_off" {
		t.Errorf("status %d, %s", off.Code, off.Body)
	}
	if w := g.do("POST", routePath+"/"+r.Lease+"/end", `{}`); w.Code != http.StatusOK {
		t.Errorf("the end of one from before: status %d, %s", w.Code, w.Body)
	}
}

func TestOperatorsListAndRevokeLeases(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}, "bob": {}})
	h := &hand{}
	g := newRig(t, nil, withKeys(file), withToken, func(o *serving.Options) { o.Clock = h.clock })
	for _, key := range []string{"alice", "bob", "alice"} {
		g.do("POST", routePath, `{"task":"copy","prompt_tokens":7}`, "Authorization", "Bearer "+secrets[key])
		h.add(time.Second)
	}
	list := func(method, path string, status int) (out admission.Leases) {
		t.Helper()
		w := g.order(method, path, "")
		if err := json.Unmarshal(w.Body.Bytes(), &out); err != nil || w.Code != status {
			t.Fatalf("%s %s: status %d, %s", method, path, w.Code, w.Body)
		}
		return out
	}
	all := list("GET", "/admin/leases", http.StatusOK).Leases
	if len(all) != 3 || all[0].Key != "alice" || all[1].Key != "bob" || all[0].Task != "copy" || all[0].PromptTokens != 7 || all[0].AgeS != 3 || all[0].ExpiresS != 597 || all[0].Replica != "small@a" {
		t.Fatalf("%+v", all)
	}
	if out := list("DELETE", "/admin/leases/"+all[1].ID, http.StatusOK); out.Revoked != 1 || len(out.Leases) != 2 {
		t.Errorf("%+v", out)
	}
	list("DELETE", "/admin/leases/"+all[1].ID, http.StatusNotFound)
	list("DELETE", "/admin/leases", http.StatusBadRequest)
	if out := list("DELETE", "/admin/leases?key=", http.StatusOK); out.Revoked != 0 {
		t.Errorf("of those without a key: %+v", out)
	}
	if out := list("DELETE", "/admin/leases?key=alice", http.StatusOK); out.Revoked != 2 || len(out.Leases) != 0 {
		t.Errorf("%+v", out)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
	if list := g.counted("gearshift_leases_ended_total"); fmt.Sprint(list) != `[gearshift_leases_ended_total{how="revoked"} 3]` {
		t.Errorf("counted %v", list)
	}
}

func TestLeaseMetrics(t *testing.T) {
	g := newRig(t, nil, func(o *serving.Options) { o.Config.Leases = limits.DefaultLeases() })
	g.route(t, `{}`)
	g.do("POST", routePath, `{}`)
	text := g.do("GET", "/metrics", "").Body.String()
	for _, want := range []string{`gearshift_leases{holder="anonymous"} 1`, `gearshift_leases_refused_total{reason="anonymous"} 1`, `gearshift_leases_ended_total{how="expired"} 0`} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
}

// What clients say of their leases is in neither side of a canary: a verdict is made of
// answers that the router saw.
func TestToldOutcomesDecideNoCanary(t *testing.T) {
	h := &hand{}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(&ward{policies: map[string]router.Policy{"other": chooses(large)}}),
		func(o *serving.Options) {
			o.Clock = h.clock
			o.Config.Trial = trial.Config{Rollback: true, MinRequests: 30}
		})
	if w := g.order("POST", "/admin/policy/canary", `{"policy":"other","share":0.5}`); w.Code != http.StatusOK {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	for range 400 { // the trial's are said to be late, the others in time
		r := g.route(t, `{"prompt_tokens":1}`)
		h.add(10 * time.Second)
		tokens := 100_000
		if r.Variant == "large" {
			tokens = 1
		}
		g.do("POST", routePath+"/"+r.Lease+"/end", fmt.Sprintf(`{"output_tokens":%d}`, tokens))
	}
	now := g.Policies()
	if now.Trial == nil {
		t.Fatalf("clients ended the trial: %+v", now.Last)
	}
	if m := now.Trial.Measured; m.Trial.Requests != 0 || m.InCharge.Requests != 0 || m.Verdict != "undecided" || m.Reported != 400 {
		t.Errorf("measured %+v", m)
	}
}

package serving_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
)

// routed is an answer of the route endpoint.
type routed struct {
	Lease, Variant, Replica, Host, Policy string
	ExpiresS                              float64 `json:"expires_s"`
}

func (g *rig) route(t *testing.T, body string) (r routed) {
	t.Helper()
	w := g.do("POST", "/v1/gearshift/route", body)
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || w.Code != http.StatusOK {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	return r
}

func TestRouteDecidesAlone(t *testing.T) {
	h := &hand{}
	g := newRig(t, nil, func(o *serving.Options) { o.Clock = h.clock })
	r := g.route(t, `{"task":"copy","prompt_tokens":90,"deadline_ms":12.5}`)
	if r.Lease == "" || r.Variant != "small" || r.Replica != "small@a" || r.Host != "a" || r.Policy != "wants@3" || r.ExpiresS != 600 {
		t.Errorf("routed %+v", r)
	}
	if n := g.core.Ledger().InFlight(); n != 1 {
		t.Errorf("%d in flight", n)
	}
	h.add(100 * time.Millisecond)
	w := g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", `{"output_tokens":10}`)
	const want = `{"deadline_met":true,"latency_ms":100,"per_token_ms":10,"utility":1.5}`
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("status %d, %s, want %s", w.Code, w.Body, want)
	}
	g.settled(t, "completed")
	w = g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", ``)
	if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || code != "lease_not_found" {
		t.Errorf("a second end: status %d, code %q", w.Code, code)
	}
	g.settled(t, "completed")
}

func TestACallerThatHasLeftHoldsNoPlace(t *testing.T) {
	g := newRig(t, nil)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	r := httptest.NewRequestWithContext(ctx, "POST", "/v1/gearshift/route", strings.NewReader("{}"))
	g.Handler().ServeHTTP(httptest.NewRecorder(), r)
	g.settled(t, "cancelled")
}

func TestRouteWithoutALength(t *testing.T) {
	g := newRig(t, nil)
	r := g.route(t, `{}`)
	w := g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", ``)
	if w.Code != http.StatusOK || strings.Contains(w.Body.String(), "deadline_met") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	g.settled(t, "completed")
}

// Nobody tells how far the answer of leased work has come: it holds a mean one.
func TestLeasedWorkHoldsAMeanAnswer(t *testing.T) {
	g := newRig(t, nil, func(o *serving.Options) { o.OutputTokens = 200 })
	first := g.route(t, `{"prompt_tokens":90}`)
	g.route(t, `{}`) // routing brings what is held up to date
	var v fleet.View
	if g.core.Ledger().View(0, &v); first.Replica != "small@a" || v.Held[smallOnA] != 290 {
		t.Errorf("on %s a prompt of 90 and an answer of 200 hold %v", first.Replica, v.Held)
	}
}

func TestLeasesOfLostCallersExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil, func(o *serving.Options) { o.Config.LeaseTimeout = time.Minute })
		r := g.route(t, `{}`)
		time.Sleep(time.Minute - time.Nanosecond)
		synctest.Wait()
		if n := g.core.Ledger().InFlight(); n != 1 {
			t.Errorf("%d in flight before the time", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		g.settled(t, "expired")
		if w := g.do("POST", "/v1/gearshift/route/"+r.Lease+"/end", `{}`); w.Code != http.StatusNotFound {
			t.Errorf("status %d", w.Code)
		}
	})
}

func TestCloseEndsLeases(t *testing.T) {
	g := newRig(t, nil)
	g.route(t, `{}`)
	g.Close()
	g.settled(t, "expired")
	if w := g.do("POST", "/v1/gearshift/route", `{}`); w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d after Close", w.Code)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
}

func TestRouteOnAFullFleet(t *testing.T) {
	g := newRig(t, nil)
	for range 6 {
		g.route(t, `{}`)
	}
	if w := g.do("POST", "/v1/gearshift/route", `{}`); w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
}

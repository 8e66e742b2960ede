package serving_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/trial"
)

// known is a policy of any name that wants one variant.
type known struct {
	chooses
	name string
}

func (k known) Name() string { return k.name }

// candidates are the policies that a reloader knows in these tests.
func candidates() map[string]router.Policy {
	return map[string]router.Policy{
		"wants@3": chooses(small), "next": known{large, "next@4"}, "next@4": known{large, "next@4"},
		"misfit": misfit{},
	}
}

// policies asks how the policies stand.
func (g *rig) policies(t *testing.T) trial.Policies {
	t.Helper()
	var p trial.Policies
	if w := g.order("GET", "/admin/policy", ""); w.Code != http.StatusOK {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	} else if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// obeys gives an order that must succeed.
func (g *rig) obeys(t *testing.T, order, body string) trial.Policies {
	t.Helper()
	w := g.order("POST", "/admin/policy/"+order, body)
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: status %d, %s", order, body, w.Code, w.Body)
	}
	var p trial.Policies
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatal(err)
	}
	return p
}

// A name alone is the version on trial, whatever has been stored since, and else the
// newest.
func TestNameAloneIsTheOneOnTrial(t *testing.T) {
	w := &ward{policies: candidates()}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	g.obeys(t, "shadow", `{"policy":"next"}`)
	w.policies["next"] = known{large, "next@5"}
	if p := g.obeys(t, "canary", `{"policy":"store:next","share":0.5}`); p.Trial.Policy != "next@4" {
		t.Errorf("trial %+v", p.Trial)
	}
	if p := g.obeys(t, "promote", `{"policy":"next"}`); p.InCharge != "next@4" || p.Trial != nil {
		t.Errorf("%+v", p)
	}
	if p := g.obeys(t, "shadow", `{"policy":"next"}`); p.Trial.Policy != "next@5" {
		t.Errorf("trial %+v", p.Trial)
	}
}

// A trial may end by itself, for being worse, while an order to promote it is looked at.
func TestATrialThatHasEndedIsNotPromoted(t *testing.T) {
	w := &ward{policies: candidates()}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	g.obeys(t, "shadow", `{"policy":"next"}`)
	w.admits = func() { g.core.EndTrial() }
	if answer := g.order("POST", "/admin/policy/promote", ""); answer.Code != http.StatusConflict || !strings.Contains(answer.Body.String(), "no_trial") {
		t.Errorf("status %d: %s", answer.Code, answer.Body)
	}
	if p := g.policies(t); p.InCharge != "wants@3" || len(w.recorded) > 0 {
		t.Errorf("in charge %s, recorded %v", p.InCharge, w.recorded)
	}
}

// A policy taken over: first in the shadow, then for a share, then for all, and
// back. Answers say who chose.
func TestPolicyIsTakenOverGradually(t *testing.T) {
	w := &ward{policies: candidates()}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	by := func(n int) map[string]int {
		chose := map[string]int{}
		for range n {
			response := g.do("POST", chat, ask)
			if response.Code != http.StatusOK {
				t.Fatalf("status %d: %s", response.Code, response.Body)
			}
			chose[response.Header().Get("X-Gearshift-Policy")+" "+response.Header().Get("X-Gearshift-Variant")]++
		}
		return chose
	}

	g.obeys(t, "shadow", `{"policy":"next"}`)
	for _, series := range []string{ // a counter that begins with its first event hides that event from rate()
		`gearshift_trial_choices_total{in_charge="small",task="chat",trial="large"}`,
		`gearshift_trial_faults_total{reason="` + router.ReasonPanic + `"}`,
	} {
		if got := g.metric(t, series); got != "0" {
			t.Errorf("%s begins at %s", series, got)
		}
	}
	if chose := by(40); chose["wants@3 small"] != 40 {
		t.Errorf("with a shadow %v", chose)
	}
	p := g.policies(t)
	if p.InCharge != "wants@3" || p.Trial == nil || p.Trial.Policy != "next@4" || p.Trial.State != "shadow" || p.Trial.Compared != 40 || p.Trial.Agreed != 0 {
		t.Fatalf("%+v, trial %+v", p, p.Trial)
	}
	if want := []trial.PairedChoice{{InCharge: "small", Trial: "large", Requests: 40}}; !slices.Equal(p.Trial.Tasks[0].Choices, want) {
		t.Errorf("choices %+v", p.Trial.Tasks[0].Choices)
	}
	if m := p.Trial.Measured; m.InCharge.Requests != 40 || m.Trial.Requests != 0 || m.InCharge.Utility != 0.5 {
		t.Errorf("measured %+v", m)
	}
	if got := g.metric(t, `gearshift_trial_choices_total{in_charge="small",task="chat",trial="large"}`); got != "40" {
		t.Errorf("metric %s", got)
	}

	p = g.obeys(t, "canary", `{"share":0.25}`) // of the one on trial
	if p.Trial.State != "canary" || p.Trial.Share != 0.25 || p.Trial.Compared != 0 {
		t.Errorf("trial %+v", p.Trial)
	}
	chose := by(200)
	if n := chose["next@4 large"]; n < 30 || n > 70 || n+chose["wants@3 small"] != 200 {
		t.Errorf("with a canary of a quarter %v", chose)
	}
	m := g.policies(t).Trial.Measured
	if int(m.Trial.Requests) != chose["next@4 large"] || m.InCharge.Utility != 0.5 || m.Trial.Utility != 1 || m.Difference != 0.5 || m.Low != 0.5 || m.Verdict != "better" {
		t.Errorf("measured %+v", m)
	}

	p = g.obeys(t, "promote", "")
	if p.InCharge != "next@4" || p.Trial != nil || p.Earlier == nil || *p.Earlier != "wants@3" || p.Last.Order != "promote" || p.Note != "" {
		t.Errorf("%+v", p)
	}
	if chose := by(20); chose["next@4 large"] != 20 {
		t.Errorf("after the promotion %v", chose)
	}
	if !slices.Equal(w.recorded, []string{"next@4"}) {
		t.Errorf("the store was told %v", w.recorded)
	}

	p = g.obeys(t, "rollback", `{"policy":"next"}`)
	if p.InCharge != "wants@3" || p.Earlier != nil || !slices.Equal(w.recorded, []string{"next@4", "again wants@3"}) {
		t.Errorf("%+v, the store was told %v", p, w.recorded)
	}
	g.obeys(t, "shadow", `{"policy":"next@4"}`)
	if p = g.obeys(t, "rollback", ""); p.Trial != nil || p.InCharge != "wants@3" || p.Last.Policy != "next@4" {
		t.Errorf("after the end of a trial %+v", p)
	}
	if len(w.recorded) != 2 {
		t.Errorf("the end of a trial was recorded: %v", w.recorded)
	}
}

func TestPolicyOrdersAreRefused(t *testing.T) {
	for _, c := range []struct {
		order, body string
		status      int
		code, says  string
	}{
		{"shadow", "", http.StatusConflict, "no_trial", "no policy is on trial; name the policy to try"},
		{"canary", `{"share":0.1}`, http.StatusConflict, "no_trial", "name the policy"},
		{"canary", `{"policy":"next"}`, http.StatusBadRequest, "invalid_share", "share 0; want a part of the requests"},
		{"canary", `{"policy":"next","share":1.5}`, http.StatusBadRequest, "invalid_share", "share 1.5"},
		{"promote", "", http.StatusConflict, "no_trial", "name the policy to promote"},
		{"rollback", "", http.StatusConflict, "no_earlier_policy", "no other policy was in charge before"},
		{"rollback", `{"policy":"next"}`, http.StatusConflict, "not_that_policy", "a rollback would take away wants@3, not next"},
		{"shadow", `{"policy":"nope"}`, http.StatusUnprocessableEntity, "policy_refused", `no policy "nope"`},
		{"shadow", `{"policy":"misfit"}`, http.StatusUnprocessableEntity, "policy_refused", "made for another fleet"},
		{"promote", `{"policy":"misfit"}`, http.StatusUnprocessableEntity, "policy_refused", "made for another fleet"},
		{"promote", `{"policy":"next"}`, http.StatusConflict, "not_admitted", "cannot promote next@4"},
		{"elect", "", http.StatusNotFound, "unknown_order", "there are shadow, canary, promote and rollback"},
		{"shadow", `{"polic":"next"}`, http.StatusBadRequest, "invalid_order", `there is no "polic" here; there are policy, share, reason`},
		{"canary", `{"policy":"next","share":"0.1"}`, http.StatusBadRequest, "invalid_order", `cannot read the order: "share" must be a number`},
		{"canary", `{"policy":"next","share":1e400}`, http.StatusBadRequest, "invalid_order", `cannot read the order: "share" must be a number`},
		{"shadow", `{"policy":`, http.StatusBadRequest, "invalid_order", "cannot read the order"},
		{"shadow", `{"policy":"` + strings.Repeat("x", 1<<17) + `"}`, http.StatusBadRequest, "invalid_order", "too large"},
	} {
		w := &ward{policies: candidates(), banned: "next@4"}
		g := newRig(t, nil, withToken, withReloader(w))
		answer := g.order("POST", "/admin/policy/"+c.order, c.body)
		message, _, _, code := readError(t, answer.Body.Bytes())
		if answer.Code != c.status || code != c.code || !strings.Contains(message, c.says) {
			t.Errorf("%s %.40s: status %d, %s: %s", c.order, c.body, answer.Code, code, message)
		}
		if p := g.policies(t); p.InCharge != "wants@3" || p.Trial != nil || p.Last != nil || len(w.recorded) != 0 {
			t.Errorf("%s %.40s was carried out: %+v", c.order, c.body, p)
		}
	}
	g := newRig(t, nil, withToken)
	if answer := g.order("POST", "/admin/policy/promote", ""); answer.Code != http.StatusNotImplemented {
		t.Errorf("without a reloader: status %d", answer.Code)
	}
}

// A reason overrules the gate. A store that cannot be written holds up no order,
// and the answer says so.
func TestPromoteWithAReasonAndWithoutAStore(t *testing.T) {
	w := &ward{policies: candidates(), banned: "next@4"}
	g := newRig(t, nil, withToken, withReloader(w))
	w.fault = errors.New("the store is read-only")
	p := g.obeys(t, "promote", `{"policy":"next","reason":"a canary did well"}`)
	if p.InCharge != "next@4" || !strings.Contains(p.Note, "next@4 routes until the store is read again, as at a restart: the store is read-only") || p.Last.Why != "a canary did well" {
		t.Errorf("%+v", p)
	}
}

// earns answers with a pace by variant, so that one meets its deadline and the
// other does not: fine is 4 tokens for a deadline of 40 ms each.
func earns(table *fleet.Table, pace [2]time.Duration) transport {
	return func(r *http.Request) (*http.Response, error) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		for i, v := range table.Variants {
			if strings.Contains(string(body), `"`+v.Name+`"`) {
				time.Sleep(4 * pace[i])
			}
		}
		return says(http.StatusOK, jsonType, fine)(r)
	}
}

// A canary that is worse for sure is ended without an order, if that is wanted;
// one that is better goes on, and so does one where it is not wanted.
func TestCanaryEndsItself(t *testing.T) {
	for _, c := range []struct {
		name   string
		wanted bool
		slow   int // the variant that misses its deadlines
		ends   bool
	}{{"worse", true, large, true}, {"better", true, small, false}, {"worse, left alone", false, large, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start := time.Now()
				pace := [2]time.Duration{10 * time.Millisecond, 10 * time.Millisecond}
				pace[c.slow] = time.Second
				g := newRig(t, earns(testTable(t), pace), withToken, withReloader(&ward{policies: candidates()}), func(o *serving.Options) {
					o.Config.Trial = trial.Config{Rollback: c.wanted, MinRequests: 30}
					o.Clock = func() time.Duration { return time.Since(start) }
				})
				g.obeys(t, "canary", `{"policy":"next","share":0.5}`)
				for range 300 {
					g.do("POST", chat, ask)
				}
				p := g.policies(t)
				if (p.Trial == nil) != c.ends {
					t.Errorf("trial %+v, last order %+v", p.Trial, p.Last)
				}
				if c.ends && (p.InCharge != "wants@3" || p.Last.By != "trial" || !strings.Contains(p.Last.Why, "compared with the policy in charge, over 50 requests") ||
					!strings.Contains(g.logs.String(), p.Last.Why)) {
					t.Errorf("%+v, %+v", p, p.Last)
				}
			})
		})
	}
}

// The measured comparison is of the requests that began in the trial, were
// judged, and asked for no variant by name; its interval is Welch's.
func TestMeasuredComparison(t *testing.T) {
	var now, takes atomic.Int64
	w := &ward{policies: candidates()}
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		now.Add(takes.Load())
		return says(http.StatusOK, jsonType, fine)(r)
	}), withToken, withReloader(w), func(o *serving.Options) {
		o.Clock = func() time.Duration { return time.Duration(now.Load()) }
	})
	before := g.do("POST", "/v1/gearshift/route", "{}")
	var route struct{ Lease string }
	if err := json.Unmarshal(before.Body.Bytes(), &route); err != nil {
		t.Fatal(err)
	}
	now.Add(int64(time.Second))
	g.obeys(t, "canary", `{"policy":"next","share":0.5}`)
	g.do("POST", "/v1/gearshift/route/"+route.Lease+"/end", `{"output_tokens":4}`)
	g.do("POST", chat, strings.Replace(ask, "auto", "large", 1))
	var sum, square, n [2]float64
	for i := range 100 {
		takes.Store(int64(4 * 10 * time.Millisecond))
		if i%3 == 0 {
			takes.Store(int64(4 * 50 * time.Millisecond)) // too late: worth nothing
		}
		side := 0
		response := g.do("POST", chat, ask)
		utility := 0.0
		if response.Header().Get("X-Gearshift-Policy") == "next@4" {
			side = 1
		}
		if i%3 != 0 {
			utility = []float64{0.5, 1}[side]
		}
		n[side]++
		sum[side] += utility
		square[side] += utility * utility
	}
	m := g.policies(t).Trial.Measured
	if float64(m.InCharge.Requests) != n[0] || float64(m.Trial.Requests) != n[1] {
		t.Fatalf("measured %+v, want %v requests", m, n)
	}
	variance := func(i int) float64 { return (square[i]/n[i] - sum[i]/n[i]*sum[i]/n[i]) / (n[i] - 1) }
	difference, half := sum[1]/n[1]-sum[0]/n[0], 1.96*math.Sqrt(variance(0)+variance(1))
	if math.Abs(m.Difference-difference) > 1e-9 || math.Abs(m.Low-(difference-half)) > 1e-9 || math.Abs(m.High-(difference+half)) > 1e-9 {
		t.Errorf("measured %+v, want %v ± %v", m, difference, half)
	}
	if got := g.metric(t, `gearshift_trial_requests_total{side="trial"}`); got != fmt.Sprint(n[1]) {
		t.Errorf("metric %s", got)
	}
}

// Beside another policy in charge, what a trial has earned counts anew.
func TestTrialCountsAnewBesideAnother(t *testing.T) {
	w := &ward{policies: candidates()}
	w.policies["third"] = known{small, "third@1"}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w))
	g.obeys(t, "canary", `{"policy":"next","share":0.5}`)
	for range 40 {
		g.do("POST", chat, ask)
	}
	if p := g.policies(t); p.Trial == nil || p.Trial.Compared != 40 || p.Trial.Measured.InCharge.Requests == 0 {
		t.Fatalf("%+v, trial %+v", p, p.Trial)
	}
	p := g.obeys(t, "promote", `{"policy":"third"}`)
	if p.InCharge != "third@1" || p.Trial == nil || p.Trial.Policy != "next@4" || p.Trial.Compared != 0 || p.Trial.Measured.InCharge.Requests != 0 {
		t.Errorf("%+v, trial %+v", p, p.Trial)
	}
}

// What a policy was trained for is told where that is known, and not utility.
func TestPoliciesSayWhatTheyWereTrainedFor(t *testing.T) {
	w := &ward{policies: candidates()}
	aims := func(o *serving.Options) {
		o.Objective = func(policy string) string { return map[string]string{"next@4": "near-peak"}[policy] }
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(w), aims)
	if p := g.obeys(t, "shadow", `{"policy":"next"}`); p.Objective != "" || p.Trial.Objective != "near-peak" {
		t.Errorf("%+v, on trial %+v", p, p.Trial)
	}
	if p := g.obeys(t, "promote", ""); p.InCharge != "next@4" || p.Objective != "near-peak" {
		t.Errorf("%+v", p)
	}
	plain := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withReloader(&ward{policies: candidates()}))
	if text := plain.order("POST", "/admin/policy/shadow", `{"policy":"next"}`).Body.String(); strings.Contains(text, "objective") || !strings.Contains(text, "next@4") {
		t.Errorf("%s", text)
	}
}

package serving_test

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
)

// What a key has used is used after a restart too.
func TestBudgetsOutliveARestart(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"alice": {Limits: access.Limits{TokensPerMonth: 20}}})
	kept := filepath.Join(t.TempDir(), "usage.json")
	with := func(o *serving.Options) { o.Config.UsageFile = kept }
	send := func(g *rig) int {
		return g.do("POST", chat, `{"model":"auto","prompt":"x","max_tokens":9}`, bearing(secrets["alice"])...).Code
	}
	g := newRig(t, says(http.StatusOK, jsonType, strings.Replace(fine, `"completion_tokens":4`, `"completion_tokens":18`, 1)), withKeys(file), with)
	_, stop, ended := serve(t, g)
	if status := send(g); status != http.StatusOK {
		t.Fatalf("status %d", status)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	if status := send(newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), with)); status != http.StatusTooManyRequests {
		t.Errorf("after a restart: status %d", status)
	}
	if status := send(newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file))); status != http.StatusOK {
		t.Errorf("without the file: status %d", status)
	}
	write(t, kept, "half of i")
	o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
	withKeys(file)(&o)
	with(&o)
	if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), "usage_file: cannot read what keys have used from "+kept) {
		t.Errorf("a file that is cut off: %v", err)
	}
}

// A lease that is held when the router ends is used, as one is that expires.
func TestLeasesThatAreHeldAtTheEndAreUsed(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"alice": {Limits: access.Limits{TokensPerMonth: 1000}}})
	kept := filepath.Join(t.TempDir(), "usage.json")
	with := func(o *serving.Options) { o.Config.UsageFile = kept }
	g := newWide(t, withKeys(file), with)
	_, stop, ended := serve(t, g)
	if w := g.do("POST", routePath, `{"prompt_tokens":900}`, bearing(secrets["alice"])...); w.Code != http.StatusOK {
		t.Fatalf("status %d, %s", w.Code, w.Body)
	}
	stop()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	again := newWide(t, withKeys(file), with)
	if w := again.do("POST", routePath, `{"prompt_tokens":200}`, bearing(secrets["alice"])...); w.Code != http.StatusTooManyRequests || !strings.Contains(w.Body.String(), "token_budget_exceeded") {
		t.Errorf("after a restart: status %d, %s", w.Code, w.Body)
	}
}

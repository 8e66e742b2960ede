package main

import (
	"strings"
	"testing"

	"gearshift/checkpoints"
	"gearshift/internal/calibrate/enginetest"
)

// All orders in turn, as an operator gives them at the shell.
func TestPolicyOrdersToALiveRouter(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	store := &checkpoints.Store{Path: path}
	again(t, path, "mine")
	if err := store.Promote("mine", 1, "a test"); err != nil {
		t.Fatal(err)
	}
	s := steerTiny(t, "--store", path)
	admin := []string{"--admin", s.operators.url}
	do := func(want []string, args ...string) {
		t.Helper()
		out := succeed(t, append(append([]string{"policy"}, args...), admin...)...)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("%v: no %q in\n%s", args, text, out)
			}
		}
	}
	inStore := func(want string) {
		t.Helper()
		if ref, err := store.Production(); err != nil || ref.String() != want {
			t.Errorf("in production is %s, %v, want %s", ref, err, want)
		}
	}
	do([]string{"in charge: mine@1\n"}, "status")
	do([]string{"in charge: mine@1\n", "on trial:  mine@2, shadow"}, "shadow", "mine") // the newest
	for range 5 {
		s.ask(t, "POST", "/v1/gearshift/route", "{}")
	}
	do([]string{"agreed on ", " of 5 choices", "utility by forecast"}, "status")
	again(t, path, "mine")
	do([]string{"on trial:  mine@2, canary"}, "canary", "mine") // the one on trial
	do([]string{"on trial:  static:small, canary of 20 % of the requests"}, "canary", "static:small", "--share", "0.2")
	do([]string{`"state": "canary"`, `"share": 0.2`}, "status", "--format", "json")
	fail(t, append([]string{"policy", "promote", "mine"}, admin...), "the router refuses: cannot promote mine@3: it has no stored comparison")
	fail(t, append([]string{"policy", "promote", "mine@2"}, admin...), "the router refuses: cannot promote mine@2: it has no stored comparison")
	fail(t, append([]string{"policy", "promote", "mine@2", "--force"}, admin...), "--reason")
	inStore("mine@1")
	do([]string{"in charge: mine@2\n", "before:    mine@1\n", "on trial:  static:small", "last:      promote of mine@2 by admin"},
		"promote", "mine@2", "--force", "--reason", "the canary did well")
	inStore("mine@2")
	fail(t, append([]string{"policy", "rollback", "mine@2"}, admin...), "would take away static:small, not mine@2")
	do([]string{"in charge: mine@2\n", "last:      end of the trial of static:small"}, "rollback", "static:small")
	do([]string{"in charge: mine@1\n"}, "rollback", "mine")
	inStore("mine@1")
	// The store does not bring back what the router has taken away.
	fail(t, []string{"policy", "rollback", "mine", "--store", path}, "no earlier version was in production")
	fail(t, append([]string{"policy", "shadow", "nobody"}, admin...), "the router refuses", `no policy "nobody"`)

	// Offline, the store alone is changed, and the router takes that over.
	succeed(t, "policy", "promote", "mine@2", "--force", "--reason", "a test", "--store", path)
	if _, _, text := s.operators.ask(t, "POST", "/admin/reload", ""); !strings.Contains(text, `"policy":"mine@2"`) {
		t.Errorf("after a promotion in the store: %s", text)
	}
	follow := func(want string) {
		t.Helper()
		s.operators.ask(t, "POST", "/admin/reload", "")
		if out := succeed(t, append([]string{"policy", "status"}, admin...)...); !strings.HasPrefix(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	// Nor does the router bring back what the store, or another router, has taken away.
	succeed(t, "policy", "rollback", "mine", "--store", path)
	follow("in charge: mine@1\nlast: ")
	fail(t, append([]string{"policy", "rollback", "mine@1"}, admin...), "no other policy was in charge before")
	// A promotion of the older version leads back, as in the store.
	for _, version := range []string{"mine@2", "mine@1"} {
		succeed(t, "policy", "promote", version, "--force", "--reason", "a test", "--store", path)
		follow("in charge: " + version + "\nbefore:    ")
	}
	s.end(t)
}

func TestOrdersNeedAnAddressAndAToken(t *testing.T) {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", "")
	fail(t, []string{"policy", "status"}, "GEARSHIFT_ADMIN_TOKEN is empty; it must hold the router's admin token, which `gearshift serve` was started with")
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	fail(t, []string{"policy", "status", "--admin", "localhost:8081"}, `--admin "localhost:8081" is not a URL`)
	fail(t, []string{"policy", "shadow", "x", "--admin", "http://127.0.0.1:1"}, "cannot reach the router; --admin URL names its admin listener, by default http://127.0.0.1:8081: ", "http://127.0.0.1:1/")
	for _, share := range []string{"NaN", "0", "1.5"} {
		for _, kind := range []string{"policy", "quality"} {
			fail(t, []string{kind, "canary", "x", "--share", share}, "--share "+share+": want a part of the requests")
		}
	}
	fail(t, []string{"policy", "status", "--format", "xml"}, "want text or json")
	s := steerTiny(t, "--policy", "slackfit")
	fail(t, []string{"policy", "status", "--admin", s.url}, "the router refuses: there is no GET /admin/policy")
	t.Setenv("OTHER", "not-the-right-token-at-all")
	fail(t, []string{"policy", "status", "--admin", s.operators.url, "--token-env", "OTHER"}, "the router refuses: want the admin token, as in the router's GEARSHIFT_ADMIN_TOKEN: ")
	_, out, stderr := gearshift(t, "policy", "promote", "static:small", "--admin", s.operators.url)
	if !strings.Contains(stderr, "static:small routes until the store is read again") {
		t.Errorf("promoted a rule: %s", stderr)
	}
	if !strings.Contains(out, "in charge: static:small") {
		t.Errorf("promoted a rule: %s", out)
	}
	if _, _, stderr := gearshift(t, "policy", "rollback", "static:small", "--admin", s.operators.url); stderr != "" {
		t.Errorf("back to the policy that serve was started with: %s", stderr)
	}
	s.end(t)
}

// An empty address, as of a variable that is not set, is not the order to change the
// store of this folder.
func TestAnEmptyAddressIsNoOrderToTheStore(t *testing.T) {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", testToken)
	path := enginetest.Store(t, "tiny", "mine")
	before := succeed(t, "policy", "ls", "--store", path)
	fail(t, []string{"policy", "promote", "mine", "--force", "--reason", "a test", "--store", path, "--admin", ""}, `--admin "" is not a URL`)
	fail(t, []string{"policy", "rollback", "mine", "--store", path, "--admin", ""}, `--admin "" is not a URL`)
	if after := succeed(t, "policy", "ls", "--store", path); after != before {
		t.Errorf("the store has\n%s, had\n%s", after, before)
	}
}

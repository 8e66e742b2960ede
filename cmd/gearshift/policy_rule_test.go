package main

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/internal/calibrate/enginetest"
)

// A rule is promoted, listed, shown, rolled back and removed as any policy is, and eval and
// serve find it by the name of its kind.
func TestRulesInProduction(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	at := func(args ...string) []string { return append(append([]string{"policy"}, args...), "--store", path) }
	do := func(want string, args ...string) {
		t.Helper()
		if out := succeed(t, at(args...)...); out != want {
			t.Errorf("%v: %s, want %s", args, out, want)
		}
	}
	do("mine@1 is in production\n", "promote", "mine", "--force", "--reason", "a test")
	do("slackfit:0.8 (slackfit@1) is in production\n", "promote", "slackfit:.8")
	do("slackfit:0.93 (slackfit@2) is in production\n", "promote", "slackfit", "--scenario", "tiny")
	do("slackfit:0.8 (slackfit@1) is in production\n", "promote", "slackfit:0.80")
	if out := succeed(t, at("ls")...); !strings.Contains(out, "slackfit@1  production") || !strings.Contains(out, "slackfit:0.8 ") || !strings.Contains(out, "serve takes slackfit@1 without --policy") {
		t.Errorf("ls:\n%s", out)
	}
	for _, ref := range []string{"slackfit:0.8", "slackfit@1", "slackfit", "store:slackfit@production"} {
		if out := succeed(t, at("show", ref)...); !strings.HasPrefix(out, "slackfit@1, production\n  rule      slackfit:0.8\n") {
			t.Errorf("show %s:\n%s", ref, out)
		}
		var shown struct{ Policy, Rule string }
		if err := json.Unmarshal([]byte(succeed(t, at("show", ref, "--format", "json")...)), &shown); err != nil || shown.Rule != "slackfit:0.8" {
			t.Errorf("show %s: %v, %+v", ref, err, shown)
		}
	}
	var listed []struct {
		Policy, Rule string
		Aliases      []string
	}
	if err := json.Unmarshal([]byte(succeed(t, at("ls", "--format", "json")...)), &listed); err != nil || len(listed) != 3 || listed[1].Rule != "slackfit:0.8" || listed[1].Aliases[0] != "production" {
		t.Errorf("ls: %v, %+v", err, listed)
	}
	fail(t, []string{"eval", "--scenario", "tiny", "--store", path, "--policy", "slackfit@9"}, `policy "slackfit" has no version 9`)
	for _, ref := range []string{"slackfit@1", "store:slackfit"} {
		out := succeed(t, "eval", "--scenario", "tiny", "--store", path, "--policy", ref, "--workload", "poisson:3", "--seeds", "1", "--requests", "20")
		if !strings.Contains(out, "slackfit:0.8 ") {
			t.Errorf("eval of %s:\n%s", ref, out)
		}
	}
	fail(t, at("export", "slackfit@1", "--onnx", "none.onnx"), "is the rule slackfit:0.8, which has no network")
	fail(t, at("rm", "slackfit@1"), `policy "slackfit@1" is in production`)

	do("slackfit:0.93 (slackfit@2) is in production\n", "rollback")
	fail(t, at("rollback"), "no promotion is left to undo")
	do("mine@1 is in production\n", "promote", "mine@1", "--force", "--reason", "a test")
	do("static:small (static@1) is in production\n", "promote", "static:small")
	fail(t, at("rollback", "slackfit:0.8"), "cannot roll back slackfit:0.8: in production is static:small (static@1)")
	do("mine@1 is in production\n", "rollback", "static:small")
	do("removed slackfit@1\nremoved slackfit@2\n", "rm", "store:slackfit", "--force")
}

// What is no rule, or not one of the scenario, does not come into the store.
func TestPromoteRefusesWhatIsNoRule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policies.db")
	at := func(args ...string) []string {
		return append(append([]string{"policy", "promote"}, args...), "--store", path)
	}
	fail(t, at("slackfit:x"), `cannot use policy "slackfit:x"`, "not a number")
	fail(t, at("static:"), "nothing follows the colon")
	fail(t, at("static:huge", "--scenario", "tiny"), "scenario tiny", `no variant "huge"`)
	fail(t, at("threshold:1,2,3", "--scenario", "tiny"), "threshold")
	fail(t, at("slackfit", "--force", "--reason", "a test"), "slackfit is a rule, which is promoted without --force")
	fail(t, at("slackfit", "--force"), "--force and --reason go together")
	if _, err := (&checkpoints.Store{Path: path}).List(); err == nil {
		t.Error("a refused rule made a store")
	}
}

// serve routes by the rule in production, at the start and from a promotion on, and a
// running router promotes and takes back rules in its store.
func TestServeRoutesByTheRuleInProduction(t *testing.T) {
	path := enginetest.Store(t, "tiny", "mine")
	store := &checkpoints.Store{Path: path}
	at := func(args ...string) []string { return append(append([]string{"policy"}, args...), "--store", path) }
	succeed(t, at("promote", "static:small")...)
	s := steerTiny(t, "--store", path)
	admin := func(args ...string) string {
		t.Helper()
		return succeed(t, append(append([]string{"policy"}, args...), "--admin", s.operators.url)...)
	}
	inCharge := func(want, stored string) {
		t.Helper()
		s.operators.ask(t, "POST", "/admin/reload", "")
		if out := admin("status"); !strings.HasPrefix(out, "in charge: "+want+"\n") {
			t.Errorf("want %s in charge:\n%s", want, out)
		}
		if ref, err := store.Production(); err != nil || ref.String() != stored {
			t.Errorf("in production is %s, %v, want %s", ref, err, stored)
		}
		_, header, _ := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`)
		if got := header.Get("X-Gearshift-Policy"); got != want {
			t.Errorf("routed by %q, want %q", got, want)
		}
	}
	inCharge("static:small", "static@1")
	succeed(t, at("promote", "slackfit:0.8")...) // in the store, which the router follows
	inCharge("slackfit:0.8", "slackfit@1")
	succeed(t, at("rollback")...)
	inCharge("static:small", "static@1")
	fail(t, []string{"policy", "rollback", "--admin", s.operators.url}, "no other policy was in charge before")

	if out := admin("shadow", "slackfit@1"); !strings.Contains(out, "on trial:  slackfit:0.8, shadow") {
		t.Errorf("shadow:\n%s", out)
	}
	admin("promote", "slackfit:0.8")
	inCharge("slackfit:0.8", "slackfit@1")
	admin("promote", "mine@1", "--force", "--reason", "a test")
	inCharge("mine@1", "mine@1")
	admin("rollback", "mine@1")
	inCharge("slackfit:0.8", "slackfit@1")
	s.end(t)

	s = steerTiny(t, "--store", path, "--policy", "slackfit@production")
	inCharge("slackfit:0.8", "slackfit@1")
	s.end(t)
}

// Without a policy serve routes by the best of the scenario's rules, and says which and why;
// with rules that a comparison in the store has put in another order, by the best in that.
func TestServeFallsBackToTheBestRule(t *testing.T) {
	routedBy := func(want, why string, args ...string) {
		t.Helper()
		s := serveTiny(t, args...)
		_, header, _ := s.ask(t, "POST", "/v1/chat/completions", `{"model":"auto","max_tokens":1,"messages":[{"role":"user","content":"hi"}]}`)
		if got := header.Get("X-Gearshift-Policy"); got != want || header.Get("X-Gearshift-Fallback") != "no policy" {
			t.Errorf("routed by %q (%q), want %s", got, header.Get("X-Gearshift-Fallback"), want)
		}
		if log := s.log.String(); !strings.Contains(log, "fallback="+want) || !strings.Contains(log, why) {
			t.Errorf("no %q in %s", why, log)
		}
		s.end(t)
	}
	routedBy("slackfit:0.93", `why=serving.fallback`)
	text := strings.Replace(succeed(t, "scenario", "show", "tiny"), "  fallback: slackfit ", "  #", 1)
	unlisted := write(t, "unlisted.yaml", text)
	routedBy("universal:0.1,0.015,0.7,0.3,0.2", "the scenario lists no evaluation.rules; gearshift eval --tune finds some", "--scenario", unlisted)
	listed := write(t, "listed.yaml", strings.Replace(text, "evaluation:\n", "evaluation:\n  rules: ['threshold:2', 'slackfit:.9']\n", 1))
	routedBy("threshold:2", `why="the first of evaluation.rules"`, "--scenario", listed)
	named := write(t, "named.yaml", strings.Replace(text, "serving:\n", "serving:\n  fallback: static:small\n", 1))
	routedBy("static:small", "why=serving.fallback", "--scenario", named)
}

// The short forms of ls and show fit 100 columns, whatever is stored.
func TestShortFormsFit(t *testing.T) {
	path := enginetest.Store(t, "titan-rtx-opt", strings.Repeat("a-name", 30))
	at := func(args ...string) []string { return append(append([]string{"policy"}, args...), "--store", path) }
	succeed(t, at("promote", "task-threshold:25,314/4,118/2,138/6,196")...)
	for _, args := range [][]string{{"ls"}, {"show", strings.Repeat("a-name", 30)}, {"show", "task-threshold@1"}} {
		for line := range strings.Lines(succeed(t, at(args...)...)) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 100 && !strings.HasPrefix(line, "a-name") {
				t.Errorf("%s: %d columns: %s", args[0], n, line)
			}
		}
	}
	if out := succeed(t, at("ls", "--wide")...); !strings.Contains(out, "DECISIONS") || !strings.Contains(out, "SHA256") {
		t.Errorf("ls --wide:\n%s", out)
	}
	fail(t, at("ls", "--format", "xml"), "want text or json")
}

package main

import (
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// An operator sees who holds leases, and takes their places back.
func TestLeasesAreListedAndRevoked(t *testing.T) {
	s := steerTiny(t, "--policy", "slackfit")
	admin := []string{"--admin", s.operators.url}
	command := func(args ...string) string {
		return succeed(t, append(append([]string{"lease"}, args...), admin...)...)
	}
	for range 2 {
		if status, _, text := s.ask(t, "POST", "/v1/gearshift/route", `{"prompt_tokens":12}`); status != http.StatusOK {
			t.Fatalf("status %d, %s", status, text)
		}
	}
	out := command("ls")
	id := regexp.MustCompile(`(?m)^[0-9a-f]{32}`).FindString(out)
	if !strings.HasPrefix(out, "LEASE ") || strings.Count(out, "\n") != 3 || id == "" {
		t.Errorf("listed\n%s", out)
	}
	if out := command("ls", "--format", "json"); !strings.Contains(out, `"prompt_tokens": 12`) {
		t.Errorf("listed\n%s", out)
	}
	if out := command("revoke", id); out != "revoked 1, 1 left\n" {
		t.Errorf("revoked: %s", out)
	}
	fail(t, append([]string{"lease", "revoke", id}, admin...), "the router refuses: there is no such lease")
	if out := command("revoke", "--anonymous"); out != "revoked 1, 0 left\n" {
		t.Errorf("revoked: %s", out)
	}
	fail(t, append([]string{"lease", "revoke"}, admin...), "want one of LEASE, --key, --anonymous and --all, got 0")
	fail(t, append([]string{"lease", "revoke", id, "--all"}, admin...), "got 2")
	fail(t, append([]string{"lease", "revoke", "--key", ""}, admin...), "--key is empty")
	s.end(t)
}

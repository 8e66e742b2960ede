package operate

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

const convnext = `"variants": [
      {"name": "T", "quality": 0.97756, "demand": {"memory": 158}, "latency_ms": 5}, {"name": "S", "quality": 0.99055, "demand": {"memory": 241}},
      {"name": "B", "quality": 0.99583, "demand": {"memory": 388}}, {"name": "L", "quality": 1, "demand": {"memory": 806}}]`

const three = `{"alpha": 0.1, "policy": "exact",
 "servers": [{"name": "S1", "site": "a", "free": {"memory": 400}}, {"name": "S2", "site": "b", "free": {"memory": 300}}, {"name": "S3", "site": "b", "free": {"memory": 500}}],
 "applications": [
   {"name": "A", "primary": "S1", "rate": 1, "critical": true, "max_latency_ms": 50, ` + convnext + `},
   {"name": "B", "primary": "S2", "rate": 2, ` + convnext + `},
   {"name": "C", "primary": "S3", "rate": 1, ` + convnext + `}]}`

// execute runs a command with a standard input, and returns what it prints.
func execute(t *testing.T, c *cobra.Command, in string, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	c.SetArgs(args)
	c.SetIn(strings.NewReader(in))
	c.SetOut(&out)
	c.SetErr(&out)
	c.SilenceErrors, c.SilenceUsage = true, true
	err := c.Execute()
	return out.String(), err
}

func planned(t *testing.T, text string) *PlannedFailover {
	t.Helper()
	out, err := execute(t, newFailoverPlan(), text, "--in", "-")
	p := new(PlannedFailover)
	if err == nil {
		err = json.Unmarshal([]byte(out), p)
	}
	if err != nil {
		t.Fatal(err, out)
	}
	return p
}

// TestPlanOfThree: the worked example of the proactive program, by every policy.
func TestPlanOfThree(t *testing.T) {
	exact := planned(t, three)
	if math.Abs(exact.Objective-3.978037) > 5e-6 || len(exact.Placements) != 3 || exact.Optimal == nil || !*exact.Optimal {
		t.Errorf("exact: %+v", exact)
	}
	for _, policy := range []string{"gearshift", "alg1", "alg1-printed"} {
		p := planned(t, strings.Replace(three, "exact", policy, 1))
		if len(p.Placements) != 3 || p.Optimal != nil || policy != "alg1-printed" && p.Objective > exact.Objective+1e-9 {
			t.Errorf("%s: %+v", policy, p)
		}
	}
}

// TestUnprotected: an application without a backup is no error, and the reason is told.
func TestUnprotected(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"primary": "S1", "rate": 1, "critical": true, "max_latency_ms": 50, ` + convnext, `"max_latency_ms": 4, "variants": [{"name": "T", "quality": 1, "demand": {"memory": 158}, "latency_ms": 5}]`, "no variant answers within 4 ms"},
		{convnext, `"variants": [{"name": "L", "quality": 1, "demand": {"memory": 806}}]`, "no variant fits what any host has free without other backups"},
		{`"alpha": 0.1`, `"alpha": 0.7`, "what is left of all free capacity is kept for loads after a failure (alpha 0.7)"},
		{
			`"free": {"memory": 400}}, {"name": "S2", "site": "b", "free": {"memory": 300}}, {"name": "S3", "site": "b", "free": {"memory": 500}}`,
			`"free": {"memory": 300}}, {"name": "S2", "site": "b", "free": {"memory": 160}}, {"name": "S3", "site": "b", "free": {"memory": 100}}`,
			"backups of others take the room",
		},
	} {
		p := planned(t, strings.Replace(three, c.from, c.to, 1))
		if !slices.ContainsFunc(p.Unprotected, func(u Unprotected) bool { return u.Why == c.want }) {
			t.Errorf("with %s: %+v; want one for which %s", c.to, p.Unprotected, c.want)
		}
	}
	alone := strings.NewReplacer(`"site": "b"`, `"site": "a"`, `"alpha": 0.1`, `"alpha": 0.1, "site_independent": true`).Replace(three)
	if p := planned(t, alone); len(p.Unprotected) != 3 || p.Unprotected[0].Why != "no host is on another site than a" {
		t.Errorf("one site: %+v", p)
	}
}

func TestBadProblems(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"alpha": 0.1`, `"alpha": 1.5`, "alpha: 1.5 must be a share from 0 to below 1"},
		{`"alpha": 0.1`, `"alpa": 0.1`, `standard input:1: alpa: unknown key; did you mean "alpha"?`},
		{`"policy": "exact"`, `"policy": "best"`, `policy: "best"; want one of gearshift, exact, alg1, alg1-printed`},
		{`"name": "S2"`, `"name": "S1"`, `servers[1]: the name "S1" is empty or there twice`},
		{`"rate": 2`, `"rate": 0`, `application "B": rate: 0 must be a number above 0`},
		{`"rate": 2`, `"rate": "two"`, `standard input:7: applications[1].rate: want a number, found the quoted text "two"`},
		{`{"memory": 300}`, `{"memory": -300}`, `server "S2": free: memory: -300 must be a number from 0 on`},
		{`{"memory": 300}`, `{"compute": 300}`, `server "S1": free: there is no amount of compute, which others have; want one`},
		{`"quality": 0.97756, `, ``, `standard input:5: applications[0].variants[0].quality: missing; it has no default`},
		{`"primary": "S1"`, `"primary": "S1", "site": "c"`, `application "A": site: "c" is not that of its primary S1, "a"; leave it out`},
		{three, ` `, "standard input:1: the file is empty"},
		{three, `{"servers": []}`, "standard input:1: applications: missing; it has no default"},
	} {
		_, err := execute(t, newFailoverPlan(), strings.Replace(three, c.from, c.to, 1), "--in", "-")
		if err == nil || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("with %s: %v; want %s", c.to, err, c.want)
		}
	}
}

package scenario_test

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/router/fleet"
)

// setup holds the sections that the set-ups of the guide leave out.
const setup = `
name: setup
tasks: [{name: chat, deadline_ms: 60, quality: {small: 0.8, large: 1}}]
variants: [{name: small, model: small}, {name: large, model: large}]
profiles:
  - {variant: small, launch_floor_ms: 3, weights_ms: 3, growth_per_sequence: 0.003, contention: 0.15, token_ms: 0.02, context_token_ms: 0.001, overhead_ms: 1, sequence_ms: 0.2, weight_bytes: 1_500_000_000, activation_bytes: 100_000_000, kv_bytes_per_token: 65_536}
  - {variant: large, launch_floor_ms: 6, weights_ms: 20, growth_per_sequence: 0.003, contention: 0.15, token_ms: 0.2, context_token_ms: 0.002, overhead_ms: 1, sequence_ms: 0.2, weight_bytes: 6_000_000_000, activation_bytes: 200_000_000, kv_bytes_per_token: 131_072}
`

// fragments returns the guide's scenario fragments, by the names of their models' host.
func fragments(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("../../docs/guides/loading-models.md")
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(models:.*?)```").FindAllStringSubmatch(string(page), -1) {
		list = append(list, m[1])
	}
	return list
}

// Each set-up of the guide is a scenario that check accepts, and in which models are woken for requests that are held.
func TestSetUpsOfTheGuide(t *testing.T) {
	list := fragments(t)
	if len(list) != 5 {
		t.Fatalf("%d set-ups in the guide, want 5", len(list))
	}
	for _, text := range list {
		s := parse(t, setup+text)
		if !s.Controlled() || len(s.Table().Models) != 2 {
			t.Errorf("%s\nnothing wakes its models", text)
		}
	}
}

// A variant at two shares of a host's memory, of which one engine is asleep: what sleeps changes nothing for the
// other, its turn comes by steps of a workload, and requests are held in between. No request is lost.
func TestTwoSharesOfMemory(t *testing.T) {
	list := fragments(t)
	two := strings.Replace(setup+list[0], "hold: {for: 30s}", "hold: {for: 1m}", 1)
	s := parse(t, two)
	s.Served = true
	one := parse(t, strings.Replace(strings.Replace(two, "  - {name: small-wide, variant: small, hosts: [gpu0], memory: 90%, state: warm}\n", "", 1), "    small-wide@gpu0: {url: \"http://gpu0:8002/v1\", lifecycle: vllm, model: small}\n", "", 1))
	one.Served = true
	if len(one.Table().Replicas) != 2 || len(s.Table().Replicas) != 3 {
		t.Fatalf("%d and %d replicas", len(one.Table().Replicas), len(s.Table().Replicas))
	}
	for _, rule := range []string{"threshold", "slackfit", "task-aware", "least-work", "priced"} {
		a, b := played(t, s, rule, 300, 1, "poisson:6")[0], played(t, one, rule, 300, 1, "poisson:6")[0]
		if a.Utility.Mean != b.Utility.Mean {
			t.Errorf("%s: %v with an engine asleep, %v without it", rule, a.Utility.Mean, b.Utility.Mean)
		}
	}
	const turn = "poisson:6+sleep:small@gpu0@10+sleep:large@gpu0@10+wake:small-wide@gpu0@10+sleep:small-wide@gpu0@30+wake:small@gpu0@30+wake:large@gpu0@30"
	r := played(t, s, "threshold", 300, 1, turn)[0]
	if r.DeadlineMet.Mean < 0.9 || len(r.Served.Refused) > 0 || r.Requests != 300 {
		t.Errorf("of %d requests %v in time, %v refused", r.Requests, r.DeadlineMet.Mean, r.Served.Refused)
	}
	if small, wide := s.KVTokens()[0], s.KVTokens()[2]; wide < 3*small {
		t.Errorf("caches of %d and %d tokens", small, wide)
	}
}

// Two replicas that are one engine are refused, and so are two of a variant on a host with failover.
func TestTwoSharesAreTwoEngines(t *testing.T) {
	text := setup + fragments(t)[0]
	_, err := scenario.Parse("test.yaml", []byte(strings.Replace(text, ":8002/v1", ":8000/v1", 1)))
	if err == nil || !strings.Contains(err.Error(), "serving.upstreams.small-wide@gpu0: is one engine for small@gpu0 and small-wide@gpu0; want an entry for each, with a url of its own") {
		t.Errorf("%v", err)
	}
	if s := parse(t, text); s.Table().Places(0) != 1 || s.Table().Replicas[2].Initial != fleet.Warm {
		t.Errorf("%d places; %+v", s.Table().Places(0), s.Table().Replicas)
	}
}

package scenario_test

import (
	"strings"
	"testing"

	"gearshift/env/evaluation"
	"gearshift/internal/scenario"
)

// dozing has a host with two sizes, of which the large one, which alone answers proofs, is asleep at the start.
const dozing = `
name: dozing
tasks:
  - {name: chat, deadline_ms: 60, quality: {small: 1}}
  - {name: proofs, deadline_ms: 120, total_ms: 3000, quality: {large: 1}}
models:
  - {name: small, memory: 2GiB, load_ms: 20000}
  - {name: large, memory: 8GiB, load_ms: 40000, wake_ms: 2500, first_answer_ms: 900}
variants: [{name: small, model: small}, {name: large, model: large}]
hosts: [{name: h1, memory: 24GiB}]
replicas:
  - {variant: small, hosts: [h1], memory: 25%}
  - {variant: large, hosts: [h1], memory: 60%, state: warm}
profiles:
  - {variant: small, launch_floor_ms: 3, weights_ms: 3, growth_per_sequence: 0.003, contention: 0.15, token_ms: 0.02, context_token_ms: 0.001, overhead_ms: 1, sequence_ms: 0.2, weight_bytes: 1_500_000_000, activation_bytes: 100_000_000, kv_bytes_per_token: 65_536}
  - {variant: large, launch_floor_ms: 6, weights_ms: 20, growth_per_sequence: 0.003, contention: 0.15, token_ms: 0.2, context_token_ms: 0.002, overhead_ms: 1, sequence_ms: 0.2, weight_bytes: 6_000_000_000, activation_bytes: 200_000_000, kv_bytes_per_token: 131_072}
workload:
  prompt_tokens: {distribution: uniform, min: 8, max: 64}
  output_tokens: {distribution: geometric, mean: 20, max: 60}
serving:
  backend: upstream
  upstreams: {"*@h1": {url: "http://127.0.0.1:9101", lifecycle: gearshift}}
`

// Requests for a size that sleeps are refused, or with serving.hold wait until it is woken, which the simulation
// does as the server; those of its task that come later are answered in time.
func TestHeldRequestsAreSimulated(t *testing.T) {
	play := func(more string) evaluation.Result {
		s := parse(t, dozing+more)
		s.Served = true
		return played(t, s, "threshold", 600, 1, "poisson:4")[0]
	}
	refused, held := play(""), play("  hold: {for: 30s, most: 50}\n")
	if n := refused.Served.Refused["no_replica"]; n < 0.4 || n > 0.6 {
		t.Errorf("%v of the requests are refused while nothing is held, want those of one task", refused.Served.Refused)
	}
	if c := held.Served.Controllers["replicas woken for held requests"]; c != 1 || len(held.Served.Refused) > 0 {
		t.Errorf("%v replicas woken, want one; refused %v", c, held.Served.Refused)
	}
	if held.DeadlineMet.Mean < 0.97 || held.DeadlineMet.Mean == 1 {
		t.Errorf("%v met their deadlines, want all but the first few", held.DeadlineMet.Mean)
	}
}

func TestFaultsOfHolds(t *testing.T) {
	for _, c := range []struct{ old, new, want string }{
		{"", "  hold: {for: 500ms}\n", "serving.hold.for: want a time from 1s to 10m, or 0s to hold no request, not 500ms"},
		{"", "  hold: {for: 30s, most: 0}\n", "serving.hold.most: 0 must be at least 1"},
		{"", "  hold: {for: 30s, most: 300}\n", "serving.hold.most: 300 are more than overload.max_queue, 256, lets wait; want at most as many"},
		{", lifecycle: gearshift", "  hold: {for: 30s}\n", "serving.hold.for: holds requests until an engine has loaded or woken their model, and no engine does that; want serving.upstreams with a lifecycle, one of gearshift, llamacpp, ollama, triton, vllm"},
		{"", "  hold: {fro: 30s}\n", `serving.hold.fro: unknown key; did you mean "for"?`},
	} {
		_, err := scenario.Parse("test.yaml", []byte(strings.Replace(dozing, c.old, "", 1)+c.new))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v\nwant %s", c.new, err, c.want)
		}
	}
}

package scenario_test

import (
	"math"
	"testing"

	"gearshift/internal/scenario"
)

// TestHostTimeIsThatOfAFullBatch: as many mean answers as a replica gives in time within a second
// take a second of its host, and twice the tokens take twice as long.
func TestHostTimeIsThatOfAFullBatch(t *testing.T) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	took := s.HostTime()
	for i, c := range s.Capacities(s.PaceMS(&s.Tasks[0])) {
		mean := took(i, 0).Seconds()
		if got := mean * c.Rate; math.Abs(got-1) > 1e-6 {
			t.Errorf("replica %d: %.2f answers a second take %.3f s", i, c.Rate, got)
		}
		if many, few := took(i, 500).Seconds(), took(i, 250).Seconds(); math.Abs(many/few-2) > 1e-6 || few < 0.9*mean || few > 1.1*mean {
			t.Errorf("replica %d: 500 tokens take %.3f s, 250 %.3f, the mean answer of 256 %.3f", i, many, few, mean)
		}
	}
}

// An application takes as much of a host as its rate is of what check says that a replica answers, in a
// batch, where the engine generates token by token.
func TestAnApplicationTakesItsShareOfABatch(t *testing.T) {
	const text = `
tasks: [{name: chat, deadline_ms: 40, rate: 3, quality: {llama: 1}}]
variants: [{name: llama, model: llama}]
models: [{name: llama, memory: 60GB, load_ms: 20000}]
hosts: [{name: gpu0, memory: 80GB}, {name: gpu1, memory: 80GB}]
profiles:
  - {variant: llama, launch_floor_ms: 1.6, weights_ms: 10.75, growth_per_sequence: 0.002, token_ms: 0.08949, context_token_ms: 0.00009384, overhead_ms: 2, weight_bytes: 16_060_000_000, activation_bytes: 1_000_000_000, kv_bytes_per_token: 131_072, sequence_ms: 0.02, contention: 0.7}
engine: {max_sequences: 32}
workload: {prompt_tokens: {distribution: lognormal, mean: 136, cv: 1.5, max: 1024}, output_tokens: {distribution: lognormal, mean: 256, cv: 0.8, max: 1024}}
failover: {}
`
	s := parse(t, text)
	c := s.Capacities(40)[0]
	if c.Batch != 32 || c.Rate < 2*1000/(256*c.Alone) {
		t.Fatalf("a replica answers %+v", c)
	}
	got := s.FailoverProblem(true).Applications[0].Variants[0].Demand[1]
	if want := 3 / c.Rate; math.Abs(got-want) > 1e-9*want || want > 1 {
		t.Errorf("3 requests/s take %.4f of a host, want %.4f at %.3f requests/s", got, want, c.Rate)
	}
}

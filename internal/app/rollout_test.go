package app

import (
	"log/slog"
	"testing"

	"gearshift/serving"
)

// A model that is updated in real time stays as it is next to one whose versions change.
func TestAModelUpdatedInRealTimeStays(t *testing.T) {
	s := parse(t, `
tasks: [{name: chat, total_ms: 1000, quality: {small: 0.8, live: 1}}]
variants: [{name: small, model: small}, {name: live, model: live}]
models: [{name: small, memory: 300MB}, {name: live, memory: 300MB, real_time: true}]
hosts: [{name: h1, memory: 2GB}]
replicas: [{variant: small, hosts: [h1], memory: 20%}, {variant: live, hosts: [h1], memory: 20%}]
profiles: [{variant: small, batch_ms: {1: 5}}, {variant: live, batch_ms: {1: 9}}]
workload: {output_tokens: {distribution: none}}
rollout: {}
`)
	core, err := NewCore(s, s.Serving.Fallback, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	backends := make([]serving.Backend, len(core.Table().Replicas))
	m, err := (&Options{}).newRollout(s, core.Ledger(), s.Busy(core.Ledger()), backends, stateFiles{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if backends[0].Versioned == nil || backends[1].Versioned != nil {
		t.Errorf("names may change: %t, %t; want that of small alone to change", backends[0].Versioned != nil, backends[1].Versioned != nil)
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}

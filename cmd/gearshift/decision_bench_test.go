//go:build !serveonly

package main

import (
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/internal/app"
	"gearshift/internal/onnxruntime"
	"gearshift/internal/scenario"
	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// BenchmarkDecision times a decision as the server makes it, from the arrival to
// the end of the lease, with four networks of random weights and 40 requests in
// flight: run natively, and by ONNX Runtime.
func BenchmarkDecision(b *testing.B) {
	b.Run("native", func(b *testing.B) { decide(b, onnxruntime.Native) })
	b.Run("ONNX", func(b *testing.B) {
		needONNX(b)
		decide(b, onnxruntime.ONNX)
	})
}

func decide(b *testing.B, engine string) {
	s, err := scenario.Load("titan-rtx-opt")
	if err != nil {
		b.Fatal(err)
	}
	core, err := app.NewCore(s, s.Serving.Fallback, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	maker, err := s.Maker(core.Table())
	if err != nil {
		b.Fatal(err)
	}
	source, err := onnxruntime.Source("", engine)
	if err != nil {
		b.Fatal(err)
	}
	spec := s.Spec()
	var members []*nn.MLP
	for i := range uint64(4) {
		net, err := nn.New(spec.Inputs(), 64, 64, spec.Outputs())
		if err != nil {
			b.Fatal(err)
		}
		net.Randomise(rand.New(rand.NewPCG(1, i)))
		members = append(members, net)
	}
	stack, err := nn.Stack(members...)
	if err != nil {
		b.Fatal(err)
	}
	net, err := stack.Favouring(0.03, spec.Outputs())
	if err != nil {
		b.Fatal(err)
	}
	values, err := source.Values(net)
	if err != nil {
		b.Fatal(err)
	}
	policy, err := maker.Network("random@1", spec, values, policy.Trust{Caution: 1})
	if err != nil {
		b.Fatal(err)
	}
	if err := core.SetPolicy(policy); err != nil {
		b.Fatal(err)
	}
	timed(b, core.Core)
}

// timed reports the median and the 99th percentile of single decisions.
func timed(b *testing.B, core *router.Core) {
	var live [40]router.Choice
	times := make([]float64, 0, 1<<20) // of the first
	r := &fleet.Request{PromptTokens: 90}
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Task = i % 4
		now, from := time.Duration(i)*20*time.Millisecond, time.Now()
		core.Ledger().Arrive(now)
		choice, err := core.Route(-1, r, now, nil)
		live[i%len(live)].Lease.End()
		if took := time.Since(from); len(times) < cap(times) {
			times = append(times, float64(took)/float64(time.Microsecond))
		}
		if err != nil || choice.Fallback {
			b.Fatal(choice, err)
		}
		live[i%len(live)] = choice
	}
	slices.Sort(times)
	b.ReportMetric(times[len(times)/2], "p50-µs")
	b.ReportMetric(times[len(times)*99/100], "p99-µs")
}

package main

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/router/fleet"
	"gearshift/router/observation"
	"gearshift/workloads"
)

// script draws numbers that any language draws alike, by a linear congruential
// generator, so that scripts/peers plays the very same requests.
type script uint32

// uniform is in [0, 1).
func (s *script) uniform() float64 {
	*s = *s*1664525 + 1013904223
	return float64(*s) / (1 << 32)
}

func (s *script) exponential() float64 { return -math.Log(1 - s.uniform()) }

func (s *script) geometric(mean float64) int {
	return 1 + int(-s.exponential()/math.Log1p(-1/mean))
}

// scriptedRequests is the workload U1 on titan-rtx-opt, drawn from a script.
type scriptedRequests struct {
	script
	rate float64
	left int // requests of the segment to come
	now  time.Duration
	n    int // requests to come; negative: endless
}

// Next implements [workloads.Stream].
func (s *scriptedRequests) Next() (workloads.Arrival, bool) {
	if s.n == 0 {
		return workloads.Arrival{}, false
	}
	s.n--
	if s.left == 0 {
		low, high := 40., 48.
		switch band := s.uniform(); {
		case band < 0.90:
			low, high = 0.25, 2
		case band < 0.98:
			low, high = 2, 40
		}
		s.rate = low + float64((high-low)*s.uniform()) // rounded as in Python
		s.left = s.geometric(20 * s.rate)
	}
	s.left--
	s.now += time.Duration(s.exponential() / s.rate * 1e9)
	a := workloads.Arrival{At: s.now, Rate: s.rate}
	a.Task = int(4 * s.uniform())
	a.PromptTokens = 45 + int(90*s.uniform())
	a.OutputTokens = min(1500, s.geometric(256))
	return a, true
}

// firstShortest picks the first replica with the fewest requests.
type firstShortest struct{}

func (firstShortest) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	best := -1
	for _, i := range v.Table.ReplicasOf(variant) {
		if best < 0 || v.InFlight[i] < v.InFlight[best] {
			best = i
		}
	}
	return best
}

// scriptedSimulation is what scripts/peers/environment.py ports: titan-rtx-opt under scripted
// requests (negative: endless), with an observation of nine numbers, of the Spec.
func scriptedSimulation(tb testing.TB, requests int) (config env.Config, spec observation.Spec) {
	tb.Helper()
	config, err := scenarioOf(tb, "titan-rtx-opt").Simulation()
	if err != nil {
		tb.Fatal(err)
	}
	spec, err = observation.NewSpec(config.Table, []observation.Feature{
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: []float64{20, 20, 4}},
		{Kind: observation.Rate, Scale: []float64{24}},
		{Kind: observation.LogRate, Scale: []float64{1}},
	})
	if err != nil {
		tb.Fatal(err)
	}
	if config.Encoder, err = observation.NewEncoder(spec, config.Table, nil); err != nil {
		tb.Fatal(err)
	}
	config.Balancer, config.Forecaster = firstShortest{}, nil
	config.Open = func(seed uint64) (workloads.Stream, error) {
		return &scriptedRequests{script: script(seed), n: requests}, nil
	}
	return config, spec
}

// BenchmarkEnvironment plays scripted requests, with sizes drawn at random: what
// scripts/bench-compare.sh compares with Python. "check" is the sum of the times
// at which they end, in ns, which a faithful port has too.
//
//	go test -run '^$' -bench Environment ./cmd/gearshift
func BenchmarkEnvironment(b *testing.B) {
	b.Run("one-core", func(b *testing.B) { playScripted(b, 1) })
	b.Run("two-cores", func(b *testing.B) { playScripted(b, 2) })
}

// playScripted plays so many environments at the same time, of which each goes on when it
// is done: cores need not be equally quick.
func playScripted(b *testing.B, environments int) {
	if min(runtime.NumCPU(), runtime.GOMAXPROCS(0)) < environments {
		b.Skipf("fewer than %d cores", environments)
	}
	const requests = 2000
	var list []*env.Environment
	for range environments {
		config, _ := scriptedSimulation(b, requests)
		e, err := env.New(config)
		if err != nil {
			b.Fatal(err)
		}
		list = append(list, e)
	}
	episodes := int64(b.N * environments)
	var begun atomic.Int64
	var check atomic.Int64 // the same of all
	var wg sync.WaitGroup
	b.ResetTimer()
	for _, e := range list {
		wg.Go(func() {
			for begun.Add(1) <= episodes {
				sum, err := playEpisode(e)
				if err != nil {
					b.Error(err)
				}
				check.Store(int64(sum))
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(episodes*requests)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(check.Load()), "check")
}

// playEpisode plays one, and sums the times at which its requests ended.
func playEpisode(e *env.Environment) (sum time.Duration, err error) {
	routes := script(2)
	if _, err := e.Reset(1); err != nil {
		return 0, err
	}
	for {
		step, err := e.Step(int(routes.uniform() * 3))
		if err != nil {
			return 0, err
		}
		for i := range step.Info.Outcomes {
			sum += step.Info.Outcomes[i].Finished
		}
		if step.Terminated {
			return sum, nil
		}
	}
}

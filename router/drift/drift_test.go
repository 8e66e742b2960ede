package drift_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"gearshift/env/engine"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

var (
	quick = profile.Profile{LaunchFloor: 2, Weights: 3, Growth: 0.01, Token: 0.05, Context: 0.0002, Overhead: 0.5, Sequence: 0.05, Contention: 0.8}
	heavy = profile.Profile{Weights: 20, Growth: 0.02, Token: 0.3, Context: 0.001, Overhead: 1, Sequence: 0.1, Contention: 0.5}
)

// bench is a monitor of two replicas on one host, which compute in simulated time.
type bench struct {
	*drift.Monitor
	log    bytes.Buffer
	host   *engine.Host
	now    time.Duration
	random *rand.Rand
	lastID uint64
	jobs   map[uint64]*job
	config drift.Config
	timed  []drift.Timing
	slow   [2]float64 // what OnSlow told last; 0 is nothing yet
}

type job struct {
	replica, prompt, output int
	timed                   bool
	stay                    drift.Stay
}

func newBench(t testing.TB, scheduler string) *bench {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: time.Second, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "quick"}, {Name: "heavy"}}, []fleet.Host{{Name: "a"}},
		[]fleet.Replica{{Name: "quick@a", Variant: 0}, {Name: "heavy@a", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{random: rand.New(rand.NewPCG(1, 2)), jobs: map[uint64]*job{}}
	b.config = drift.Config{
		Table: table, Profiles: []*profile.Profile{&quick, &heavy}, Sequences: 16, Chunked: scheduler == engine.ChunkedPrefill,
		Log: slog.New(slog.NewTextHandler(&b.log, nil)),
	}
	b.Monitor = drift.New(b.config)
	b.OnSlow = func(replica int, factor float64) { b.slow[replica] = factor }
	return b
}

// engines has the replicas run from now on, that many times as slow as they should.
func (b *bench) engines(t testing.TB, scheduler string, times float64) {
	t.Helper()
	c := engine.Config{Scheduler: scheduler, MaxBatchTokens: 512, MaxSequences: 16, BlockTokens: 16}
	var list []*engine.Engine
	for _, p := range []profile.Profile{quick, heavy} {
		e, err := engine.New(c, p.Slower(times), 1<<17)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e)
	}
	b.host = engine.NewHost(list...)
}

// run has so many requests come to each replica, Poisson at that rate per second
// for each, a share of them streams, and works them off.
func (b *bench) run(requests int, rates [2]float64, streams float64) {
	var next [2]time.Duration
	var left [2]int
	for i := range next {
		next[i], left[i] = b.now+b.gap(rates[i]), requests
	}
	for {
		end, busy := b.host.Next()
		i := 0
		if left[0] == 0 || left[1] > 0 && next[1] < next[0] {
			i = 1
		}
		switch {
		case left[i] > 0 && (!busy || next[i] <= end):
			b.submit(i, next[i], b.random.Float64() < streams)
			next[i] += b.gap(rates[i])
			left[i]--
		case busy:
			b.now = end
			b.step()
		default:
			return
		}
	}
}

func (b *bench) gap(rate float64) time.Duration {
	return time.Duration(b.random.ExpFloat64() / rate * float64(time.Second))
}

func (b *bench) submit(replica int, now time.Duration, timed bool) {
	b.lastID++
	b.now = now
	j := &job{replica: replica, prompt: 20 + b.random.IntN(200), output: 10 + b.random.IntN(200), timed: timed}
	b.jobs[b.lastID] = j
	b.Place(&j.stay, replica, now, j.prompt)
	if !timed {
		b.Enter(&j.stay, replica, now, j.prompt, 100, false)
	}
	b.host.Submit(replica, engine.Sequence{ID: b.lastID, PromptTokens: j.prompt, OutputTokens: j.output}, now)
}

func (b *bench) step() {
	for _, e := range b.host.Step(nil) {
		j := b.jobs[e.ID]
		switch {
		case e.Kind == engine.Finished:
			b.Leave(&j.stay, e.At, j.output, true)
			delete(b.jobs, e.ID)
		case j.timed:
			b.Enter(&j.stay, j.replica, e.At, j.prompt, 1, true)
		}
	}
	for i := range 2 {
		b.host.Each(i, func(id uint64, generated int) {
			if j := b.jobs[id]; j.timed {
				b.Advance(&j.stay, b.now, j.prompt, generated)
			}
		})
	}
}

func (b *bench) wantRatio(t *testing.T, replica int, want, within float64) {
	t.Helper()
	ratio, answers, known := b.Ratio(replica)
	if !known || math.Abs(ratio/want-1) > within {
		t.Errorf("replica %d: %.3f times as predicted after %d answers, known %t; want %.2f", replica, ratio, answers, known, want)
	}
}

func (b *bench) warnings() (warned, recovered int) {
	return strings.Count(b.log.String(), "level=WARN"), strings.Count(b.log.String(), "keeps to its profile again")
}

// An engine that computes as its profile says is found to, alone or beside a
// busy neighbour, whatever the load.
func TestEnginesThatKeepToTheirProfiles(t *testing.T) {
	for _, scheduler := range []string{engine.PrefillFirst, engine.ChunkedPrefill} {
		for _, c := range []struct {
			rates   [2]float64
			streams float64
		}{
			{[2]float64{0.1, 0.05}, 1}, // nearly idle
			{[2]float64{5, 0.05}, 1},
			{[2]float64{10, 1.5}, 1},
			{[2]float64{15, 4}, 1}, // more than can be run
			{[2]float64{10, 1.5}, 0.5},
		} {
			t.Run(fmt.Sprint(scheduler, c), func(t *testing.T) {
				b := newBench(t, scheduler)
				b.engines(t, scheduler, 1)
				b.run(600, c.rates, c.streams)
				for i := range 2 {
					b.wantRatio(t, i, 1, 0.02)
				}
				if b.log.Len() > 0 || b.slow != [2]float64{} {
					t.Errorf("slow %v, log: %s", b.slow, &b.log)
				}
			})
		}
	}
}

// One that has become twice as slow is found, said once, and once more when it is
// as it was.
func TestEnginesThatDrift(t *testing.T) {
	const scheduler = engine.PrefillFirst
	rates := [2]float64{4, 0.5}
	b := newBench(t, scheduler)
	b.engines(t, scheduler, 1)
	b.run(100, rates, 1)
	b.engines(t, scheduler, 2)
	b.run(200, rates, 1)
	for i := range 2 {
		b.wantRatio(t, i, 2, 0.05)
	}
	if warned, recovered := b.warnings(); warned != 2 || recovered != 0 || !strings.Contains(b.log.String(), "replica=heavy@a") ||
		!strings.Contains(b.log.String(), "gearshift profile measure") {
		t.Errorf("%d warnings of two slow replicas, %d of a recovery: %s", warned, recovered, &b.log)
	}
	b.engines(t, scheduler, 1)
	b.run(300, rates, 1)
	for i := range 2 {
		b.wantRatio(t, i, 1, 0.02)
	}
	if warned, recovered := b.warnings(); warned != 2 || recovered != 2 {
		t.Errorf("%d warnings, %d recoveries: %s", warned, recovered, &b.log)
	}
	b.engines(t, scheduler, 0.5)
	b.run(200, rates, 1)
	if warned, _ := b.warnings(); warned != 4 || !strings.Contains(b.log.String(), "quicker") {
		t.Errorf("%d warnings: %s", warned, &b.log)
	}
}

// answer has one stream of a replica that nobody else is on take so many times as
// long as predicted.
func (b *bench) answer(times float64) {
	const prompt, output = 40, 41
	var s drift.Stay
	b.Enter(&s, 1, b.now, prompt, 1, true)
	var ms float64
	for n := 1; n < output; n++ {
		step, _ := heavy.Step(1, 1, prompt+n, 0)
		ms += step
		b.Advance(&s, b.now+time.Duration(times*ms*float64(time.Millisecond)), prompt, n+1)
	}
	b.now += time.Duration(times * ms * float64(time.Millisecond))
	b.Leave(&s, b.now, output, true)
}

// Nothing is said of few answers, nor of some that are far off among many that are
// not; a replica at the bound does not flap.
func TestWhatIsNotDrift(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for range drift.Enough - 1 {
		b.answer(2)
	}
	warned, _ := b.warnings()
	if ratio, n, known := b.Ratio(1); known || n != drift.Enough-1 || warned > 0 {
		t.Errorf("%v after %d answers, known %t, log %q", ratio, n, known, &b.log)
	}
	b.answer(2)
	b.wantRatio(t, 1, 2, 0.02)
	if warned, _ = b.warnings(); warned != 1 {
		t.Errorf("%d warnings of a replica twice as slow", warned)
	}

	b = newBench(t, engine.PrefillFirst)
	for n := range 400 {
		times := 1.0
		if n%8 == 0 {
			times = 1000
		}
		b.answer(times)
	}
	for n := range 1000 {
		b.answer([]float64{1.05, 1.4}[n%2])
	}
	if warned, recovered := b.warnings(); warned > 1 || recovered > 0 {
		t.Errorf("%d warnings and %d recoveries: %s", warned, recovered, &b.log)
	}
}

// Answers that broke off, are short, or whose tokens nobody saw come, say nothing;
// and all of them leave the replica as it was.
func TestWhatIsNotCompared(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	for _, c := range []struct {
		tokens       int
		timed, whole bool
	}{{100, true, false}, {drift.Shortest, true, true}, {100, false, true}, {0, false, true}} {
		var s drift.Stay
		b.Enter(&s, 0, 0, 10, 1, c.timed)
		b.Advance(&s, 0, 10, c.tokens)
		b.Leave(&s, time.Second, c.tokens, c.whole)
		b.Leave(&s, time.Second, c.tokens, c.whole)
	}
	if _, n, _ := b.Ratio(0); n != 0 {
		t.Errorf("%d answers compared", n)
	}
	for range drift.Enough {
		b.answer(1)
	}
	b.wantRatio(t, 1, 1, 0.01)
}

// What others have on the replica, and beside it, slows what is predicted.
func TestOthers(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	b.Others(1, 7, 7*200)
	b.Others(0, 4, 4*200)
	for range drift.Enough {
		b.answer(1)
	}
	if ratio, _, _ := b.Ratio(1); ratio > 0.8 {
		t.Errorf("an answer as quick as of an idle replica takes %.2f of what is predicted of a busy one", ratio)
	}
	b.Others(1, 0, 0)
	b.Others(0, 0, 0)
	for range 8 * drift.Enough {
		b.answer(1)
	}
	b.wantRatio(t, 1, 1, 0.02)
}

// Requests come and go on many goroutines, and leave nothing behind.
func TestConcurrentRequests(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	var all sync.WaitGroup
	for k := range 8 {
		all.Go(func() {
			for n := range 200 {
				var s drift.Stay
				now := time.Duration(n) * time.Second
				b.Enter(&s, (k+n)%2, now, 50, 1, n%3 > 0)
				for tokens := 1; tokens < 60; tokens += 3 {
					b.Advance(&s, now, 50, tokens)
				}
				b.Leave(&s, now+time.Second, 60, n%5 > 0)
				b.Ratio(k % 2)
			}
		})
	}
	all.Wait()
	for range 12 * drift.Enough {
		b.answer(1)
	}
	b.wantRatio(t, 1, 1, 0.01)
}

// BenchmarkRequest is what a request of 64 tokens costs, from its first to its last.
func BenchmarkRequest(b *testing.B) {
	m := newBench(b, engine.PrefillFirst)
	m.Others(0, 3, 600)
	b.ReportAllocs()
	for b.Loop() {
		m.answer(1)
	}
}

func TestRequestsAllocateNothing(t *testing.T) {
	b := newBench(t, engine.PrefillFirst)
	b.Others(0, 3, 600)
	if n := testing.AllocsPerRun(100, func() { b.answer(1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A Monitor that is not there does nothing.
func TestNilMonitor(t *testing.T) {
	var m *drift.Monitor
	var s drift.Stay
	m.Enter(&s, 0, 0, 1, 1, true)
	m.Advance(&s, 0, 1, 100)
	m.Leave(&s, time.Second, 100, true)
	m.Others(0, 1, 1)
	if _, _, known := m.Ratio(0); known {
		t.Error("it knows a ratio")
	}
}

package evaluation_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"math"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/env/evaluation"
	"gearshift/router/balance"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/workloads"
)

func ones(n int) []float64 { return slices.Repeat([]float64{1}, n) }

// One miss in 20 leaves 0.95: at the 0.94 level, not at 0.96. Windows overlap
// with stride 1: 9,981 of them in 10,000 requests (LBE-22).
func TestWindowVectors(t *testing.T) {
	utility := ones(20)
	if got := evaluation.Windows(utility, ones(20)); got != [5]float64{1, 1, 1, 1, 1} {
		t.Errorf("no miss: %v", got)
	}
	utility[7] = 0
	if got := evaluation.Windows(utility, ones(20)); got != [5]float64{0, 0, 0, 0, 1} {
		t.Errorf("one miss: %v", got)
	}
	if got := evaluation.Windows(ones(10_000), ones(10_000)); got[0] != 9981 {
		t.Errorf("10,000 requests have %v windows, want 9981", got[0])
	}
	if got := evaluation.Windows(ones(19), ones(19)); got[4] != 0 {
		t.Errorf("19 requests have %v windows", got[4])
	}
}

// With 1.3B alone and no miss, uniform tasks reach 0.94 with probability
// 0.020856, and 0.96 only as 20 times PIQA, the best task: 0.25²⁰ ≈ 9e-13.
func TestWindowsOfTheMiddleSize(t *testing.T) {
	quality := [4]float64{0.78, 0.95, 0.96, 0.94}
	var at94, at96 float64
	for a := range 21 {
		for b := range 21 - a {
			for c := range 21 - a - b {
				counts := [4]int{a, b, c, 20 - a - b - c}
				var utility []float64
				p := math.Gamma(21)
				for i, n := range counts {
					utility = append(utility, slices.Repeat([]float64{quality[i]}, n)...)
					p *= math.Pow(0.25, float64(n)) / math.Gamma(float64(n+1))
				}
				got := evaluation.Windows(utility, ones(20))
				at94 += p * got[4]
				at96 += p * got[3]
			}
		}
	}
	if math.Abs(at94-0.020856) > 5e-7 {
		t.Errorf("P(≥ 0.94) = %.6f, want 0.020856", at94)
	}
	if math.Abs(at96-math.Pow(0.25, 20)) > 1e-15 {
		t.Errorf("P(≥ 0.96) = %g, want %g", at96, math.Pow(0.25, 20))
	}
}

func TestBootstrap(t *testing.T) {
	same := evaluation.Bootstrap([]float64{0.5, 0.5, 0.5})
	if same != (evaluation.Interval{Mean: 0.5, Lo: 0.5, Hi: 0.5}) {
		t.Errorf("equal values: %+v", same)
	}
	var values []float64
	for i := range 100 {
		values = append(values, float64(i))
	}
	got := evaluation.Bootstrap(values)
	// The standard error of the mean is 2.89.
	if got.Mean != 49.5 || math.Abs(got.Lo-(49.5-1.96*2.89)) > 0.6 || math.Abs(got.Hi-(49.5+1.96*2.89)) > 0.6 {
		t.Errorf("0 … 99: %+v", got)
	}
}

// always chooses one variant.
type always int

func (always) Scratch() int                                        { return 0 }
func (a always) Decide(*fleet.View, *fleet.Request, []float32) int { return int(a) }
func open(rate float64) func(uint64) (workloads.Stream, error) {
	return func(seed uint64) (workloads.Stream, error) {
		p, err := workloads.NewPoisson(rate)
		if err != nil {
			return nil, err
		}
		shape := workloads.Shape{
			Mix:    workloads.Mix{"chat": 1},
			Prompt: workloads.Lengths{Distribution: "uniform", Min: 45, Max: 134},
			Output: workloads.Lengths{Distribution: "geometric", Mean: 64, Max: 400},
		}
		return workloads.New(p, []fleet.Task{{Name: "chat"}}, shape, seed, workloads.Limit{Requests: 200})
	}
}

func plan(t *testing.T) evaluation.Plan {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.7, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "gpu"}},
		[]fleet.Replica{{Name: "small@gpu", Variant: 0}, {Name: "large@gpu", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	fleet := env.Config{
		Table: table,
		Profiles: []*profile.Profile{
			{LaunchFloor: 3, Weights: 1, Growth: 0.003, Token: 0.004, Context: 0.0001, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
			{LaunchFloor: 8, Weights: 33, Growth: 0.003, Token: 0.19, Context: 0.0017, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		},
		KVTokens: []int{20_000, 10_000},
		Engine:   engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 2560, MaxSequences: 256, BlockTokens: 16},
		Balancer: balance.SmallestBatch{}, Check: true,
	}
	return evaluation.Plan{
		Contestants: []evaluation.Contestant{{Name: "small", Decider: always(0), Fleet: fleet}, {Name: "large", Decider: always(1), Fleet: fleet}},
		Workloads: []evaluation.Workload{
			{Name: "slow", Group: "both", Open: open(0.5)}, {Name: "fast", Group: "both", Open: open(5)},
		},
		Seeds: []uint64{1, 2, 3},
	}
}

// The large size is worth more while it keeps up and nothing once it stalls;
// a group is the mean of its members.
func TestEvaluate(t *testing.T) {
	p := plan(t)
	results, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]evaluation.Result{}
	for _, r := range results {
		got[r.Policy+" "+r.Workload] = r
	}
	small, large := got["small fast"], got["large slow"]
	if math.Abs(small.Utility.Mean-0.7) > 1e-12 || small.DeadlineMet.Mean != 1 || small.Requests != 600 || small.Share["small"] != 1 || small.Share["large"] != 0 {
		t.Errorf("small, fast: %+v", small)
	}
	if large.Utility.Mean < 0.8 || got["large fast"].Utility.Mean > 0.1 {
		t.Errorf("large: slow %v, fast %v", large.Utility, got["large fast"].Utility)
	}
	both, want := got["large both"], (large.Utility.Mean+got["large fast"].Utility.Mean)/2
	if math.Abs(both.Utility.Mean-want) > 1e-12 || both.Requests != 1200 {
		t.Errorf("large, both: %+v, want mean utility %v", both, want)
	}
	if small.TPOT.P50 <= 0 || small.TPOT.P99 < small.TPOT.P50 || small.TTFT.P50 <= 0 {
		t.Errorf("small, fast: latencies %+v %+v", small.TTFT, small.TPOT)
	}
}

// silence is a workload in which nothing comes, with the runs of some seeds taken from
// another.
func silence(but func(uint64) (workloads.Stream, error), of ...uint64) func(uint64) (workloads.Stream, error) {
	return func(seed uint64) (workloads.Stream, error) {
		if slices.Contains(of, seed) {
			return but(seed)
		}
		return nothing{}, nil
	}
}

type nothing struct{}

func (nothing) Next() (workloads.Arrival, bool) { return workloads.Arrival{}, false }

// A run in which no request comes counts as none, alone and in a group, and keeps its
// place among the seeds. Nothing but such runs is an error.
func TestRunsWithoutRequests(t *testing.T) {
	p := plan(t)
	p.Seeds = []uint64{1, 2, 3}
	p.Workloads[0].Open = silence(p.Workloads[0].Open, 1, 3)
	some, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	p.Seeds = []uint64{1, 3}
	full, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	slow, both := some[0], some[2]
	if slow.Workload != "slow" || len(slow.Runs) != 3 || !math.IsNaN(slow.Runs[1]) {
		t.Fatalf("runs %v", slow.Runs)
	}
	if slow.Runs = full[0].Runs; !reflect.DeepEqual(slow, full[0]) {
		t.Errorf("with a run without requests %+v\nwithout it %+v", slow, full[0])
	}
	if fast := some[1]; both.Runs[1] != fast.Runs[1] || both.Requests != slow.Requests+fast.Requests {
		t.Errorf("fast %+v, both %+v", fast, both)
	}
	r := evaluation.Report{Results: some, Variants: p.Contestants[0].Fleet.Table.Variants}
	for _, format := range evaluation.Formats {
		var b strings.Builder
		if err := r.Write(&b, format); err != nil || strings.Contains(b.String(), "NaN") {
			t.Errorf("%v: %s", err, b.String())
		}
	}
	p.Workloads[0].Open = silence(nil)
	if _, err = p.Evaluate(context.Background()); err == nil || err.Error() != "cannot evaluate small on slow: no request comes in any of its runs; want a higher rate, longer phases or more seeds" {
		t.Errorf("no requests at all: %v", err)
	}
	if samples, err := evaluation.Samples(t.Context(), &p.Contestants[0], &p.Workloads[0], 1); len(samples) != 0 || err != nil {
		t.Errorf("%d samples of nothing, %v", len(samples), err)
	}
}

// One core or two, the same numbers; other seeds, other ones.
func TestEvaluationRepeats(t *testing.T) {
	evaluate := func(cores int, seeds ...uint64) []evaluation.Result {
		defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(cores))
		p := plan(t)
		p.Seeds = seeds
		results, err := p.Evaluate(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return results
	}
	one, two := evaluate(1, 1, 2, 3, 4), evaluate(2, 1, 2, 3, 4)
	if !reflect.DeepEqual(one, two) {
		t.Errorf("on one core %+v\non two %+v", one, two)
	}
	if other := evaluate(2, 5, 6, 7, 8); reflect.DeepEqual(one, other) {
		t.Error("other seeds give the same results")
	}
}

// A run is judged by its own requests, also where its worker has played a longer one before.
func TestAShortRunAfterALongOne(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	p := plan(t)
	long := p.Workloads[0].Open
	p.Workloads[0].Open = func(seed uint64) (workloads.Stream, error) {
		stream, err := long(seed)
		if seed == 2 {
			stream = workloads.Take(stream, workloads.Limit{Requests: 50})
		}
		return stream, err
	}
	evaluate := func(seeds ...uint64) evaluation.Result {
		p.Seeds = seeds
		results, err := p.Evaluate(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return results[3] // of the large size
	}
	if after, alone := evaluate(1, 2), evaluate(2); after.Requests != 250 || after.Runs[1] != alone.Runs[0] {
		t.Errorf("after a long run %+v\nalone %+v", after, alone)
	}
}

func TestCancelledEvaluationEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	p := plan(t)
	if _, err := p.Evaluate(ctx); err == nil {
		t.Error("a cancelled evaluation succeeds")
	}
}

func TestReportFormats(t *testing.T) {
	p := plan(t)
	results, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	r := evaluation.Report{Scenario: "two", Seeds: 3, Results: results, Variants: p.Contestants[0].Fleet.Table.Variants}
	write := func(format string) string {
		var b bytes.Buffer
		if err := r.Write(&b, format); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var back evaluation.Report
	if err := json.Unmarshal([]byte(write("json")), &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Results) != 6 || back.Results[0].Windows["1.00"] != results[0].Windows["1.00"] || back.Scenario != "two" || back.Seeds != 3 {
		t.Errorf("JSON: %+v", back)
	}
	rows, err := csv.NewReader(strings.NewReader(write("csv"))).ReadAll()
	if err != nil || len(rows) != 7 {
		t.Errorf("CSV: %d rows, %v", len(rows), err)
	}
	if table := write("table"); strings.Count(table, "\n") != 7 || !strings.Contains(table, "100.0%") {
		t.Errorf("table:\n%s", table)
	}
	if err := r.Write(&bytes.Buffer{}, "xml"); err == nil {
		t.Error("format xml is written")
	}
}

// The samples of a run are its requests: what a result sums up, one by one.
func TestSamplesAreWhatResultsSumUp(t *testing.T) {
	p := plan(t)
	p.Seeds = p.Seeds[:1]
	results, err := p.Evaluate(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	samples, err := evaluation.Samples(t.Context(), &p.Contestants[0], &p.Workloads[0], p.Seeds[0])
	if err != nil {
		t.Fatal(err)
	}
	var utility, met float64
	for i, s := range samples {
		utility += s.Utility / float64(len(samples))
		if s.Met {
			met += 1 / float64(len(samples))
		}
		if i > 0 && s.Arrival < samples[i-1].Arrival {
			t.Errorf("request %d arrives before the one before it", i)
		}
	}
	if r := results[0]; len(samples) != r.Requests || math.Abs(utility-r.Utility.Mean) > 1e-9 || math.Abs(met-r.DeadlineMet.Mean) > 1e-9 {
		t.Errorf("%d samples of mean utility %v, %v met; the result is %+v", len(samples), utility, met, r)
	}
}

// placing chooses one replica.
type placing struct{ always }

func (p placing) Place(*fleet.View, *fleet.Request, []float32) int { return int(p.always) }

// noBalancer has nothing to pick.
type noBalancer struct{}

func (noBalancer) Pick(*fleet.View, *fleet.Request, int, uint64) int { return -1 }

// A decider that chooses the replica is followed, and no balancer asked.
func TestPlacersAreFollowed(t *testing.T) {
	p := plan(t)
	want, err := p.Evaluate(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for i := range p.Contestants {
		c := &p.Contestants[i]
		// The fleet has one replica of each variant.
		c.Decider, c.Fleet.Balancer = placing{c.Decider.(always)}, noBalancer{}
	}
	got, err := p.Evaluate(context.Background())
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %+v\nwant %+v", err, got, want)
	}
}

// What cannot begin is said before anything is played, of a plan and of a search.
func TestRunsThatCannotBeginAreRefusedFirst(t *testing.T) {
	p := plan(t)
	p.Workloads[1].Perturb = func(fleet *env.Config) error { return fleet.Lose("gpu", time.Second, 0) }
	p.Observe = func(r evaluation.Run, _ *env.Environment) { t.Errorf("%+v is played", r) }
	if _, err := p.Evaluate(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "cannot evaluate small on fast: ") || !strings.HasSuffix(err.Error(), "no replica is left") {
		t.Errorf("a plan: %v", err)
	}
	search := tuning(t)
	search.Workloads = p.Workloads
	if _, err := search.Run(t.Context()); err == nil || !strings.HasPrefix(err.Error(), "cannot tune on fast: ") || !strings.HasSuffix(err.Error(), "no replica is left") {
		t.Errorf("a search: %v", err)
	}
}

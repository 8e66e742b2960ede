package modality

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"gearshift/internal/highs"
)

// exported is a queue as the oracle reads it.
type exported struct {
	FreeAt  float64  `json:"free_at"`
	Mixing  Mixing   `json:"mixing"`
	Options []Option `json:"options"`
	Jobs    []Job    `json:"jobs"`
	Kept    []string `json:"kept"`
}

// TestPlansAgainstHiGHS holds plans of drawn queues, of up to 20 jobs and 7 combinations,
// against an integer program that HiGHS solves: what the jobs kept are worth, and that none
// is dropped that could have been kept.
//
//	make oracle
//	GEARSHIFT_ORACLE=300 go test ./router/modality -run HiGHS -v
func TestPlansAgainstHiGHS(t *testing.T) {
	n := 30
	if text := os.Getenv("GEARSHIFT_ORACLE"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 {
			t.Fatalf("GEARSHIFT_ORACLE=%s: want how many queues, such as 300", text)
		}
	}
	var queues []exported
	var objectives, took []float64
	dropped := 0
	for seed := range uint64(n) {
		rng := rand.New(rand.NewPCG(seed, 21))
		q := exported{FreeAt: 100 * rng.Float64(), Mixing: []Mixing{Mixed, Mixed, Uniform}[seed%3], Options: randomOptions(rng, []int{1, 3, 7}[rng.IntN(3)], 6)}
		table := table(t, q.Options, q.Mixing, 6)
		q.Jobs = randomJobs(rng, table, 1+rng.IntN(20), q.FreeAt)
		slices.SortStableFunc(q.Jobs, func(a, b Job) int { return int(math.Copysign(1, a.Deadline-b.Deadline)) })
		planner, err := NewPlanner(table, PrefixSafe)
		if err != nil {
			t.Fatal(err)
		}
		var plan Plan
		began := time.Now()
		planner.Plan(q.FreeAt, q.Jobs, &plan)
		took = append(took, float64(time.Since(began).Nanoseconds())/1e6)
		q.Kept = []string{}
		for _, s := range plan.Steps {
			q.Kept = append(q.Kept, q.Jobs[s.Job].ID)
		}
		dropped += len(plan.Dropped)
		queues, objectives = append(queues, q), append(objectives, plan.Objective)
	}
	var solver []float64
	for i, r := range solved(t, queues) {
		if r.Objective == nil || math.Abs(*r.Objective-objectives[i]) > 1e-6 || len(r.Missed) > 0 {
			t.Errorf("queue %d: worth %v, by HiGHS %v; dropped in vain: %v", i, objectives[i], deref(r.Objective), r.Missed)
		}
		solver = append(solver, r.MS)
	}
	if dropped == 0 {
		t.Error("no job was dropped: the test lost its load")
	}
	slices.Sort(took)
	slices.Sort(solver)
	t.Logf("%d queues, %d jobs dropped; median %.3f ms (first plans, which allocate), HiGHS %.1f ms", n, dropped, took[n/2], solver[n/2])
}

func deref(x *float64) any {
	if x == nil {
		return "not feasible"
	}
	return *x
}

type solution struct {
	Objective *float64 `json:"objective"`
	Missed    []string `json:"missed"`
	MS        float64  `json:"ms"`
}

// solved is what the oracle makes of the queues.
func solved(t *testing.T, queues []exported) (list []solution) {
	t.Helper()
	if highs.Run(t, "queues.mjs", queues, &list); len(list) != len(queues) {
		t.Fatalf("%d solutions of %d queues", len(list), len(queues))
	}
	return list
}

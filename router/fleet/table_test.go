package fleet

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// stocked is [table] with models, and resources on the first host.
func stocked(t *testing.T, change func(variants []Variant, hosts []Host, replicas []Replica, models []Model)) (*Table, error) {
	t.Helper()
	built := table(t)
	variants, hosts, replicas := append([]Variant(nil), built.Variants...), append([]Host(nil), built.Hosts...), append([]Replica(nil), built.Replicas...)
	models := []Model{{Name: "weights", Memory: 100, Load: time.Second, Version: "2"}, {Name: "other"}}
	variants[0].Model, variants[1].Model = 0, -1
	hosts[0] = Host{Name: "a", Site: "hall", Memory: 300, Compute: 1e12, Bandwidth: 1e9}
	replicas[1].Memory = 130
	change(variants, hosts, replicas, models)
	return NewTable(built.Tasks, variants, hosts, replicas, models...)
}

// A variant's model says what its replicas take where they do not say it themselves.
func TestModelsInTheTable(t *testing.T) {
	built, err := stocked(t, func([]Variant, []Host, []Replica, []Model) {})
	if err != nil {
		t.Fatal(err)
	}
	if built.ModelOf(0) != 0 || built.ModelOf(1) != -1 || built.ModelIndex("other") != 1 || built.ModelIndex("none") != -1 {
		t.Errorf("models %d and %d", built.ModelOf(0), built.ModelOf(1))
	}
	for i, want := range []int64{100, 130, 0, 0} {
		if got := built.MemoryOf(i); got != want {
			t.Errorf("replica %d takes %d bytes, want %d", i, got, want)
		}
	}
	if without := table(t); without.ModelOf(0) != -1 || without.MemoryOf(0) != 0 {
		t.Error("a table without models has one")
	}
}

func TestFaultsOfModelsAndResources(t *testing.T) {
	for want, change := range map[string]func([]Variant, []Host, []Replica, []Model){
		`variant "large" names model 2 of 2`:                  func(v []Variant, _ []Host, _ []Replica, _ []Model) { v[1].Model = 2 },
		`variant "small" names model -2 of 2`:                 func(v []Variant, _ []Host, _ []Replica, _ []Model) { v[0].Model = -2 },
		`model "weights" is listed twice`:                     func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Name = "weights" },
		`model "other" takes -1 bytes`:                        func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Memory = -1 },
		`model "other" takes 0 bytes and -1ns to load`:        func(_ []Variant, _ []Host, _ []Replica, m []Model) { m[1].Load = -1 },
		`host "b" has memory -5`:                              func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Memory = -5 },
		`host "b" has memory 0, compute NaN and bandwidth 0`:  func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Compute = math.NaN() },
		`host "b" has memory 0, compute 0 and bandwidth +Inf`: func(_ []Variant, h []Host, _ []Replica, _ []Model) { h[1].Bandwidth = math.Inf(1) },
		`replica "large@a" takes -7 bytes`:                    func(_ []Variant, _ []Host, r []Replica, _ []Model) { r[2].Memory = -7 },
	} {
		if _, err := stocked(t, change); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want the one fault %s", err, want)
		}
	}
}

// A task is answered by the variants that it is not without.
func TestTasksWithGaps(t *testing.T) {
	built := table(t)
	tasks := append([]Task(nil), built.Tasks...)
	tasks[1].Quality, tasks[1].Without = []float64{0, 1}, 1
	gapped, err := NewTable(tasks, built.Variants, built.Hosts, built.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	for task := range tasks {
		for variant, want := range [][]bool{{true, true}, {false, true}}[task] {
			r := &Request{Task: task, Only: 0}
			if gapped.Answers(task, variant) != want || gapped.Reaches(r, variant) != want || gapped.Serves(r, variant*2) != want {
				t.Errorf("task %d, variant %d: answers %v, reaches %v, serves %v; want %v", task, variant,
					gapped.Answers(task, variant), gapped.Reaches(r, variant), gapped.Serves(r, variant*2), want)
			}
		}
	}
	if best := newRecent(gapped).best; best[2] != 1 || best[3] != 0 {
		t.Errorf("a variant that does not answer falls short by %v, the other by %v", best[2], best[3])
	}
	for want, change := range map[string]func(*Task){
		`task "other" is answered by no variant; at least one must`:                    func(x *Task) { x.Quality, x.Without = []float64{0, 0}, 3 },
		`task "other" has quality 0.7 for variant 0, which does not answer it; want 0`: func(x *Task) { x.Quality, x.Without = []float64{.7, 1}, 1 },
		`task "other" is without a variant that is not there: the fleet has 2`:         func(x *Task) { x.Without = 4 },
	} {
		tasks[1] = built.Tasks[1]
		change(&tasks[1])
		if _, err := NewTable(tasks, built.Variants, built.Hosts, built.Replicas); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A view for one request has down what cannot answer it, and the next view has not.
func TestRestrict(t *testing.T) {
	built := table(t)
	tasks := append([]Task(nil), built.Tasks...)
	tasks[1].Quality, tasks[1].Without = []float64{0, 1}, 1
	gapped, err := NewTable(tasks, built.Variants, built.Hosts, built.Replicas)
	if err != nil {
		t.Fatal(err)
	}
	l := NewLedger(gapped)
	l.SetUp(3, false)
	var v View
	for _, x := range []struct {
		r    Request
		down []bool
	}{
		{Request{}, []bool{false, false, false, true}},
		{Request{Without: []int{1}}, []bool{false, true, false, true}},
		{Request{Task: 1}, []bool{true, true, false, true}},
		{Request{Task: 1, Without: []int{2}}, []bool{true, true, true, true}},
	} {
		l.View(0, &v)
		v.Restrict(&x.r)
		if !slices.Equal(v.Down, x.down) {
			t.Errorf("for %+v down are %v, want %v", x.r, v.Down, x.down)
		}
	}
	if n := testing.AllocsPerRun(100, func() {
		l.View(0, &v)
		v.Restrict(&Request{Task: 1})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

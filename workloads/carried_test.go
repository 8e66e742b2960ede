package workloads_test

import (
	"testing"

	"gearshift/router/fleet"
	"gearshift/workloads"
)

// Requests carry prompts of their task, each with the same chance, and are otherwise the same
// requests as without any.
func TestRequestsCarryPrompts(t *testing.T) {
	tasks := []fleet.Task{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	bare := workloads.Shape{Prompt: constant(10), Output: constant(20)}
	carrying := bare
	carrying.Carried = [][]int32{{0, 2, 5}, {1}, nil}
	open := func(shape workloads.Shape, seed uint64) (list []workloads.Arrival) {
		p, err := workloads.NewPoisson(5)
		if err != nil {
			t.Fatal(err)
		}
		s, err := workloads.New(p, tasks, shape, seed, workloads.Limit{Requests: 3000})
		if err != nil {
			t.Fatal(err)
		}
		for a, ok := s.Next(); ok; a, ok = s.Next() {
			list = append(list, a)
		}
		return list
	}
	counts := map[int]map[int32]int{0: {}, 1: {}, 2: {}}
	without, again, other := open(bare, 1), open(carrying, 1), open(carrying, 2)
	same := 0
	for i, a := range open(carrying, 1) {
		counts[a.Task][a.Prompt]++
		if a != again[i] {
			t.Fatalf("request %d is %+v, and %+v the second time", i, a, again[i])
		}
		if a.Prompt == other[i].Prompt {
			same++
		}
		if a.Prompt = 0; a != without[i] {
			t.Fatalf("request %d is %+v with prompts, and %+v without", i, a, without[i])
		}
	}
	if len(counts[1]) != 1 || counts[1][2] == 0 || len(counts[2]) != 1 || counts[2][0] == 0 || len(counts[0]) != 3 {
		t.Fatalf("prompts by task: %v", counts)
	}
	for _, prompt := range []int32{1, 3, 6} {
		if n := counts[0][prompt]; n < 270 || n > 400 {
			t.Errorf("prompt %d is carried %d times by some 1000 requests", prompt, n)
		}
	}
	if same > 2500 {
		t.Errorf("%d of 3000 prompts are those of another seed", same)
	}
}

func constant(tokens int) workloads.Lengths {
	return workloads.Lengths{Distribution: "constant", Value: tokens}
}

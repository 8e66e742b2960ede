package policies

import (
	"slices"
	"testing"

	"gearshift/workloads"
)

// Nothing that is held out is learned from or validated on, and nothing of the validation is
// learned from.
func TestPartsOfTrafficAreDisjoint(t *testing.T) {
	s := tiny(t)
	on, err := TraceTraffic(s, "arena", true, 0.4, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := []int{len(on.train), len(on.validation), len(on.held)}; !slices.Equal(got, []int{675, 225, 600}) {
		t.Fatalf("parts of %v requests", got)
	}
	lengths := func(part workloads.Recorded) map[[2]int]bool {
		of := map[[2]int]bool{}
		for _, a := range part {
			of[[2]int{a.PromptTokens, a.OutputTokens}] = true
		}
		return of
	}
	known, later := lengths(on.train), lengths(slices.Concat(on.validation, on.held))
	stream, err := on.Open(workloads.Seed(workloads.Training, 1))
	if err != nil {
		t.Fatal(err)
	}
	foreign := 0
	for range 5000 {
		a, _ := stream.Next()
		of := [2]int{a.PromptTokens, a.OutputTokens}
		if !known[of] {
			t.Fatalf("a request of %v tokens is not of the first part", of)
		}
		if later[of] {
			foreign++ // lengths that both parts happen to have
		}
		if a.Rate <= 0 {
			t.Fatal("its rate is not known to the learner")
		}
	}
	if foreign > 2500 {
		t.Errorf("%d of 5000 requests look like those of the last part", foreign)
	}
	if on.train[674].At >= on.validation[0].At || on.validation[224].At >= on.held[0].At {
		t.Error("the parts overlap in time")
	}
}

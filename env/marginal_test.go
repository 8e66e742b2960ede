package env_test

import (
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/workloads"
)

// endings are those of all requests, by decision, each answered by the variant given.
func endings(t *testing.T, c env.Config, actions []int) []env.Outcome {
	t.Helper()
	e := make2(t, c)
	if _, err := e.Reset(3); err != nil {
		t.Fatal(err)
	}
	ended := make([]env.Outcome, len(actions))
	for _, step := range playOn(t, e, actions).steps {
		for _, o := range step.Info.Outcomes {
			ended[o.Decision] = o
		}
	}
	return ended
}

// What requests change of what all earn is together what all earn, in a load that makes
// many late; to ask for it changes nothing else.
func TestMarginalsAddUp(t *testing.T) {
	c := twoByTwo(t)
	alternate := slices.Repeat([]int{0, 1}, 200)
	before := endings(t, c, alternate)
	c.Marginal = true
	var utility, marginal float64
	var late, harmful int
	for i, o := range endings(t, c, alternate) {
		utility, marginal = utility+o.Utility, marginal+o.Marginal
		if !o.Met {
			late++
		}
		if o.Marginal < 0 {
			harmful++
		}
		if o.Marginal = 0; !reflect.DeepEqual(o, before[i]) {
			t.Fatalf("decision %d ends as %+v, and as %+v without being asked for it", i, o, before[i])
		}
	}
	if math.Abs(utility-marginal) > 1e-9 || utility == 0 {
		t.Errorf("utilities of %v, marginal ones of %v", utility, marginal)
	}
	if late < 20 || harmful < 20 {
		t.Errorf("%d late, %d harmful: too easy a test", late, harmful)
	}
}

// One that comes alone has its own utility. One that makes another late is charged for that
// one, which keeps what it would have earned.
func TestMarginalsChargeTheLaterRequest(t *testing.T) {
	c := twoByTwo(t)
	c.Marginal = true
	const long = 20
	c.Open = of(
		workloads.Arrival{At: time.Second, Task: 1, PromptTokens: 10, OutputTokens: long, Rate: 1},
		workloads.Arrival{At: time.Second + time.Millisecond, Task: 1, PromptTokens: 10, OutputTokens: long, Rate: 1},
	)
	alone := endings(t, c, []int{1, 1})
	for i, o := range alone {
		if o.Utility != 1 || o.Marginal != 1 {
			t.Errorf("request %d, alone on its host: %+v", i, o)
		}
	}
	var crowd []workloads.Arrival
	for i := range 12 {
		crowd = append(crowd, workloads.Arrival{At: time.Second + time.Duration(i)*time.Millisecond, Task: 1, PromptTokens: 100, OutputTokens: long, Rate: 1})
	}
	c.Open = of(crowd...)
	crowded := endings(t, c, slices.Repeat([]int{1}, len(crowd)))
	first := crowded[0]
	if first.Met || first.Marginal != 1 {
		t.Errorf("the first of a crowd: %+v; want it late, and charged nothing", first)
	}
	var charged float64
	for _, o := range crowded[1:] {
		charged += o.Marginal - o.Utility
	}
	if charged > -1+1e-9 {
		t.Errorf("the others were charged %v beside their own; want at least what the first lost", charged)
	}
}

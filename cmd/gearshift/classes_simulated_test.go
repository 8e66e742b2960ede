package main

import (
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
)

// TestAClassIsServedAsSimulated: at the same load the server and the simulator give a class its size first, with
// similar utility and a similar share of the smallest size, both higher than without.
func TestAClassIsServedAsSimulated(t *testing.T) {
	text, err := os.ReadFile(oneGPU(t))
	if err != nil {
		t.Fatal(err)
	}
	var live, simulated [2]float64 // utility per request, without and with
	for i, first := range []string{"", ", first: {variant: opt-125m, from: 0.5}"} {
		classes := "serving:\n  classes: [{name: interactive, tasks: [hellaswag, openbookqa]}, {name: batch, tasks: [copa, piqa]" + first + "}]\n"
		s, err := scenario.Load(write(t, "classes.yaml", strings.Replace(string(text), "serving:\n", classes, 1)))
		if err != nil {
			t.Fatal(err)
		}
		x := flood{scenario: s, policy: "slackfit", store: *overloadStore, rate: 10, length: 90 * time.Second}
		f, r := x.run(t), x.simulated(t)
		live[i], simulated[i] = f.utility/float64(x.requests()), r.Utility.Mean
		smallest := float64(f.variants["0"]) / float64(f.accepted)
		t.Logf("%q: utility per request %.4f on the server, %.4f in the simulator; by the smallest size %.3f and %.3f", first, live[i], simulated[i], smallest, r.Share["opt-125m"])
		if math.Abs(smallest-r.Share["opt-125m"]) > 0.08 || math.Abs(live[i]/simulated[i]-1) > 0.03 {
			t.Errorf("%q: server and simulator differ", first)
		}
	}
	if live[1] < live[0]+0.01 || simulated[1] < simulated[0]+0.01 {
		t.Errorf("with a size first %.4f on the server and %.4f in the simulator, without %.4f and %.4f; want more", live[1], simulated[1], live[0], simulated[0])
	}
}

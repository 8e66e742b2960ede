package main

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// A recorded trace, replayed at the server, holds as many deadlines as eval says, by a
// rule and by a static size. One that the router degrades where it would be late is
// static no more, so the scenario of that server sheds never, and requests go to the
// smallest batch, as eval has it of a static size and scripts/demo.sh of its server.
func TestReplayAgreesWithEval(t *testing.T) {
	const trace, runs = "azure-code", 3
	text := succeed(t, "scenario", "show", "titan-rtx-opt")
	unshed := write(t, "unshed.yaml", strings.NewReplacer(
		"\nserving:\n", "\nserving:\n  overload: {shed: never}\n", "balancer: least-harm", "balancer: smallest-batch").Replace(text))
	for _, c := range []struct {
		scenario, policy string // of no policy: its best rule
		rate             float64
		only             string // variant
	}{
		{"titan-rtx-opt", "", 5, ""},
		{unshed, "static:opt-6.7b", 5, "2"},
		{unshed, "static:opt-6.7b", 1.5, "2"},
	} {
		s, err := scenario.Load(c.scenario)
		if err != nil {
			t.Fatal(err)
		}
		c.policy = cmp.Or(c.policy, s.Evaluation.Rules[0])
		x := flood{scenario: s, policy: c.policy, store: "none.db", rate: c.rate, length: time.Minute, trace: trace}
		var accepted, met int
		for i := range runs { // the requests of eval's runs
			x.seed = workloads.Seed(workloads.Evaluation, uint64(i))
			f := x.run(t)
			accepted, met = accepted+f.accepted, met+f.met
			if len(f.sheds) > 0 {
				t.Errorf("%s: refused %v", c.policy, f.sheds)
			}
			if sizes := slices.Sorted(maps.Keys(f.variants)); c.only != "" && !slices.Equal(sizes, []string{c.only}) {
				t.Errorf("%s: answered by %v", c.policy, f.variants)
			}
		}
		_, want := evaluates(t, c.scenario, x.store, c.policy, fmt.Sprintf("trace:%s@%g", trace, c.rate), runs, x.requests())
		got := float64(met) / float64(accepted)
		t.Logf("%s at %g: %.3f of the deadlines held, by eval %.3f", c.policy, c.rate, got, want)
		if math.Abs(got-want) > 0.05 {
			t.Errorf("%s at %g a second: %.3f of the deadlines held, by eval %.3f", c.policy, c.rate, got, want)
		}
	}
}

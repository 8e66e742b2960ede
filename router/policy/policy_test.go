package policy_test

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
)

// lengths are the paper workload's: prompts of 90, outputs of 256 on average.
var lengths = policy.Lengths{Context: 218, Output: 256}

// titan is the profile of each replica of [conformance.Fleet]: OPT-125M, 1.3B
// and 6.7B on a TITAN RTX.
func titan(t *fleet.Table) []*profile.Profile {
	each := []*profile.Profile{
		{LaunchFloor: 3.24, Weights: 0.64, Growth: 0.003, Token: 0.0035, Context: 0.000122, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 6.48, Weights: 6.7, Growth: 0.003, Token: 0.037, Context: 0.000650, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
		{LaunchFloor: 8.64, Weights: 33.8, Growth: 0.003, Token: 0.186, Context: 0.001734, Overhead: 1.5, Sequence: 0.2, Contention: 0.15},
	}
	profiles := make([]*profile.Profile, len(t.Replicas))
	for i, r := range t.Replicas {
		profiles[i] = each[r.Variant]
	}
	return profiles
}

func parse(t testing.TB, ref string, table *fleet.Table) policy.Rule {
	t.Helper()
	rule, err := maker(table).Parse(ref)
	if err != nil {
		t.Fatal(err)
	}
	return rule
}

// maker knows all of a fleet that a rule may need.
func maker(t *fleet.Table) *policy.Maker {
	return &policy.Maker{Table: t, Profiles: titan(t), Lengths: lengths, Balancer: balance.SmallestBatch{}}
}

// idle is a view with nothing in flight and all up; load adds to every replica
// of a variant.
func idle(t *fleet.Table) *fleet.View {
	return &fleet.View{Table: t, InFlight: make([]int32, len(t.Replicas)), Held: make([]int32, len(t.Replicas)), Down: make([]bool, len(t.Replicas))}
}

func load(v *fleet.View, variant int, each int32) *fleet.View {
	for _, i := range v.Table.ReplicasOf(variant) {
		v.InFlight[i] = each
	}
	return v
}

func down(v *fleet.View, variants ...int) *fleet.View {
	for _, m := range variants {
		for _, i := range v.Table.ReplicasOf(m) {
			v.Down[i] = true
		}
	}
	return v
}

func TestConformance(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetOf(25, 8), conformance.FleetWithGaps(8)} {
		for _, ref := range []string{
			"static:opt-125m", "static:opt-1.3b", "static:opt-6.7b", "threshold", "threshold:16,100",
			"task-threshold", "task-threshold:8,100/2,60/1,2/90,91", "slackfit", "slackfit:0.5", "slackfit:0.93,0.8",
			"least-work", "least-work:2,0.1", "priced", "priced:2,0.1,0.5,0.3,0", "task-aware", "task-aware:0.95,0.2,0.8,1,0",
			"budget", "budget:0.04,0.5,0.95,0.2,0.8,1,0", "universal", "universal:0.1,0.05,2,0.1,0",
		} {
			t.Run(ref, func(t *testing.T) { conformance.Policy(t, table, parse(t, ref, table)) })
		}
		t.Run("learned", func(t *testing.T) { conformance.Policy(t, table, learned(t, table, 9)) })
	}
}

func TestParse(t *testing.T) {
	table := conformance.Fleet(0)
	for ref, name := range map[string]string{
		"static:opt-1.3b":                 "static:opt-1.3b",
		"threshold":                       "threshold:8,100",
		"threshold:16, 90":                "threshold:16,90",
		"slackfit":                        "slackfit:0.93",
		"slackfit:0.5":                    "slackfit:0.5",
		"slackfit:0.9,0.8":                "slackfit:0.9,0.8",
		"task-threshold":                  "task-threshold:8,100/8,100/8,100/8,100",
		"task-threshold:1,2/3,4/5, 6/7,8": "task-threshold:1,2/3,4/5,6/7,8",
		"least-work":                      "least-work:1,0.5",
		"least-work:2":                    "least-work:2,0.5",
		"priced":                          "priced:1,0.05,0.5,0.4,1",
		"priced:2,0.1":                    "priced:2,0.1,0.5,0.4,1",
		"task-aware":                      "task-aware:1,0.08,1,1,0.5",
		"task-aware:0.97,0":               "task-aware:0.97,0,1,1,0.5",
		"budget":                          "budget:0.01,1,1,0.08,1,1,0.5",
		"budget:0.02,0,0.97":              "budget:0.02,0,0.97,0.08,1,1,0.5",
		"universal":                       "universal:0.1,0.015,0.7,0.3,0.2",
		"universal:0.2":                   "universal:0.2,0.015,0.7,0.3,0.2",
	} {
		rule := parse(t, ref, table)
		if rule.Name() != name || parse(t, rule.Name(), table).Name() != name {
			t.Errorf("%s is named %q, want %q, which names the same rule", ref, rule.Name(), name)
		}
		if !policy.IsRule(ref) {
			t.Errorf("%s is not taken for a rule", ref)
		}
	}
}

func TestParseErrors(t *testing.T) {
	table := conformance.Fleet(0)
	for ref, want := range map[string]string{
		"round-robin":                    `cannot use policy "round-robin": no such rule; want static:VARIANT, threshold[:a,b], task-threshold[:a,b/a,b/…], slackfit[:f[,k]], least-work[:b,w], priced[:l,s,o,u,b], task-aware[:f,g,k,h,b], budget[:s,c,f,g,k,h,b] or universal[:s,n,o,u,b]`,
		"":                               `cannot use policy "": no such rule; want static:VARIANT, threshold[:a,b], task-threshold[:a,b/a,b/…], slackfit[:f[,k]], least-work[:b,w], priced[:l,s,o,u,b], task-aware[:f,g,k,h,b], budget[:s,c,f,g,k,h,b] or universal[:s,n,o,u,b]`,
		"static":                         `cannot use policy "static": no variant ""; the variants are opt-125m, opt-1.3b, opt-6.7b`,
		"static:opt-30b":                 `cannot use policy "static:opt-30b": no variant "opt-30b"; the variants are opt-125m, opt-1.3b, opt-6.7b`,
		"threshold:":                     `cannot use policy "threshold:": nothing follows the colon; want static:VARIANT, threshold[:a,b], task-threshold[:a,b/a,b/…], slackfit[:f[,k]], least-work[:b,w], priced[:l,s,o,u,b], task-aware[:f,g,k,h,b], budget[:s,c,f,g,k,h,b] or universal[:s,n,o,u,b]`,
		"threshold:8":                    `cannot use policy "threshold:8": a threshold policy for 3 variants takes 2 limits, not 1`,
		"threshold:8,x":                  `cannot use policy "threshold:8,x": "x" is not a whole number; want threshold:a,b`,
		"threshold:100,8":                `cannot use policy "threshold:100,8": the limits of a threshold policy must be positive and ascend`,
		"threshold:0,8":                  `cannot use policy "threshold:0,8": the limits of a threshold policy must be positive and ascend`,
		"slackfit:quick":                 `cannot use policy "slackfit:quick": "quick" is not a number; want slackfit:f,k`,
		"slackfit:0":                     `cannot use policy "slackfit:0": the factor of a slack-fit policy is in (0, 10], not 0`,
		"slackfit:-1":                    `cannot use policy "slackfit:-1": the factor of a slack-fit policy is in (0, 10], not -1`,
		"slackfit:NaN":                   `cannot use policy "slackfit:NaN": the factor of a slack-fit policy is in (0, 10], not NaN`,
		"slackfit:93":                    `cannot use policy "slackfit:93": the factor of a slack-fit policy is in (0, 10], not 93`,
		"slackfit:1,0":                   `cannot use policy "slackfit:1,0": the KV share of a slack-fit policy is in (0, 10], not 0`,
		"slackfit:1,1,1":                 `cannot use policy "slackfit:1,1,1": 3 numbers are too many; want slackfit:f,k`,
		"least-work:1,-1":                `cannot use policy "least-work:1,-1": the weight of a least-work policy is in [0, 1000], not -1`,
		"priced:1,":                      `cannot use policy "priced:1,": "" is not a number; want priced:l,s,o,u,b`,
		"priced:1,0":                     `cannot use policy "priced:1,0": the spread of a priced-latency policy is in (0, 10], not 0`,
		"task-aware:NaN":                 `cannot use policy "task-aware:NaN": the factor of a task-aware policy is in (0, 10], not NaN`,
		"universal:0,0":                  `cannot use policy "universal:0,0": the least spread of a universal policy is in (0, 10], not 0`,
		"budget:2":                       `cannot use policy "budget:2": the share of the peak to spend of a budget policy is in [0, 1], not 2`,
		"task-threshold:8,100":           `cannot use policy "task-threshold:8,100": a task-threshold policy for 4 tasks takes as many ladders, not 1`,
		"task-threshold:1,2/1/1,2/1,2":   `cannot use policy "task-threshold:1,2/1/1,2/1,2": task "copa": a threshold policy for 3 variants takes 2 limits, not 1`,
		"task-threshold:1,2/1,x/1,2/1,2": `cannot use policy "task-threshold:1,2/1,x/1,2/1,2": "x" is not a whole number; want task-threshold:a,b/a,b`,
	} {
		rule, err := maker(table).Parse(ref)
		if err == nil || err.Error() != want || rule != nil {
			t.Errorf("Parse(%q) = %v,\n%v, want\n%v", ref, rule, err, want)
		}
	}
	if policy.IsRule("store:production@3") || policy.IsRule("production") {
		t.Error("a stored policy's reference is taken for a rule")
	}
}

func TestStaticStandsIn(t *testing.T) {
	table := conformance.Fleet(4)
	middle := parse(t, "static:opt-1.3b", table)
	for _, test := range []struct {
		what string
		view *fleet.View
		want int
	}{
		{"all up", idle(table), 1},
		{"itself down: the smaller", down(idle(table), 1), 0},
		{"itself full: the smaller", load(idle(table), 1, 4), 0},
		{"no smaller: the larger", down(idle(table), 0, 1), 2},
		{"nothing", down(idle(table), 0, 1, 2), -1},
	} {
		if got := middle.Decide(test.view, &fleet.Request{}, nil); got != test.want {
			t.Errorf("%s: chose %d, want %d", test.what, got, test.want)
		}
	}
}

func TestThresholdCountsTheWholeFleet(t *testing.T) {
	table := conformance.Fleet(0)
	rule := parse(t, "threshold:8,100", table)
	for total, want := range map[int32]int{0: 2, 7: 2, 8: 1, 99: 1, 100: 0, 5000: 0} {
		v := idle(table)
		v.InFlight[0] = total / 2 // on the smallest variant
		v.InFlight[5] = total - total/2
		if got := rule.Decide(v, &fleet.Request{}, nil); got != want {
			t.Errorf("%d in flight: chose %d, want %d", total, got, want)
		}
	}
	if got := policy.DefaultLimits(4); !slices.Equal(got, []int{8, 100, 1250}) {
		t.Errorf("default limits of 4 variants are %v", got)
	}
	if got := policy.DefaultLimits(1); len(got) != 0 {
		t.Errorf("default limits of one variant are %v", got)
	}
}

func TestWhatPredictionsNeed(t *testing.T) {
	table := conformance.Fleet(0)
	for _, kind := range []string{"slackfit", "least-work", "priced", "task-aware", "budget", "universal"} {
		for want, change := range map[string]func(*policy.Maker){
			"with 11 profiles does not fit 12 replicas":  func(m *policy.Maker) { m.Profiles = m.Profiles[1:] },
			`needs a profile of replica "opt-125m@gpu1"`: func(m *policy.Maker) { m.Profiles[3] = nil },
			"needs lengths that are not negative":        func(m *policy.Maker) { m.Lengths = policy.Lengths{Context: math.NaN()} },
			"needs a balancer":                           func(m *policy.Maker) { m.Balancer = nil },
		} {
			m := maker(table)
			change(m)
			if _, err := m.Parse(kind); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one with %q", kind, err, want)
			}
		}
	}
}

func TestRulesMatchTheirFleet(t *testing.T) {
	table := conformance.Fleet(0)
	other, err := fleet.NewTable(
		[]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Variant: 0}, {Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for _, ref := range []string{"static:opt-125m", "threshold", "task-threshold", "slackfit", "least-work", "priced", "task-aware", "budget", "universal"} {
		if err := parse(t, ref, table).Match(other); err == nil {
			t.Errorf("%s matches a fleet that it was not made for", ref)
		}
	}
	if err := learned(t, table, 9).Match(other); err == nil {
		t.Error("a learned policy matches a fleet that it was not made for")
	}
}

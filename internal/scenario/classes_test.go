package scenario

import (
	"flag"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"gearshift/env"
	"gearshift/workloads"
)

var classRates = flag.String("classes.rates", "", "rates per second at which TestClassTable plays titan-rtx-opt, such as 35,70,140")

// classed is the paper's scenario, as served, with two classes by task, of which batch gets the smallest size first.
func classed(t *testing.T, first string) *Scenario {
	t.Helper()
	text, err := workloads.Scenario("titan-rtx-opt")
	if err != nil {
		t.Fatal(err)
	}
	list := "  classes: [{name: interactive, tasks: [hellaswag, openbookqa]}, {name: batch, tasks: [copa, piqa]" + first + "}]\n"
	s, err := Parse("classes.yaml", []byte(strings.Replace(string(text), "\nserving:\n", "\nserving:\n"+list, 1)))
	if err != nil {
		t.Fatal(err)
	}
	s.Served = true
	return s
}

// classSums adds up the results of a class's requests.
type classSums struct {
	requests, met, refused, smallest int
	utility                          float64
}

// playClasses plays a rule on Poisson arrivals, and returns the sums by class and the mean load at decisions.
func playClasses(t *testing.T, s *Scenario, rule string, rate float64, requests int, seed uint64) (sums [2]classSums, load float64) {
	t.Helper()
	c, err := s.Simulation()
	if err != nil {
		t.Fatal(err)
	}
	m, err := s.Maker(c.Table)
	if err != nil {
		t.Fatal(err)
	}
	p, err := m.Parse(rule)
	if err != nil {
		t.Fatal(err)
	}
	list, err := s.Evaluated([]string{fmt.Sprintf("poisson:%g", rate)}, requests)
	if err != nil {
		t.Fatal(err)
	}
	c.Open = list[0].Open
	e, err := env.New(c)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Reset(seed); err != nil {
		t.Fatal(err)
	}
	scratch, decisions := make([]float32, p.Scratch()), 0
	for step := (env.Step{}); !step.Terminated; {
		load, decisions = load+e.View().Load(), decisions+1
		if step, err = e.Step(p.Decide(e.View(), e.Request(), scratch)); err != nil {
			t.Fatal(err)
		}
		for _, o := range step.Info.Outcomes {
			x := &sums[c.AsServed.ByTask[o.Request.Task]]
			x.requests, x.utility = x.requests+1, x.utility+o.Utility
			if o.Met {
				x.met++
			}
			if o.Refused != "" {
				x.refused++
			}
			if o.Variant == 0 {
				x.smallest++
			}
		}
	}
	return sums, load / float64(decisions)
}

// The simulator gives a task's class its size first from its load on, and no other class.
func TestAClassGetsItsSizeFirstInTheSimulator(t *testing.T) {
	const rule = "static:opt-6.7b"
	without, unmeasured := playClasses(t, classed(t, ""), rule, 4, 600, 1)
	if unmeasured != 0 || without[0].smallest != 0 || without[1].smallest != 0 {
		t.Fatalf("load %v, %+v; want none measured, and all by the largest", unmeasured, without)
	}
	always, load := playClasses(t, classed(t, ", first: {variant: opt-125m, from: 0}"), rule, 4, 600, 1)
	if always[1].smallest != always[1].requests || always[0].smallest != 0 || load == 0 {
		t.Errorf("from 0, at load %v: %+v; want all of batch, and it alone", load, always)
	}
	if never, _ := playClasses(t, classed(t, ", first: {variant: opt-125m, from: 1}"), rule, 4, 600, 1); never != without {
		t.Errorf("from 1, at this rate: %+v, want %+v", never, without)
	}
	some, _ := playClasses(t, classed(t, fmt.Sprintf(", first: {variant: opt-125m, from: %.3f}", load)), rule, 4, 600, 1)
	if some[1].smallest == 0 || some[1].smallest == some[1].requests || some[0].smallest != 0 {
		t.Errorf("from the mean load on: %+v; want some of batch", some)
	}
}

// TestClassTable prints what two classes earn with and without a size that one of them gets first.
//
//	go test ./internal/scenario -run ClassTable -v -classes.rates 35,70,140
func TestClassTable(t *testing.T) {
	if *classRates == "" {
		t.Skip("it takes some seconds: -classes.rates 35,70,140 asks for it")
	}
	const seeds, seconds = 10, 60
	for _, text := range strings.Split(*classRates, ",") {
		rate, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []string{"slackfit", classed(t, "").BestRule()} {
			for _, first := range []string{"", ", first: {variant: opt-125m, from: 0.75}", ", first: {variant: opt-125m, from: 0.5}", ", first: {variant: opt-125m, from: 0.25}"} {
				var sums [2]classSums
				var load float64
				for seed := range uint64(seeds) {
					one, busy := playClasses(t, classed(t, first), rule, rate, int(rate*seconds), seed)
					load += busy / seeds
					for i := range sums {
						sums[i].requests, sums[i].met, sums[i].refused = sums[i].requests+one[i].requests, sums[i].met+one[i].met, sums[i].refused+one[i].refused
						sums[i].smallest, sums[i].utility = sums[i].smallest+one[i].smallest, sums[i].utility+one[i].utility
					}
				}
				all := float64(sums[0].requests + sums[1].requests)
				line := fmt.Sprintf("%g/s %s%s: load %.2f, utility %.4f", rate, rule, first, load, (sums[0].utility+sums[1].utility)/all)
				for i, x := range sums {
					n := float64(x.requests)
					line += fmt.Sprintf("; %s %.4f, in time %.1f %%, refused %.1f %%, smallest %.0f %%", []string{"interactive", "batch"}[i], x.utility/n, 100*float64(x.met)/n, 100*float64(x.refused)/n, 100*float64(x.smallest)/n)
				}
				t.Log(line)
			}
		}
	}
}

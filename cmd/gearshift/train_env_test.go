//go:build !serveonly

package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/rl"
	"gearshift/workloads"
)

// Strata depend on the rate alone, never fall as it grows, and stay in range.
func TestStratum(t *testing.T) {
	last := 0
	for rate := 1e-6; rate < 1e6; rate *= 1.01 {
		s := stratum(rate)
		if s < last || s >= rl.Strata {
			t.Fatalf("rate %v is of stratum %d, after %d of %d", rate, s, last, rl.Strata)
		}
		last = s
	}
	if a, b := stratum(4), stratum(8); b-a != 4 || stratum(0) != 0 {
		t.Errorf("strata %d and %d of 4/s and 8/s, %d of none", a, b, stratum(0))
	}
}

// The environment as the loop sees it completes every decision of an episode
// exactly once, in the stratum of its own arrival, and is cut without ending.
func TestTrainingEnvJoinsOutcomes(t *testing.T) {
	s, err := scenario.Load("tiny")
	if err != nil {
		t.Fatal(err)
	}
	const episode = 300
	e, err := newTrainingEnv(s, s.Spec(), episode)
	if err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(2) {
		e.Reset(workloads.Seed(workloads.Training, seed))
		var strata []int
		ended := map[int]bool{}
		for n := range episode {
			strata = append(strata, stratum(e.Arrival().Rate))
			step := e.Step(n % 2)
			for _, c := range step.Completed {
				if ended[c.Decision] || c.Decision > n || c.Stratum != strata[c.Decision] {
					t.Fatalf("decision %d: %+v, in stratum %d, ended before: %t", n, c, strata[c.Decision], ended[c.Decision])
				}
				ended[c.Decision] = true
			}
			if step.Terminated || step.Truncated != (n == episode-1) {
				t.Fatalf("decision %d: %+v", n, step)
			}
		}
		if len(ended) != episode {
			t.Errorf("%d of %d decisions ended", len(ended), episode)
		}
	}
	if e.Step(0); e.err == nil { // after the end
		t.Error("an error of the environment is lost")
	}
}

// The log counts to where the call stops, and ends its line however it stops.
func TestTrainingLogLines(t *testing.T) {
	r := &trainingRun{options: trainOptions{name: "mine", steps: 2000}, scenario: &scenario.Scenario{Name: "tiny"}, config: rl.Config{Decisions: 9000}, members: []*member{{}}}
	for _, decisions := range []int{1000, 2000} {
		var out bytes.Buffer
		l, err := newTrainingLog(r, &out)
		if err != nil {
			t.Fatal(err)
		}
		l.terminal = true
		l.start(r)
		l.report(0, rl.Report{Decisions: decisions, Total: 9000})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if strings.Count(text, "\n") != 2 || !strings.HasSuffix(text, "\n") || !strings.Contains(text, "/2000") {
			t.Errorf("after %d decisions: %q", decisions, text)
		}
	}
}

// A line tells of all networks of a run, also of those that an earlier call has ended.
func TestTrainingLogOfSeveralNetworks(t *testing.T) {
	ended := &rl.Progress{Decisions: 2000, Utility: rl.Average{Mean: 0.9}}
	for _, c := range []struct {
		second *rl.Progress
		want   string
	}{
		{nil, "1000/2000  ε 0.50  utility 0.700\n"},
		{ended, "1000/2000  ε 0.50  utility 0.750\n"},
	} {
		r := &trainingRun{
			scenario: &scenario.Scenario{Name: "tiny"}, members: []*member{{}, {number: 1, progress: c.second}},
			config: rl.Config{Decisions: 2000, Epsilon: rl.Epsilon{Start: 1, Share: 1}},
		}
		var out bytes.Buffer
		l, err := newTrainingLog(r, &out)
		if err != nil {
			t.Fatal(err)
		}
		l.start(r)
		out.Reset()
		if c.second == nil {
			l.report(1, rl.Report{Decisions: 1500, Total: 2000, Epsilon: 0.25, Utility: 0.8})
		}
		l.report(0, rl.Report{Decisions: 1000, Total: 2000, Epsilon: 0.5, Utility: 0.6})
		shown := regexp.MustCompile(`^ *(1000/2000).*(  ε 0.50  utility 0.7[05]0)  td.*\n$`).ReplaceAllString(out.String(), "$1$2\n")
		if shown != c.want {
			t.Errorf("shown: %q, want %q", out.String(), c.want)
		}
	}
}

// Lengths without a max are cut to what fits wherever requests are drawn.
func TestLengthsWithoutMaxEndNoSimulation(t *testing.T) {
	text := succeed(t, "scenario", "show", "tiny")
	for _, cut := range [][2]string{
		{"{distribution: geometric, mean: 32, max: 200}", "{distribution: lognormal, mean: 2000, cv: 9}"},
		{"{distribution: uniform, min: 20, max: 60}", "{distribution: lognormal, mean: 500, cv: 9}"},
	} {
		if !strings.Contains(text, cut[0]) {
			t.Fatalf("the scenario has no %s", cut[0])
		}
		text = strings.Replace(text, cut[0], cut[1], 1)
		file := write(t, "open.yaml", text)
		succeed(t, "eval", "--scenario", file, "--policy", "static:small", "--workload", "poisson:1", "--seeds", "1", "--requests", "300", "--out", t.TempDir())
		s, err := scenario.Load(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := newTrainingEnv(s, s.Spec(), 300)
		if err != nil {
			t.Fatal(err)
		}
		e.Reset(1)
		for range 300 {
			if e.Step(0); e.err != nil {
				t.Fatal(e.err)
			}
		}
		process, err := workloads.NewPoisson(1)
		if err != nil {
			t.Fatal(err)
		}
		stream, err := workloads.New(process, s.Table().Tasks, s.Workload, 1, workloads.Limit{Requests: 300})
		if err != nil {
			t.Fatal(err)
		}
		for a, ok := stream.Next(); ok; a, ok = stream.Next() {
			if need := a.PromptTokens + a.OutputTokens; need > s.SmallestCache() {
				t.Errorf("a request of %d tokens; %d fit", need, s.SmallestCache())
			}
		}
	}
}

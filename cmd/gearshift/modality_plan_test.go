package main

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

const figure2 = `{"free_at": 20,
 "options": [{"name": "audio", "quality": 0.67, "latency": [20, 40]},
             {"name": "video", "quality": 0.70, "latency": [30, 60]},
             {"name": "both", "quality": 0.80, "latency": [60, 120]}],
 "jobs": [{"id": "3", "size": 2, "min_quality": 0.68, "deadline": 150},
          {"id": "2", "size": 2, "min_quality": 0.71, "deadline": 140}]}`

// runModality runs the command on the text and returns what it prints.
func runModality(t *testing.T, text string) (string, error) {
	t.Helper()
	path := write(t, "queue.json", text)
	out, err := order("plan", "--in", path)
	if err != nil {
		return strings.ReplaceAll(err.Error(), path, "queue.json"), err
	}
	return out, nil
}

// TestPlanOfFigure2: the paper's example, its jobs given in the wrong order.
func TestPlanOfFigure2(t *testing.T) {
	text, err := runModality(t, figure2)
	if err != nil {
		t.Fatal(text)
	}
	var p plannedModality
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	if math.Abs(p.Objective-2.84) > 1e-9 || len(p.Jobs) != 2 || len(p.Dropped) != 0 || p.MS <= 0 {
		t.Fatalf("%s", text)
	}
	second, third := p.Jobs[0], p.Jobs[1]
	if second.ID != "2" || second.Strategy["both"] != 1 || second.Strategy["audio"] != 1 || math.Abs(second.Quality-0.735) > 1e-9 || second.Finish != 100 {
		t.Errorf("second job: %+v", second)
	}
	if third.ID != "3" || third.Strategy["video"] != 1 || third.Strategy["audio"] != 1 || third.Finish != 150 {
		t.Errorf("third job: %+v", third)
	}
	text, err = runModality(t, strings.Replace(figure2, `"free_at"`, `"mixing": "uniform", "free_at"`, 1))
	p = plannedModality{}
	if err != nil || json.Unmarshal([]byte(text), &p) != nil || !slices.Equal(p.Dropped, []string{"3"}) ||
		len(p.Jobs) != 1 || p.Jobs[0].Strategy["both"] != 2 || p.Jobs[0].Finish != 140 {
		t.Errorf("uniform: %s", text)
	}
}

func TestBadQueues(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{`"free_at": 20`, `"free_at": "now"`, `:1: free_at: want a number, found the quoted text "now"`},
		{`"deadline": 150`, `"dead_line": 150`, `:5: jobs[0].dead_line: unknown key; did you mean "deadline"?`},
		{`"size": 2, "min_quality": 0.68`, `"size": 3, "min_quality": 0.68`, `job "3": size: 3 is above the longest batch of any option, 2; split the job`},
		{`"size": 2, "min_quality": 0.68`, `"size": 0, "min_quality": 0.68`, `job "3": size: 0 must be at least 1`},
		{`"size": 2, "min_quality": 0.68`, `"size": 1.5, "min_quality": 0.68`, `:5: jobs[0].size: want a whole number, found 1.5`},
		{`0.68`, `0.9`, `job "3": min_quality: 0.9 is above every option; the best has 0.8`},
		{`"id": "3"`, `"id": "2"`, `jobs[1]: the id "2" is there twice`},
		{`"id": "3", `, ``, `:5: jobs[0].id: missing; it has no default`},
		{`"name": "video"`, `"name": "audio"`, `cannot make table of strategies: options[1]: the name "audio" is there twice`},
		{`[30, 60]`, `[30, -60]`, `cannot make table of strategies: options[1] "video": latency: -60, of a batch of 2, must be above 0, and at most 1e+15`},
		{`[30, 60]`, `[]`, `cannot make table of strategies: options[1] "video": latency: the list is empty; it needs the time of a batch of 1, 2, … requests`},
		{`"free_at"`, `"mode": "fast", "free_at"`, `cannot make planner: mode "fast"; want "prefix-safe" or "literal"`},
		{`"free_at"`, `"mixing": "none", "free_at"`, `cannot make table of strategies: mixing "none"; want "mixed" or "uniform"`},
		{`, "deadline": 150`, ``, `:5: jobs[0].deadline: missing; it has no default`},
		{`"size": 2, "min_quality": 0.68`, `"min_quality": 0.68`, `:5: jobs[0].size: missing; it has no default`},
		{`"quality": 0.70, `, ``, `:3: options[1].quality: missing; it has no default`},
		{`"deadline": 150`, `"deadline": 1e300`, `job "3": deadline: 1e+300 must be a number from -1e+15 to 1e+15`},
		{`"deadline": 150`, `"deadline": 150, "size": 1`, `:5: jobs[0].size: duplicate key; the first is on line 5`},
		{`"free_at": 20`, `"free_at": 20, "JOBS": []`, `:1: JOBS: unknown key; did you mean "jobs"?`},
		{`140}]}`, `140}]`, `:1: not JSON: '{' is not closed`},
		{`140}]}`, `140}]} {}`, `:6: not JSON: '{' follows a value that has ended`},
	} {
		got, err := runModality(t, strings.Replace(figure2, c.from, c.to, 1))
		want := "cannot plan: queue.json: " + c.want
		if strings.HasPrefix(c.want, ":") { // a line
			want = "cannot plan: queue.json" + c.want
		}
		if err == nil || got != want {
			t.Errorf("%s:\n got %s\nwant %s", c.to, got, want)
		}
	}
	if got, err := runModality(t, ""); err == nil || got != "cannot plan: queue.json:1: the file is empty" {
		t.Errorf("empty: %s", got)
	}
}

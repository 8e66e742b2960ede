package workloads

import (
	"slices"
	"strings"
	"testing"
)

// perTask has tasks with lengths of their own: copa's prompts and outputs, piqa's outputs.
func perTask() Shape {
	return Shape{
		Mix: Mix{"hellaswag": 1, "copa": 2, "piqa": 1}, Prompt: optPrompt, Output: optOutput,
		Tasks: map[string]TaskLengths{
			"copa": {Prompt: Lengths{Distribution: "constant", Value: 9}, Output: Lengths{Distribution: "uniform", Min: 2, Max: 6}},
			"piqa": {Output: Lengths{Distribution: "constant", Value: 2000}},
		},
	}
}

func TestTasksHaveLengthsOfTheirOwn(t *testing.T) {
	shape := perTask()
	s, err := New(U1{}, fourTasks, shape, 1, Limit{})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := New(U1{}, fourTasks, Shape{Mix: shape.Mix, Prompt: optPrompt, Output: optOutput}, 1, Limit{})
	if err != nil {
		t.Fatal(err)
	}
	var prompts, outputs float64
	const n = 40_000
	for i, a := range collect(s, n) {
		prompts += float64(a.PromptTokens)
		outputs += float64(a.OutputTokens)
		name := fourTasks[a.Task].Name
		switch {
		case name == "copa" && (a.PromptTokens != 9 || a.OutputTokens < 2 || a.OutputTokens > 6),
			name == "piqa" && (a.PromptTokens < 45 || a.OutputTokens != 2000),
			name == "hellaswag" && (a.PromptTokens < 45 || a.OutputTokens > 1500):
			t.Fatalf("request %d of %s has a prompt of %d and an output of %d tokens", i, name, a.PromptTokens, a.OutputTokens)
		}
		if other, _ := plain.Next(); other.At != a.At || other.Task != a.Task {
			t.Fatalf("request %d is %+v, with lengths common to all %+v", i, a, other)
		}
	}
	prompt, output := shape.Expected(fourTasks)
	near(t, "mean prompt", prompts/n, prompt, 0.01)
	near(t, "mean output", outputs/n, output, 0.02)
	if prompt, output := shape.Longest(); prompt != 134 || output != 2000 {
		t.Errorf("the longest are %d and %d tokens", prompt, output)
	}

	// Where the task is not known, its share of the outputs stays.
	draw, rng := shape.OutputSampler(fourTasks), source(1, outputPart)
	var sum float64
	for range n {
		sum += float64(draw(rng))
	}
	near(t, "mean output of an unknown task", sum/n, output, 0.02)
}

// A record's lengths are drawn as its own task has them, whichever one would have been drawn.
func TestTraceDrawsTheLengthsOfItsTask(t *testing.T) {
	trace := read(strings.Repeat(`{"at_s":1,"task":"copa","prompt_tokens":50,"output_tokens":60}`+"\n", 50))
	for _, lengths := range []bool{false, true} {
		s, err := trace.Open(fourTasks, perTask(), lengths, 1)
		if err != nil {
			t.Fatal(err)
		}
		all := collect(s, 100)
		drawn := !slices.ContainsFunc(all, func(a Arrival) bool { return a.PromptTokens != 9 || a.OutputTokens > 6 })
		if len(all) != 50 || drawn == lengths {
			t.Errorf("with lengths of the trace's own (%t) %d requests, the first %+v", lengths, len(all), all[0])
		}
	}
}

func TestOtherOutputsOfTasks(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: perTask(), Requests: 3000, Fits: 5134}
	for text, want := range map[string]struct{ copa, piqa int }{
		"u1":                      {6, 2000},
		"u1+outputs:x2":           {12, 4000},
		"u1+outputs:uniform,7,70": {70, 70}, // of all tasks
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := spec.Open(settings, 1)
		if err != nil {
			t.Fatal(err)
		}
		longest := map[string]int{}
		for _, a := range collect(s, 3000) {
			name := fourTasks[a.Task].Name
			longest[name] = max(longest[name], a.OutputTokens)
			if name == "copa" && a.PromptTokens != 9 {
				t.Fatalf("%s: a prompt of %d tokens", text, a.PromptTokens)
			}
		}
		if longest["copa"] != want.copa || longest["piqa"] != want.piqa {
			t.Errorf("%s: outputs of up to %v; want %+v", text, longest, want)
		}
	}
	spec, err := Parse("u1+outputs:x3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := spec.Open(settings, 1); err == nil || !strings.Contains(err.Error(), "of task piqa: outputs of up to 6000 tokens; at most 5000 are sure to fit") {
		t.Errorf("outputs of 6000 tokens beside a prompt of 134 in 5134: %v", err)
	}
	if settings.Shape.Tasks["piqa"].Output.Value != 2000 {
		t.Error("the declared lengths have changed")
	}
}

func TestTaskLengthFaults(t *testing.T) {
	for want, tasks := range map[string]map[string]TaskLengths{
		"task_lengths.qa: is not a task of this fleet; one of hellaswag, copa, piqa, openbookqa would be right": {"qa": perTask().Tasks["copa"]},
		"task_lengths.copa.output_tokens.max: missing; a task's own lengths need one":                           {"copa": {Output: Lengths{Distribution: "geometric", Mean: 40}}},
		"task_lengths.copa.prompt_tokens.distribution: \"zipf\" is not known":                                   {"copa": {Prompt: Lengths{Distribution: "zipf"}}},
		"task_lengths.copa.prompt_tokens.mean: 0.5 is not a mean number of tokens":                              {"copa": {Prompt: Lengths{Distribution: "geometric", Mean: 0.5, Max: 9}}},
		"task_lengths.piqa.output_tokens.cv: does not belong to a uniform distribution, which has min, max":     {"piqa": {Output: Lengths{Distribution: "uniform", Min: 1, Max: 9, CV: 2}}},
	} {
		shape := optShape
		shape.Tasks = tasks
		if err := shape.Validate(fourTasks); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v: error %v; want %q", tasks, err, want)
		}
	}
}

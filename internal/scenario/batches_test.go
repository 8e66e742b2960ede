package scenario_test

import (
	"errors"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/workloads"
)

// classifiers is the example of tables by batch, with changes.
func classifiers(t *testing.T, changes ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/scenarios/classifiers.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(string(text), changes[i]) == 0 {
			t.Fatalf("the example has no %q", changes[i])
		}
		text = []byte(strings.Replace(string(text), changes[i], changes[i+1], 1))
	}
	return string(text)
}

func TestTablesByBatch(t *testing.T) {
	s, err := scenario.Parse("classifiers.yaml", []byte(classifiers(t)))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.SmallestCache(); got != 2*workloads.MaxTokens {
		t.Errorf("requests are cut to %d tokens", got)
	}
	table := s.Table()
	small, image := s.Profiles()[0], s.Profiles()[0].Batches.Kind(table.Tasks[0].Kind)
	if ms, gpu := small.Batch(image, 6, 0); ms != 9 || gpu != 8 {
		t.Errorf("a batch of 6 takes %v ms, %v on the GPU, want 9 and 8", ms, gpu)
	}
	// Half of the requests are texts. A request that joins a running batch waits for it.
	for i, c := range s.Capacities(60) {
		if r := table.Replicas[i]; r.Variant == 2 && (c.Alone != 17 || c.Batch != 3 || c.Pace != 2*(34+22)/2) {
			t.Errorf("%s: %+v", r.Name, c)
		}
	}
	same, err := scenario.Parse("other.yaml", []byte(classifiers(t, "16: 19", "16: 19.0")))
	if err != nil || same.Hash() != s.Hash() {
		t.Errorf("another hash of the same times (%v)", err)
	}
	other, err := scenario.Parse("other.yaml", []byte(classifiers(t, "16: 19", "16: 20")))
	if err != nil || other.Hash() == s.Hash() {
		t.Errorf("the same hash of other times (%v)", err)
	}
}

func TestFaultsOfTablesByBatch(t *testing.T) {
	const image = "image: {1: 4, 2: 5, 4: 7, 8: 11, 16: 19, 32: 35}"
	for _, c := range []struct{ old, new, want string }{
		{image, "image: {2: 5}", "profiles[0].kinds.image.1: missing; want a time, since a request may be alone"},
		{image, "image: {1: 4, 2: 3}", "profiles[0].kinds.image.2: 3 ms is less than the 4 ms of a batch of 1; a larger batch takes no less"},
		{image, "image: {1: 4, 2.5: 5}", `profiles[0].kinds.image.2.5: a batch size is a whole number, not "2.5"`},
		{image, "image: {1: 4, 9000: 5}", "profiles[0].kinds.image.9000: a batch is of 1 to 4096 requests"},
		{image, "image: {1: 0}", "profiles[0].kinds.image.1: a time is above 0 ms, not 0"},
		{image, "image: {1: fast}", `profiles[0].kinds.image.1: want a number, found "fast"`},
		{image, "image: {1: 5e6}", "profiles[0].kinds.image.1: a cost is at most an hour, 3600000 ms, not 5e+06"},
		{"    kinds:\n", "    weights_ms: 3\n    kinds:\n", "profiles[0].weights_ms: has no meaning in a profile with times by batch; leave it out"},
		{"    kinds:\n", "    batch_ms: {1: 3}\n    kinds:\n", "profiles[0].kinds: excludes batch_ms, the times of all kinds of input; want one of the two"},
		{"overhead_ms: 1", "overhead_ms: 3", "profiles[0].overhead_ms: 3 ms is part of the time of a batch, and that of a batch of 1 of text is 3 ms; want less"},
		{"kind: image", "kind: imago", `tasks[0].kind: unknown kind of input "imago"; did you mean "image"?`},
		{"kind: image, ", "", "tasks[0].kind: the profile of small on line 16 has no times of a task without a kind, only of image, text; want one of these, or no quality of small"},
		{"workload:", "engine: {batch_window_ms: -1}\nworkload:", "engine.batch_window_ms: -1 must be from 0 to 3600000, an hour"},
	} {
		_, err := scenario.Parse("test.yaml", []byte(classifiers(t, c.old, c.new)))
		var faults scenario.Faults
		if !errors.As(err, &faults) || len(faults) != 1 || !strings.HasSuffix(faults[0].Error(), ": "+c.want) {
			t.Errorf("%s:\n%v\nwant %s", c.new, err, c.want)
		}
	}
}

// Hosts that have the best variant of the task answer frames, and by their smaller ones too, with times by their own
// profiles.
func TestStreamsOfAScenario(t *testing.T) {
	const text = `
tasks: [{name: boxes, total_ms: 500, quality: {small: 0.8, large: 0.9}}]
variants: [{name: small}, {name: large}]
hosts: [{name: one, memory: 1GiB}, {name: two, memory: 1GiB}, {name: three, memory: 1GiB}]
replicas:
  - {variant: small, hosts: [one, three], memory: 30%}
  - {variant: large, hosts: [one, two], memory: 30%}
profiles:
  - {variant: small, batch_ms: {1: 5, 4: 11}, weight_bytes: 1_000_000}
  - {variant: large, hosts: [one], batch_ms: {1: 10, 2: 15}, weight_bytes: 2_000_000}
  - {variant: large, hosts: [two], batch_ms: {1: 20}, weight_bytes: 2_000_000}
serving:
  streams: {task: boxes, margin: 10%, max_frame: 64KiB}
`
	s, err := scenario.Parse("streams.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	c, on := s.Streams()
	if !on || c.Task != 0 || c.FPS != 60 || c.Margin != 0.1 || c.MaxFrame != 64<<10 || c.Input.Tensor != "pixel_values" || len(c.Hosts) != 2 {
		t.Fatalf("%+v", c)
	}
	one, two := c.Hosts[0], c.Hosts[1]
	if one.Name != "one" || len(one.Sizes) != 2 || one.Sizes[0].Replica != 2 || one.Sizes[1].Replica != 0 || math.Abs(one.Sizes[1].Gap-0.1) > 1e-9 {
		t.Errorf("%+v", one)
	}
	if !slices.Equal(one.Sizes[0].Latency, []float64{10, 15}) || !slices.Equal(one.Sizes[1].Latency, []float64{5, 7, 9, 11}) {
		t.Errorf("times %v", one.Sizes)
	}
	if two.Name != "two" || len(two.Sizes) != 1 || !slices.Equal(two.Sizes[0].Latency, []float64{20}) {
		t.Errorf("%+v", two)
	}
	without, err := scenario.Parse("none.yaml", []byte(text[:strings.Index(text, "serving:")]))
	if err != nil {
		t.Fatal(err)
	}
	if _, on := without.Streams(); on {
		t.Error("a file without serving.streams has them")
	}
}

package workloads

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// Suffixes parse, print as they were, and stand behind any workload.
func TestParsePerturbations(t *testing.T) {
	lognormal := Outputs{Lengths: Lengths{Distribution: "lognormal", Mean: 256, CV: 1.2}}
	for text, want := range map[string]Spec{
		"u1+outputs:x2":                     {Form: "u1", Perturbation: Perturbation{Outputs: Outputs{Factor: 2}}},
		"u2+outputs:lognormal,256,1.2":      {Form: "u2", Perturbation: Perturbation{Outputs: lognormal}},
		"stable+outputs:geometric,100":      {Form: "stable", Perturbation: Perturbation{Outputs: Outputs{Lengths: Lengths{Distribution: "geometric", Mean: 100}}}},
		"stable:4+outputs:uniform,10,90":    {Form: "stable", Rate: 4, Perturbation: Perturbation{Outputs: Outputs{Lengths: Lengths{Distribution: "uniform", Min: 10, Max: 90}}}},
		"clusters+outputs:constant,64":      {Form: "clusters", Perturbation: Perturbation{Outputs: Outputs{Lengths: Lengths{Distribution: "constant", Value: 64}}}},
		"u1+gpu:x1.25":                      {Form: "u1", Perturbation: Perturbation{GPU: 1.25}},
		"u1+gpu:x0.75":                      {Form: "u1", Perturbation: Perturbation{GPU: 0.75}},
		"u1+lost:gpu0@60-120":               {Form: "u1", Perturbation: Perturbation{Lost: Loss{"gpu0", time.Minute, 2 * time.Minute}}},
		"u1+lost:rack-1/gpu:0@0.5-":         {Form: "u1", Perturbation: Perturbation{Lost: Loss{"rack-1/gpu:0", 500 * time.Millisecond, 0}}},
		"trace:a+b.csv@5+lost:gpu0@0-1":     {Form: "trace", File: "a+b.csv", Rate: 5, Perturbation: Perturbation{Lost: Loss{"gpu0", 0, time.Second}}},
		"trace:arena@5+lengths+gpu:x2":      {Form: "trace", File: "arena", Rate: 5, Lengths: true, Perturbation: Perturbation{GPU: 2}},
		"u1+outputs:x0.5+gpu:x2+lost:a@1-2": {Form: "u1", Perturbation: Perturbation{Outputs: Outputs{Factor: 0.5}, GPU: 2, Lost: Loss{"a", time.Second, 2 * time.Second}}},
	} {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, error %v; want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%s prints as %s", text, got)
		}
	}
}

func TestParsePerturbationFaults(t *testing.T) {
	for text, want := range map[string]string{
		"u1+outputs:2":               `outputs "2": distribution: "2" is not known`,
		"u1+outputs:x":               `"x" is not a factor such as x1.25`,
		"u1+outputs:x0":              `"x0" is not a factor`,
		"u1+outputs:xNaN":            `"xNaN" is not a factor`,
		"u1+outputs:x1000":           `"x1000" is not a factor such as x1.25, from x0.01 to x100`,
		"u1+outputs:normal,5,1":      `outputs "normal,5,1": want xFACTOR, constant,VALUE`,
		"u1+outputs:lognormal,256":   `outputs "lognormal,256": want xFACTOR`,
		"u1+outputs:lognormal,256,0": `outputs "lognormal,256,0": cv: coefficient of variation 0 is outside`,
		"u1+outputs:lognormal,a,b":   `"a" is not a number of output tokens`,
		"u1+outputs:constant,1.5":    `outputs "constant,1.5": tokens are whole numbers`,
		"u1+outputs:constant,1e300":  `outputs "constant,1e300": tokens are whole numbers`,
		"u1+outputs:uniform,9,8":     `outputs "uniform,9,8": max: 8 is below min, 9`,
		"u1+outputs:uniform,0,0":     "min: 0 is not a number of tokens from 1 to 10000000; max: 0 is not",
		"u1+gpu:1.25":                `"1.25" is not a factor`,
		"u1+gpu:":                    `"" is not a factor`,
		"u1+lost:gpu0":               `"gpu0" is not a loss such as gpu0@60-120`,
		"u1+lost:@1-2":               `"@1-2" is not a loss`,
		"u1+lost:gpu0@1":             `"gpu0@1" is not a loss`,
		"u1+lost:gpu0@-2":            `"gpu0@-2" is not a loss`,
		"u1+lost:gpu0@2-1":           `"gpu0@2-1" is not a loss`,
		"u1+lost:gpu0@2-2":           `"gpu0@2-2" is not a loss`,
		"u1+lost:gpu0@1-2s":          `"gpu0@1-2s" is not a loss`,
		"u1+gpu:x2+gpu:x2":           "+gpu is there twice; want it once",
		"u1+evidence:5":              `+evidence takes nothing after it, got ":5"`,
		"u1+streams:0":               `"0" is not a number of clients, their SLA, their link (5g or lte) and how many seconds`,
		"u1+streams:8,2":             `"8,2" is not a number of clients`,
		"u1+streams:8,0.06,wifi":     `"8,0.06,wifi" is not a number of clients`,
		"u1+streams:8,0.06,5g,0":     `"8,0.06,5g,0" is not a number of clients`,
		"u1+streams:8,,,1,1":         `"8,,,1,1" is not a number of clients`,
		"u1+streams:8+streams:9":     "+streams is there twice",
		"u1+load:opt-6.7b@60":        `"opt-6.7b@60" is not a replica and a time such as +load:opt-6.7b@gpu0@60, in seconds`,
		"u1+sleep:opt-6.7b@gpu0":     `"opt-6.7b@gpu0" is not a replica and a time such as +sleep:`,
		"u1+drain:@gpu0@60":          `"@gpu0@60" is not a replica and a time such as +drain:`,
		"u1+wake:a@b@-5":             `"a@b@-5" is not a replica`,
		"u1+undrain:a@b@":            `"a@b@" is not a replica`,
		"u1+unload:":                 `"" is not a replica`,
		"u1+lost:a@1-2+lost:b@3":     `"b@3" is not a loss`,
		"u1+later:5":                 `"+later" is no suffix`,
		"u1+load":                    `"+load" is no suffix`,
		"trace:a+lengths+outputs:x2": "+lengths and +outputs contradict each other",
		"+gpu:x2":                    "no workload is called that",
	} {
		got, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") || got != (Spec{}) {
			t.Errorf("%q: %+v, error %v; want %q", text, got, err, want)
		}
	}
}

// Losses, loads and the like come in any order, and a timeline is in that of its times.
func TestTimelines(t *testing.T) {
	const text = "u1+load:opt-6.7b@gpu0@60+gpu:x2+lost:gpu1@5-9+unload:opt-6.7b@gpu0@7.5+lost:gpu2@20-+evidence+streams:24,,lte,30+drain:a@b@c@1"
	s, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	const canonical = "u1+gpu:x2+lost:gpu1@5-9+load:opt-6.7b@gpu0@60+unload:opt-6.7b@gpu0@7.5+lost:gpu2@20-+drain:a@b@c@1+evidence+streams:24,0.06,lte,30"
	if again, err := Parse(canonical); err != nil || again != s || s.String() != canonical {
		t.Errorf("prints as %s, which reads as %+v, %v", s, again, err)
	}
	wantSteps := []Step{{"drain", "a@b@c", time.Second}, {"unload", "opt-6.7b@gpu0", 7500 * time.Millisecond}, {"load", "opt-6.7b@gpu0", time.Minute}}
	if got := s.Steps(); !slices.Equal(got, wantSteps) {
		t.Errorf("steps %v, want %v", got, wantSteps)
	}
	wantLosses := []Loss{{"gpu1", 5 * time.Second, 9 * time.Second}, {"gpu2", 20 * time.Second, 0}}
	if got := s.Losses(); !slices.Equal(got, wantLosses) || !s.Evidence || s.GPU != 2 || !s.Disturbs() {
		t.Errorf("losses %v, want %v; %+v", got, wantLosses, s)
	}
	if want := (Streams{24, 0.06, "lte", 30 * time.Second}); s.Streams != want {
		t.Errorf("streams %v, want %v", s.Streams, want)
	}
	if _, err := s.Open(Settings{}, 1); err == nil {
		t.Error("opened without a fleet")
	}
	if x, err := Parse("u1+streams:3"); err != nil || x.Streams != (Streams{3, 0.06, "5g", 0}) {
		t.Errorf("%+v, %v", x, err)
	} else if _, err := x.Open(Settings{}, 1); err == nil {
		t.Error("opened streams without a fleet")
	}
}

// Other outputs change the outputs alone, and end where the declared max or so
// many times it lies.
func TestOtherOutputs(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: optShape, Requests: 20_000, Fits: 5134}
	read := func(text string) []Arrival {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := spec.Open(settings, Seed(Evaluation, 1))
		if err != nil {
			t.Fatal(err)
		}
		return collect(s, 1e6)
	}
	declared := read("u1")
	longest := map[string]int{"u1+outputs:x0.5": 750, "u1+outputs:x2": 3000, "u1+outputs:lognormal,256,1.2": 1500, "u1+outputs:constant,2000": 2000}
	for text, mean := range map[string]float64{
		"u1+outputs:x0.5":              Lengths{Distribution: "geometric", Mean: 128, Max: 750}.Expected(),
		"u1+outputs:x2":                Lengths{Distribution: "geometric", Mean: 512, Max: 3000}.Expected(),
		"u1+outputs:lognormal,256,1.2": Lengths{Distribution: "lognormal", Mean: 256, CV: 1.2, Max: 1500}.Expected(),
		"u1+outputs:constant,2000":     2000,
	} {
		var sum float64
		other := read(text)
		for i, a := range other {
			sum += float64(a.OutputTokens)
			if a.OutputTokens > longest[text] {
				t.Fatalf("%s: an output of %d tokens", text, a.OutputTokens)
			}
			if a.OutputTokens = declared[i].OutputTokens; a != declared[i] {
				t.Fatalf("%s: request %d is %+v, declared %+v", text, i, a, declared[i])
			}
		}
		near(t, text, sum/float64(len(other)), mean, 0.03)
	}
}

func TestOutputsThatDoNotFit(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: optShape, Fits: 1734} // 1600 beside a prompt of 134
	for text, want := range map[string]string{
		"u1+outputs:constant,1601":  "outputs of up to 1601 tokens; at most 1600 are sure to fit",
		"u1+outputs:uniform,1,1601": "outputs of up to 1601 tokens",
		"u1+outputs:x2":             "outputs of up to 3000 tokens; at most 1600",
		"u1+outputs:geometric,1501": "mean: 1501 is above max, 1500",
	} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if s, err := spec.Open(settings, 1); err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// Outputs that nothing else bounds are cut to what fits.
func TestUnboundedOutputsAreCut(t *testing.T) {
	const fits = 1734
	unbounded := optShape
	unbounded.Output = Lengths{Distribution: "lognormal", Mean: 300, CV: 1.5}
	for _, text := range []string{"u1", "u1+outputs:lognormal,900,1", "u1+outputs:x3"} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := spec.Open(Settings{Tasks: fourTasks, Shape: unbounded.Within(fits), Fits: fits}, 1)
		if err != nil {
			t.Fatal(err)
		}
		longest := 0
		for _, a := range collect(s, 2000) {
			longest = max(longest, a.OutputTokens)
		}
		if longest != 1600 { // beside a prompt of 134
			t.Errorf("%s: up to %d tokens", text, longest)
		}
	}
}

// A mere stream cannot lose hosts or slow them: who only sends requests is told.
func TestOpenRefusesAnotherFleet(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: optShape}
	for _, text := range []string{"u1+gpu:x1.25", "u1+lost:gpu0@60-"} {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := spec.Open(settings, 1); err == nil || !strings.Contains(err.Error(), "are for simulated fleets") {
			t.Errorf("%s: %v", text, err)
		}
		if _, err := spec.Prepare(settings); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

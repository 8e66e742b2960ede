package workloads

import (
	"strings"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	cases := map[string]Spec{
		"stable":                           {Form: "stable"},
		"stable:0.25":                      {Form: "stable", Rate: 0.25},
		"u1":                               {Form: "u1"},
		"u2":                               {Form: "u2"},
		"u2-uniform":                       {Form: "u2-uniform"},
		"poisson:5":                        {Form: "poisson", Rate: 5},
		"gamma:2,3.5":                      {Form: "gamma", Rate: 2, CV: 3.5},
		"weibull:0.5,2":                    {Form: "weibull", Rate: 0.5, CV: 2},
		"mmpp:1,48,20,2":                   {Form: "mmpp", Rate: 1, High: 48, Calm: 20, Burst: 2},
		"schedule:5x60,0x0.5,50x10":        {Form: "schedule", Phases: "5x60,0x0.5,50x10"},
		"short-bursts":                     {Form: "short-bursts"},
		"trace:a.csv":                      {Form: "trace", File: "a.csv"},
		"trace:a.csv@5":                    {Form: "trace", File: "a.csv", Rate: 5},
		"trace:a.csv+lengths":              {Form: "trace", File: "a.csv", Lengths: true},
		"trace:a.csv+zero":                 {Form: "trace", File: "a.csv", Zero: true},
		"trace:a.csv@5+lengths+zero":       {Form: "trace", File: "a.csv", Rate: 5, Lengths: true, Zero: true},
		"trace:C:/me@home/a.csv@5+lengths": {Form: "trace", File: "C:/me@home/a.csv", Rate: 5, Lengths: true},
	}
	for text, want := range cases {
		got, err := Parse(text)
		if err != nil || got != want {
			t.Errorf("%s: %+v, error %v; want %+v", text, got, err, want)
		}
		if got.String() != text {
			t.Errorf("%s prints as %s", text, got)
		}
	}
}

func TestParseFaults(t *testing.T) {
	for text, want := range map[string]string{
		"": `workload "": no workload is called that; accepted: stable[:RATE] | u1 | u2 | u2-uniform | short-bursts | long-bursts | clusters | poisson:RATE | gamma:RATE,CV | weibull:RATE,CV | mmpp:LOW,HIGH,CALM_S,BURST_S | ` +
			"schedule:RATExS,RATExS,… | trace:FILE[@RATE][+lengths][+zero][+last:SHARE/BLOCKS], FILE being azure-code, arena or a path; and at the end of any: +outputs:xFACTOR or +outputs:DISTRIBUTION,… | +gpu:xFACTOR | +lost:HOST@FROM-[TO]",
		"u3":                     "no workload is called that",
		"U1":                     "no workload is called that",
		"u1:5":                   "u1 takes nothing after it",
		"poisson":                `"" is not a rate`,
		"poisson:fast":           `"fast" is not a rate`,
		"poisson:-1":             "rate -1 is outside 1e-06 to 1e+06 requests per second",
		"poisson:0":              "rate 0 is outside",
		"poisson:NaN":            "rate NaN is outside",
		"stable:":                `"" is not a rate`,
		"stable:1,2":             `"1,2" is not a rate`,
		"gamma:2":                "gamma needs a rate and a coefficient of variation, such as gamma:2,3",
		"gamma:2,":               `"" is not a coefficient of variation`,
		"clusters:5":             "clusters takes nothing after it",
		"mmpp:1,2,3":             "mmpp needs two rates and two mean lengths in seconds, such as mmpp:1,48,20,2",
		"mmpp:a,2,3,4":           `"a" is not a number`,
		"mmpp:2,2,3,4":           "rate 2 between the bursts is not from 0 to below theirs, 2",
		"mmpp:-1,2,3,4":          "rate -1 between the bursts is not from 0",
		"mmpp:1,inf,3,4":         "rate +Inf is outside",
		"mmpp:NaN,2,3,4":         "rate NaN between the bursts",
		"mmpp:1,2,0,4":           "a mean length of 0 s is outside 0.001 to 1e+06",
		"mmpp:1,2,3,NaN":         "a mean length of NaN s is outside",
		"schedule":               `"" is not a phase; a schedule has rates and the seconds that they last, such as schedule:5x60,50x10,0x30`,
		"schedule:5x60,7":        `"7" is not a phase`,
		"schedule:5x0":           "a phase of 0 s is outside 0.001 to 1e+06",
		"schedule:5xNaN":         "a phase of NaN s is outside",
		"schedule:5x1,-1x2,-1x2": "phase 1: rate -1 is outside",
		"schedule:0x5":           "a schedule needs a phase with a rate above zero",
		"weibull:2,0":            "coefficient of variation 0 is outside 0.01 to 100",
		"trace":                  "trace needs a file",
		"trace:@5":               "trace needs a file",
		"trace:a.csv@0":          "rate 0 is outside",
		"trace:a.csv@-2":         "rate -2 is outside",
		"trace:a.csv@inf":        "rate +Inf is outside",
		"trace:+lengths":         "trace needs a file",
		"trace:a.csv@1e400":      "rate",
		"poisson:1e400":          "is not a rate",
	} {
		got, err := Parse(text)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasSuffix(err.Error(), "accepted: "+Forms) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %+v, error %v; want %q", text, got, err, want)
		}
		if got != (Spec{}) {
			t.Errorf("%q: %+v beside an error", text, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, text := range strings.Split("stable stable:0.25 u1 u2 u2-uniform poisson:5 gamma:2,3 weibull:1e-3,0.5 trace:a@5+lengths trace:a+zero trace:a+lengths+zero trace:a@b@0x1p-2 trace:a+lengths@7 trace:@ mmpp:1,48,20,2 schedule:5x60,0x1e-3,50x10 clusters u1+outputs:x2+gpu:x0.5+lost:a-b@1.5-2 trace:a+outputs:lognormal,5,1e-1 u1+lost:a@1e3- stable+outputs:uniform,1,2", " ") {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(text)
		if err != nil {
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %v", err)
			}
			return
		}
		again, err := Parse(s.String())
		if err != nil || again != s {
			t.Fatalf("%q is %+v, prints as %q, which is %+v, error %v", text, s, s, again, err)
		}
		if s.Form != "trace" && !s.Sweep() {
			if _, err := s.Process(Settings{}); err != nil {
				t.Errorf("%q parses but makes no process: %v", text, err)
			}
		}
	})
}

func TestExpand(t *testing.T) {
	sweep, _ := Parse("stable")
	all := sweep.Expand([]float64{0.25, 48})
	if len(all) != 2 || all[0].String() != "stable:0.25" || all[1].String() != "stable:48" || !all[1].TrueRate() || all[1].Sweep() {
		t.Errorf("the sweep is %v", all)
	}
	one, _ := Parse("u1")
	if all := one.Expand([]float64{1, 2}); len(all) != 1 || all[0] != one || one.TrueRate() {
		t.Errorf("u1 expands to %v", all)
	}
}

func TestOpen(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: optShape, Requests: 2000, Phase: 10 * time.Second, Fits: 5000}
	cases := map[string]struct{ requests, tolerance float64 }{
		"stable:48":                          {480, 0.2}, // by time, not by requests
		"u1":                                 {2000, 0},
		"u2":                                 {2000, 0},
		"u2-uniform":                         {2000, 0},
		"poisson:5":                          {2000, 0},
		"gamma:5,3":                          {2000, 0},
		"weibull:5,3":                        {2000, 0},
		"trace:" + azureFile + "@20":         {2000, 0},
		"trace:" + arenaFile + "@20+lengths": {1500, 0},
		"trace:" + azureFile + "@20+lengths": {2000, 0},
	}
	for text, want := range cases {
		spec, err := Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		s, err := spec.Open(settings, Seed(Evaluation, 1))
		if err != nil {
			t.Error(err)
			continue
		}
		all := collect(s, 1e6)
		near(t, text+": requests", float64(len(all)), want.requests, want.tolerance)
		longest, most := 0, 0
		for _, a := range all {
			longest, most = max(longest, a.PromptTokens), max(most, a.PromptTokens+a.OutputTokens)
		}
		if azure := strings.HasPrefix(text, "trace:"+azureFile); (longest > 134) != spec.Lengths || azure && spec.Lengths && (most != 5000 || longest < 4900) {
			t.Errorf("%s: the longest prompt is %d, the longest request %d", text, longest, most)
		}
	}
}

func TestOpenFaults(t *testing.T) {
	settings := Settings{Tasks: fourTasks, Shape: optShape}
	for spec, want := range map[Spec]string{
		{Form: "stable"}:                                   `cannot open workload "stable": stable without a rate is a sweep; expand it`,
		{Form: "nothing"}:                                  `cannot open workload "nothing": no workload is called that; accepted: ` + Forms,
		{Form: "poisson", Rate: -1}:                        "rate -1 is outside",
		{Form: "trace", File: "testdata/none.csv"}:         `cannot open workload "trace:testdata/none.csv": cannot read trace: open testdata/none.csv: no such file`,
		{Form: "trace", File: "traces/testdata/README.md"}: `traces/testdata/README.md:1: header "# Recorded traces" is not known`,
		{Form: "trace", File: arenaFile, Rate: 1e-7}:       `cannot rescale trace "traces/testdata/arena_real_trace.csv": rate 1e-07 is outside`,
	} {
		if s, err := spec.Open(settings, 1); err == nil || s != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v; want %q", spec, err, want)
		}
	}
}

// Without a length of its own the stable workload lasts the paper's 40 s.
func TestStableDefault(t *testing.T) {
	s, err := Spec{Form: "stable", Rate: 48}.Open(Settings{Tasks: fourTasks, Shape: optShape}, 1)
	if err != nil {
		t.Fatal(err)
	}
	near(t, "duration", Measure(s).Duration, 40, 0.01)
}

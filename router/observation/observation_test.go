package observation_test

import (
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
)

// paper is what the paper's policy sees (LBE-9).
func paper() []observation.Feature {
	return []observation.Feature{
		{Kind: observation.TaskID, Scale: []float64{3}},
		{Kind: observation.InFlight, Scale: []float64{25, 25, 5}},
		{Kind: observation.Rate, Scale: []float64{48}},
	}
}

func oneHot() []observation.Feature {
	features := paper()
	features[0] = observation.Feature{Kind: observation.TaskOneHot}
	return features
}

func spec(t *testing.T, table *fleet.Table, features []observation.Feature) observation.Spec {
	t.Helper()
	s, err := observation.NewSpec(table, features)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func encoder(t *testing.T, table *fleet.Table, features []observation.Feature) *observation.Encoder {
	t.Helper()
	e, err := observation.NewEncoder(spec(t, table, features), table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestPaperSizes holds the length of the paper's observation, 1 + M + 1 or
// with the task one-hot T + M + 1 (LBE-9), and the size of a network on it
// (LBE-12).
func TestPaperSizes(t *testing.T) {
	table := conformance.Fleet(0)
	if n := spec(t, table, paper()).Dim(); n != 5 {
		t.Errorf("the paper's observation has %d numbers, want 5", n)
	}
	if n := spec(t, table, oneHot()).Dim(); n != 8 {
		t.Errorf("with the task one-hot it has %d numbers, want 8", n)
	}
	net, err := nn.New(spec(t, table, paper()).Dim(), 256, 256, len(table.Variants))
	if err != nil {
		t.Fatal(err)
	}
	if n := net.Parameters(); n != 68_099 {
		t.Errorf("the network has %d parameters, want 68,099", n)
	}
}

func TestEncode(t *testing.T) {
	table := conformance.Fleet(4)
	v := fleet.View{
		Table: table,
		// One host a line: 125M, 1.3B, 6.7B.
		InFlight: []int32{
			4, 4, 1,
			2, 4, 2,
			3, 4, 0,
			4, 4, 2},
		ByTask: []int32{ // a few of these, by the four tasks
			1, 0, 2, 0, 0, 0, 0, 4, 0, 0, 0, 0,
			0, 0, 0, 2, 0, 0, 4, 0, 0, 0, 0, 2,
			0, 3, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0,
			1, 0, 0, 0, 0, 0, 4, 0, 2, 0, 0, 0},
		Held: []int32{
			900, 5648, 100,
			700, 2824, 5264,
			800, 4000, 50,
			990, 9000, 2632},
		Down:     make([]bool, 12),
		Rate:     12,
		Smoothed: fleet.SmoothedRates{6, 9},
		Recent:   fleet.Shortfalls{0.5, 1, 0, 0.25, 62: 1},
		Forecasts: []fleet.Forecast{
			{}, {}, {Pace: 0.75, Misses: 0.5, First: 0.5, Total: 3},
			{Pace: 0.125, Misses: 3, First: 2}, {}, {Pace: 0.5, Misses: 1, First: 0.25, Total: 4},
			{Pace: 0.25, Misses: -0.5, First: 1}, {}, {Pace: 0.1, Misses: 0.1},
			{}, {}, {Pace: 2, Misses: 2, First: 3, Total: 9}},
	}
	v.Down[8] = true // the emptiest 6.7B
	r := &fleet.Request{Task: 2, FirstToken: 1500 * time.Millisecond, Total: 20 * time.Second}
	for _, test := range []struct {
		feature observation.Feature
		want    []float64
	}{
		{observation.Feature{Kind: observation.TaskID, Scale: []float64{3}}, []float64{2. / 3}},
		{observation.Feature{Kind: observation.TaskOneHot}, []float64{0, 0, 1, 0}},
		{observation.Feature{Kind: observation.InFlight, Scale: []float64{1, 2, 5}}, []float64{13. / 4, 4. / 2, 5. / 4 / 5}},
		{observation.Feature{Kind: observation.TaskInFlight, Scale: []float64{1, 2, 0.5}}, []float64{2. / 4, 3. / 4, 2. / 4, 2. / 4, 0, 0, 8. / 4 / 2, 8. / 4 / 2, 2. / 4 / 0.5, 0, 0, 2. / 4 / 0.5}},
		// All 1.3B are full: the bound stands for "none".
		{observation.Feature{Kind: observation.Shortest, Scale: []float64{4, 4, 5}}, []float64{2. / 4, observation.Bound, 1. / 5}},
		// 700 of 21,376 (the 125M that is not full); no 1.3B; 100 of 10,528.
		{observation.Feature{Kind: observation.KVUse, Scale: []float64{1, 1, 0.5}}, []float64{700. / 21_376, observation.Bound, 100. / 10_528 / 0.5}},
		// The quickest pace, and the least harm, need not be of one replica.
		{observation.Feature{Kind: observation.Pace, Scale: []float64{1, 1, 2}}, []float64{0.125, observation.Bound, 0.25}},
		{observation.Feature{Kind: observation.Harm, Scale: []float64{1, 1, 1}}, []float64{0, observation.Bound, 0.5}},
		{observation.Feature{Kind: observation.FirstToken, Scale: []float64{1, 1, 0.5}}, []float64{1, observation.Bound, 0.5}},
		{observation.Feature{Kind: observation.Total, Scale: []float64{1, 1, 2}}, []float64{0, observation.Bound, 1.5}},
		{observation.Feature{Kind: observation.FirstTokenDeadline, Scale: []float64{3}}, []float64{0.5}},
		{observation.Feature{Kind: observation.TotalDeadline, Scale: []float64{10}}, []float64{2}},
		{observation.Feature{Kind: observation.Rate, Scale: []float64{48}}, []float64{0.25}},
		{observation.Feature{Kind: observation.Rate, Scale: []float64{0.01}}, []float64{observation.Bound}},
		{observation.Feature{Kind: observation.LogRate, Scale: []float64{4}}, []float64{math.Log(13) / 4}},
		{observation.Feature{Kind: observation.SmoothedRate, Scale: []float64{24, 1}}, []float64{6. / 24, 9}},
		{observation.Feature{Kind: observation.LogSmoothedRate, Scale: []float64{1, 2}}, []float64{math.Log(7), math.Log(10) / 2}},
		{observation.Feature{Kind: observation.Shortfall, Requests: []int{1, 62, 63, 3}, Scale: []float64{1, 2, 1, 0.1}}, []float64{0.5, 1.75 / 2, 2.75, observation.Bound}},
	} {
		e := encoder(t, table, []observation.Feature{test.feature})
		got := make([]float32, e.Dim())
		e.Encode(got, &v, r)
		want := make([]float32, len(test.want))
		for i, x := range test.want {
			want[i] = float32(x)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", test.feature.Kind, got, want)
		}
	}
}

// A sample tells how busy a replica is in the mean, as the whole fleet does.
func TestInFlightOfASample(t *testing.T) {
	const hosts = 64
	table := conformance.FleetOf(hosts, 0)
	n := len(table.Replicas)
	v := fleet.View{Table: table, InFlight: slices.Repeat([]int32{5}, n), Held: make([]int32, n), Down: make([]bool, n)}
	e := encoder(t, table, []observation.Feature{{Kind: observation.InFlight, Scale: []float64{1, 1, 5}}})
	got := make([]float32, e.Dim())
	for _, sampled := range []bool{false, true} {
		if sampled {
			v.Sample(table, 7)
		}
		if e.Encode(got, &v, new(fleet.Request)); v.Sampled() != sampled || !slices.Equal(got, []float32{5, 5, 1}) {
			t.Errorf("sampled %v: %v, want %v", v.Sampled(), got, []float32{5, 5, 1})
		}
	}
}

// advisor always advises one variant.
type advisor int

func (a advisor) Decide(*fleet.View, *fleet.Request, []float32) int { return int(a) }

func (a advisor) Match(*fleet.Table) error { return nil }

// TestAdvice holds that an observation tells what the rule would choose, all
// zeros if that is nothing, and that rule and Spec go together.
func TestAdvice(t *testing.T) {
	table := conformance.Fleet(0)
	advice := observation.Feature{Kind: observation.Advice, Rule: "threshold"}
	s := spec(t, table, append([]observation.Feature{advice}, paper()...))
	if s.Advice() != "threshold" || s.Dim() != 8 {
		t.Errorf("advice of %q in %d numbers", s.Advice(), s.Dim())
	}
	for advised, want := range map[advisor][]float32{0: {1, 0, 0}, 2: {0, 0, 1}, -1: {0, 0, 0}} {
		e, err := observation.NewEncoder(s, table, advised)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float32, e.Dim())
		e.Encode(got, &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}, new(fleet.Request))
		if !slices.Equal(got[:3], want) {
			t.Errorf("advised %d: %v", advised, got)
		}
	}
	if _, err := observation.NewEncoder(s, table, nil); err == nil {
		t.Error("advice without a rule")
	}
	for what, features := range map[string][]observation.Feature{
		"no rule":                {{Kind: observation.Advice}},
		"not first":              {{Kind: observation.TaskOneHot}, advice},
		"a rule of another kind": {{Kind: observation.TaskOneHot, Rule: "threshold"}},
	} {
		if _, err := observation.NewSpec(table, features); err == nil {
			t.Errorf("%s: accepted", what)
		}
	}
}

// TestEncodeInOrder holds that features follow each other as the Spec lists
// them, and that every number is written.
func TestEncodeInOrder(t *testing.T) {
	table := conformance.Fleet(0)
	e := encoder(t, table, oneHot())
	v := fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12), Rate: 48}
	v.InFlight[2] = 20
	got := slices.Repeat([]float32{float32(math.NaN())}, e.Dim())
	r := &fleet.Request{Task: 1}
	e.Encode(got, &v, r)
	if want := []float32{0, 1, 0, 0, 0, 0, 1, 1}; !slices.Equal(got, want) {
		t.Errorf("observation %v, want %v", got, want)
	}
	if n := testing.AllocsPerRun(100, func() { e.Encode(got, &v, r) }); n != 0 {
		t.Errorf("Encode allocates %v times", n)
	}
}

func TestSpecFaults(t *testing.T) {
	table := conformance.Fleet(0)
	for want, features := range map[string][]observation.Feature{
		"an observation needs at least one feature": nil,
		`feature 0: unknown kind "mood"`:            {{Kind: "mood"}},
		"feature 0: rate takes 1 scales, has 0":     {{Kind: observation.Rate}},
		"feature 0: rate takes no requests":         {{Kind: observation.Rate, Scale: []float64{1}, Requests: []int{4}}},
		"feature 0: shortfall needs requests, such as [4, 9, 19]: of how many of the latest each number is": {
			{Kind: observation.Shortfall}},
		"feature 0: shortfall takes 2 scales, has 1":                    {{Kind: observation.Shortfall, Requests: []int{4, 9}, Scale: []float64{1}}},
		"feature 0: shortfall of 0 requests; want 1 to 63":              {{Kind: observation.Shortfall, Requests: []int{4, 0}, Scale: []float64{1, 1}}},
		"feature 0: shortfall of 64 requests; want 1 to 63":             {{Kind: observation.Shortfall, Requests: []int{64}, Scale: []float64{1}}},
		"feature 1: in-flight takes 3 scales, has 2":                    {{Kind: observation.TaskOneHot}, {Kind: observation.InFlight, Scale: []float64{1, 2}}},
		"feature 0: task-one-hot takes 0 scales, has 1":                 {{Kind: observation.TaskOneHot, Scale: []float64{1}}},
		"feature 0: rate has scale 0; scales are positive and finite":   {{Kind: observation.Rate, Scale: []float64{0}}},
		"feature 0: rate has scale NaN; scales are positive and finite": {{Kind: observation.Rate, Scale: []float64{math.NaN()}}},
		"feature 0: rate has scale +Inf; scales are positive and finite": {
			{Kind: observation.Rate, Scale: []float64{math.Inf(1)}}},
	} {
		if _, err := observation.NewSpec(table, features); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func TestHash(t *testing.T) {
	table := conformance.Fleet(0)
	base := spec(t, table, paper())
	b, err := json.Marshal(base)
	if err != nil {
		t.Fatal(err)
	}
	var stored observation.Spec
	if err := json.Unmarshal(b, &stored); err != nil {
		t.Fatal(err)
	}
	if stored.Hash() != base.Hash() || stored.Match(table) != nil {
		t.Error("a Spec that was stored and read is not the same")
	}
	other := paper()
	other[2].Scale = []float64{24}
	reordered := paper()
	slices.Reverse(reordered)
	remembering := append(paper(), observation.Feature{Kind: observation.Shortfall, Requests: []int{4}, Scale: []float64{1}})
	longer := append(paper(), observation.Feature{Kind: observation.Shortfall, Requests: []int{9}, Scale: []float64{1}})
	if spec(t, table, remembering).Hash() == spec(t, table, longer).Hash() {
		t.Error("a Spec of other requests has the same hash")
	}
	renamed := base
	renamed.Variants = []string{"opt-125m", "opt-1.3b", "opt-13b"}
	newer := base
	newer.Version++
	for what, s := range map[string]observation.Spec{
		"scale": spec(t, table, other), "order": spec(t, table, reordered), "variant": renamed, "version": newer,
	} {
		if s.Hash() == base.Hash() {
			t.Errorf("a Spec with another %s has the same hash", what)
		}
	}
}

func TestMatchSaysWhatDiffers(t *testing.T) {
	table := conformance.Fleet(0)
	for want, change := range map[string]func(*observation.Spec){
		"trained for observation version 2, this router encodes version 1": func(s *observation.Spec) { s.Version = 2 },
		// Fewer variants also mean other scales: the variants are what is said.
		"trained for variants [opt-125m opt-1.3b], the scenario has [opt-125m opt-1.3b opt-6.7b]": func(s *observation.Spec) {
			s.Variants = s.Variants[:2]
			s.Features[1].Scale = s.Features[1].Scale[:2]
		},
		"trained for tasks [copa hellaswag piqa openbookqa], the scenario has [hellaswag copa piqa openbookqa]": func(s *observation.Spec) {
			s.Tasks = []string{"copa", "hellaswag", "piqa", "openbookqa"}
		},
		"feature 2: rate has scale -1": func(s *observation.Spec) { s.Features[2].Scale = []float64{-1} },
	} {
		s := spec(t, table, paper())
		change(&s)
		err := s.Match(table)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
		if _, err := observation.NewEncoder(s, table, nil); err == nil {
			t.Errorf("an encoder is made of a Spec that is refused: %s", want)
		}
	}
}

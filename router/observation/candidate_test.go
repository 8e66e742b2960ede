package observation_test

import (
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// candidates is one of each kind, for three variants.
func candidates() []observation.Feature {
	return []observation.Feature{
		{Kind: observation.VariantOneHot},
		{Kind: observation.Quality, Scale: []float64{2}},
		{Kind: observation.Gain, Scale: []float64{0.5}},
		{Kind: observation.InFlight, Scale: []float64{10}},
		{Kind: observation.LogInFlight, Scale: []float64{3}},
		{Kind: observation.KVUse, Scale: []float64{0.5}},
		{Kind: observation.Pace, Scale: []float64{2}},
		{Kind: observation.Harm, Scale: []float64{4}},
		{Kind: observation.FirstToken, Scale: []float64{2}},
		{Kind: observation.Total, Scale: []float64{4}},
		{Kind: observation.Neighbours, Scale: []float64{20, 4}},
	}
}

func placing(t *testing.T, table *fleet.Table, features ...observation.Feature) *observation.Encoder {
	t.Helper()
	s, err := observation.NewSpec(table, features, candidates()...)
	if err != nil {
		t.Fatal(err)
	}
	e, err := observation.NewEncoder(s, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func hostRate() observation.Feature {
	return observation.Feature{Kind: observation.HostRate, Scale: []float64{1, 2, 4}}
}

// loaded is a view of the paper's fleet under some load.
func loaded(table *fleet.Table) *fleet.View {
	v := &fleet.View{
		Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12),
		Forecasts: make([]fleet.Forecast, 12), Rate: 12, Smoothed: fleet.SmoothedRates{6, 9},
	}
	copy(v.InFlight[3:6], []int32{7, 3, 2})
	v.Held[4] = 2824
	v.Forecasts[4] = fleet.Forecast{Pace: 0.5, First: 1.5, Total: 3, Misses: 1}
	v.Forecasts[0] = fleet.Forecast{Pace: 0.25, Misses: -0.5}
	for i := 9; i < 12; i++ {
		v.Down[i] = true // the last host
	}
	return v
}

func TestEncodeCandidates(t *testing.T) {
	table := conformance.Fleet(0)
	e := placing(t, table, hostRate())
	s := e.Spec()
	if s.Dim() != 3 || s.Own() != 15 || s.Inputs() != 18 || s.Outputs() != 1 || e.Dim() != 3+12*15 {
		t.Errorf("sizes %d, %d, %d, %d, %d", s.Dim(), s.Own(), s.Inputs(), s.Outputs(), e.Dim())
	}
	v, r := loaded(table), &fleet.Request{Task: 0}
	got := slices.Repeat([]float32{float32(math.NaN())}, e.Dim())
	e.Encode(got, v, r)
	log := func(n float64) float32 { return float32(math.Log1p(n) / 3) }
	for what, x := range map[string]struct{ got, want []float32 }{
		// Three of four hosts are up.
		"rates": {got[:3], []float32{4, 1, 9. / 3 / 4}},
		// 1.3B on the second host, beside 7 on the smaller and 2 on the larger.
		"replica 4": {got[3+4*15:][:15], []float32{1, 0, 1, 0, 0.78 / 2, 0.33 / 0.5, 0.3, log(3), 0.25 / 0.5, 0.25, 0.25, 0.75, 0.75, 7. / 20, 2. / 4}},
		// The smallest gains over nothing smaller; harm below zero is none.
		"replica 0": {got[3:][:15], []float32{1, 1, 0, 0, 0.45 / 2, 0, 0, 0, 0, 0.125, 0, 0, 0, 0, 0}},
		// Down; the task's best answer.
		"replica 11": {got[3+11*15:][:15], []float32{0, 0, 0, 1, 0.5, 0.22 / 0.5, 0, 0, 0, 0, 0, 0, 0, 0, 0}},
	} {
		for i := range x.want {
			if d := x.got[i] - x.want[i]; !(d < 1e-6 && d > -1e-6) {
				t.Errorf("%s: %v, want %v", what, x.got, x.want)
				break
			}
		}
	}
	v.Forecasts = nil
	e.Encode(got, v, r)
	if got[3+9] != observation.Bound || got[3+10] != observation.Bound {
		t.Errorf("without forecasts pace and harm are %v, want the bound", got[3+9:3+11])
	}
	if n := testing.AllocsPerRun(100, func() { e.Encode(got, v, r) }); n != 0 {
		t.Errorf("Encode allocates %v times", n)
	}
}

// A Spec with candidates suits any number of hosts, and other tasks and variants
// too unless a feature is of them.
func TestMatchWithCandidates(t *testing.T) {
	table := conformance.Fleet(0)
	free := slices.DeleteFunc(candidates(), func(f observation.Feature) bool { return f.Kind == observation.VariantOneHot })
	other, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, table.Hosts[:1],
		[]fleet.Replica{{Name: "a"}, {Name: "b", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	one, err := fleet.NewTable(table.Tasks, table.Variants, table.Hosts[:1], table.Replicas[:3])
	if err != nil {
		t.Fatal(err)
	}
	perVariant := observation.Feature{Kind: observation.InFlight, Scale: []float64{20, 20, 4}}
	for _, test := range []struct {
		features, candidate []observation.Feature
		fault               string // on the other fleet
	}{
		{[]observation.Feature{hostRate()}, free, ""},
		{[]observation.Feature{hostRate()}, candidates(), "trained for variants"},
		{[]observation.Feature{perVariant}, free, "trained for variants"},
		{[]observation.Feature{{Kind: observation.TaskOneHot}}, free, "trained for tasks"},
		{[]observation.Feature{hostRate()}, nil, "trained for variants"},
	} {
		s, err := observation.NewSpec(table, test.features, test.candidate...)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Match(one); err != nil {
			t.Errorf("%v: a fleet of one host is refused: %v", test, err)
		}
		if err := s.Match(other); (err == nil) != (test.fault == "") || err != nil && !strings.Contains(err.Error(), test.fault) {
			t.Errorf("%v: error %v, want %q", test, err, test.fault)
		}
	}
}

func TestCandidateFaults(t *testing.T) {
	table := conformance.Fleet(0)
	for want, f := range map[string]observation.Feature{
		`candidate feature 0: unknown kind "rate"`:                              {Kind: observation.Rate, Scale: []float64{1}},
		"candidate feature 0: neighbours takes 2 scales, has 1":                 {Kind: observation.Neighbours, Scale: []float64{1}},
		"candidate feature 0: variant-one-hot takes 0 scales, has 1":            {Kind: observation.VariantOneHot, Scale: []float64{1}},
		"candidate feature 0: pace takes 1 scales, has 3":                       {Kind: observation.Pace, Scale: []float64{1, 1, 1}},
		"candidate feature 0: gain has scale 0; scales are positive and finite": {Kind: observation.Gain, Scale: []float64{0}},
	} {
		if _, err := observation.NewSpec(table, paper(), f); err == nil || err.Error() != want {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	advised := append([]observation.Feature{{Kind: observation.Advice, Rule: "threshold"}}, paper()...)
	if _, err := observation.NewSpec(table, advised, candidates()...); err == nil || !strings.Contains(err.Error(), "advice is of variants") {
		t.Errorf("advice beside candidates: %v", err)
	}
	for _, kind := range observation.CandidateKinds {
		known := kind == observation.NewVersion || kind == observation.HostBusy || // TestEncodeCandidateFacts
			kind == observation.PredictedQuality || // TestEncodePredictions
			kind == observation.Estimates // TestEncodeEstimates
		if !known && !slices.ContainsFunc(candidates(), func(f observation.Feature) bool { return f.Kind == kind }) {
			t.Errorf("%s is not tested", kind)
		}
	}
}

// Candidates are part of a Spec's identity, and none leave it as it was.
func TestHashWithCandidates(t *testing.T) {
	table := conformance.Fleet(0)
	plain := spec(t, table, paper())
	b, err := json.Marshal(plain)
	if err != nil || strings.Contains(string(b), "candidate") {
		t.Errorf("a Spec without candidates is stored as %s (%v)", b, err)
	}
	with, err := observation.NewSpec(table, paper(), candidates()...)
	if err != nil || with.Hash() == plain.Hash() {
		t.Errorf("a Spec with candidates has the same hash (%v)", err)
	}
}

// estimating estimates the same for each replica that is available.
type estimating observation.Estimate

func (estimating) Match(t *fleet.Table) error {
	if len(t.Replicas) != 12 {
		return errors.New("another fleet")
	}
	return nil
}

func (e estimating) Estimate(dst []observation.Estimate, v *fleet.View, _ *fleet.Request) {
	for i := range dst {
		if v.Available(i) {
			dst[i] = observation.Estimate(e)
		}
	}
}

func TestEncodeEstimates(t *testing.T) {
	table := conformance.Fleet(0)
	s, err := observation.NewSpec(table, []observation.Feature{hostRate()},
		observation.Feature{Kind: observation.VariantOneHot}, observation.Feature{Kind: observation.Estimates, Rule: "universal"})
	if err != nil {
		t.Fatal(err)
	}
	if short, loss := s.PriorInputs(); short != 3+1+3 || loss != short+1 || s.EstimateRule() != "universal" {
		t.Errorf("inputs %d and %d", short, loss)
	}
	e, err := observation.NewEncoder(s, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := e.EstimateBy(estimating{Short: 0.1, Loss: 0.2, InTime: 0.3, TokenTime: 0.4, Wait: 50, Alone: 0.6, Duty: 0.7, Beside: 0.8, KVPeak: 0.9}); err != nil {
		t.Fatal(err)
	}
	if err := e.Match(table); err != nil {
		t.Error(err)
	}
	other, err := fleet.NewTable(table.Tasks, table.Variants, table.Hosts[:1], table.Replicas[:3])
	if err != nil {
		t.Fatal(err)
	}
	if err := e.Match(other); err == nil {
		t.Error("a fleet that the estimator does not know is accepted")
	}
	v, r, got := loaded(table), new(fleet.Request), make([]float32, e.Dim())
	e.Encode(got, v, r)
	for replica, want := range map[int][]float32{0: {1, 1, 0, 0, 0.1, 0.2, 0.3, 0.4, observation.Bound, 0.6, 0.7, 0.8, 0.9}, 11: {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0}} {
		if own := got[3+replica*13:][:13]; !slices.Equal(own, want) {
			t.Errorf("replica %d: %v, want %v", replica, own, want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { e.Encode(got, v, r) }); n != 0 {
		t.Errorf("Encode allocates %v times", n)
	}
}

package observation_test

import (
	"slices"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// predicted is a request for copa, whose row is 0.80, 0.95 and 1, with these qualities
// predicted by variant.
func predicted(qualities ...float32) *fleet.Request {
	r := &fleet.Request{Task: 1}
	r.Predicted.Known, r.Predicted.Sure = true, 0.75
	copy(r.Predicted.Quality[:], qualities)
	return r
}

// What is predicted is encoded by variant, or by the candidate's own, in units of what an
// answer is worth; without a prediction it is the task's.
func TestEncodePredictions(t *testing.T) {
	table := conformance.Fleet(0)
	table.Tasks[1].Weight = 2
	s, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.PredictedQuality, Scale: []float64{1, 2, 4}}, {Kind: observation.PredictedSure},
	}, observation.Feature{Kind: observation.PredictedQuality, Scale: []float64{2}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := observation.NewEncoder(s, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, got := loaded(table), make([]float32, e.Dim())
	for _, c := range []struct {
		r        *fleet.Request
		features []float32
		own      float32 // of a replica of the large variant
	}{
		{predicted(0.5, 0.25, 0.5), []float32{1, 0.25, 0.25, 0.75}, 0.5},
		{&fleet.Request{Task: 1}, []float32{1.6, 0.95, 0.5, 0}, 1},
		{predicted(-0.5, 20, 0), []float32{0, observation.Bound, 0, 0.75}, 0},
	} {
		e.Encode(got, v, c.r)
		if !slices.Equal(got[:4], c.features) || !slices.Equal(got[4+2*2:][:2], []float32{1, c.own}) {
			t.Errorf("%v: encoded as %v and %v, want %v and %v", c.r.Predicted, got[:4], got[4+2*2:][:2], c.features, c.own)
		}
	}
	if n := testing.AllocsPerRun(100, func() { e.Encode(got, v, predicted(0.5)) }); n > 1 { // predicted's own
		t.Errorf("Encode allocates %v times", n-1)
	}
	if err := s.Match(twoVariants(t)); err == nil {
		t.Error("a fleet of other variants is accepted, though there is a scale for each")
	}
}

// twoVariants is a fleet of two variants and the tasks of that.
func twoVariants(t *testing.T) *fleet.Table {
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Name: "a"}, {Name: "b", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// asking is an advisor that advises 1 if it is shown a prediction, else 0.
type asking struct{ advisor }

func (asking) Decide(_ *fleet.View, r *fleet.Request, _ []float32) int {
	if r.Predicted.Known || r.Predicted.Quality[0] != 0 {
		return 1
	}
	return 0
}

// A rule advises by the prediction only where the policy sees that too.
func TestAdviceIsByWhatThePolicySees(t *testing.T) {
	table := conformance.Fleet(0)
	advice := observation.Feature{Kind: observation.Advice, Rule: "threshold"}
	for _, c := range []struct {
		features []observation.Feature
		want     []float32
	}{
		{[]observation.Feature{advice}, []float32{1, 0, 0}},
		{[]observation.Feature{advice, {Kind: observation.PredictedQuality, Scale: []float64{1, 1, 1}}}, []float32{0, 1, 0}},
		{[]observation.Feature{advice, {Kind: observation.PredictedSure}}, []float32{0, 1, 0}},
	} {
		e, err := observation.NewEncoder(spec(t, table, c.features), table, asking{})
		if err != nil {
			t.Fatal(err)
		}
		got, v, r := make([]float32, e.Dim()), loaded(table), predicted(0.5, 0.5, 0.5)
		e.Encode(got, v, r)
		if !slices.Equal(got[:3], c.want) {
			t.Errorf("%v: advised %v, want %v", c.features, got[:3], c.want)
		}
		if !r.Predicted.Known {
			t.Errorf("%v: the request was changed", c.features)
		}
		if n := testing.AllocsPerRun(100, func() { e.Encode(got, v, r) }); n != 0 {
			t.Errorf("%v: Encode allocates %v times", c.features, n)
		}
	}
}

// A Spec without what is predicted is the one that policies were stored with before.
func TestHashOfASpecWithoutPredictions(t *testing.T) {
	table := conformance.Fleet(0)
	for hash, s := range map[string]observation.Spec{
		"00ed54339c4f6782c9e54191de0867eea2a9416bf6e7c82674301a2c36387c3a": spec(t, table, paper()),
		"d0ab559a23443b86456007abaa4e160e92fd752c8f2ffecc1df8894dec05f825": placing(t, table, hostRate()).Spec(),
	} {
		if got := s.Hash(); got != hash {
			t.Errorf("%v has hash %s, want %s", s.Features, got, hash)
		}
	}
}

package policies

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"unicode/utf8"

	"gearshift/checkpoints"
	"gearshift/env/evaluation"
	"gearshift/router/nn"
	"gearshift/router/policy"
)

// steady is a comparison by near-peak of a policy that earns less than the rule and stays
// nearer to its peak.
func steady(t *testing.T, rule string) HeldOut {
	t.Helper()
	runs := map[string][]float64{"policy": {0.7, 0.6, 0.8, 0.7}, rule: {0.8, 0.7, 0.9, 0.8}}
	values := map[string][]float64{"policy": {0.5, 0.4, 0.6, 0.5}, rule: {0.3, 0.2, 0.4, 0.3}}
	results := resultsOf([]string{"policy", rule}, runs)
	for i := range results {
		v := values[results[i].Policy]
		results[i].Objectives = []evaluation.Valued{{Objective: evaluation.NearPeak, Value: evaluation.Bootstrap(v), Runs: v}}
	}
	h, err := compareHeldOut(results, []string{"u1", "u2"}, 4, evaluation.NearPeak)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// What a policy was trained for is what it is compared by and promoted for, and the utility
// is told as well.
func TestComparisonByAnObjective(t *testing.T) {
	h := steady(t, "strong")
	if !h.Better() || h.BestRule != "strong" || math.Abs(h.Margin.Mean-0.2) > 1e-9 || math.Abs(h.Policies[0].Score.Mean-0.5) > 1e-9 {
		t.Fatalf("%+v", h)
	}
	v := h.Verdict("mine@1")
	if want := "mine@1 on u1 and u2: over the best rule, strong, by +0.2000 (+0.2000 to +0.2000) of near-peak, paired over 4 seeds: better"; VerdictLine(v) != want {
		t.Errorf("%s, want %s", VerdictLine(v), want)
	}
	text, err := json.Marshal(Evaluation{Objective: evaluation.NearPeak, HeldOut: h})
	if err != nil {
		t.Fatal(err)
	}
	entry := checkpoints.Entry{Name: "mine", Version: 1, Meta: checkpoints.Meta{Evaluation: text}}
	if stored, ok := StoredVerdict(entry); !ok || stored.String() != v.String() {
		t.Errorf("stored: %v, %v", stored, ok)
	}
	if err := Admit(entry, PromotionIn("mine.db"), new(bytes.Buffer)); err != nil {
		t.Error(err)
	}
	rows := h.Rows()
	for i, want := range []string{"POLICY u1 u2 near-peak (95 %) UTILITY", "policy 0.500 0.500 0.5000 (", "strong 0.300 0.300 0.3000 ("} {
		if got := strings.Join(rows[i], " "); !strings.HasPrefix(got, want) {
			t.Errorf("row %d: %s, want %s", i, got, want)
		}
	}
	if rows[1][4] != "0.7000" || rows[2][4] != "0.8000" {
		t.Errorf("utilities %s and %s", rows[1][4], rows[2][4])
	}
}

func TestTheComparisonFits(t *testing.T) {
	h := steady(t, "task-threshold:20,236/5,138/5,118/9,196")
	var err error
	if h.Objective, err = evaluation.ParseObjective("windows:0.985,20"); err != nil {
		t.Fatal(err)
	}
	for i := range h.Policies { // a third workload
		r := &h.Policies[i]
		r.Utility["stable"], r.Values["stable"] = r.Utility["u1"], r.Values["u1"]
	}
	var b strings.Builder
	if err := h.write(&b); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(b.String()) {
		if n := utf8.RuneCountInString(line) - 1; n > 100 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	for _, want := range []string{"9,196", "windows:0.985,20 (95 %)", "UTILITY", "stable", "0.8000\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, &b)
		}
	}
}

// A comparison by mean utility is stored as versions without objectives store it.
func TestAComparisonByUtilityNamesNoObjective(t *testing.T) {
	text, err := json.Marshal(Evaluation{Seeds: 4, HeldOut: held(t, []float64{1, 1, 1, 1}, []float64{0.5, 0.5, 0.5, 0.5})})
	if err != nil {
		t.Fatal(err)
	}
	for _, field := range []string{"objective", "values"} {
		if strings.Contains(string(text), field) {
			t.Errorf("%s in %s", field, text)
		}
	}
}

// What another version judged by an objective that this one does not know is refused, with
// its name.
func TestAnUnknownObjectiveIsNamed(t *testing.T) {
	text, err := json.Marshal(Evaluation{Objective: evaluation.NearPeak, HeldOut: steady(t, "strong")})
	if err != nil {
		t.Fatal(err)
	}
	entry := checkpoints.Entry{Name: "mine", Version: 3, Meta: checkpoints.Meta{
		Evaluation: bytes.ReplaceAll(text, []byte("near-peak"), []byte("calm:3")),
	}}
	if v, ok := StoredVerdict(entry); ok {
		t.Errorf("it is read as %+v", v)
	}
	err = Admit(entry, PromotionIn("mine.db"), new(bytes.Buffer))
	if err == nil || !strings.Contains(err.Error(), `cannot promote mine@3: its evaluation cannot be read: unknown objective "calm:3"`) {
		t.Errorf("%v", err)
	}
}

// A judge scores by the scenario's objective, and so does the comparison that the checkpoint
// carries.
func TestJudgesScoreByTheObjective(t *testing.T) {
	s := tiny(t)
	s.Evaluation.Requests, s.Evaluation.StableRates = 200, []float64{2, 6}
	s.Training.Objective = evaluation.NearPeak
	spec := s.Spec()
	net, err := nn.New(spec.Inputs(), spec.Outputs())
	if err != nil {
		t.Fatal(err)
	}
	net.Biases[0][0] = 1
	j, err := NewJudge(s, spec)
	if err != nil {
		t.Fatal(err)
	}
	score, err := j.Score(t.Context(), net, policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := j.Summary(t.Context(), net, policy.Trust{}, true)
	if err != nil {
		t.Fatal(err)
	}
	var got Evaluation
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	var value, utility float64
	for _, w := range JudgedBy {
		value += got.Values[w] / float64(len(JudgedBy))
		utility += got.Utility[w] / float64(len(JudgedBy))
	}
	if math.Abs(score-value) > 1e-12 || score == utility || got.Objective != evaluation.NearPeak {
		t.Errorf("score %v; by the objective %v, utility %v, %+v", score, value, utility, got)
	}
	h := got.HeldOut
	if h.Objective != evaluation.NearPeak || len(h.Policies) < 2 {
		t.Fatalf("%+v", h)
	}
	for _, row := range h.Policies {
		var sum float64
		for _, w := range JudgedBy {
			sum += row.Values[w].Mean / float64(len(JudgedBy))
		}
		if math.Abs(sum-row.Score.Mean) > 1e-9 {
			t.Errorf("%s scores %v, its values have a mean of %v", row.Policy, row.Score.Mean, sum)
		}
	}
}

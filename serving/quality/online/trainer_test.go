package online

import (
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/router/quality"
	predicting "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
)

// rig is a trainer whose clients score answers.
type rig struct {
	*corpus
	*Trainer
	now   *watch
	logs  strings.Builder
	saved []*quality.Regression
	fails error
	asked int
}

func newRig(t *testing.T) *rig {
	t.Helper()
	g := &rig{corpus: newCorpus(t), now: new(watch)}
	p, err := quality.Bind(g.model, g.table, columns)
	if err != nil {
		t.Fatal(err)
	}
	predictors := predicting.New(g.table, settings())
	predictors.Charge(&predicting.Loaded{Predictor: p, Name: "made@1", Digest: "d1"})
	g.Trainer = NewTrainer(Options{
		Predictors: predictors, Feedback: newFeedback(g.now), Table: g.table, Clock: g.now.now, Log: slog.New(slog.NewTextHandler(&g.logs, nil)),
		Save: func(_ *predicting.Loaded, m *quality.Regression) error {
			if g.fails == nil {
				g.saved = append(g.saved, m)
			}
			return g.fails
		},
	})
	return g
}

// scores has answers of the size to n prompts scored by their key, and the trainer woken a minute later.
func (g *rig) scores(t *testing.T, owner string, variant, n int, says func(predicted float64) float64) {
	t.Helper()
	for i := range n {
		var p fleet.Prediction
		s := &g.others[i%len(g.others)].Sample
		g.Predictors.InCharge().Predict(s, 0, &p)
		g.asked++
		id := fmt.Sprint(g.asked)
		ticket := g.Feedback.Begin(&feedback.Request{Owner: owner, ID: id, Predicted: &p, Sample: s})
		g.Feedback.Answered(ticket, feedback.Answer{Variant: variant})
		g.Feedback.Ended(ticket, true)
		if _, err := g.Feedback.Score(owner, id, says(float64(p.Quality[variant]))); err != nil {
			t.Fatal(err)
		}
	}
	*g.now += watch(time.Minute)
	g.Wake()
}

// mean returns the mean of what is predicted of the size.
func (g *rig) mean(variant int) (sum float64) {
	var p fleet.Prediction
	for i := range g.others {
		g.Predictors.InCharge().Predict(&g.others[i].Sample, 0, &p)
		sum += float64(p.Quality[variant])
	}
	return sum / float64(len(g.others))
}

func always(score float64) func(float64) float64 { return func(float64) float64 { return score } }

func TestScoresAreLearnedByTheMinute(t *testing.T) {
	g := newRig(t)
	before, other := g.mean(2), g.mean(1)
	g.scores(t, "a", 2, 100, always(0))
	if after := g.mean(2); after > before-0.1 {
		t.Errorf("predicted %.3f after bad scores, %.3f before", after, before)
	}
	if after := g.mean(1); math.Abs(after-other) > 0.01 { // it is surer
		t.Errorf("predicted %.3f of another size, %.3f before", after, other)
	}
	in := g.Predictors.InCharge()
	if s := g.Status(); in.Name != "made@1" || in.Digest != "d1" || s.Learned != 100 || s.Predictor != "made@1" || s.Last.Labels != 100 || s.Keys != 1 {
		t.Errorf("%s is in charge, %+v", in.Name, s)
	}
	if n := g.metric(t, "gearshift_quality_scores_used_total", "learned"); n != 100 {
		t.Errorf("%v scores used", n)
	}
	if b := g.metric(t, "gearshift_quality_brier", "row"); b != g.Status().Last.Row {
		t.Errorf("Brier score of the rows %v, want %v", b, g.Status().Last.Row)
	}
}

// What the router has found itself is learned at once, among many keys too, and is no key's.
func TestOwnScoresAreLearned(t *testing.T) {
	g := newRig(t)
	for _, key := range []string{"a", "b"} { // whose scores are not learned
		g.scores(t, key, 1, 30, always(0.5))
	}
	before := g.mean(2)
	for i := range 100 {
		g.Feedback.Add(feedback.Label{Variant: 2, Score: 0, Sample: g.others[i%len(g.others)].Sample})
	}
	*g.now += watch(time.Minute)
	g.Wake()
	if after := g.mean(2); after > before-0.1 {
		t.Errorf("predicted %.3f after bad scores, %.3f before", after, before)
	}
	if s := g.Status(); s.Keys != 2 || s.Learned < 100 || s.Last.Labels < 100 {
		t.Errorf("%+v", s)
	}
}

// metric returns the value of a metric with a label of that value, or without labels if that is empty.
func (g *rig) metric(t *testing.T, name, label string) float64 {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(g.Collectors()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("there is no metric %s with %q", name, label)
	return 0
}

// A predictor that is promoted later begins without what the one before it learned.
func TestAnotherPredictorIsLearnedFromTheBeginning(t *testing.T) {
	g := newRig(t)
	first := *g.Predictors.InCharge()
	before := g.mean(2)
	g.scores(t, "a", 2, 100, always(0))
	first.Name, first.Digest = "made@2", "d2"
	g.Predictors.Charge(&first)
	g.Wake()
	if s := g.Status(); s.Learned != 0 || s.Predictor != "made@2" || s.Last.Labels != 0 {
		t.Errorf("%+v", s)
	}
	g.scores(t, "a", 1, 1, always(1))
	if after := g.mean(2); math.Abs(after-before) > 0.001 {
		t.Errorf("predicted %.3f, as fitted %.3f", after, before)
	}
	g.Predictors.Charge(nil)
	g.Wake() // nothing to learn from
}

// A predictor that is worse than the rows is out of charge until it is better.
func TestAPredictorThatIsWorseIsOutOfCharge(t *testing.T) {
	g := newRig(t)
	random := rand.New(rand.NewPCG(1, 1))
	row := g.table.Tasks[0].Quality[1]
	opposite := func(p float64) float64 { return max(0, min(1, row-2*(p-row))) }
	settings := g.Predictors.Settings()
	settings.Learn.Rate = 1e-6
	g.Predictors.Follow(settings)
	g.scores(t, "a", 1, 90, opposite)
	if g.Predictors.Suspended() {
		t.Fatal("out of charge after 90 scores")
	}
	g.scores(t, "a", 1, 60, opposite)
	if n := g.metric(t, "gearshift_quality_out_of_charge", ""); n != 1 || !g.Predictors.Suspended() || !g.Status().Out || strings.Count(g.logs.String(), "is out of charge") != 1 {
		t.Fatalf("%+v is in charge; log %s", g.Status(), &g.logs)
	}
	if c := g.Status().Last; !(c.Predictor > c.Row && c.High < 0) {
		t.Errorf("%+v", c)
	}
	for range 2 {
		*g.now += watch(time.Hour)
		g.scores(t, "a", 1, 400, func(p float64) float64 { return max(0, min(1, p+0.1*(random.Float64()-0.5))) })
	}
	if n := g.metric(t, "gearshift_quality_out_of_charge", ""); n != 0 || g.Predictors.Suspended() || strings.Count(g.logs.String(), "in charge again") != 1 {
		t.Errorf("%+v is out of charge; log %s", g.Status(), &g.logs)
	}
}

func TestWhatWasLearnedIsSaved(t *testing.T) {
	g := newRig(t)
	*g.now = watch(time.Hour)
	g.scores(t, "a", 2, 10, always(0))
	if len(g.saved) != 1 || !g.Status().Saved {
		t.Fatalf("saved %d versions, %+v", len(g.saved), g.Status())
	}
	g.scores(t, "a", 2, 10, always(0))
	if len(g.saved) != 1 || g.Status().Saved {
		t.Errorf("saved %d versions within a minute, %+v", len(g.saved), g.Status())
	}
	g.fails = errors.New("the disk is full")
	*g.now += watch(saveEvery)
	g.scores(t, "a", 2, 10, always(0))
	if s := g.Status(); s.Saved || !strings.Contains(g.logs.String(), "the disk is full") {
		t.Errorf("%+v, log %s", s, &g.logs)
	}
	g.fails = nil
	if err := g.Close(); err != nil || len(g.saved) != 2 {
		t.Fatalf("%v, saved %d versions", err, len(g.saved))
	}
	want, got := make([]float64, 3), make([]float64, 3)
	g.Predictors.InCharge().Regression().Predict(&g.others[0].Sample, want)
	if g.saved[1].Predict(&g.others[0].Sample, got); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("saved one that predicts %v, in use is one that predicts %v", got, want)
	}
}

package app

import (
	"log/slog"
	"math"
	"strings"
	"testing"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/drift"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving/config"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
)

// learning returns what learns for a scenario without a file.
func newTestLearner(t *testing.T) (*learner, *scenario.Scenario) {
	t.Helper()
	s, text, err := scenario.LoadText("tiny")
	if err != nil {
		t.Fatal(err)
	}
	core, err := NewCore(s, "slackfit", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	o := Options{Scenario: "engines", Text: text, Policy: "static:small"}
	maker, err := s.Maker(core.Table())
	if err != nil {
		t.Fatal(err)
	}
	r := &Reloader{options: o, now: s, text: text, core: core.Core, maker: maker}
	l := newLearner(&o, s, r, slog.New(slog.DiscardHandler))
	l.monitor(s, slog.New(slog.DiscardHandler))
	return l, s
}

// Answers of an engine that is slower than its profile change forecasts, and what is saved.
func TestProfilesAreAdopted(t *testing.T) {
	l, s := newTestLearner(t)
	truth := s.Profiles()[1].Slower(2)
	for n := range 60 {
		load := drift.Load{Sequences: float64(1 + n%8), Context: float64(200 * (1 + n%8))}
		ms, _ := truth.Time(1+n%8, 1+n%8, 200*(1+n%8), 0)
		l.profiles.Add(&drift.Timing{Replica: 1, Prompt: 100, Tokens: 50, Decode: profile.Duration(50 * ms), During: load})
	}
	if !l.profiles.Due() {
		t.Fatal("sixty answers are not enough")
	}
	l.adopt(l.profiles.Fit())
	want, _ := truth.Time(4, 4, 800, 0)
	if got, _ := l.routing.now.Profiles()[1].Time(4, 4, 800, 0); math.Abs(got/want-1) > 0.05 {
		t.Errorf("a step takes %.1f ms, forecast are %.1f", want, got)
	}
	if got, was := l.routing.now.Profiles()[0], s.Profiles()[0]; *got != *was {
		t.Error("a size without answers is another")
	}
	found := l.learned()
	if len(found.Profiles) != 1 || found.Profiles[0].Variant != "large" || !strings.Contains(found.Profiles[0].From, "60 answers") {
		t.Errorf("%+v", found)
	}
	if v := l.report().Values; len(v) == 0 || !strings.Contains(v[0].From, "60 answers of large") {
		t.Errorf("%+v", v)
	}
}

// Scores of answers decide once they are certain, without a predictor.
func TestScoresReplaceGuesses(t *testing.T) {
	l, _ := newTestLearner(t)
	table := l.routing.core.Table()
	p := predictors.New(table, config.Quality{})
	clock := func() time.Duration { return 0 }
	f := l.scoresOf(p, feedback.New(func() config.Feedback { return config.Feedback{} }, feedback.Names{Tasks: []string{"chat", "search"}, Variants: []string{"small", "large"}}, clock))
	var labels []feedback.Label
	for n := range 200 {
		variant := n % 2
		score := float64(variant) // the large size is right, and the small one in half of the answers
		if n%4 == 0 {
			score = 1
		}
		labels = append(labels, feedback.Label{Owner: "only", Variant: variant, Score: score})
	}
	var r fleet.Request
	if p.Predict(nil, "", &r, nil); r.Predicted.Known || !p.Scores() {
		t.Errorf("before there are scores: %+v", r.Predicted)
	}
	f(labels)
	if p.Predict(nil, "", &r, nil); !r.Predicted.Known || math.Abs(float64(r.Predicted.Quality[0])-0.5) > 0.01 || r.Predicted.Quality[1] != 1 {
		t.Errorf("%+v", r.Predicted)
	}
	r = fleet.Request{Task: 1}
	if p.Predict(nil, "", &r, nil); r.Predicted.Known {
		t.Error("a task without scores has means")
	}
	if q := l.learned().Qualities; len(q) != 2 || q[0].Task != "chat" || !strings.Contains(q[0].From, "100 answers by 1 key") {
		t.Errorf("%+v", q)
	}
}

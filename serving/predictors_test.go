package serving_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
	"gearshift/serving/quality/online"
	"gearshift/serving/work"
)

// The prompts of the test: small answers greetings as well as large does, and proves nothing.
const (
	greeting = "say hello to my friend number 7 please"
	proof    = "prove the theorem about primes number 7 rigorously"
	strange  = "zyx wvu tsr qpo"
)

// predictor is one that has been fitted to labelled prompts, for the table's variants of these names.
func predictor(t testing.TB, table *fleet.Table, as ...string) *quality.Predictor {
	t.Helper()
	const key = 11
	var f quality.Features
	var examples []quality.Example
	for i := range 400 {
		text, scores := "say hello to my friend number %d please", []float32{1, 1}
		if i%2 == 1 {
			text, scores = "prove the theorem about primes number %d rigorously", []float32{0, 1}
		}
		f.Read(&quality.Prompt{Parts: [][]byte{fmt.Appendf(nil, text, i)}, Turns: 1}, key)
		examples = append(examples, quality.Example{Sample: f.Clone(), Scores: scores})
	}
	m, _, err := quality.Fit(examples, []string{"s", "l"}, quality.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	p, err := quality.Bind(m, table, as)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// predicting has a predictor in charge.
func predicting(t testing.TB) func(*serving.Options) {
	return func(o *serving.Options) {
		table := o.Router.Table()
		o.Predictors = predictors.New(table, config.DefaultQuality())
		o.Predictors.Charge(&predictors.Loaded{Predictor: predictor(t, table, []string{"s", "l"}[:len(table.Variants)]...), Name: "test@1", Digest: "d1"})
	}
}

// learning has a predictor in charge that learns from scores.
func learning(t testing.TB) func(*serving.Options) {
	return func(o *serving.Options) {
		predicting(t)(o)
		table, names := o.Router.Table(), feedback.Names{Tasks: []string{"chat", "copy"}, Variants: []string{"small", "large"}}
		clock := work.WallClock()
		o.Feedback = feedback.New(func() config.Feedback { return o.Predictors.Settings().Feedback }, names, clock)
		m := online.NewModule(online.NewTrainer(online.Options{Predictors: o.Predictors, Feedback: o.Feedback, Table: table, Clock: clock}))
		t.Cleanup(func() { _ = m.Close() })
		o.Modules = append(o.Modules, m)
	}
}

// withoutFields has headers say nothing of what is predicted.
func withoutFields(o *serving.Options) {
	q := config.DefaultQuality()
	q.Headers = false
	o.Predictors.Follow(q)
}

// prompted is a chat request with the prompt.
func prompted(prompt string) string {
	return `{"model":"auto","messages":[{"role":"user","content":` + strconv.Quote(prompt) + `}]}`
}

// fields are the fields of a header about predicted quality, as numbers; −1 where there is none.
func fields(t *testing.T, w *httptest.ResponseRecorder) (quality, best, sure float64) {
	t.Helper()
	number := func(name string) float64 {
		text := w.Header().Get(name)
		if text == "" {
			return -1
		}
		x, err := strconv.ParseFloat(text, 64)
		if err != nil {
			t.Fatalf("%s is %q", name, text)
		}
		return x
	}
	return number("X-Gearshift-Quality"), number("X-Gearshift-Quality-Best"), number("X-Gearshift-Quality-Sure")
}

func TestAnswersNameThePredictedQuality(t *testing.T) {
	g := newRig(t, good, predicting(t), func(o *serving.Options) { o.Config.Log.Access = config.AccessAll })
	w := g.do("POST", chat, prompted(greeting))
	if quality, best, sure := fields(t, w); w.Code != http.StatusOK || !(quality > 0.8 && best >= quality && sure == 1) {
		t.Errorf("a greeting: status %d, quality %v, best %v, sure %v", w.Code, quality, best, sure)
	}
	if line := g.logs.String(); !strings.Contains(line, "predicted_quality=0.") || !strings.Contains(line, "predicted_sure=1") {
		t.Errorf("the log says %s", line)
	}
	w = g.do("POST", chat, prompted(proof)) // the policy wants small all the same
	if quality, best, sure := fields(t, w); !(quality >= 0 && quality < 0.2 && best > 0.8 && sure == 1) {
		t.Errorf("a proof: quality %v, best %v, sure %v", quality, best, sure)
	}
	w = g.do("POST", chat, prompted(strange))
	if quality, best, sure := fields(t, w); !(quality == 0.5 && best == 1 && sure == 0) {
		t.Errorf("words that it has not met: quality %v, best %v, sure %v; want those of the task", quality, best, sure)
	}
	if got := g.counted("gearshift_quality_predictions_total"); len(got) != 1 || !strings.HasSuffix(got[0], `{task="chat"} 3`) {
		t.Errorf("counted %q", got)
	}
	if got := g.counted("gearshift_quality_predicted_count"); len(got) != 1 || !strings.HasSuffix(got[0], `{task="chat",variant="small"} 3`) {
		t.Errorf("counted %q", got)
	}
	if got := g.counted("gearshift_quality_in_charge"); len(got) != 1 || !strings.Contains(got[0], `predictor="test@1"`) {
		t.Errorf("in charge %q", got)
	}
}

// Requests without text, and those of callers who dispatch by themselves, have the quality of their task.
func TestRequestsThatArePredictedNothing(t *testing.T) {
	g := newRig(t, good, predicting(t))
	for path, body := range map[string]string{
		chat:                  `{"model":"auto","messages":[{"role":"system","content":"prove the theorem"}]}`,
		"/v1/completions":     `{"model":"auto","prompt":[1,2,3]}`,
		"/v1/gearshift/route": `{}`,
	} {
		w := g.do("POST", path, body)
		if quality, _, _ := fields(t, w); w.Code != http.StatusOK || quality >= 0 {
			t.Errorf("%s: status %d, quality %v", path, w.Code, quality)
		}
	}
	off := newRig(t, good, predicting(t), withoutFields)
	if w := off.do("POST", chat, prompted(greeting)); w.Header().Get("X-Gearshift-Quality") != "" {
		t.Errorf("with quality.headers: false: %v", w.Header())
	}
}

// A least quality is compared with what a variant is sure to reach for the prompt. One that none is sure
// of is lowered, unless no variant has it by the scenario either.
func TestALeastQualityOfAPredictedRequest(t *testing.T) {
	g := newRig(t, good, predicting(t))
	for _, c := range []struct {
		prompt, floor, model string
		status               int
		variant              string
	}{
		{greeting, "0.8", "auto", 200, "small"}, // of which its task's row has 0.5
		{proof, "0.4", "auto", 200, "large"},    // though its task's row would do
		{proof, "1", "auto", 200, "large"},
		{strange, "1", "auto", 200, "large"},
		{strange, "1.5", "auto", 400, ""},
		{greeting, "0.8", "small", 200, "small"},
		{proof, "0.8", "small", 400, ""},
	} {
		w := g.do("POST", chat, strings.Replace(prompted(c.prompt), "auto", c.model, 1), minQuality, c.floor)
		if got := w.Header().Get("X-Gearshift-Variant"); w.Code != c.status || got != c.variant {
			t.Errorf("%q at %s by %s: status %d, variant %q; want %d, %q: %s", c.prompt, c.floor, c.model, w.Code, got, c.status, c.variant, w.Body)
		}
	}
}

// An answer that another variant gave after a retry has that variant's quality.
func TestThePredictionStaysOverRetries(t *testing.T) {
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, refuses, refuses, good), predicting(t))
	w := g.do("POST", chat, prompted(proof))
	if quality, best, _ := fields(t, w); w.Header().Get("X-Gearshift-Variant") != "large" || !(quality > 0.8 && quality == best) {
		t.Errorf("asked %v, header %v", asked, w.Header())
	}
}

// A key gets no other model for the sake of a least quality: its own ones are what the quality is lowered to.
func TestALeastQualityOfAKeyWithFewModels(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"few": {Grants: access.Grants{Models: []string{"auto", "small"}}}})
	g := newRig(t, good, predicting(t), withKeys(file))
	for _, c := range []struct {
		prompt, floor string
		status        int
	}{{greeting, "0.8", 200}, {proof, "0.4", 200}, {proof, "0.8", 400}} {
		w := g.do("POST", chat, prompted(c.prompt), append(bearing(secrets["few"]), minQuality, c.floor)...)
		if got := w.Header().Get("X-Gearshift-Variant"); w.Code != c.status || c.status == 200 && got != "small" {
			t.Errorf("%q at %s: status %d by %q, want %d: %s", c.prompt, c.floor, w.Code, got, c.status, w.Body)
		}
	}
}

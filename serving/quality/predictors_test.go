package quality_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
	predictors "gearshift/serving/quality"
)

func table(t testing.TB) *fleet.Table {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: time.Second, Weight: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "a"}},
		[]fleet.Replica{{Name: "small@a"}, {Name: "large@a", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// loaded is a predictor that has learned that small answers prompts of the word with this score, and
// large with 1.
func loaded(t testing.TB, in *fleet.Table, name string, key uint64, small float32) *predictors.Loaded {
	t.Helper()
	var f quality.Features
	var examples []quality.Example
	for i := range 200 {
		f.Read(&quality.Prompt{Parts: [][]byte{fmt.Appendf(nil, "what is number %d", i)}, Turns: 1}, key)
		examples = append(examples, quality.Example{Sample: f.Clone(), Scores: []float32{small, 1}})
	}
	m, _, err := quality.Fit(examples, []string{"small", "large"}, quality.Options{Key: key})
	if err != nil {
		t.Fatal(err)
	}
	p, err := quality.Bind(m, in, []string{"small", "large"})
	if err != nil {
		t.Fatal(err)
	}
	return &predictors.Loaded{Predictor: p, Name: name, Digest: name}
}

func request(t testing.TB, body string) *wire.Request {
	t.Helper()
	r, err := wire.ParseRequest([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

const question = `{"prompt":"what is number 7"}`

// ask predicts for n questions, and has each be given small. It returns how many the predictor on trial
// has predicted, and the sum of the predicted qualities of small by arm.
func ask(t *testing.T, p *predictors.Predictors, n int) (tried int, sums [2]float64) {
	t.Helper()
	r := request(t, question)
	for range n {
		var to fleet.Request
		onTrial := p.Predict(r, "", &to, nil)
		p.Chosen(r, &to, 0, onTrial)
		arm := 0
		if onTrial {
			tried, arm = tried+1, 1
		}
		sums[arm] += float64(to.Predicted.Quality[0])
	}
	return tried, sums
}

func TestATrialPredictsForItsShare(t *testing.T) {
	in := table(t)
	p := predictors.New(in, config.DefaultQuality())
	if tried, sums := ask(t, p, 10); tried != 0 || sums != [2]float64{} {
		t.Errorf("without a predictor: %d, %v", tried, sums)
	}
	p.Charge(loaded(t, in, "good@1", 1, 0.9))
	if err := p.Try(loaded(t, in, "other@1", 2, 0.1), 0.25); err == nil {
		t.Error("a predictor with another key is on trial")
	}
	if err := p.Try(loaded(t, in, "bad@1", 1, 0.1), 0.25); err != nil {
		t.Fatal(err)
	}
	const n = 4000
	tried, sums := ask(t, p, n)
	if tried < n/4-100 || tried > n/4+100 {
		t.Errorf("%d of %d requests are on trial, want a quarter", tried, n)
	}
	charge, trial := sums[0]/float64(n-tried), sums[1]/float64(tried)
	if charge < 0.7 || trial > 0.3 {
		t.Errorf("in charge %v is predicted, on trial %v", charge, trial)
	}
	for range 30 {
		p.Scored(0, trial, 0.5, true)
	}
	r := p.Report()
	side, other := r.InCharge.Tasks[0], r.Trial.Tasks[0]
	if side.Requests != uint64(n-tried) || other.Requests != uint64(tried) || math.Abs(side.Predicted-charge) > 1e-3 || math.Abs(other.Predicted-trial) > 1e-3 || side.Variants[0].Share != 1 {
		t.Errorf("the report has %+v and %+v", side, other)
	}
	if low, high := side.Gains[0].Requests+side.Gains[1].Requests, other.Gains[2].Requests; low != side.Requests || high != other.Requests {
		t.Errorf("by gain %+v and %+v", side.Gains, other.Gains)
	}
	if other.Scores != 30 || other.Score != 0.5 || len(other.Calibration) != 1 || side.Scores != 0 {
		t.Errorf("scored %+v and %+v", side, other)
	}
}

// A shadow predicts for each request, and none is routed by it.
func TestAShadowIsToNoEffect(t *testing.T) {
	in := table(t)
	p := predictors.New(in, config.DefaultQuality())
	p.Charge(loaded(t, in, "good@1", 1, 0.9))
	if err := p.Try(loaded(t, in, "bad@1", 1, 0.1), 0); err != nil {
		t.Fatal(err)
	}
	tried, sums := ask(t, p, 100)
	r := p.Report()
	if tried != 0 || sums[0] < 70 || r.Trial.State != "shadow" || r.Trial.Tasks[0].Requests != 100 || r.InCharge.Tasks[0].Requests != 100 {
		t.Errorf("%d tried, %v predicted, %+v", tried, sums[0], r.Trial)
	}
}

// What has learned replaces what it learned from, and nothing else.
func TestALearnerReplacesWhatItLearnedFrom(t *testing.T) {
	in := table(t)
	p := predictors.New(in, config.DefaultQuality())
	first, second := loaded(t, in, "mine@1", 1, 0.9), loaded(t, in, "mine@2", 1, 0.8)
	learned := loaded(t, in, "", 1, 0.1).Predictor
	p.Charge(first)
	if !p.Set(first, learned) || p.InCharge().Predictor != learned || p.InCharge().Name != "mine@1" {
		t.Errorf("%+v is in charge", p.InCharge())
	}
	p.Charge(second)
	if p.Set(first, learned) || p.InCharge() != second {
		t.Errorf("%+v is in charge once another was promoted", p.InCharge())
	}
	p.Charge(nil)
	if p.Set(second, learned) || p.InCharge() != nil {
		t.Errorf("%+v is in charge once none was to be", p.InCharge())
	}
}

// Prompts are kept where that is wanted, and only those that were given another variant than the best.
func TestExamplesAreKeptIfPromptsAre(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := table(t)
		kept := config.DefaultQuality()
		p := predictors.New(in, kept)
		p.Charge(loaded(t, in, "mine@1", 1, 0.1))
		give := func(variant int) int {
			r := request(t, `{"messages":[{"role":"user","content":"first"},{"role":"user","content":"what is\nnumber `+strings.Repeat("7", 500)+`"}]}`)
			var to fleet.Request
			p.Chosen(r, &to, variant, p.Predict(r, "", &to, nil))
			return len(p.Report().Examples)
		}
		if n := give(0); n != 0 {
			t.Errorf("%d examples where prompts are not kept", n)
		}
		kept.KeepPrompts = true
		p.Follow(kept)
		if n := give(1); n != 0 {
			t.Errorf("%d examples of prompts that were given the best", n)
		}
		if n := give(0) + give(0); n != 2 {
			t.Errorf("%d examples after two requests at once, want one", n-1)
		}
		e := p.Report().Examples[0]
		if e.Variant != "small" || !strings.HasPrefix(e.Prompt, "what is\nnumber 777") || len(e.Prompt) != 200 || e.Loss < 0.2 {
			t.Errorf("%+v", e)
		}
		for range 30 {
			time.Sleep(time.Second)
			give(0)
		}
		if n := len(p.Report().Examples); n != 20 {
			t.Errorf("%d examples, want 20", n)
		}
		p.Follow(config.DefaultQuality())
		if n := len(p.Report().Examples); n != 0 {
			t.Errorf("%d examples once prompts are no longer kept", n)
		}
	})
}

// Prediction allocates nothing once its memory is there, and the features are handed on.
func TestPredictionAllocatesNothing(t *testing.T) {
	in := table(t)
	p := predictors.New(in, config.DefaultQuality())
	p.Charge(loaded(t, in, "mine@1", 1, 0.9))
	r := request(t, `{"messages":[{"role":"user","content":"what is\nnumber 7"},{"role":"user","content":"and 8?"}]}`)
	words := 0
	if n := testing.AllocsPerRun(100, func() {
		var to fleet.Request
		p.Predict(r, "", &to, func(s *quality.Sample) { words = len(s.Words) })
		p.Chosen(r, &to, 0, false)
	}); n != 0 || words != 6 {
		t.Errorf("%v allocations, %d words", n, words)
	}
}

// BenchmarkPredict reads a prompt and predicts:
//
//	go test -run '^$' -bench Predict ./serving/quality
func BenchmarkPredict(b *testing.B) {
	in := table(b)
	p := predictors.New(in, config.DefaultQuality())
	p.Charge(loaded(b, in, "mine@1", 1, 0.9))
	for _, size := range []int{1 << 10, 10 << 10, 220 << 10} {
		var text []byte
		for i := 0; len(text) < size; i++ {
			text = fmt.Appendf(text, "word%d of %d\\n", i%977, i)
		}
		r := request(b, `{"prompt":"`+string(text)+`"}`)
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				var to fleet.Request
				p.Predict(r, "", &to, nil)
			}
		})
	}
}

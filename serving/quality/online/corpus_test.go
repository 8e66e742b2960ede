package online

import (
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
	"gearshift/router/profile"
	"gearshift/router/quality"
	"gearshift/serving/config"
	predicting "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
	"gearshift/workloads/prompts"
)

// names of the models that stand for the three sizes of the fleet.
var columns = []string{"llama3-chatqa-1.5-8b", "qwen2.5-7b-instruct", "llama-3.1-nemotron-51b-instruct"}

const hashKey = 7

// corpus has labelled prompts as samples: those that a predictor was fitted to, and others.
type corpus struct {
	table  *fleet.Table
	model  *quality.Regression
	others []quality.Example
	rule   policy.Rule
}

func newCorpus(t *testing.T) *corpus {
	t.Helper()
	c, err := made()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var made = sync.OnceValues(makeCorpus)

func makeCorpus() (*corpus, error) {
	set, err := prompts.BuiltIn(prompts.NineModels)
	if err != nil {
		return nil, err
	}
	fitted, played := set.Of(columns).Halves()
	c := &corpus{table: conformance.Fleet(0), others: samples(played, 1500)}
	for i := range c.table.Tasks {
		c.table.Tasks[i].Quality = fitted.Means()
	}
	if c.model, _, err = quality.Fit(samples(fitted, 1200), columns, quality.Options{Key: hashKey}); err != nil {
		return nil, err
	}
	var profiles []*profile.Profile
	for _, r := range c.table.Replicas {
		profiles = append(profiles, &profile.Profile{LaunchFloor: 3 * float64(r.Variant+1), Weights: 5 * float64(r.Variant), Token: 0.05 * float64(r.Variant), Overhead: 1.5, Sequence: 0.2, Contention: 0.15})
	}
	m := policy.Maker{Table: c.table, Profiles: profiles, Lengths: policy.Lengths{Context: 218, Output: 256}, Balancer: balance.SmallestBatch{}}
	c.rule, err = m.Parse("task-aware")
	return c, err
}

func samples(s *prompts.Set, most int) (list []quality.Example) {
	var f quality.Features
	for _, p := range s.Prompts[:min(most, len(s.Prompts))] {
		f.Read(&quality.Prompt{Parts: [][]byte{[]byte(p.Text)}, Turns: 1}, hashKey)
		list = append(list, quality.Example{Sample: f.Clone(), Scores: p.Scores})
	}
	return list
}

// shares returns which share of the prompts each size answers, over views from idle to full.
func (c *corpus) shares(p *quality.Predictor) []float64 {
	shares, n := make([]float64, len(c.table.Variants)), 0.0
	for busy := range 8 {
		v := &fleet.View{Table: c.table, InFlight: make([]int32, len(c.table.Replicas)), Held: make([]int32, len(c.table.Replicas)), Down: make([]bool, len(c.table.Replicas))}
		for i := range v.InFlight {
			v.InFlight[i] = int32(8 * busy)
			v.Held[i] = 250 * v.InFlight[i]
		}
		for i := range c.others {
			r := fleet.Request{PromptTokens: 200}
			p.Predict(&c.others[i].Sample, 0, &r.Predicted)
			shares[c.rule.Decide(v, &r, nil)]++
			n++
		}
	}
	for i := range shares {
		shares[i] /= n
	}
	return shares
}

// trainer returns one that learns from the corpus's predictor, and trusts these keys.
func (c *corpus) trainer(t *testing.T, trusted ...string) *Trainer {
	t.Helper()
	p, err := quality.Bind(c.model, c.table, columns)
	if err != nil {
		t.Fatal(err)
	}
	var w watch
	with := settings()
	with.Feedback.Trusted = trusted
	predictors := predicting.New(c.table, with)
	predictors.Charge(&predicting.Loaded{Predictor: p, Name: "made@1", Digest: "d"})
	service := newFeedback(&w)
	for _, owner := range []string{"a", "b"} { // the key is not alone
		service.Begin(&feedback.Request{Owner: owner, Sample: &quality.Sample{}})
	}
	return NewTrainer(Options{Predictors: predictors, Feedback: service, Table: c.table, Clock: w.now})
}

func settings() config.Quality { return config.DefaultQuality() }

func newFeedback(w *watch) *feedback.Service {
	names := feedback.Names{Tasks: []string{"task"}, Variants: columns}
	return feedback.New(func() config.Feedback { return settings().Feedback }, names, w.now)
}

// watch is a clock that is set by hand.
type watch time.Duration

func (w *watch) now() time.Duration { return time.Duration(*w) }

// labels returns n scores of a key, of sizes at random.
func (c *corpus) labels(random *rand.Rand, owner string, n int, says says) (list []feedback.Label) {
	for range n {
		e, v := &c.others[random.IntN(len(c.others))], random.IntN(len(columns))
		list = append(list, feedback.Label{Owner: owner, Variant: v, Score: says(e, v, float64(e.Scores[v])), Sample: e.Sample})
	}
	return list
}

func truth(_ *quality.Example, _ int, score float64) float64 { return score }

package quality

import (
	"encoding/json"
	"math"
	"slices"
)

// Report is the body of GET /admin/quality: what predicts, and what came of it.
type Report struct {
	InCharge *Described `json:"in_charge"`
	Trial    *Described `json:"trial"`
	// Earlier names the predictor that a rollback would put in charge; empty if there is none.
	Earlier string `json:"earlier,omitempty"`
	// Fault is why the predictor that is wanted does not predict.
	Fault string `json:"fault,omitempty"`
	// Examples are some of the last prompts that were given another variant than the best one, if
	// prompts are kept.
	Examples []Example `json:"examples,omitempty"`
	// Note adds to the answer to an order.
	Note string `json:"note,omitempty"`
}

// Described is one predictor, with the requests that it has predicted for since it began.
type Described struct {
	Predictor string `json:"predictor"`
	Digest    string `json:"digest"`
	State     string `json:"state"` // in_charge or suspended; shadow or canary
	// Share of the requests that it predicts for. A shadow predicts for all, to no effect.
	Share  float64  `json:"share"`
	Models []string `json:"models"`
	// Labels is the number of prompts that it was fitted to, and Evaluation how well it predicted
	// those that it had not seen.
	Labels     int             `json:"labels"`
	Evaluation json.RawMessage `json:"evaluation,omitempty"`
	Tasks      []Task          `json:"tasks"`
}

// Task sums the requests of one task. Means are from 0 to 1, and zero without requests.
type Task struct {
	Task     string `json:"task"`
	Requests uint64 `json:"requests"`
	// Sure reports the certainty of the predictions, Predicted the predicted quality of the variants that
	// were chosen, and Best that of the best ones, all in the mean.
	Sure      float64   `json:"sure"`
	Predicted float64   `json:"predicted"`
	Best      float64   `json:"best"`
	Variants  []Variant `json:"variants"`
	// Gains are the requests by what the best variant gains over the smallest, as predicted.
	Gains []Gain `json:"gains"`
	// Scores counts the answers that have been scored, and Score is their mean.
	// Calibration compares both by predicted quality.
	Scores      uint64   `json:"scores"`
	Score       float64  `json:"score"`
	Calibration []Scored `json:"calibration,omitempty"`
}

// Variant has the share of requests that were given the variant, and their mean predicted quality.
type Variant struct {
	Variant   string  `json:"variant"`
	Share     float64 `json:"share"`
	Predicted float64 `json:"predicted"`
}

// Gain are the requests whose predicted gain is in a range, and the share of them that each variant
// was given.
type Gain struct {
	Gain     string             `json:"gain"` // low, middle or high
	From     float64            `json:"from"`
	Requests uint64             `json:"requests"`
	Shares   map[string]float64 `json:"shares"`
}

// Scored compares the predicted quality of some scored answers with their scores.
type Scored struct {
	Answers   uint64  `json:"answers"`
	Predicted float64 `json:"predicted"`
	Score     float64 `json:"score"`
}

// Report returns what predicts, and what came of it.
func (p *Predictors) Report() Report {
	now := p.now.Load()
	p.mu.Lock()
	defer p.mu.Unlock()
	r := Report{Fault: p.fault, Examples: slices.Clone(p.examples)}
	if p.earlier != nil {
		r.Earlier = p.earlier.Name
	}
	if now.charge != nil {
		r.InCharge = p.described(now.charge, now.chargeState(), 1-now.share, inCharge)
	}
	if now.trial != nil {
		r.Trial = p.described(now.trial, now.state(), now.share, onTrial)
	}
	return r
}

// described describes a predictor, and the requests of its arm. The lock is held.
func (p *Predictors) described(l *Loaded, state string, share float64, arm int) *Described {
	m := l.Regression()
	d := &Described{Predictor: l.Name, Digest: l.Digest, State: state, Share: share, Models: m.Columns(), Labels: m.Labels(), Evaluation: l.Evaluation}
	for i := range p.counts[arm] {
		d.Tasks = append(d.Tasks, p.task(i, &p.counts[arm][i]))
	}
	return d
}

// task describes the requests of a task.
func (p *Predictors) task(i int, x *row) Task {
	out := Task{Task: p.table.Tasks[i].Name, Requests: x.requests, Sure: mean(x.sure, x.requests), Best: mean(x.best, x.requests)}
	var placed uint64 // those of a shadow are not
	for _, c := range x.variants {
		placed += c.requests
	}
	out.Predicted = mean(x.predicted, placed)
	for v, c := range x.variants {
		if p.table.Answers(i, v) {
			out.Variants = append(out.Variants, Variant{p.table.Variants[v].Name, mean(float64(c.requests), placed), mean(c.predicted, c.requests)})
		}
	}
	for b, counts := range x.bands {
		g := Gain{Gain: bands[b].name, From: rounded(float64(bands[b].from)), Shares: map[string]float64{}}
		for _, n := range counts {
			g.Requests += n
		}
		for v, n := range counts {
			if p.table.Answers(i, v) {
				g.Shares[p.table.Variants[v].Name] = mean(float64(n), g.Requests)
			}
		}
		out.Gains = append(out.Gains, g)
	}
	sum := 0.0
	for _, s := range x.scores {
		if s.count > 0 {
			out.Scores += s.count
			sum += s.score
			out.Calibration = append(out.Calibration, Scored{s.count, mean(s.predicted, s.count), mean(s.score, s.count)})
		}
	}
	out.Score = mean(sum, out.Scores)
	return out
}

// mean returns the mean of n numbers by their sum; zero if there are none.
func mean(sum float64, n uint64) float64 {
	if n == 0 {
		return 0
	}
	return rounded(sum / float64(n))
}

// rounded leaves four digits after the point.
func rounded(x float64) float64 { return math.Round(x*1e4) / 1e4 }

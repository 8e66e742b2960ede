package quality

import (
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving/openai/wire"
)

// The arms: requests that the predictor in charge predicted for, and those of the one on trial.
const (
	inCharge = iota
	onTrial
	arms
)

// Bands are ranges of the predicted gain: of the best variant over the first of the table that
// answers the task. Each begins at the number and ends at the next.
var bands = [...]struct {
	name string
	from float32
}{{"low", 0}, {"middle", 0.1}, {"high", 0.3}}

// tenths is the number of ranges of predicted quality whose scores are compared with it.
const tenths = 10

// tally sums what was predicted for requests that got a place, by task.
type tally []row

// row is the tally of one task.
type row struct {
	requests              uint64
	sure, predicted, best float64 // sums
	variants              []chosen
	bands                 [len(bands)][]uint64 // by variant
	scores                [tenths]scored
}

// chosen sums requests of one variant.
type chosen struct {
	requests  uint64
	predicted float64 // sum
}

// scored sums scores of answers with the qualities that were predicted for them.
type scored struct {
	count            uint64
	predicted, score float64 // sums
}

func newTally(t *fleet.Table) tally {
	rows := make(tally, len(t.Tasks))
	for i := range rows {
		rows[i].variants = make([]chosen, len(t.Variants))
		for b := range bands {
			rows[i].bands[b] = make([]uint64, len(t.Variants))
		}
	}
	return rows
}

// add counts a request on the variant that it was given, or on none if that is below zero.
func (t tally) add(table *fleet.Table, r *fleet.Request, variant int) {
	x := &t[r.Task]
	first, best := table.Range(r)
	x.requests++
	x.sure += float64(r.Predicted.Sure)
	x.best += float64(best)
	if variant < 0 {
		return
	}
	quality := float64(r.Predicted.Quality[variant])
	x.predicted += quality
	x.variants[variant].requests++
	x.variants[variant].predicted += quality
	band := 0
	for band+1 < len(bands) && best-first >= bands[band+1].from {
		band++
	}
	x.bands[band][variant]++
}

// Chosen counts a request that was given a place on a variant. Tried is what Predict has reported of
// it.
func (p *Predictors) Chosen(body *wire.Request, r *fleet.Request, variant int, tried bool) {
	if p == nil || !r.Predicted.Known {
		return
	}
	p.exemplify(body, r, variant)
	p.metrics.chosen(r.Task, variant, float64(r.Predicted.Quality[variant]))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[arm(tried)].add(p.table, r, variant)
}

// Scored notes the score of an answer, for which that quality was predicted.
func (p *Predictors) Scored(task int, predicted, score float64, tried bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := &p.counts[arm(tried)][task].scores[max(0, min(tenths-1, int(predicted*tenths)))]
	x.count++
	x.predicted += predicted
	x.score += score
}

// shadow counts what a predictor would have predicted that has no share of the requests.
func (p *Predictors) shadow(by *Loaded, s *quality.Sample, r *fleet.Request) {
	theirs := fleet.Request{Task: r.Task}
	by.Predict(s, r.Task, &theirs.Predicted)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.counts[onTrial].add(p.table, &theirs, -1)
}

func arm(tried bool) int {
	if tried {
		return onTrial
	}
	return inCharge
}

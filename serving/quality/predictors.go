// Package quality predicts the quality of answers to the requests of a server: by the predictor in
// charge, or by one on trial for a share of them.
package quality

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// Loaded is a predictor, with what is known of where it comes from.
type Loaded struct {
	*quality.Predictor
	// Name refers to it, such as chat@3, and Digest that of its bytes.
	Name, Digest string
	// Evaluation reports how well it predicted prompts that it had not seen, as JSON; empty if that is not
	// known.
	Evaluation []byte
}

// Predictors are the predictor in charge and the one on trial. Both may be missing: the row of a
// request's task holds then. Their methods may be called from any goroutine. A nil
// Predictors predicts nothing.
type Predictors struct {
	table    *fleet.Table
	settings atomic.Pointer[config.Quality]
	now      atomic.Pointer[current]
	// means are predicted by task while no predictor is there; nil: answers cannot be scored then.
	means   atomic.Pointer[[]fleet.Prediction]
	drawn   atomic.Uint64 // requests that drew whether they are on trial
	readers chan *reader  // that are idle
	metrics *predictionMetrics
	// nextExample holds the time from which on an example may be kept, in ns of Unix time.
	nextExample atomic.Int64

	mu       sync.Mutex // protects all below, and changes of now
	earlier  *Loaded    // in charge before; nil if there was none
	fault    string     // why the one that is wanted does not predict; empty if it does
	counts   [arms]tally
	examples []Example // the last ones, the oldest first
}

// current holds the predictors of one moment. It is replaced as a whole.
type current struct {
	charge, trial *Loaded // nil if there is none
	share         float64 // of the requests that trial predicts for
	out           bool    // charge decides nothing, as the rows of tasks predict better
}

// chargeState names what the predictor in charge does.
func (c *current) chargeState() string {
	if c.out {
		return "suspended"
	}
	return "in_charge"
}

// state names what the predictor on trial does.
func (c *current) state() string {
	if c.share == 0 {
		return "shadow"
	}
	return "canary"
}

// errOtherKey refuses a trial that would have to read each prompt a second time.
var errOtherKey = errors.New("the words of the predictor are hashed under another key than those of the one in charge; want one fitted in the same store")

// reader is the memory in which one prompt is read.
type reader struct {
	turns    wire.Turns
	prompt   quality.Prompt
	features quality.Features
}

// read reads the features of the turns for a predictor.
func (x *reader) read(task string, by *Loaded) {
	x.prompt = quality.Prompt{Parts: x.turns.Parts, Task: task, Turns: x.turns.Count, Tools: x.turns.Tools, Images: x.turns.Media}
	x.features.Read(&x.prompt, by.Regression().Key())
}

// New returns predictors of which none is in charge.
func New(t *fleet.Table, settings config.Quality) *Predictors {
	p := &Predictors{table: t, readers: make(chan *reader, 4*runtime.GOMAXPROCS(0)), metrics: newPredictionMetrics(t)}
	p.settings.Store(&settings)
	p.now.Store(new(current))
	for i := range p.counts {
		p.counts[i] = newTally(t)
	}
	return p
}

// Predict sets what is predicted for the request's answers, and reports whether the predictor on
// trial did. Nothing is predicted without a predictor, or for a request without text. Task is the
// one that the request names; empty if it names none. Keep, which may be nil, is called with the
// features of the prompt, which are good until it returns.
func (p *Predictors) Predict(r *wire.Request, task string, to *fleet.Request, keep func(*quality.Sample)) (onTrial bool) {
	if p == nil {
		return false
	}
	now := p.now.Load()
	if now.charge == nil && now.trial == nil {
		p.predictMean(to, keep)
		return false
	}
	began := time.Now()
	x := p.idle()
	defer p.give(x)
	if r.Turns(&x.turns); len(x.turns.Parts) == 0 {
		return false
	}
	by := now.charge
	if onTrial = now.trial != nil && p.draws(now.share); onTrial {
		by = now.trial
	}
	if by == nil {
		return false
	}
	x.read(task, by)
	decides := by != now.charge || !now.out
	if decides {
		by.Predict(&x.features.Sample, to.Task, &to.Predicted)
	}
	if keep != nil {
		keep(&x.features.Sample)
	}
	if !decides {
		return false
	}
	p.metrics.predicted(to, time.Since(began))
	if now.trial != nil && now.share == 0 {
		p.shadow(now.trial, &x.features.Sample, to)
	}
	return onTrial
}

// predictMean sets what is known of all answers to the request's task.
func (p *Predictors) predictMean(to *fleet.Request, keep func(*quality.Sample)) {
	means := p.means.Load()
	if means == nil {
		return
	}
	if m := &(*means)[to.Task]; m.Known {
		to.Predicted = *m
	}
	if keep != nil {
		keep(new(quality.Sample))
	}
}

// SetMeans has answers scored, and the means decide, by task, while there is no predictor. A mean that is
// not known leaves the task's row in force.
func (p *Predictors) SetMeans(means []fleet.Prediction) { p.means.Store(&means) }

// Scores reports whether answers can be scored: something learns from it.
func (p *Predictors) Scores() bool { return p.InUse() || p != nil && p.means.Load() != nil }

// Sample returns the features of the request's prompt, as [Predictors.Predict] reads it for the predictor
// in charge. It reports false if there is none, or if the request is not all text.
func (p *Predictors) Sample(r *wire.Request, task string) (s quality.Sample, ok bool) {
	by := p.InCharge()
	if by == nil {
		return s, false
	}
	x := p.idle()
	defer p.give(x)
	if r.Turns(&x.turns); len(x.turns.Parts) == 0 || x.turns.Tools > 0 || x.turns.Media > 0 {
		return s, false
	}
	x.read(task, by)
	return x.features.Clone(), true
}

// Settings returns those in force.
func (p *Predictors) Settings() config.Quality { return *p.settings.Load() }

// Follow puts settings in force.
func (p *Predictors) Follow(settings config.Quality) {
	p.settings.Store(&settings)
	if !settings.KeepPrompts {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.examples = nil
	}
}

// Shows reports whether the headers of answers say what was predicted.
func (p *Predictors) Shows() bool { return p != nil && p.settings.Load().Headers }

// draws reports whether the next request falls in the share.
func (p *Predictors) draws(share float64) bool {
	return splitmix.Unit(splitmix.Next(p.drawn.Add(1))) < share
}

// idle returns a reader that no other request uses.
func (p *Predictors) idle() *reader {
	select {
	case x := <-p.readers:
		return x
	default:
		return new(reader)
	}
}

// give has the reader serve another request.
func (p *Predictors) give(x *reader) {
	x.turns.Clear()
	x.prompt = quality.Prompt{}
	select {
	case p.readers <- x:
	default:
	}
}

// InCharge returns the predictor in charge; nil if there is none.
func (p *Predictors) InCharge() *Loaded { return p.now.Load().charge }

// InUse reports whether any predictor is in charge or on trial.
func (p *Predictors) InUse() bool {
	if p == nil {
		return false
	}
	now := p.now.Load()
	return now.charge != nil || now.trial != nil
}

// OnTrial returns the predictor on trial and its share; nil if there is none.
func (p *Predictors) OnTrial() (*Loaded, float64) {
	now := p.now.Load()
	return now.trial, now.share
}

// Set replaces the predictor in charge by one that has learned from it, and reports false if another
// one is in charge by now.
func (p *Predictors) Set(from *Loaded, to *quality.Predictor) bool {
	return p.change(func(now *current) bool {
		if from == nil || now.charge == nil || now.charge.Name != from.Name || now.charge.Digest != from.Digest {
			return false
		}
		learned := *now.charge
		learned.Predictor = to
		now.charge = &learned
		return true
	})
}

// Suspend has the rows of tasks decide in place of the predictor in charge, whose prompts are read all
// the same; or ends that. It reports false if another predictor is in charge by now.
func (p *Predictors) Suspend(l *Loaded, out bool) bool {
	return p.change(func(now *current) bool {
		if now.charge == nil || now.charge.Name != l.Name || now.charge.Digest != l.Digest {
			return false
		}
		now.out = out
		return true
	})
}

// Suspended reports whether the rows of tasks decide in place of the predictor in charge.
func (p *Predictors) Suspended() bool { return p.now.Load().out }

// Charge puts a predictor in charge, or none if it is nil. Rollback returns to the one before.
func (p *Predictors) Charge(l *Loaded) {
	p.change(func(now *current) bool {
		if now.charge != nil && (l == nil || now.charge.Name != l.Name || now.charge.Digest != l.Digest) {
			p.earlier = now.charge
		}
		now.charge, now.out, p.fault = l, false, ""
		p.counts[inCharge] = newTally(p.table)
		return true
	})
}

// Fault notes why the predictor that is wanted is not in charge; empty if it is. What is in charge stays.
func (p *Predictors) Fault(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = why
}

// Try puts a predictor on trial for a share of the requests, in place of another. With a share of 0 it
// predicts for all of them, to no effect.
func (p *Predictors) Try(l *Loaded, share float64) error {
	var err error
	p.change(func(now *current) bool {
		if now.charge != nil && now.charge.Regression().Key() != l.Regression().Key() {
			err = errOtherKey
			return false
		}
		now.trial, now.share = l, share
		p.counts[onTrial] = newTally(p.table)
		return true
	})
	return err
}

// EndTrial ends the trial, and reports false if there is none.
func (p *Predictors) EndTrial() bool {
	return p.change(func(now *current) bool {
		was := now.trial
		now.trial, now.share = nil, 0
		return was != nil
	})
}

// Rollback puts the predictor in charge that was before, and returns it. There is no way back from
// it. It returns nil if there was none.
func (p *Predictors) Rollback() (l *Loaded) {
	p.change(func(now *current) bool {
		if l = p.earlier; l == nil {
			return false
		}
		now.charge, now.out, p.earlier, p.fault = l, false, nil, ""
		p.counts[inCharge] = newTally(p.table)
		return true
	})
	return l
}

// change replaces what predicts by what f makes of it, unless f reports false.
func (p *Predictors) change(f func(*current) bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := *p.now.Load()
	if !f(&next) {
		return false
	}
	p.now.Store(&next)
	return true
}

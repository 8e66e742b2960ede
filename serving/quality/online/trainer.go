package online

import (
	"log/slog"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/quality"
	"gearshift/serving/config"
	predicting "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
)

// saveEvery is the least time between two versions that are saved.
const saveEvery = 5 * time.Minute

// Options hold the parts that a [Trainer] needs. Log and Save may be nil.
type Options struct {
	Predictors *predicting.Predictors
	Feedback   *feedback.Service
	Table      *fleet.Table
	Clock      func() time.Duration
	Log        *slog.Logger
	// Means, if set, is called with the scores that come while no predictor is in charge.
	Means func([]feedback.Label)
	// Save stores what has been learned from the predictor that was put in charge. It is called from
	// one goroutine, which is none of a request's.
	Save func(from *predicting.Loaded, learned *quality.Regression) error
}

// Trainer has the predictor in charge learn from scores, and puts it out of charge where the rows of
// tasks predict them better.
type Trainer struct {
	Options
	settings func() config.Quality
	metrics  *metrics

	mu      sync.Mutex // protects all below
	from    *predicting.Loaded
	learner *quality.Learner
	crowd   *crowd
	guard   guard
	means   [][]mean // scores by task and variant
	learned int      // scores since from was put in charge
	unsaved bool
	saved   time.Duration
	status  Status
}

// NewTrainer returns a trainer that has learned nothing yet.
func NewTrainer(o Options) *Trainer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	t := &Trainer{Options: o, settings: o.Predictors.Settings, metrics: newMetrics(), means: make([][]mean, len(o.Table.Tasks)), saved: -saveEvery}
	for i := range t.means {
		t.means[i] = make([]mean, len(o.Table.Variants))
	}
	return t
}

// Wake learns from the scores that have come since the last call.
func (t *Trainer) Wake() {
	t.Feedback.Expire()
	labels := t.Feedback.Take()
	charge := t.Predictors.InCharge()
	t.mu.Lock()
	defer t.mu.Unlock()
	if charge == nil {
		t.from, t.learner, t.unsaved, t.status = nil, nil, false, Status{}
		if t.Means != nil && len(labels) > 0 {
			t.Means(labels)
		}
		return
	}
	t.follow(charge)
	if n := t.learn(charge, labels); n > 0 {
		t.publish(charge)
	}
	t.judge(charge)
	t.save(false)
	t.report()
}

// Close saves what has been learned.
func (t *Trainer) Close() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.save(true)
}

// follow begins again with a predictor that has been put in charge by others.
func (t *Trainer) follow(charge *predicting.Loaded) {
	if t.from != nil && t.from.Name == charge.Name && t.from.Digest == charge.Digest {
		return
	}
	t.from, t.learner, t.guard, t.learned, t.unsaved = charge, quality.NewLearner(charge.Regression()), guard{}, 0, false
	t.crowd = newCrowd(t.trusts)
}

// trusts reports whether the scores of a key need no agreement.
func (t *Trainer) trusts(owner string) bool {
	for _, name := range t.settings().Feedback.Trusted {
		if name == owner {
			return true
		}
	}
	return false
}

// learn learns from scores, and returns from how many.
func (t *Trainer) learn(charge *predicting.Loaded, labels []feedback.Label) (n int) {
	var votes []vote
	var of []*feedback.Label
	rate := t.settings().Learn.Rate
	teach := func(l *feedback.Label, column int, weight float64) {
		t.metrics.used("learned")
		t.compare(l, charge)
		t.learner.Learn(&l.Sample, column, l.Score, weight*rate)
		n++
	}
	for i := range labels {
		l := &labels[i]
		column := charge.Column(l.Variant)
		if column < 0 {
			t.metrics.used("no_column")
			continue
		}
		if l.Own { // no key's, so that no other key has to agree
			teach(l, column, 1)
			continue
		}
		of, votes = append(of, l), append(votes, vote{l.Owner, column, l.Score, &l.Sample})
	}
	for i, w := range t.crowd.weigh(charge.Regression(), votes, t.Feedback.Alone(), t.Clock()) {
		if w == 0 {
			t.metrics.used("left_out")
			continue
		}
		teach(of[i], votes[i].column, w)
	}
	t.learned += n
	return n
}

// compare notes how well a score was predicted before anything was learned from it.
func (t *Trainer) compare(l *feedback.Label, charge *predicting.Loaded) {
	var p fleet.Prediction
	charge.Predict(&l.Sample, l.Task, &p)
	predicted := float64(p.Quality[l.Variant])
	row := t.Table.Tasks[l.Task].Quality[l.Variant]
	so := &t.means[l.Task][l.Variant]
	before := row
	if so.count > 0 {
		before = so.value()
	}
	so.count++
	so.sum += l.Score
	t.guard.note(squaredErrors{squared(l.Score - predicted), squared(l.Score - row), squared(l.Score - before)})
}

// mean is that of scores.
type mean struct{ count, sum float64 }

func (m mean) value() float64 { return m.sum / m.count }

func squared(x float64) float64 { return x * x }

// publish puts what has been learned in charge.
func (t *Trainer) publish(charge *predicting.Loaded) {
	if t.settings().Learn.Every == 0 {
		return
	}
	learned, err := charge.With(t.learner.Regression())
	if err != nil { // it has the same columns
		t.Log.Error("cannot use what was learned from scores", "predictor", charge.Name, "error", err)
		return
	}
	t.unsaved = t.Predictors.Set(charge, learned)
}

// judge puts the predictor out of charge, or back.
func (t *Trainer) judge(charge *predicting.Loaded) {
	c := t.guard.compare()
	out, changed := t.guard.judge(c)
	if !changed || !t.Predictors.Suspend(charge, out) {
		return
	}
	if out {
		t.Log.Warn("the predictor of quality is out of charge: the rows of tasks predict scores better, and decide", "predictor", charge.Name, "labels", c.Labels, "brier", c.Predictor, "brier_of_rows", c.Row)
	} else {
		t.Log.Info("the predictor of quality is in charge again", "predictor", charge.Name, "labels", c.Labels, "brier", c.Predictor, "brier_of_rows", c.Row)
	}
}

// save stores what has been learned, if it is due.
func (t *Trainer) save(now bool) error {
	if t.Save == nil || !t.unsaved || !now && t.Clock()-t.saved < saveEvery {
		return nil
	}
	t.saved = t.Clock()
	err := t.Save(t.from, t.learner.Regression())
	if t.unsaved = err != nil; err != nil {
		t.metrics.unsaved.Inc()
		t.Log.Error("what was learned from scores is not saved; it is in use all the same", "predictor", t.from.Name, "error", err)
	}
	return err
}

package app

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"gearshift/checkpoints"
	judged "gearshift/internal/quality"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/router/quality"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/online"
)

// qualities puts the predictor of quality in charge that the scenario names, at the start and when
// the scenario or the store has changed, and carries out orders about predictors. It implements
// [predictors.Source].
type qualities struct {
	predictors *predictors.Predictors
	table      *fleet.Table
	store      *guardedStore
	log        *slog.Logger
	module     *online.Module // has the predictor in charge learn

	mu   sync.Mutex // protects all below: orders and reloads come one at a time
	now  *scenario.Scenario
	seen string // identity of what was last wanted
}

// newQualities returns the predictors of a fleet. It is nil for a fleet whose variants are too many.
func newQualities(s *scenario.Scenario, r *Reloader) *qualities {
	table := r.core.Table()
	if len(table.Variants) > fleet.MostPredicted {
		return nil
	}
	q := &qualities{
		predictors: predictors.New(table, scenario.Of[scenario.Quality](s).Quality),
		table:      table, store: r.store, log: r.log,
	}
	q.follow(s)
	r.Watch(q.follow)
	r.stored = append(r.stored, func() error {
		q.mu.Lock()
		s := q.now
		q.mu.Unlock()
		q.follow(s)
		return nil
	})
	return q
}

// follow puts in force what the scenario says.
func (q *qualities) follow(s *scenario.Scenario) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.now = s
	q.predictors.Follow(scenario.Of[scenario.Quality](s).Quality)
	if err := q.refresh(); err != nil {
		q.predictors.Fault(err.Error())
		message := "cannot predict quality: the qualities of tasks decide"
		if in := q.predictors.InCharge(); in != nil {
			message = "cannot predict quality by another predictor: " + in.Name + " stays in charge"
		}
		q.log.Error(message, "predictor", s.Predictor(), "error", err)
	}
}

// refresh puts the predictor in charge that the scenario names, unless it was found before.
func (q *qualities) refresh() error {
	wanted := q.now.Predictor()
	if wanted == "" {
		if q.seen != "" {
			q.predictors.Charge(nil)
		}
		q.seen = ""
		return nil
	}
	if wanted == scenario.FitPredictor {
		return q.fit()
	}
	entry, err := q.lookup(wanted)
	if err != nil {
		return err
	}
	if id := identity(entry); id != q.seen {
		q.seen = id // without a change, another try would have the same result
		l, err := q.load(entry)
		if err != nil {
			return err
		}
		q.charge(l, entry.Name)
	} else if in := q.predictors.InCharge(); in != nil && in.Name == entry.Ref().String() {
		q.predictors.Fault("") // such as of a store that could not be read meanwhile
	}
	return nil
}

// charge puts a predictor in charge, with what it had learned before under the name.
func (q *qualities) charge(l *predictors.Loaded, name string) {
	if err := q.resume(l, name); err != nil {
		q.log.Error("what the predictor has learned cannot be used; it predicts as it was fitted", "predictor", l.Name, "error", err)
	}
	q.predictors.Charge(l)
	q.log.Info("quality is predicted", "predictor", l.Name, "labels", l.Regression().Labels())
}

// fit puts a predictor in charge that is fitted to the prompts of the scenario's workload.
func (q *qualities) fit() error {
	if q.seen == scenario.FitPredictor {
		return nil
	}
	q.seen = scenario.FitPredictor
	m, err := q.now.FittedPredictor()
	if err != nil {
		return err
	}
	l, err := q.bind(m, scenario.FitPredictor)
	if err == nil {
		l.Digest = checkpoints.Digest(m.Encode())
		q.charge(l, l.Name)
	}
	return err
}

// lookup finds a stored predictor. A name alone is its version in production or, if none is, its
// newest.
func (q *qualities) lookup(ref string) (checkpoints.Entry, error) {
	at, err := checkpoints.ParsePredictorRef(ref)
	if err != nil {
		return checkpoints.Entry{}, err
	}
	return guarded(q.store, func() (checkpoints.Entry, error) { return q.store.source.Store.Predictors().Lookup(at) })
}

// load reads a stored predictor and binds it to the fleet.
func (q *qualities) load(e checkpoints.Entry) (*predictors.Loaded, error) {
	data, err := guarded(q.store, func() ([]byte, error) {
		data, _, err := q.store.source.Store.Predictors().Get(e.Ref())
		return data, err
	})
	if err != nil {
		return nil, err
	}
	m, err := quality.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("cannot load predictor %q: %w", e.Ref(), err)
	}
	l, err := q.bind(m, e.Ref().String())
	if err != nil {
		return nil, err
	}
	if l.Digest = e.Digest; e.Predictor != nil {
		l.Evaluation = e.Predictor.Evaluation
	}
	return l, nil
}

// bind binds a predictor of the name to the fleet.
func (q *qualities) bind(m *quality.Regression, name string) (*predictors.Loaded, error) {
	for i := range q.table.Tasks {
		for v, x := range q.table.Tasks[i].Quality {
			if x > 1 {
				return nil, fmt.Errorf("task %q has quality %v for %q; a quality that is predicted is from 0 to 1, and so must those of tasks be", q.table.Tasks[i].Name, x, q.table.Variants[v].Name)
			}
		}
	}
	p, err := quality.Bind(m, q.table, q.now.Columns())
	if err != nil {
		return nil, fmt.Errorf("predictor %q does not fit the scenario: %w", name, err)
	}
	return &predictors.Loaded{Predictor: p, Name: name}, nil
}

// Load implements [predictors.Source]. A name alone is its newest version.
func (q *qualities) Load(ref string) (*predictors.Loaded, error) {
	at, err := checkpoints.ParsePredictorRef(ref)
	if err != nil {
		return nil, err
	}
	if at.Version == 0 && at.Alias == "" {
		at.Alias = checkpoints.Newest
	}
	e, err := q.lookup(at.String())
	if err != nil {
		return nil, err
	}
	return q.load(e)
}

// Admit implements [predictors.Source].
func (q *qualities) Admit(l *predictors.Loaded, reason string) error {
	if strings.TrimSpace(reason) != "" {
		return nil
	}
	e, err := q.lookup(l.Name)
	if err != nil {
		return err
	}
	return judged.Admit(e)
}

// Record implements [predictors.Source].
func (q *qualities) Record(l *predictors.Loaded, reason string) error {
	return q.remember(l, func(in *checkpoints.Predictors, e checkpoints.Entry) error {
		return in.Promote(e.Name, e.Version, strings.TrimSpace(reason))
	})
}

// Restore implements [predictors.Source].
func (q *qualities) Restore(l *predictors.Loaded) error {
	return q.remember(l, func(in *checkpoints.Predictors, e checkpoints.Entry) error { return in.Restore(e.Name, e.Version) })
}

// remember puts a predictor into production by put.
func (q *qualities) remember(l *predictors.Loaded, put func(*checkpoints.Predictors, checkpoints.Entry) error) error {
	e, err := q.lookup(l.Name)
	if err == nil {
		err = q.store.do(func() error { return put(q.store.source.Store.Predictors(), e) })
	}
	if err != nil {
		return err
	}
	wanted := q.now.Predictor()
	if next, err := q.lookup(wanted); err == nil && identity(next) == identity(e) {
		q.seen = identity(e) // which is no news at the next reload
		return nil
	}
	return fmt.Errorf("it is in production, but the scenario says quality.predictor: %s", wanted)
}

// order carries out an order about predictors.
func (q *qualities) order(order, ref string, share float64, reason string) (note string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	note, err = q.predictors.Order(q, order, ref, share, reason)
	if err == nil {
		q.log.Info("predictor order", "order", order, "predictor", ref, "share", share, "why", reason)
	}
	return note, err
}

package app

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/quality"
	"gearshift/serving/config"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/feedback"
	"gearshift/serving/quality/online"
	"gearshift/serving/work"
)

// learnedSuffix is added to the name of a predictor by which what it has learned is stored.
const learnedSuffix = ".learned"

// keptLearned bounds the stored versions of what a predictor has learned.
const keptLearned = 2

// learning returns what takes scores of answers, and has the predictor in charge learn from them. It is
// to be closed.
func (q *qualities) learning(l *learner) (*feedback.Service, *online.Module) {
	clock := work.WallClock()
	var names feedback.Names
	for i := range q.table.Tasks {
		names.Tasks = append(names.Tasks, q.table.Tasks[i].Name)
	}
	for i := range q.table.Variants {
		names.Variants = append(names.Variants, q.table.Variants[i].Name)
	}
	service := feedback.New(func() config.Feedback { return q.predictors.Settings().Feedback }, names, clock)
	q.module = online.NewModule(online.NewTrainer(online.Options{
		Predictors: q.predictors, Feedback: service, Table: q.table, Clock: clock, Log: q.log, Save: q.save, Means: l.scoresOf(q.predictors, service),
	}))
	return service, q.module
}

// learnedName returns by which name is stored what a predictor of the name has learned.
func learnedName(name string) string { return strings.TrimSuffix(name, learnedSuffix) + learnedSuffix }

// save stores what was learned from a stored predictor.
func (q *qualities) save(from *predictors.Loaded, learned *quality.Regression) error {
	at, err := checkpoints.ParsePredictorRef(from.Name)
	if err != nil {
		return err
	}
	store := *q.store.source.Store
	store.Keep = keptLearned
	meta := checkpoints.Predictor{Columns: learned.Columns(), Labels: learned.Labels(), From: from.Digest}
	return q.store.do(func() error {
		_, _, err := store.Predictors().Put(learnedName(at.Name), learned.Encode(), meta, time.Now())
		return err
	})
}

// resume has a stored predictor go on from what it had learned before, if that is stored.
func (q *qualities) resume(l *predictors.Loaded, name string) error {
	e, err := q.lookup(learnedName(name) + "@" + checkpoints.Newest)
	if errors.Is(err, checkpoints.ErrNotFound) || err == nil && (e.Predictor == nil || e.Predictor.From != l.Digest) {
		return nil
	}
	if err != nil {
		return err
	}
	data, err := guarded(q.store, func() ([]byte, error) {
		data, _, err := q.store.source.Store.Predictors().Get(e.Ref())
		return data, err
	})
	if err != nil {
		return err
	}
	m, err := quality.Decode(data)
	if err != nil {
		return fmt.Errorf("cannot load predictor %q: %w", e.Ref(), err)
	}
	p, err := l.With(m)
	if err != nil {
		return fmt.Errorf("predictor %q does not fit %q: %w", e.Ref(), l.Name, err)
	}
	l.Predictor = p
	q.log.Info("the predictor goes on from what it has learned", "predictor", l.Name, "learned", e.Ref().String())
	return nil
}

package app

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"gearshift/checkpoints"
	"gearshift/router/quality"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
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

// predictorOrder is the body of an order about predictors.
type predictorOrder struct {
	Predictor string  `json:"predictor"`
	Share     float64 `json:"share"`
	// Reason promotes the predictor without regard to its stored evaluation.
	Reason string `json:"reason"`
}

// longestOrder bounds the body of an order, in bytes.
const longestOrder = 64 << 10

// shown adds the operators' endpoints to the modules, and the predictors to their page.
func (q *qualities) shown(modules []serving.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Quality = func() any { return q.report() }
		}
	}
	return append(modules, q)
}

// Join implements [serving.Module] with the operators' endpoints.
func (q *qualities) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/quality", Access: serving.AdminRead, About: "what predicts quality, and what came of it", Handler: q.show},
		{Method: http.MethodPost, Path: "/admin/quality/{order}", Access: serving.AdminToken, About: "puts a predictor of quality on trial or in charge: shadow, canary, end, promote, rollback", Handler: q.ordered},
	}}
}

// report is the body of GET /admin/quality.
type report struct {
	predictors.Report
	// Learning reports what scores have taught, and how well they are predicted.
	Learning online.Status `json:"learning"`
}

func (q *qualities) report() report { return report{q.predictors.Report(), q.module.Status()} }

func (q *qualities) show(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, q.report()) // the client may be gone
}

func (q *qualities) ordered(w http.ResponseWriter, r *http.Request) {
	var in predictorOrder
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, longestOrder))
	if err == nil && len(bytes.TrimSpace(body)) > 0 {
		err = wire.Decode(body, &in, true)
	}
	if err != nil {
		serving.Fail(w, r, http.StatusBadRequest, wire.Error{Type: wire.InvalidRequest, Code: "invalid_order", Message: "cannot read the order: " + err.Error()})
		return
	}
	note, err := q.order(r.PathValue("order"), in.Predictor, in.Share, in.Reason)
	if err != nil {
		serving.Fail(w, r, http.StatusUnprocessableEntity, wire.Error{Type: wire.InvalidRequest, Code: "predictor_refused", Message: err.Error()})
		return
	}
	report := q.report()
	report.Note = note
	_ = serving.Answer(w, http.StatusOK, report)
}

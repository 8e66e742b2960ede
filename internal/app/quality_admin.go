package app

import (
	"bytes"
	"io"
	"net/http"

	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/openai/wire"
	predictors "gearshift/serving/quality"
	"gearshift/serving/quality/online"
)

// predictorOrder is the body of an order about predictors.
type predictorOrder struct {
	Predictor string  `json:"predictor"`
	Share     float64 `json:"share"`
	// Reason promotes whatever the predictor's stored evaluation says.
	Reason string `json:"reason"`
}

// longestOrder bounds the body of an order, in bytes.
const longestOrder = 64 << 10

// shown adds the endpoints of operators to the modules, of which the page shows what predicts.
func (q *qualities) shown(modules []serving.Module) []serving.Module {
	for _, x := range modules {
		if page, ok := x.(*dashboard.Dashboard); ok {
			page.Quality = func() any { return q.report() }
		}
	}
	return append(modules, q)
}

// Join implements [serving.Module]: the endpoints of operators.
func (q *qualities) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/admin/quality", Access: serving.AdminRead, About: "what predicts quality, and what came of it", Handler: q.show},
		{Method: http.MethodPost, Path: "/admin/quality/{order}", Access: serving.AdminToken, About: "puts a predictor of quality on trial or in charge: shadow, canary, end, promote, rollback", Handler: q.ordered},
	}}
}

// report is the body of GET /admin/quality.
type report struct {
	predictors.Report
	// Learning reports what was learned from scores, and how well these are predicted.
	Learning online.Status `json:"learning"`
}

func (q *qualities) report() report { return report{q.predictors.Report(), q.module.Status()} }

func (q *qualities) show(w http.ResponseWriter, _ *http.Request) {
	_ = serving.Answer(w, http.StatusOK, q.report()) // who does not read it is gone
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

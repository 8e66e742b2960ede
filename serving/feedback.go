package serving

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strconv"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admission"
	"gearshift/serving/openai/wire"
	"gearshift/serving/quality/feedback"
	"gearshift/serving/work"
)

// feedbackPath takes clients' scores of answers.
const feedbackPath = "/v1/gearshift/feedback"

// feedbackEndpoint takes scores of answers from those who asked for them.
type feedbackEndpoint struct {
	*receiver
	table   *fleet.Table
	queue   *admission.Queue
	service *feedback.Service // nil without a predictor
	inUse   func() bool       // reports whether anything learns from scores
	scored  func(task int, predicted, score float64, candidate bool)
}

// scoreRequest is the body of POST /v1/gearshift/feedback.
type scoreRequest struct {
	// ID is the answer's, or that of its header X-Request-Id.
	ID    string   `json:"id"`
	Score *float64 `json:"score"`
}

// scoreAnswer is the answer to it.
type scoreAnswer struct {
	ID    string  `json:"id"`
	Score float64 `json:"score"`
	// Model is the variant whose answer was scored.
	Model string `json:"model"`
}

// longestScore bounds the body of a score, in bytes.
const longestScore = 4 << 10

// score takes a score.
func (x *feedbackEndpoint) score(c *gin.Context) {
	if c.Request.ContentLength > longestScore {
		x.reply.Refuse(c, oversizeScore)
		return
	}
	x.take(c, taken{}, func(body *wire.Buffer) *wire.Refusal {
		in, fault := scoreIn(body.Bytes())
		if fault == nil {
			fault = x.off()
		}
		if fault != nil {
			return fault
		}
		l, err := x.service.Score(x.owner(c), in.ID, *in.Score)
		if err != nil {
			return x.refusal(c, err)
		}
		if l.Known {
			x.scored(l.Task, l.Predicted, l.Score, l.Candidate)
		}
		c.JSON(http.StatusOK, scoreAnswer{ID: in.ID, Score: *in.Score, Model: x.table.Variants[l.Variant].Name})
		return nil
	})
}

var oversizeScore = wire.Bad(http.StatusRequestEntityTooLarge, "", "body_too_large", fmt.Sprintf("the body of a score is longer than %d bytes", longestScore))

// scoreIn reads the body of a score.
func scoreIn(body []byte) (in scoreRequest, fault *wire.Refusal) {
	if len(body) > longestScore {
		return in, oversizeScore
	}
	if len(bytes.TrimSpace(body)) == 0 {
		return in, wire.Bad(http.StatusBadRequest, "", "missing_body", `the body is empty; it must be a JSON object such as {"id": "chatcmpl-1", "score": 1}`)
	}
	if fault = wire.RefusalOf(wire.Decode(body, &in, true)); fault != nil {
		return in, fault
	}
	switch {
	case in.ID == "":
		return in, wire.Bad(http.StatusBadRequest, "id", "missing_member", `"id" is missing; it must be the id of an answer, or its header x-request-id`)
	case in.Score == nil:
		return in, wire.Bad(http.StatusBadRequest, "score", "missing_member", `"score" is missing; it must be a number from 0 to 1`)
	case !(*in.Score >= 0 && *in.Score <= 1):
		return in, wire.Bad(http.StatusBadRequest, "score", "invalid_value", fmt.Sprintf(`"score" is %v; it must be a number from 0 to 1`, *in.Score))
	}
	return in, nil
}

// off refuses all scores where nothing learns from them.
func (x *feedbackEndpoint) off() *wire.Refusal {
	switch {
	case x.service == nil || !x.inUse():
		return wire.Bad(http.StatusConflict, "", "no_predictor", "no predictor of quality is in use (quality.predictor), so no answer can be scored")
	case !x.service.On():
		return wire.Bad(http.StatusConflict, "", "feedback_off", "answers are not to be scored here (quality.feedback.within: 0s)")
	}
	return nil
}

// refusal answers a score that is not taken.
func (x *feedbackEndpoint) refusal(c *gin.Context, err error) *wire.Refusal {
	status, code := http.StatusNotFound, "answer_not_found"
	switch {
	case errors.Is(err, feedback.ErrTwice):
		status, code = http.StatusConflict, "already_scored"
	case errors.Is(err, feedback.ErrLate):
		status, code = http.StatusGone, "answer_too_old"
	case errors.Is(err, feedback.ErrTooMany):
		c.Writer.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(x.service.Again().Seconds()))))
		return &wire.Refusal{Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Code: "too_many_scores", Message: err.Error()}}
	}
	return wire.Bad(status, "id", code, err.Error())
}

// owner returns on whose behalf the request comes.
func (x *feedbackEndpoint) owner(c *gin.Context) string {
	return x.queue.Tenant(c.Request.Header, access.Tenant(c))
}

// remembered joins work with what feedback remembers of it.
type remembered struct{ service *feedback.Service }

// Ended implements [Watcher].
func (x remembered) Ended(w *work.Work, r work.Result) {
	if w.Ticket > 0 {
		x.service.Ended(w.Ticket, r.Outcome == work.Completed || r.Outcome == work.Cancelled)
	}
}

// answered notes that the work's answer has begun, with its ID if that is known.
func (x remembered) answered(w *work.Work, id []byte) {
	x.service.Answered(w.Ticket, feedback.Answer{Variant: w.Variant, Arm: armOf(w), Candidate: w.Candidate, ID: id})
}

// armOf returns who chose the variant of the work.
func armOf(w *work.Work) feedback.Arm {
	switch {
	case w.Ruled():
		return feedback.Pinned
	case w.Trial:
		return feedback.OnTrial
	}
	return feedback.InCharge
}

package admission

import (
	"context"
	"errors"
	"net/http"

	"gearshift/router"
	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// The reasons of a refusal: labels of a metric, and codes of errors. The first seven are
// the router's.
const (
	ReasonDeadline  = router.RefusedLate
	ReasonFull      = router.RefusedFull
	ReasonEvicted   = router.RefusedEvicted
	ReasonSaturated = router.RefusedSaturated
	ReasonNoReplica = router.RefusedNoReplica
	ReasonAsleep    = router.RefusedAsleep
	ReasonHeld      = router.RefusedHeld
	ReasonCancelled = "cancelled" // its client left while it waited
	ReasonClosed    = "not_ready" // the server shuts down
	ReasonError     = "internal_error"
)

// Reasons are all of them.
var Reasons = []string{ReasonDeadline, ReasonFull, ReasonEvicted, ReasonSaturated, ReasonNoReplica, ReasonAsleep, ReasonHeld, ReasonCancelled, ReasonClosed, ReasonError}

// refusals say to a client why its request is refused.
var refusals = map[string]wire.Refusal{
	ReasonDeadline:  {Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Message: "no replica could answer within the deadline; try again later"}},
	ReasonFull:      {Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Message: "too many requests are waiting; try again later"}},
	ReasonEvicted:   {Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Message: "the request made way for one with more claim; try again later"}},
	ReasonSaturated: {Status: http.StatusTooManyRequests, Error: wire.Error{Type: wire.RateLimit, Message: "every replica that could answer is full; try again later"}},
	ReasonNoReplica: {Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Message: "no replica that could answer is up"}},
	ReasonAsleep:    {Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Message: "no model that could answer was loaded or woken in time; try again later"}},
	ReasonHeld:      {Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Message: "too many requests wait for a model to be loaded or woken; try again later"}},
	ReasonCancelled: {Status: 499, Error: wire.Error{Type: wire.InvalidRequest, Message: "the client left while the request waited"}}, // no client reads it
	ReasonClosed:    {Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Message: "shutting down"}},
	ReasonError:     {Status: http.StatusInternalServerError, Error: wire.Error{Type: wire.ServerError, Message: "cannot route the request"}},
}

// ReasonOf is why a request is not begun.
func ReasonOf(err error) string {
	if reason := router.Refused(err); reason != "" {
		return reason
	}
	var late config.Overdue
	switch {
	case errors.As(err, &late):
		return ReasonDeadline
	case errors.Is(err, ErrClosed):
		return ReasonClosed
	case errors.Is(err, context.Canceled):
		return ReasonCancelled
	}
	return ReasonError
}

// RefusalFor is the answer to a request that is not begun for the reason.
func RefusalFor(reason string) wire.Refusal {
	r := refusals[reason]
	r.Code = wire.Optional(reason)
	return r
}

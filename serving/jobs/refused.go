package jobs

import (
	"errors"
	"fmt"
	"net/http"

	rm "gearshift/router/modality"
	"gearshift/serving/openai/wire"
)

// Refused is why a job is not answered.
type Refused struct {
	wire.Refusal
	// Load says that it is for want of time, room or workers: another time, the same job may be
	// answered.
	Load bool
}

// Error implements the error interface.
func (r *Refused) Error() string { return r.Message }

// The codes of refusals that are not the client's fault.
const (
	refusedDropped = "job_dropped"
	refusedFull    = "queue_full"
	refusedNoneUp  = "no_replica"
	refusedClosed  = "not_ready"
	refusedFailed  = "upstream_error"
	refusedMemory  = "out_of_memory"
)

// refusal is that of the code.
func refusal(code string) *Refused {
	r := &Refused{Load: true, Refusal: wire.Refusal{Status: http.StatusServiceUnavailable, Error: wire.Error{Type: wire.ServerError, Code: wire.Optional(code)}}}
	switch code {
	case refusedDropped:
		r.Status, r.Type = http.StatusTooManyRequests, wire.RateLimit
		r.Message = "the job cannot be answered in time with the quality that it asks for; try again later, or ask for less quality (min_quality) or more time (total_ms)"
	case refusedFull:
		r.Status, r.Type, r.Message = http.StatusTooManyRequests, wire.RateLimit, "too many jobs are waiting; try again later"
	case refusedNoneUp:
		r.Message = "no worker of the model is up"
	case refusedClosed:
		r.Message = "shutting down"
	case refusedMemory:
		r.Message = "the router has no memory left for the job and its answers (serving.memory.answers); try again later"
	}
	return r
}

// refusalOf is that of a part that finds no worker.
func refusalOf(err error) *Refused {
	switch {
	case errors.Is(err, rm.ErrFull):
		return refusal(refusedFull)
	case errors.Is(err, rm.ErrNoneUp):
		return refusal(refusedNoneUp)
	}
	return bad("inputs", "invalid_value", err.Error())
}

// failed is the refusal of a job whose batch the engine on the host failed to answer, and no other has.
func failed(host string, failure error) *Refused {
	return &Refused{Refusal: wire.Refusal{Status: http.StatusBadGateway, Error: wire.Error{Type: wire.ServerError, Code: refusedFailed,
		Message: fmt.Sprintf("the engine on %s failed: %v", host, failure)}}}
}

// tooMany refuses a job of more requests than a worker answers together.
func tooMany(n, most int) *Refused {
	return bad("inputs", "job_too_large", "%d inputs are too many for one job; at most %d are answered together, so split it", n, most)
}

// bad refuses a job that is itself at fault.
func bad(param, code, format string, args ...any) *Refused {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	return &Refused{Refusal: *wire.Bad(http.StatusBadRequest, param, code, format)}
}

package agents

import (
	"context"
	"net/http"
	"strconv"
)

// Stamp returns what orders to a replica's engine carry, so that the engine can refuse those of others:
// the number of this run of the router for the engine, and the fleet's secret; empty of an engine that
// is not to know it.
type Stamp func(replica int) (term uint64, secret string)

// stamped is an engine whose orders carry an epoch, so that it can refuse those of a router that
// has been replaced, and the fleet's secret.
type stamped struct {
	Engine
	epoch  uint64
	secret string
}

// Ask implements [Engine].
func (e stamped) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set(HeaderEpoch, strconv.FormatUint(e.epoch, 10))
	if e.secret != "" {
		header.Set(HeaderFleet, e.secret)
	}
	return e.Engine.Ask(ctx, method, path, header, body)
}

// stamped is the replica's engine as orders of the placement reach it.
func (a *Actuator) stamped(replica int, placement uint64) Engine {
	engine := a.options.Replicas[replica].Engine
	if a.stamp == nil {
		return engine
	}
	term, secret := a.stamp(replica)
	return stamped{engine, term<<32 | placement&(1<<32-1), secret}
}

// Superseded is the error of an order that an engine has refused because it follows another term than
// the order's.
type Superseded struct {
	error
	// Term is the one that the engine follows.
	Term uint64
}

// Unwrap returns the engine's refusal.
func (e *Superseded) Unwrap() error { return e.error }

// superseded is the refusal with the term of the engine's answer, if that has one.
func superseded(r *refusal, answer http.Header) error {
	if term, err := strconv.ParseUint(answer.Get(HeaderTerm), 10, 64); err == nil {
		return &Superseded{r, term}
	}
	return r
}

package agents

import (
	"context"
	"net/http"
	"strconv"

	"gearshift/serving/heartbeat"
)

// stamped is an engine whose orders carry an epoch, so that it can refuse those of a router that
// has been replaced.
type stamped struct {
	Engine
	epoch uint64
}

// Ask implements [Engine].
func (e stamped) Ask(ctx context.Context, method, path string, header http.Header, body []byte) (*http.Response, error) {
	header = header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set(heartbeat.HeaderEpoch, strconv.FormatUint(e.epoch, 10))
	return e.Engine.Ask(ctx, method, path, header, body)
}

// stamped is the engine as orders of the placement reach it.
func (a *Actuator) stamped(e Engine, placement uint64) Engine {
	if a.term == 0 {
		return e
	}
	return stamped{e, a.term<<32 | placement&(1<<32-1)}
}

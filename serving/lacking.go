package serving

import (
	"fmt"
	"net/http"

	"gearshift/serving/admission"
	"gearshift/serving/wire"
	"gearshift/serving/work"
)

// failedAbsent is the reason for another attempt that is no failure of the replica: it
// lacks the endpoint.
const failedAbsent failure = "no_endpoint"

// index is the endpoint's place in the list of all.
func (e *endpoint) index() int {
	for i := range endpoints {
		if &endpoints[i] == e {
			return i
		}
	}
	return -1
}

// lacks notes that the replica of the attempt lacks the endpoint, so that no request for it
// goes there for a while.
func (d *dispatch) lacks(a *answer) {
	d.absent++
	if d.abilities.Lacks(d.endpoint.index(), a.replica, d.clock()) {
		d.log.Info("the replica lacks an endpoint", "replica", d.table.Replicas[a.replica].Name, "path", d.endpoint.path, "status", a.response.StatusCode)
	}
	d.work.Request.Without = d.abilities.Lacking(d.endpoint.index(), d.clock())
}

// able keeps the call from replicas that are known to lack the endpoint. Where all do they are
// asked again: one may have got it since.
func (s *Server) able(e *endpoint, k *call) {
	if without := s.abilities.Lacking(e.index(), s.clock()); without != nil && s.anyAble(e, k) {
		k.fleet.Without = without
	}
}

// anyAble reports whether some replica may answer the call, up or not, that is not known to
// lack the endpoint.
func (s *Server) anyAble(e *endpoint, k *call) bool {
	lacking := map[int]bool{}
	for _, i := range s.abilities.Lacking(e.index(), s.clock()) {
		lacking[i] = true
	}
	for i, r := range s.table.Replicas {
		if !lacking[i] && s.table.Serves(&k.fleet, i) && (k.variant == work.Auto || k.variant == r.Variant) {
			return true
		}
	}
	return false
}

// unsupported is the answer where the last replica that was tried lacks the endpoint.
func (d *dispatch) unsupported() (status int, e wire.Error) {
	if d.anyAble(d.endpoint, &d.call) {
		return http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: admission.ReasonNoReplica,
			Message: "no replica that has " + d.endpoint.path + " can take the request now; try again later"}
	}
	who := "no engine"
	if d.call.variant != work.Auto {
		who = fmt.Sprintf("no engine of the model %q", d.table.Variants[d.call.variant].Name)
	}
	return http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: wire.UnsupportedEndpoint, Message: who + " has " + d.endpoint.path}
}

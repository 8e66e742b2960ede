package proxy

import (
	"fmt"
	"net/http"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// failedAbsent is the reason for another attempt that is no failure of the replica: it
// lacks the endpoint.
const failedAbsent failure = "no_endpoint"

// index is the endpoint's position in [Endpoints].
func (e *Endpoint) index() int {
	for i := range Endpoints {
		if &Endpoints[i] == e {
			return i
		}
	}
	return -1
}

// lacks notes that the replica of the attempt lacks the endpoint, so that no request for it
// goes there for a while.
func (d *dispatch) lacks(a *answer) {
	d.absent++
	if d.abilities.Lacks(d.Endpoint.index(), a.replica, d.Clock()) {
		d.Log.Info("the replica lacks an endpoint", "replica", d.Table.Replicas[a.replica].Name, "path", d.Endpoint.Path, "status", a.response.StatusCode)
	}
	d.Work.Request.Without = d.abilities.Lacking(d.Endpoint.index(), d.Clock())
}

// Able keeps the request, for the variant or [work.Auto], from replicas that are known to lack
// the endpoint. Where all do they are asked again: one may have got it since.
func (p *Proxy) Able(e *Endpoint, r *fleet.Request, variant int) {
	if without := p.abilities.Lacking(e.index(), p.Clock()); without != nil && p.anyAble(e, r, variant) {
		r.Without = without
	}
}

// anyAble reports whether some replica may answer the request, up or not, that is not known to
// lack the endpoint.
func (p *Proxy) anyAble(e *Endpoint, r *fleet.Request, variant int) bool {
	lacking := map[int]bool{}
	for _, i := range p.abilities.Lacking(e.index(), p.Clock()) {
		lacking[i] = true
	}
	for i := range p.Table.Replicas {
		if !lacking[i] && p.Table.Serves(r, i) && (variant == work.Auto || variant == p.Table.Replicas[i].Variant) {
			return true
		}
	}
	return false
}

// unsupported is the answer where the last replica that was tried lacks the endpoint.
func (d *dispatch) unsupported() (status int, e wire.Error) {
	r := d.Work.Request
	r.Holding = 0 // which sizes can hold it is an estimate
	if d.anyAble(d.Endpoint, &r, d.Variant) {
		return http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: router.RefusedNoReplica,
			Message: "no replica that has " + d.Endpoint.Path + " can take the request now; try again later"}
	}
	who := "no engine"
	if d.Variant != work.Auto {
		who = fmt.Sprintf("no engine of the model %q", d.Table.Variants[d.Variant].Name)
	}
	return http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: wire.UnsupportedEndpoint, Message: who + " has " + d.Endpoint.Path}
}

package serving

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/serving/access"
	"gearshift/serving/admission"
	"gearshift/serving/engines"
	"gearshift/serving/openai/catalogue"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// responses has calls go on from responses that replicas keep, and passes on what is asked about these.
type responses struct {
	table     *fleet.Table
	backends  []Backend
	kept      *proxy.Responses
	catalogue *catalogue.Catalogue
	queue     *admission.Queue
	proxy     *proxy.Proxy
	reply     *proxy.Writer
}

// tenant is on whose behalf the request comes.
func (x *responses) tenant(c *gin.Context) string {
	return x.queue.Tenant(c.Request.Header, access.Tenant(c))
}

// follow binds a call that goes on from an earlier response to the replica that has
// that: to any other it would mean nothing. Of a response that is not known here the
// engine will say; another router may have asked for it.
func (x *responses) follow(c *gin.Context, k *call) (fault *wire.Refusal) {
	if k.Previous == "" {
		return nil
	}
	at, ok := x.kept.Find(k.Previous)
	if !ok {
		return nil
	}
	if at.Tenant != x.tenant(c) {
		return wire.Bad(http.StatusBadRequest, "previous_response_id", "previous_response_not_found", noResponse(k.Previous).Message)
	}
	replica := x.beside(at.Replica, k.variant)
	if replica < 0 {
		has := x.table.Variants[x.table.Replicas[at.Replica].Variant].Name
		return wire.Bad(http.StatusBadRequest, "model", "model_mismatch", fmt.Sprintf(
			"the engine of model %q does not have the previous response, which %q gave; ask for that or %s, or send the whole input",
			x.table.Variants[k.variant].Name, has, AutoModel))
	}
	k.variant, k.fleet.Only = x.table.Replicas[replica].Variant, replica+1
	if fault = x.catalogue.Answers(k.fleet.Task, k.variant); fault != nil {
		return fault
	}
	return x.catalogue.SetMinQuality(c.Request.Header, &k.fleet, k.variant)
}

// beside is the replica itself, if the variant is its own or [Auto]; else the variant's
// behind the same server, which keeps what that gave; −1 if there is none.
func (x *responses) beside(replica, variant int) int {
	if variant == work.Auto || variant == x.table.Replicas[replica].Variant {
		return replica
	}
	own, ok := x.backends[replica].Transport.(engines.Server)
	if !ok {
		return -1
	}
	for _, i := range x.table.ReplicasOf(variant) {
		if p, ok := x.backends[i].Transport.(engines.Server); ok && p.Base().String() == own.Base().String() {
			return i
		}
	}
	return -1
}

// lost is the error for a call that is bound to a replica that is not up.
func lost(t *fleet.Table, replica int) string {
	return fmt.Sprintf("the replica %q, which has the previous response, is not up; try again later, or send the whole input without previous_response_id", t.Replicas[replica].Name)
}

// noResponse is for an ID that is not known here, or is another'x.
func noResponse(id string) *wire.Refusal {
	return wire.Bad(http.StatusNotFound, "response_id", "response_not_found", fmt.Sprintf(
		"there is no response %q: it was not asked for here, or not to be stored, or too long ago", id))
}

// serve passes what is asked about a response on to the replica that has it, and
// its answer back; see [proxy.Proxy.Fetch].
func (x *responses) serve(c *gin.Context) {
	id := c.Param("id")
	at, ok := x.kept.Find(id)
	if !ok || at.Tenant != x.tenant(c) {
		fault := noResponse(id)
		x.reply.Fail(c, fault.Status, fault.Error)
		return
	}
	x.proxy.Fetch(c, at.Replica)
}

// noEndpoint reports whether the request is a POST to a word of the Responses API that is no endpoint
// here, rather than to a response, which takes none.
func (x *responses) noEndpoint(r *http.Request) bool {
	word, below := strings.CutPrefix(r.URL.Path, wire.ResponsesPath+"/")
	if !below || r.Method != http.MethodPost || strings.HasPrefix(word, "resp") {
		return false
	}
	_, kept := x.kept.Find(word)
	return !kept
}

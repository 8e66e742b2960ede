package admission

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/openai/wire"
)

// FlowKey is what a request is queued by: its class and its tenant.
type FlowKey struct {
	Class  int
	Tenant string
}

// headerClass names the class of a request.
const headerClass = "X-Llm-D-Inference-Objective"

// Key reads the flow key of a request from its header. Tenant is the one that an API key names,
// or empty; granted are the classes that the key may use, all if there are none. A request
// that names no class is of the first class of the configuration that it may use.
func (q *Queue) Key(h http.Header, tenant string, granted []string) (k FlowKey, fault *wire.Refusal) {
	known := q.classes.Load()
	k.Class, k.Tenant = known.listed[0], q.Tenant(h, tenant)
	name := wire.Field(h, headerClass)
	if name != "" && known.named {
		var found bool
		if k.Class, found = known.find(name); !found {
			return k, wire.Bad(http.StatusBadRequest, strings.ToLower(headerClass), "unknown_objective",
				fmt.Sprintf("there is no class of requests %q; there are %s", name, strings.Join(known.names(), ", ")))
		}
	}
	if len(granted) == 0 || !known.named || slices.Contains(granted, known.all[k.Class].Name) {
		return k, nil
	}
	if name == "" {
		for _, own := range granted {
			if class, ok := known.find(own); ok {
				k.Class = class
				return k, nil
			}
		}
		name = known.names()[0]
	}
	return k, wire.Bad(http.StatusForbidden, strings.ToLower(headerClass), "class_not_allowed", fmt.Sprintf("this API key may not send requests of class %q; it may of %s", name, strings.Join(granted, ", ")))
}

// Tenant is on whose behalf a request comes: the one that its API key names, or else a
// header. A header that is no plain name is ignored: a tenant must not be two by accident.
func (q *Queue) Tenant(h http.Header, byKey string) string {
	header := q.settings().Overload.TenantHeader
	if byKey != "" || header == "" {
		return byKey
	}
	if named := h.Get(header); wire.Plain(named) {
		return named
	}
	return ""
}

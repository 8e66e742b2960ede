package admission

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"gearshift/serving/config"
	"gearshift/serving/openai/wire"
)

// FlowKey is what a request is queued by: its class and its tenant.
type FlowKey struct {
	Class  int
	Tenant string
}

// headersClass name the class of a request. The first one present counts.
var headersClass = [...]string{"X-Llm-D-Inference-Objective", "X-Gateway-Inference-Objective"}

// named returns the class that the header names, and the name of that field; both empty if none does.
func named(h http.Header) (class, field string) {
	for _, field := range headersClass {
		if name := wire.Field(h, field); name != "" {
			return name, strings.ToLower(field)
		}
	}
	return "", strings.ToLower(headersClass[0])
}

// Key reads the flow key of a request for a task from its header. Tenant is the one that an API key names,
// or empty; granted are the classes that the key may use, all if there are none. A request
// that names no class is of the one that lists its task, or else of the first of the configuration that it may use.
func (q *Queue) Key(h http.Header, task int, tenant string, granted []string) (k FlowKey, fault *wire.Refusal) {
	known := q.classes.Load()
	k.Class, k.Tenant = known.byTask[task], q.Tenant(h, tenant)
	name, field := named(h)
	if name != "" && known.named {
		var found bool
		if k.Class, found = known.find(name); !found {
			return k, wire.Bad(http.StatusBadRequest, field, "unknown_objective",
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
	return k, wire.Bad(http.StatusForbidden, field, "class_not_allowed", fmt.Sprintf("this API key may not send requests of class %q; it may of %s", name, strings.Join(granted, ", ")))
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
	if !strings.EqualFold(header, config.DefaultTenantHeader) {
		return ""
	}
	for _, header := range config.FairnessHeaders {
		if named := wire.Field(h, header); wire.Plain(named) {
			return named
		}
	}
	return ""
}

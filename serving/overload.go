package serving

import (
	"fmt"
	"net/http"
	"strings"

	"gearshift/serving/fields"
)

// claim is what a request says of its place among those that wait.
type claim struct {
	class  int
	tenant string
}

// headerClass names the class of a request.
const headerClass = "X-Llm-D-Inference-Objective"

// claim reads the headers. Tenant is the one that an API key names, or empty.
func (l *line) claim(h http.Header, tenant string) (k claim, fault *refusal) {
	kinds := l.kinds.Load()
	k.class = kinds.listed[0]
	if name := field(h, headerClass); name != "" && kinds.named {
		var known bool
		if k.class, known = kinds.find(name); !known {
			return k, bad(http.StatusBadRequest, strings.ToLower(headerClass), "unknown_objective",
				fmt.Sprintf("there is no class of requests %q; there are %s", name, strings.Join(kinds.names(), ", ")))
		}
	}
	k.tenant = l.tenant(h, tenant)
	return k, nil
}

// tenant is on whose behalf a request comes: the one that its API key names, or else a
// header. What is no plain name is nobody's: a tenant must not be two by accident.
func (l *line) tenant(h http.Header, byKey string) string {
	header := l.settings().Overload.TenantHeader
	if byKey != "" || header == "" {
		return byKey
	}
	if named := h.Get(header); fields.Plain(named) {
		return named
	}
	return ""
}

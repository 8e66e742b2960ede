package metrics

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving/work"
)

// choices count where requests went. Their labels are bounded by the scenario, except
// the policy's, of which the first [mostPolicies] get their own.
type choices struct {
	table *fleet.Table
	made  *prometheus.CounterVec // task, variant, policy, version

	mu       sync.Mutex // protects policies
	policies map[string]policyLabels
}

type policyLabels struct{ name, version string }

// mostPolicies bounds the policies that metrics distinguish in the life of a
// process: versions come and go for as long as it runs.
const mostPolicies = 33

// otherPolicy stands for the rest.
const otherPolicy = "other"

func newChoices(t *fleet.Table, registry *prometheus.Registry) *choices {
	c := &choices{
		table: t, policies: map[string]policyLabels{router.Pinned: {name: router.Pinned}, router.OfClass: {name: router.OfClass}, router.LastResort: {name: router.LastResort}},
		made: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gearshift_choices_total", Help: "Requests that got a place, by the variant chosen and what chose it.",
		}, []string{"task", "variant", "policy", "version"}),
	}
	registry.MustRegister(c.made)
	return c
}

// chosen counts a choice.
func (c *choices) chosen(w *work.Work) {
	policy := c.labels(w.Policy)
	c.made.WithLabelValues(c.table.Tasks[w.Request.Task].Name, c.table.Variants[w.Variant].Name, policy.name, policy.version).Inc()
}

// labels are those of a policy.
func (c *choices) labels(policy string) policyLabels {
	c.mu.Lock()
	defer c.mu.Unlock()
	l, known := c.policies[policy]
	switch {
	case known:
		return l
	case len(c.policies) >= mostPolicies:
		return policyLabels{name: otherPolicy}
	}
	l.name, l.version, _ = strings.Cut(policy, "@")
	c.policies[policy] = l
	return l
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
)

// Label is one of a counter, with the values that it can have.
type Label struct {
	Name   string
	Values []string
}

// NewCounter begins each of its series at zero: to rate(), the event with which a
// series begins has never happened.
func NewCounter(name, help string, labels ...Label) *prometheus.CounterVec {
	names := make([]string, len(labels))
	for i, l := range labels {
		names[i] = l.Name
	}
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "gearshift_" + name, Help: help}, names)
	zero(v, labels)
	return v
}

// zero begins the series of all combinations of values.
func zero(v *prometheus.CounterVec, labels []Label, values ...string) {
	if len(labels) == 0 {
		v.WithLabelValues(values...)
		return
	}
	for _, value := range labels[0].Values {
		zero(v, labels[1:], append(values, value)...)
	}
}

func variantLabel(t *fleet.Table) Label {
	l := Label{Name: "variant"}
	for i := range t.Variants {
		l.Values = append(l.Values, t.Variants[i].Name)
	}
	return l
}

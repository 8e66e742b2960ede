package informed

import (
	"time"

	"gearshift/router/signals"
)

// Status is what is known of a replica's load. What nothing says is left out.
type Status struct {
	// Source is where it comes from, and AgeS how old it is, by the router's clock.
	Source string  `json:"source"`
	AgeS   float64 `json:"age_s"`
	// Requests of the model on the replica and of all models on its host, examples, and outstanding
	// work on one core.
	Requests     int      `json:"requests"`
	HostRequests int      `json:"host_requests"`
	Examples     *float64 `json:"examples,omitempty"`
	WorkS        float64  `json:"work_s"`
	Cores        *float64 `json:"cores,omitempty"`
	KVUse        *float64 `json:"kv_use,omitempty"`
	KVTokens     *float64 `json:"kv_tokens,omitempty"`
	CPU          *float64 `json:"cpu,omitempty"`
	Utilization  *float64 `json:"utilization,omitempty"`
}

// Statuses returns what is known of the load of each replica; nil where that is nothing but the
// router's own requests.
func (f *Feed) Statuses(now time.Duration) []*Status {
	list := make([]*Status, len(f.options.Table.Replicas))
	f.store.Each(now, func(replica int, k *signals.Known) {
		if k.Source != signals.Own {
			list[replica] = statusOf(k, now)
		}
	})
	return list
}

func statusOf(k *signals.Known, now time.Duration) *Status {
	said := func(v float64) *float64 {
		if v < 0 {
			return nil
		}
		return &v
	}
	return &Status{
		Source: k.Source.String(), AgeS: (now - k.At).Seconds(),
		Requests: k.Counters.Model, HostRequests: k.Counters.Host, WorkS: k.Counters.Work.Seconds(),
		Examples: said(k.Examples), Cores: said(k.Cores), KVUse: said(k.KVUse), KVTokens: said(k.KVTokens),
		CPU: said(k.CPU), Utilization: said(k.Utilization),
	}
}

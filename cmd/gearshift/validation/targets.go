package validation

import (
	"cmp"
	"fmt"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/serving/loadgen"
	"gearshift/serving/setting"
)

// server is where a replica is asked.
func (l *validator) server(replica int) (target loadgen.Target, err error) {
	r := &l.fleet.Table.Replicas[replica]
	url, model, key := l.Upstreams, l.fleet.Table.Variants[r.Variant].Name, ""
	if url == "" {
		at := l.scenario.Serving.Upstreams[r.Name]
		url, model = at.URL, cmp.Or(at.Model, model)
		if at.Key != "" {
			if key, err = setting.Key(at.Key); err != nil {
				return target, fmt.Errorf("replica %s: %w", r.Name, err)
			}
		}
	}
	if target, err = loadgen.Parse(url); err != nil {
		return target, fmt.Errorf("replica %s: %w", r.Name, err)
	}
	target.Model, target.Key = model, key
	return target, nil
}

// Upstreams are the servers of a scenario's replicas, of which it has none where the
// router computes.
func Upstreams(s *scenario.Scenario) (list []loadgen.Target) {
	if s.Serving.Backend == scenario.Upstream {
		for _, at := range s.Serving.Upstreams {
			list = append(list, loadgen.Target{URL: at.URL})
		}
	}
	return list
}

package serverapp

import (
	"fmt"

	"gearshift/cmd/gearshift/onnxruntime"
	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/agents"
	"gearshift/serving/backend"
	"gearshift/workloads"
)

// NewBackends makes what answers for each replica.
func NewBackends(s *scenario.Scenario, t *fleet.Table) ([]serving.Backend, func(), error) {
	list := make([]serving.Backend, len(t.Replicas))
	if s.Serving.Backend == scenario.Upstream {
		upstreams, closeAll, err := newUpstreams(s, t)
		for i, u := range upstreams {
			endpoint := s.Serving.Upstreams[u.replica]
			list[i] = serving.Backend{Transport: u, Model: endpoint.Model, Timeouts: endpoint.Timeouts, Context: endpoint.Context}
			if list[i].Lifecycle, err = agents.DialectNamed(endpoint.Lifecycle); err != nil { // which the check has tried
				closeAll()
				return nil, nil, err
			}
		}
		return list, closeAll, err
	}
	if s.Serving.Backend == scenario.ONNX {
		engines, closeAll, err := onnxruntime.Engines(s, t)
		for i, e := range engines {
			list[i].Transport = e
			list[i].Context = s.LocalModels()[i].Context
		}
		return list, closeAll, err
	}
	simulated, err := NewSimulated(s, t, s.Profiles())
	if err != nil {
		return nil, nil, err
	}
	for i := range list {
		list[i].Transport = simulated.Replica(i)
	}
	return list, simulated.Close, nil
}

// NewSimulated makes engines that take their time by the profiles.
func NewSimulated(s *scenario.Scenario, t *fleet.Table, profiles []*profile.Profile) (*backend.Simulated, error) {
	config := backend.SimulatedConfig{
		Table: t, OutputTokens: s.Workload.OutputSampler(t.Tasks), Seed: workloads.Seed(workloads.Serving, 1),
	}
	for i, tokens := range s.KVTokens() {
		e, err := engine.New(s.Engine, profiles[i], tokens)
		if err != nil {
			return nil, fmt.Errorf("replica %s: %w", t.Replicas[i].Name, err)
		}
		config.Engines = append(config.Engines, e)
	}
	return backend.NewSimulated(config)
}

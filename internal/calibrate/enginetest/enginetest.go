// Package enginetest is simulated engines within the process, for tests of what measures
// engines.
package enginetest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gearshift/env/engine"
	"gearshift/internal/scenario"
	"gearshift/router/fleet"
	"gearshift/serving/backend"
	openai "gearshift/serving/openai/wire"
	"gearshift/workloads"
)

// Engines answer for the replicas on the first host of a scenario, by their variants.
type Engines struct {
	*backend.Simulated
	models []string
}

// New starts the engines. The caller closes them.
func New(t testing.TB, s *scenario.Scenario) *Engines {
	t.Helper()
	all := s.Table()
	c := backend.SimulatedConfig{OutputTokens: s.Workload.OutputSampler(all.Tasks), Seed: workloads.Seed(workloads.Serving, 1)}
	e := new(Engines)
	var replicas []fleet.Replica
	for _, r := range all.ReplicasOn(0) {
		one, err := engine.New(s.Engine, s.Profiles()[r], s.KVTokens()[r])
		if err != nil {
			t.Fatal(err)
		}
		c.Engines = append(c.Engines, one)
		replicas = append(replicas, all.Replicas[r])
		e.models = append(e.models, all.Variants[all.Replicas[r].Variant].Name)
	}
	var err error
	if c.Table, err = fleet.NewTable(all.Tasks, all.Variants, all.Hosts[:1], replicas, all.Models...); err != nil {
		t.Fatal(err)
	}
	if e.Simulated, err = backend.NewSimulated(c); err != nil {
		t.Fatal(err)
	}
	return e
}

// RoundTrip implements [http.RoundTripper].
func (e *Engines) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodGet {
		var list openai.Models
		for _, m := range e.models {
			list.Data = append(list.Data, openai.Model{ID: m})
		}
		body, err := json.Marshal(list)
		return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Body: io.NopCloser(strings.NewReader(string(body))), Request: r}, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	request, err := openai.ParseRequest(body)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	return e.Replica(slices.Index(e.models, request.Model)).RoundTrip(r)
}

package validation

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gearshift/cmd/gearshift/scenario"
	"gearshift/env/engine"
	"gearshift/serving/backend"
	openai "gearshift/serving/wire"
	"gearshift/workloads"
)

// engines answer for the replicas of a scenario of one host, by their variants.
type engines struct {
	*backend.Simulated
	models []string
}

func newEngines(t *testing.T, s *scenario.Scenario) *engines {
	t.Helper()
	c := backend.SimulatedConfig{Table: s.Table(), OutputTokens: s.Workload.Output.Sampler(), Seed: workloads.Seed(workloads.Serving, 1)}
	e := new(engines)
	for i, r := range c.Table.Replicas {
		one, err := engine.New(s.Engine, s.Profiles()[i], s.KVTokens()[i])
		if err != nil {
			t.Fatal(err)
		}
		c.Engines = append(c.Engines, one)
		e.models = append(e.models, c.Table.Variants[r.Variant].Name)
	}
	var err error
	if e.Simulated, err = backend.NewSimulated(c); err != nil {
		t.Fatal(err)
	}
	return e
}

// RoundTrip implements [http.RoundTripper].
func (e *engines) RoundTrip(r *http.Request) (*http.Response, error) {
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

// builtin is the text of a built-in scenario.
func builtin(t *testing.T, name string) string {
	t.Helper()
	text, err := workloads.Scenario(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

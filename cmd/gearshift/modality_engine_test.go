package main

import (
	"net/http"
	"strings"
	"testing"
)

// startDigits starts an engine of the digits model by the times of the test's table, and a
// router in front of it. Edits replace text of the router's scenario, pair by pair.
func startDigits(t *testing.T, edits ...string) (*served, *engineProcess) {
	t.Helper()
	qualities, times := map[string]float64{}, map[string][]float64{}
	for _, o := range simulatedDigits {
		qualities[o.variant], times[o.variant] = o.quality, o.times
	}
	file := write(t, "digits.yaml", digitsScenario(qualities, times))
	e := startEngine(t, "--scenario", file)
	routed := succeed(t, "scenario", "upstreams", file, "--at", e.url)
	if !strings.Contains(routed, "digits@cpu0:") {
		t.Fatalf("no engine digits@cpu0 in\n%s", routed)
	}
	return serveTiny(t, "--scenario", write(t, "routed.yaml", strings.NewReplacer(edits...).Replace(routed))), e
}

// TestJobsOverConnections: what "scenario upstreams" writes serves jobs in front of what "engine"
// serves, both by their defaults.
func TestJobsOverConnections(t *testing.T) {
	s, e := startDigits(t)
	const inputs = `"inputs":[{"image":"` + tinyPNG + `","audio":"` + tinyWAV + `"},{"image":"` + tinyPNG + `"}]`
	status, _, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model":"digits","min_quality":0.85,"total_ms":5000,`+inputs+`}`)
	if status != http.StatusOK || !strings.Contains(text, `"strategy":{"digits-image":1,"digits-image-audio":1}`) || !strings.Contains(text, `"batches":2}`) {
		t.Errorf("status %d, %s", status, text)
	}
	const tensors = `{"inputs":[{"name":"image","datatype":"UINT8","shape":[2],"data":[1,2]}],"parameters":{"total_ms":5000}}`
	if status, _, text := s.ask(t, "POST", "/v2/models/digits/infer", tensors); status != http.StatusOK || !strings.Contains(text, `"strategy":"digits-image=2"`) {
		t.Errorf("tensors: status %d, %s", status, text)
	}
	const single = `{"model":"digits","audio":"` + tinyWAV + `"}`
	if status, header, text := s.ask(t, "POST", "/v1/gearshift/classify", single); status != http.StatusOK || header.Get("X-Gearshift-Variant") != "digits-audio" {
		t.Errorf("a single input: status %d, %v, %s", status, header, text)
	}
	if status, _, text := s.ask(t, "GET", "/v2/models/digits", ""); status != http.StatusOK || !strings.Contains(text, `"name":"digits"`) || !strings.Contains(text, `"pixel_values"`) {
		t.Errorf("metadata: status %d, %s", status, text)
	}
	if log := s.log.String(); strings.Contains(log, "level=WARN msg=\"an engine") || strings.Contains(log, "level=WARN msg=\"no policy") ||
		!strings.Contains(log, "level=INFO msg=\"no policy is in production: the fallback routes single requests, and modality.policy plans jobs\" fallback=") {
		t.Errorf("the router says\n%s", log)
	}
	s.end(t)
	e.stop(t)
}

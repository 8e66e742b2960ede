//go:build !serveonly

package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gearshift/checkpoints"
	"gearshift/internal/etcd/etcdtest"
	"gearshift/internal/training"
	"gearshift/router/modality"
)

// pairScenario is a model of two inputs on a simulated engine.
const pairScenario = `
tasks:
  - {name: digits, total_ms: 1000, quality: {digits-image: 0.81, digits-audio: 0.88, digits-image-audio: 0.96}}
models:
  - {name: digits, memory: 40MiB, modalities: [image, audio]}
hosts: [{name: cpu0, memory: 2GiB}]
replicas:
  - {model: digits, hosts: [cpu0], memory: 30%}
profiles:
  - {variant: digits-image, batch_ms: {1: 5, 2: 7}}
  - {variant: digits-audio, batch_ms: {1: 7, 2: 10}}
  - {variant: digits-image-audio, batch_ms: {1: 11, 2: 16}}
modality: {policy: inputs@1}
`

// TestServeLearnedJobs: a policy that is trained and stored plans the jobs of a router whose
// scenario names it; one that is not there, or routes requests, ends serve with one line.
func TestServeLearnedJobs(t *testing.T) {
	dir := t.TempDir()
	path, file := filepath.Join(dir, "policies.db"), filepath.Join(dir, "pair.yaml")
	if err := os.WriteFile(file, []byte(pairScenario), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(want string) {
		t.Helper()
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"serve", "--scenario", file, "--store", path, "--addr", "127.0.0.1:0", "--admin-addr", "off"}, &stderr, &stderr); code == 0 ||
			!strings.Contains(stderr.String(), "pair.yaml: ") || !strings.Contains(stderr.String(), want) {
			t.Errorf("serve ends with exit code %d: %s\nwant %s", code, stderr.String(), want)
		}
	}
	refused(`modality.policy "inputs@1": no checkpoint store`)

	store := &checkpoints.Store{Path: path}
	storeInputs(t, store)
	var shown bytes.Buffer
	if code := run(t.Context(), []string{"policy", "show", "inputs@1", "--store", path}, &shown, &shown); code != 0 ||
		!strings.Contains(shown.String(), "for jobs, on digits, seed 1, 1000 decisions") || !strings.Contains(shown.String(), "\na request is worth 0.") || strings.Contains(shown.String(), "preset") {
		t.Errorf("policy show: exit code %d\n%s", code, &shown)
	}
	s := serveTiny(t, "--scenario", file, "--store", path)
	if !strings.Contains(s.log.String(), `msg="a stored policy plans jobs" policy=inputs@1 trained_on=digits`) {
		t.Errorf("the log does not name the policy:\n%s", s.log)
	}
	status, _, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model": "digits", "min_quality": 0.9, "total_ms": 5000, "inputs": [{"image": "aGk=", "audio": "aGk="}, {"image": "aGk=", "audio": "aGk="}]}`)
	if status != http.StatusOK || !strings.Contains(text, `"kept":true`) {
		t.Errorf("%d %s", status, text)
	}
	s.stop()
	if code := <-s.code; code != 0 {
		t.Errorf("serve ends with exit code %d", code)
	}

	if err := os.WriteFile(file, []byte(strings.Replace(pairScenario, "inputs@1", "slackfit@1", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := store.PutRule("slackfit:0.9", time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	refused(`modality.policy "slackfit@1": policy "slackfit@1" is the rule slackfit:0.9, which has no network`)
}

// storeInputs trains a little policy of jobs, and stores it as inputs@1.
func storeInputs(t *testing.T, store *checkpoints.Store) {
	t.Helper()
	options := []modality.Option{
		{Name: "image", Quality: 0.81, Latency: []float64{5, 7}},
		{Name: "audio", Quality: 0.88, Latency: []float64{7, 10}},
		{Name: "both", Quality: 0.96, Latency: []float64{11, 16}},
	}
	o := training.JobsOptions{Models: []training.JobsModel{{Name: "digits", Options: options}}, Seed: 1, Decisions: 1000, Validation: 4, Comparisons: 4}
	trained, err := training.TrainJobs(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if ref, err := trained.Store(store, "inputs", o, time.Unix(0, 0)); err != nil || ref.String() != "inputs@1" {
		t.Fatalf("%v, %v", ref, err)
	}
}

// TestLearnedJobsOfAStoreThatIsAway: foresight plans jobs until the store is back, then the stored policy does.
func TestLearnedJobsOfAStoreThatIsAway(t *testing.T) {
	server := etcdtest.Start(t)
	proxy := etcdtest.NewProxy(t, server.Endpoint)
	storeInputs(t, &checkpoints.Store{Path: "etcd://" + server.Endpoint + "/mine"})
	proxy.Cut()
	s := serveTiny(t, "--scenario", write(t, "pair.yaml", pairScenario), "--policy", "slackfit", "--store", "etcd://"+proxy.Endpoint+"/mine")
	logged := func(text string) bool { return strings.Contains(s.log.String(), text) }
	if !logged("foresight plans jobs until the store of policies is back") {
		t.Errorf("the log does not say what plans jobs:\n%s", s.log)
	}
	planned := func() {
		t.Helper()
		status, _, text := s.ask(t, "POST", "/v1/gearshift/classify", `{"model": "digits", "min_quality": 0.9, "total_ms": 5000, "inputs": [{"image": "aGk=", "audio": "aGk="}, {"image": "aGk=", "audio": "aGk="}]}`)
		if status != http.StatusOK || !strings.Contains(text, `"kept":true`) {
			t.Errorf("%d %s", status, text)
		}
	}
	planned()
	proxy.Pass()
	etcdtest.Eventually(t, "the stored policy plans jobs", func() bool {
		return logged(`msg="a stored policy plans jobs" policy=inputs@1 trained_on=digits`)
	})
	planned()
	s.end(t)
}

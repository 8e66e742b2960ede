package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// needNode installs the official npm package where it is not yet. Its version is
// locked in serving/clients/node.
func needNode(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs Node.js with npm (Debian: apt-get install nodejs npm): %v", err)
		}
	}
	dir := nodeClients
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai", "package.json")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("cannot install the openai package: %v\n%s", err, out)
		}
	}
}

var nodeClients = filepath.Join("..", "..", "serving", "clients", "node")

// TestNodeClient runs the official npm package against gearshift serve.
func TestNodeClient(t *testing.T) {
	needNode(t)
	s := serveTiny(t, "--policy", "static:small")
	run := exec.CommandContext(t.Context(), "node", "client.mjs", s.url+"/v1")
	run.Dir = nodeClients
	var complaints strings.Builder
	run.Stderr = &complaints
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, complaints.String())
	}
	var got, want any
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	stream := got.(map[string]any)["stream"].(map[string]any)
	if words := strings.Fields(stream["text"].(string)); len(words) != 6 {
		t.Errorf("streamed text %q", words)
	}
	delete(stream, "text")
	if err := json.Unmarshal([]byte(nodeSaw), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the client saw\n%v\nwant\n%v", got, want)
	}
	s.end(t)
}

const nodeSaw = `{
	"models": ["auto", "small", "large"],
	"model": "model",
	"chat": {"role": "assistant", "words": 5, "finish": "length", "variant": "small",
		"usage": {"prompt_tokens": 4, "completion_tokens": 5, "total_tokens": 9}},
	"stream": {"pieces": 6, "role": "assistant", "finish": "length",
		"usage": {"prompt_tokens": 4, "completion_tokens": 6, "total_tokens": 10}},
	"assembled": 4,
	"completion": 3,
	"errors": {
		"model": {"class": "NotFoundError", "status": 404, "code": "model_not_found", "param": "model", "id": true},
		"task": {"class": "BadRequestError", "status": 400, "code": "unknown_task", "param": "x-gearshift-task", "id": true},
		"deadline": {"class": "BadRequestError", "status": 400, "code": "invalid_deadline", "param": "x-llm-d-slo-tpot-ms", "id": true}
	}
}`

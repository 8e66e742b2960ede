package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

// TestGoClient runs the official Go SDK against gearshift serve.
func TestGoClient(t *testing.T) {
	s := serveTiny(t, "--policy", "static:small")
	client := openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	models, err := client.Models.List(t.Context())
	if err != nil || len(models.Data) != 3 || models.Data[0].ID != "auto" {
		t.Fatalf("models %+v, %v", models, err)
	}
	params := openai.ChatCompletionNewParams{
		Model: "auto", MaxTokens: openai.Int(5), Metadata: map[string]string{"task": "search"},
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("how do gears turn")},
	}
	exact := option.WithJSONSet("ignore_eos", true)
	answer, err := client.Chat.Completions.New(t.Context(), params, exact)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Model != "small" || answer.Usage.CompletionTokens != 5 || answer.Choices[0].FinishReason != "length" {
		t.Errorf("answer %s", answer.RawJSON())
	}
	stream := client.Chat.Completions.NewStreaming(t.Context(), params, exact)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if err := stream.Err(); err != nil || len(strings.Fields(whole.Choices[0].Message.Content)) != 5 {
		t.Errorf("stream %+v, %v", whole.Choices, err)
	}
	s.end(t)
}

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

package serving_test

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"

	"gearshift/env/engine"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
)

// liveRig is a server before simulated engines with steps of a millisecond.
func liveRig(t *testing.T) (*rig, *httptest.Server) {
	t.Helper()
	c := backend.SimulatedConfig{Table: testTable(t), OutputTokens: func(*rand.Rand) int { return 8 }}
	for range c.Table.Replicas {
		e, err := engine.New(engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 512, MaxSequences: 16, BlockTokens: 16}, &profile.Profile{Overhead: 1}, 8192)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines = append(c.Engines, e)
	}
	engines, err := backend.NewSimulated(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(engines.Close)
	g := newRig(t, nil, func(o *serving.Options) {
		for i := range o.Backends {
			o.Backends[i].Transport = engines.Replica(i)
		}
	})
	server := httptest.NewServer(g.Handler())
	t.Cleanup(server.Close)
	return g, server
}

func TestGoClient(t *testing.T) {
	g, server := liveRig(t)
	client := openai.NewClient(option.WithBaseURL(server.URL+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	ctx := t.Context()

	models, err := client.Models.List(ctx)
	if err != nil || len(models.Data) != 3 || models.Data[0].ID != serving.AutoModel {
		t.Fatalf("models %+v, %v", models, err)
	}
	if model, err := client.Models.Get(ctx, "large"); err != nil || model.ID != "large" {
		t.Errorf("model %+v, %v", model, err)
	}

	params := openai.ChatCompletionNewParams{
		Model:     serving.AutoModel,
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage("how do gears turn")},
		MaxTokens: openai.Int(5),
		Metadata:  map[string]string{"task": "copy"},
	}
	exact := option.WithJSONSet("ignore_eos", true)
	answer, err := client.Chat.Completions.New(ctx, params, exact)
	if err != nil {
		t.Fatal(err)
	}
	if c := answer.Choices[0]; c.Message.Role != "assistant" || len(strings.Fields(c.Message.Content)) != 5 || c.FinishReason != "length" || answer.Usage.PromptTokens != 4 {
		t.Errorf("answer %s", answer.RawJSON())
	}

	params.Model = "large"
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := client.Chat.Completions.NewStreaming(ctx, params, exact, option.WithHeader("x-gearshift-task", "chat"))
	var whole openai.ChatCompletionAccumulator
	var pieces int
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			t.Fatalf("event %s does not fit", stream.Current().RawJSON())
		}
		if c := stream.Current().Choices; len(c) > 0 && c[0].Delta.Content != "" {
			pieces++
		}
	}
	if stream.Err() != nil || pieces != 5 || whole.Usage.CompletionTokens != 5 || len(strings.Fields(whole.Choices[0].Message.Content)) != 5 {
		t.Errorf("%d pieces, %+v, %v", pieces, whole.Choices, stream.Err())
	}

	text, err := client.Completions.New(ctx, openai.CompletionNewParams{Model: "small", Prompt: openai.CompletionNewParamsPromptUnion{OfString: openai.String("once upon")}})
	if err != nil || len(strings.Fields(text.Choices[0].Text)) != 8 || text.Choices[0].FinishReason != "stop" {
		t.Errorf("completion %+v, %v", text, err)
	}

	params.Model = "huge"
	_, err = client.Chat.Completions.New(ctx, params)
	var refused *openai.Error
	if !errors.As(err, &refused) || refused.StatusCode != 404 || refused.Code != "model_not_found" {
		t.Errorf("error %v", err)
	}

	status := g.Status()
	if status.Total.Completed != 3 || status.Tasks[1].Requests != 1 || status.Variants[large].Requests != 1 || status.InFlight != 0 {
		t.Errorf("status %+v", status)
	}
}

// TestNodeClient runs the official npm package. Its version is locked in
// clients/node; it is installed there if it is not yet.
func TestNodeClient(t *testing.T) {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("this test needs Node.js with npm (Debian: apt-get install nodejs npm): %v", err)
		}
	}
	dir := filepath.Join("clients", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai", "package.json")); err != nil {
		install := exec.CommandContext(t.Context(), "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("cannot install the openai package: %v\n%s", err, out)
		}
	}
	g, server := liveRig(t)
	run := exec.CommandContext(t.Context(), "node", "client.mjs", server.URL+"/v1")
	run.Dir = dir
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
	if status := g.Status(); status.Total.Completed != 4 || status.Tasks[1].Requests != 1 {
		t.Errorf("status %+v", status)
	}
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

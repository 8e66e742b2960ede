package serving_test

import (
	"errors"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
	responsesapi "github.com/openai/openai-go/responses"

	"gearshift/env/engine"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
)

// simulatedEngines compute the test fleet's answers, of so many tokens, by its
// replicas' profiles.
func simulatedEngines(t *testing.T, output int, profiles []*profile.Profile) *backend.Simulated {
	t.Helper()
	c := backend.SimulatedConfig{Table: testTable(t), OutputTokens: func(*rand.Rand) int { return output }}
	for _, p := range profiles {
		e, err := engine.New(engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 512, MaxSequences: 16, BlockTokens: 16}, p, 1<<14)
		if err != nil {
			t.Fatal(err)
		}
		c.Engines = append(c.Engines, e)
	}
	s, err := backend.NewSimulated(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// liveRig is a server before simulated engines with steps of a millisecond.
func liveRig(t *testing.T) (*rig, *httptest.Server) {
	t.Helper()
	p := &profile.Profile{Overhead: 1}
	engines := simulatedEngines(t, 8, []*profile.Profile{p, p, p})
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

// TestGoClientBeyondChats has the SDK read what the other endpoints answer.
func TestGoClientBeyondChats(t *testing.T) {
	g, server := liveRig(t)
	client := openai.NewClient(option.WithBaseURL(server.URL+"/v1"), option.WithAPIKey("unused"), option.WithMaxRetries(0))
	ctx := t.Context()

	params := responsesapi.ResponseNewParams{
		Model: serving.AutoModel, Input: responsesapi.ResponseNewParamsInputUnion{OfString: openai.String("how do gears turn")},
		Metadata: map[string]string{"task": "copy"},
	}
	answer, err := client.Responses.New(ctx, params)
	if err != nil || len(strings.Fields(answer.OutputText())) != 8 || answer.Usage.OutputTokens != 8 || answer.Status != "completed" {
		t.Fatalf("response %+v, %v", answer, err)
	}
	params.Model = "large" // which the policy does not want
	stream := client.Responses.NewStreaming(ctx, params)
	var text strings.Builder
	var last responsesapi.ResponseStreamEventUnion
	for stream.Next() {
		last = stream.Current()
		if last.Type == "response.output_text.delta" {
			text.WriteString(last.AsResponseOutputTextDelta().Delta)
		}
	}
	if stream.Err() != nil || len(strings.Fields(text.String())) != 8 || last.Type != "response.completed" || last.Response.OutputText() != text.String() {
		t.Errorf("%q, last event %s, %v", text.String(), last.RawJSON(), stream.Err())
	}

	kept, err := client.Responses.Get(ctx, answer.ID, responsesapi.ResponseGetParams{})
	if err != nil || kept.ID != answer.ID || kept.OutputText() != answer.OutputText() {
		t.Errorf("kept response %+v, %v", kept, err)
	}
	params.PreviousResponseID, params.Model = openai.String(last.Response.ID), serving.AutoModel
	next, err := client.Responses.New(ctx, params)
	if err != nil || next.Model != "large" || next.Usage.InputTokens != 4+8+4 {
		t.Errorf("the next response %+v, %v", next, err)
	}
	if err := client.Responses.Delete(ctx, answer.ID); err != nil {
		t.Error(err)
	}
	var gone *openai.Error
	if _, err := client.Responses.Get(ctx, answer.ID, responsesapi.ResponseGetParams{}); !errors.As(err, &gone) || gone.StatusCode != 404 || gone.Code != "response_not_found" {
		t.Errorf("a deleted response: %v", err)
	}

	vectors, err := client.Embeddings.New(ctx, openai.EmbeddingNewParams{Model: "small", Input: openai.EmbeddingNewParamsInputUnion{OfArrayOfStrings: []string{"a b", "c"}}})
	if err != nil || len(vectors.Data) != 2 || len(vectors.Data[1].Embedding) != 16 || vectors.Usage.PromptTokens != 3 {
		t.Errorf("embeddings %+v, %v", vectors, err)
	}
	status := g.Status()
	if status.Total.Completed != 4 || status.Tasks[1].DeadlineMet+status.Tasks[1].DeadlineMissed != 3 || status.InFlight != 0 {
		t.Errorf("status %+v", status)
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os/exec"
	"reflect"
	"strings"
	"testing"

	"github.com/openai/openai-go"
	"github.com/openai/openai-go/option"
)

// sdkRig is a router in front of an engine process that asks for the key
// "sesame", which clients send through the router. A replica takes two requests.
func sdkRig(t *testing.T) (*engineProcess, *served) {
	t.Helper()
	t.Setenv("GEARSHIFT_TEST_ENGINE_KEY", "sesame")
	e := startEngine(t, "--api-key-env", "GEARSHIFT_TEST_ENGINE_KEY")
	e.header = http.Header{"Authorization": {"Bearer sesame"}}
	return e, serveBefore(t, e, "max_in_flight: 128", "max_in_flight: 2", "'}", "', forward_authorization: true}")
}

// sdk is what the tests of the Go client share.
type sdk struct {
	t      *testing.T
	engine *engineProcess
	url    string
	client openai.Client
}

func (s *sdk) connect(key string) openai.Client {
	return openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey(key), option.WithMaxRetries(0))
}

func sdkParams(tokens int64) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model: "small", MaxTokens: openai.Int(tokens),
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("how do gears turn")},
	}
}

var exactly = option.WithJSONSet("ignore_eos", true)

// TestGoClientBeforeAnEngine runs the official Go SDK against a router in front
// of an engine in a process of its own.
func TestGoClientBeforeAnEngine(t *testing.T) {
	e, served := sdkRig(t)
	s := &sdk{t: t, engine: e, url: served.url}
	s.client = s.connect("sesame")
	s.streams()
	s.callsTools()
	s.cancels()
	s.seesErrors()
	answer, err := s.client.Chat.Completions.New(t.Context(), sdkParams(2), exactly)
	if err != nil || answer.Usage.CompletionTokens != 2 {
		t.Errorf("after it all: %v, %+v", err, answer)
	}
	s.settled()
	served.end(t)
}

func (s *sdk) streams() {
	params := sdkParams(6)
	params.StreamOptions.IncludeUsage = openai.Bool(true)
	stream := s.client.Chat.Completions.NewStreaming(s.t.Context(), params, exactly)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		if !whole.AddChunk(stream.Current()) {
			s.t.Errorf("event %s does not fit", stream.Current().RawJSON())
		}
	}
	if err := stream.Err(); err != nil || whole.Usage.CompletionTokens != 6 || len(strings.Fields(whole.Choices[0].Message.Content)) != 6 {
		s.t.Errorf("stream %+v, %v", whole.Choices, err)
	}
}

func (s *sdk) callsTools() {
	params := sdkParams(20)
	params.Tools = []openai.ChatCompletionToolParam{{Function: openai.FunctionDefinitionParam{
		Name: "turn", Parameters: openai.FunctionParameters{"type": "object", "properties": map[string]any{"teeth": map[string]any{"type": "integer"}}},
	}}}
	params.ToolChoice.OfAuto = openai.String("required")
	answer, err := s.client.Chat.Completions.New(s.t.Context(), params)
	if err != nil {
		s.t.Fatal(err)
	}
	message := answer.Choices[0].Message
	if len(message.ToolCalls) != 1 || message.ToolCalls[0].Function.Name != "turn" || message.ToolCalls[0].Function.Arguments != `{"teeth":1}` || answer.Choices[0].FinishReason != "tool_calls" {
		s.t.Fatalf("call %s", answer.RawJSON())
	}
	stream := s.client.Chat.Completions.NewStreaming(s.t.Context(), params)
	var whole openai.ChatCompletionAccumulator
	for stream.Next() {
		whole.AddChunk(stream.Current())
	}
	if calls := whole.Choices[0].Message.ToolCalls; stream.Err() != nil || len(calls) != 1 || calls[0].Function.Name != "turn" || calls[0].Function.Arguments != `{"teeth":1}` {
		s.t.Errorf("streamed call %+v, %v", calls, stream.Err())
	}
	params.ToolChoice.OfAuto = openai.String("auto")
	params.Messages = append(params.Messages, message.ToParam(), openai.ToolMessage("it turns", message.ToolCalls[0].ID))
	if answer, err = s.client.Chat.Completions.New(s.t.Context(), params); err != nil || answer.Choices[0].Message.Content == "" {
		s.t.Errorf("after the call %+v, %v", answer, err)
	}
}

// A client that leaves frees the engine, streaming or not.
func (s *sdk) cancels() {
	ctx, leave := context.WithCancel(s.t.Context())
	stream := s.client.Chat.Completions.NewStreaming(ctx, sdkParams(5000), exactly)
	if !stream.Next() {
		s.t.Fatal(stream.Err())
	}
	s.engine.runs(s.t, 1)
	leave()
	s.engine.runs(s.t, 0)
	_ = stream.Close()

	ctx, leave = context.WithCancel(s.t.Context())
	defer leave()
	failed := make(chan error, 1)
	go func() {
		_, err := s.client.Chat.Completions.New(ctx, sdkParams(5000), exactly)
		failed <- err
	}()
	s.engine.runs(s.t, 1)
	leave()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		s.t.Errorf("error %v", err)
	}
	s.engine.runs(s.t, 0)
}

func (s *sdk) seesErrors() {
	s.refused("a wrong key", s.connect("guess"), sdkParams(1), 401, "invalid_api_key")
	params := sdkParams(1)
	params.Model = "none"
	s.refused("no such model", s.client, params, 404, "model_not_found")
	s.refused("no such task", s.client, sdkParams(1), 400, "unknown_task", option.WithHeader("x-gearshift-task", "none"))
	params = sdkParams(1)
	params.Messages = nil
	s.refused("no messages", s.client, params, 400, "invalid_value")

	ctx, leave := context.WithCancel(s.t.Context())
	defer leave()
	for range 2 {
		if stream := s.client.Chat.Completions.NewStreaming(ctx, sdkParams(5000), exactly); !stream.Next() {
			s.t.Fatal(stream.Err())
		}
	}
	s.refused("a full replica", s.client, sdkParams(1), 429, "saturated")
	leave()
	s.engine.runs(s.t, 0)
	s.settled()

	s.engine.fault(s.t, "error=1")
	var broken *openai.Error
	if _, err := s.client.Chat.Completions.New(s.t.Context(), sdkParams(1)); !errors.As(err, &broken) || broken.StatusCode < 500 || broken.Code == "" {
		s.t.Errorf("an engine that fails: %v", err)
	}
	s.engine.fault(s.t, "cut=1")
	stream := s.client.Chat.Completions.NewStreaming(s.t.Context(), sdkParams(50), exactly)
	for stream.Next() {
	}
	if stream.Err() == nil {
		s.t.Error("an answer that is cut off ends without an error")
	}
	s.engine.fault(s.t, "")
}

// refused asks, which must fail with the status and the code.
func (s *sdk) refused(why string, c openai.Client, params openai.ChatCompletionNewParams, status int, code string, o ...option.RequestOption) {
	s.t.Helper()
	var e *openai.Error
	if _, err := c.Chat.Completions.New(s.t.Context(), params, o...); !errors.As(err, &e) || e.StatusCode != status || e.Code != code {
		s.t.Errorf("%s: %v, want status %d and %s", why, err, status, code)
	}
}

// settled waits until nothing is in flight in the router.
func (s *sdk) settled() {
	s.t.Helper()
	router := &served{url: s.url}
	eventually(s.t, func() bool {
		_, _, text := router.ask(s.t, "GET", "/v1/gearshift/status", "")
		var status struct {
			InFlight *int `json:"in_flight"`
		}
		return json.Unmarshal([]byte(text), &status) == nil && status.InFlight != nil && *status.InFlight == 0
	}, "requests stay in flight")
}

// TestNodeClientBeforeAnEngine runs the official npm package likewise.
func TestNodeClientBeforeAnEngine(t *testing.T) {
	needNode(t)
	e, served := sdkRig(t)
	run := exec.CommandContext(t.Context(), "node", "engine.mjs", served.url+"/v1", e.url)
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
	if err := json.Unmarshal([]byte(nodeSawEngine), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the client saw\n%v\nwant\n%v", got, want)
	}
	served.end(t)
}

const nodeSawEngine = `{
	"stream": {"pieces": 6, "finish": "length", "tokens": 6},
	"tools": {"finish": "tool_calls", "name": "turn", "arguments": {"gear": "gear", "teeth": 1}, "then": 3,
		"streamed": {"name": "turn", "arguments": {"gear": "gear", "teeth": 1}, "finish": "tool_calls"}},
	"responses": {"same": true, "input": 10,
		"deleted": {"class": "NotFoundError", "status": 404, "code": "response_not_found", "id": true},
		"unknown": {"class": "NotFoundError", "status": 404, "code": "response_not_found", "id": true},
		"cancel": {"class": "BadRequestError", "status": 400, "code": "invalid_value", "id": true}},
	"cancelled": {"before": 1, "stream": 0, "error": "APIUserAbortError", "whole": 0},
	"errors": {
		"key": {"class": "AuthenticationError", "status": 401, "code": "invalid_api_key", "id": true},
		"model": {"class": "NotFoundError", "status": 404, "code": "model_not_found", "id": true},
		"router": {"class": "BadRequestError", "status": 400, "code": "unknown_task", "id": true},
		"engine": {"class": "BadRequestError", "status": 400, "code": "invalid_value", "id": true},
		"full": {"class": "RateLimitError", "status": 429, "code": "saturated", "id": true},
		"broken": {"class": "InternalServerError", "status": 500, "code": "engine_error", "id": true},
		"cut": true
	},
	"after": 2
}`

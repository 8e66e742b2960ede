package serving_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/access"
)

// A stream of the Messages API, by its events.
const (
	messageStart = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":3,\"output_tokens\":1}}}\n\n"
	blockStart   = "event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}\n\n"
	blockDelta   = "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"a b\"}}\n\n"
	messageDelta = "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":9}}\n\n"
	messageStop  = "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n"
	askMessages  = `{"model":"small","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// TestStreamsOfMessages: one is whole at message_stop, and no sooner.
func TestStreamsOfMessages(t *testing.T) {
	for _, c := range []struct{ name, stream, outcome string }{
		{"whole", messageStart + blockStart + blockDelta + messageDelta + messageStop, "completed"},
		{"without the last event", messageStart + blockStart + blockDelta + messageDelta, "failed"},
		{"within its content", messageStart + blockStart + blockDelta, "failed"},
		{"with nothing but its start", messageStart, "failed"},
		{"an empty answer", messageStart + messageDelta + messageStop, "completed"},
		{"an empty answer without its end", messageStart + messageDelta, "failed"},
		{"an error within", messageStart + blockStart + blockDelta + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n", "failed"},
	} {
		g := newRig(t, says(http.StatusOK, eventType, c.stream))
		server := httptest.NewServer(g)
		response, err := http.Post(server.URL+messages, jsonType, strings.NewReader(askMessages))
		if err != nil {
			t.Fatal(err)
		}
		got, _ := io.ReadAll(response.Body)
		response.Body.Close()
		server.Close()
		<-g.returned
		if !strings.HasPrefix(string(got), c.stream) && c.stream != messageStart {
			t.Errorf("%s: the client got %q", c.name, got)
		}
		g.settled(t, c.outcome)
		if c.outcome == "failed" && !strings.Contains(string(got), `"type":"error","error":{"type":`) {
			t.Errorf("%s: no error in %q", c.name, got)
		}
	}
}

// TestAnOverloadedEngineGivesWay: an error that comes first is another replica's chance.
func TestAnOverloadedEngineGivesWay(t *testing.T) {
	for name, first := range map[string]transport{
		"within the stream": says(http.StatusOK, eventType, "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"),
		"by its status":     says(529, jsonType, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
	} {
		g := newRig(t, says(http.StatusOK, eventType, messageStart+blockDelta+messageDelta+messageStop), func(o *serving.Options) { o.Backends[smallOnA].Transport = first })
		w := g.do("POST", messages, askMessages)
		if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" || !strings.HasSuffix(w.Body.String(), messageStop) {
			t.Errorf("%s: %d by %s: %s", name, w.Code, w.Header().Get("X-Gearshift-Replica"), w.Body)
		}
	}
}

// TestErrorsOfMessages: whoever speaks Anthropic's API gets its errors, whatever is wrong.
func TestErrorsOfMessages(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	g := newRig(t, says(http.StatusBadGateway, "text/html", "<html>"), func(o *serving.Options) { o.Config.KeysFile = file })
	key := []string{"x-api-key", secrets["alice"], "anthropic-version", "2023-06-01"}
	for _, c := range []struct {
		method, path, body string
		header             []string
		status             int
		kind, code         string
	}{
		{"POST", messages, askMessages, nil, 401, "authentication_error", "invalid_api_key"},
		{"POST", messages, `{`, key, 400, "invalid_request_error", "invalid_json"},
		{"POST", messages, `{"model":"huge"}`, key, 404, "not_found_error", "model_not_found"},
		{"GET", messages, "", key, 405, "invalid_request_error", "method_not_allowed"},
		{"POST", messages + "/batches", `{}`, key, 404, "not_found_error", "unknown_url"},
		{"POST", messages + "//count_tokens/", `{"model":"huge"}`, key, 404, "not_found_error", "model_not_found"},
		{"POST", messages, askMessages, key, 502, "api_error", "upstream_error"},
		{"POST", "/v1/messagesx", `{}`, key, 404, "", "unknown_url"},
	} {
		w := g.do(c.method, c.path, c.body, c.header...)
		var got struct {
			Type      string
			RequestID string `json:"request_id"`
			Error     struct{ Type, Message, Code string }
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != c.status || got.Error.Message == "" || got.Error.Code != c.code {
			t.Errorf("%s %s %s: %d, %s", c.method, c.path, c.body, w.Code, w.Body)
		}
		if c.kind == "" {
			if got.Type != "" {
				t.Errorf("%s: %s", c.path, w.Body)
			}
			continue
		}
		if got.Type != "error" || got.Error.Type != c.kind || got.RequestID != w.Header().Get("X-Request-Id") {
			t.Errorf("%s %s %s: %s, want %s", c.method, c.path, c.body, w.Body, c.kind)
		}
	}
}

// TestMessagesUpstream: the client's key ends at the router, its version goes on.
func TestMessagesUpstream(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	var sent http.Header
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Clone()
		return reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(`{"type":"message","content":[],"stop_reason":"end_turn","usage":{"output_tokens":2}}`))), nil
	}), func(o *serving.Options) { o.Config.KeysFile = file })
	w := g.do("POST", messages, askMessages, "X-Api-Key", secrets["alice"], "Anthropic-Version", "2023-06-01", "Anthropic-Beta", "tools")
	if w.Code != http.StatusOK || sent.Get("X-Api-Key") != "" || sent.Get("Anthropic-Version") != "2023-06-01" || sent.Get("Anthropic-Beta") != "tools" {
		t.Errorf("status %d, the engine got %v", w.Code, sent)
	}
}

// TestMessagesOfSimulatedEngines: whole, as a stream, and counted.
func TestMessagesOfSimulatedEngines(t *testing.T) {
	g, server := liveRig(t)
	const order = `{"model":"auto","max_tokens":5,"ignore_eos":true,"system":"be brief","messages":[{"role":"user","content":"how do gears turn"}]`
	w := g.do("POST", messages, order+`}`)
	var whole struct {
		Type, Role string
		Stop       string `json:"stop_reason"`
		Content    []struct{ Type, Text string }
		Usage      struct {
			Input  int `json:"input_tokens"`
			Output int `json:"output_tokens"`
		}
	}
	if err := json.Unmarshal(w.Body.Bytes(), &whole); err != nil || whole.Type != "message" || whole.Stop != "max_tokens" || len(whole.Content) != 1 ||
		len(strings.Fields(whole.Content[0].Text)) != 5 || whole.Usage.Output != 5 || whole.Usage.Input < 5 {
		t.Errorf("%v: %s", err, w.Body)
	}
	response, err := http.Post(server.URL+messages, jsonType, strings.NewReader(order+`,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var kinds []string
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if kind, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			kinds = append(kinds, kind)
		}
	}
	if got := strings.Join(kinds, " "); got != "message_start content_block_start"+strings.Repeat(" content_block_delta", 5)+" content_block_stop message_delta message_stop" {
		t.Errorf("events %s", got)
	}
	if w := g.do("POST", messages+"/count_tokens", order+`}`); w.Code != http.StatusOK || !strings.HasPrefix(w.Body.String(), `{"input_tokens":`) {
		t.Errorf("count: %d, %s", w.Code, w.Body)
	}
	if w := g.do("POST", messages, `{"model":"small","messages":[{"role":"user","content":"x"}]}`); w.Code != http.StatusBadRequest || !strings.HasPrefix(w.Body.String(), `{"type":"error","error":{"type":"invalid_request_error"`) {
		t.Errorf("without max_tokens: %d, %s", w.Code, w.Body)
	}
}

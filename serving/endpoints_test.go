package serving_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

const (
	completions = "/v1/completions"
	embeddings  = "/v1/embeddings"
	responses   = "/v1/responses"
	messages    = "/v1/messages"
)

// exchange is a request and its answer as an engine would send it, with the odd
// spaces, comments, line ends and unknown members that a router which decodes and
// encodes would lose.
type exchange struct {
	name, path, ask, kind, answer string
	tokens                        int
}

var exchanges = []exchange{
	{
		"chat", chat, multimodal, jsonType,
		"{ \"choices\":[{\"message\":{\"content\":\"caf\\u00e9\"}}],\"usage\":{\"completion_tokens\":3},\"x\":1.0e0 }\r\n", 3,
	},
	{
		"chat stream", chat,
		`{"model":"auto", "stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"hi"}]}`, eventType,
		": ping\n\n" + `data: {"choices":[{"delta":{"role":"assistant"}}]}` + "\n\n" +
			`data:{"choices":[{"delta":{"content":"caf\u00e9 \/"}}]}` + "\r\n\r\n" +
			`data: {"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":7}}` + "\n\n" + "data: [DONE]\n\n", 7,
	},
	{
		"tools and JSON mode", chat,
		`{"model":"auto","tools":[{"type":"function","function":{"name":"f","strict":true,"parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}],` +
			`"tool_choice":"required","parallel_tool_calls":false,"response_format":{"type":"json_schema","json_schema":{"name":"s","schema":{"b":1,"a":[ ]}}},"messages":[]}`, jsonType,
		`{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","type":"function","function":{"name":"f","arguments":"{\"model\": \"x\"}"}}]}}],"usage":{"completion_tokens":9}}`, 9,
	},
	{
		"completion", completions, `{"model":"auto","prompt":[[1,2],[3]],"best_of":2}`, jsonType,
		`{"choices":[{"text":"a b"}]}`, 2,
	},
	{
		"completion stream", completions, `{"model":"auto","prompt":"a","stream":true}`, eventType,
		`data: {"choices":[{"text":"a"}]}` + "\n\n" + `data: {"choices":[{"text":" b"}]}` + "\n\ndata: [DONE]\n\n", 2,
	},
	{
		"embeddings", embeddings, `{"model":"auto","input":["a b","c"],"encoding_format":"float","dimensions":2}`, jsonType,
		`{"object":"list","data":[{"object":"embedding","index":0,"embedding":[1.0e-1,-0.20]}],"usage":{"prompt_tokens":3,"total_tokens":3}}`, 0,
	},
	{
		"response", responses, `{"model":"auto","input":[{"role":"user","content":[{"type":"input_text","text":"hi"},{"type":"input_image","image_url":"data:,"}]}],"metadata":{"task":"chat"},"store":false}`, jsonType,
		`{"object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"a b"}]}],"usage":{"input_tokens":1,"output_tokens":6}}`, 6,
	},
	{
		"response stream", responses, `{"model":"auto","input":"hi","stream":true}`, eventType,
		"event: response.created\n" + `data: {"type":"response.created","sequence_number":0,"response":{"usage":null,"error":null}}` + "\n\n" +
			"event: response.output_text.delta\n" + `data: {"type":"response.output_text.delta","sequence_number":1,"delta":"caf\u00e9"}` + "\n\n" +
			"event: response.completed\n" + `data: {"type":"response.completed","sequence_number":2,"response":{"error":null,"usage":{"input_tokens":1,"output_tokens":5}}}` + "\n\n", 5,
	},
	{
		"message", messages, `{"model":"auto", "max_tokens":64,"system":[{"type":"text","text":"be brief","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}],"metadata":{"user_id":"u","task":{"x":1}}}`, jsonType,
		`{"id":"msg_1","type":"message","role":"assistant","content":[{"type":"text","text":"a b"}],"stop_reason":"end_turn","stop_sequence":null,"usage":{"input_tokens":3,"output_tokens":6}}`, 6,
	},
	{
		"message stream", messages, `{"model":"auto","max_tokens":64,"stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"hi"}]}]}`, eventType,
		"event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":1}}}` + "\n\n" +
			"event: content_block_start\n" + `data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}` + "\n\n" +
			"event: ping\n" + `data: {"type": "ping"}` + "\n\n" +
			"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"caf\u00e9 au"}}` + "\n\n" +
			"event: content_block_stop\n" + `data: {"type":"content_block_stop","index":0}` + "\n\n" +
			"event: message_delta\n" + `data: {"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":5}}` + "\n\n" +
			"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n", 5,
	},
	{
		"count of tokens", messages + "/count_tokens", `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`, jsonType,
		`{ "input_tokens": 14 }`, 0,
	},
}

// TestEachEndpointPassesItsBytes has a real engine behind a real router: what the
// client sends arrives but for the model's name, and what the engine sends comes
// back, an event at a time.
func TestEachEndpointPassesItsBytes(t *testing.T) {
	for _, x := range exchanges {
		t.Run(x.name, func(t *testing.T) {
			var asked, path string
			received := make(chan struct{})
			engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				asked, path = string(body), r.URL.Path
				w.Header().Set("Content-Type", x.kind)
				if x.kind != eventType {
					_, _ = io.WriteString(w, x.answer)
					return
				}
				for _, piece := range pieces(x.answer) {
					_, _ = io.WriteString(w, piece)
					w.(http.Flusher).Flush()
					<-received // the router must not wait for more
				}
			}))
			defer engine.Close()
			var seen watched
			g := newRig(t, to(engine), func(o *serving.Options) {
				o.Backends[smallOnA].Model = "org/small"
				o.Watchers = []serving.Watcher{&seen}
			})
			server := httptest.NewServer(g)
			defer server.Close()
			response, err := http.Post(server.URL+x.path, jsonType, strings.NewReader(x.ask))
			if err != nil {
				t.Fatal(err)
			}
			defer response.Body.Close()
			var got strings.Builder
			if x.kind == eventType {
				for _, piece := range pieces(x.answer) {
					if _, err := io.CopyN(&got, response.Body, int64(len(piece))); err != nil {
						t.Fatal(err)
					}
					received <- struct{}{}
				}
			}
			if _, err := io.Copy(&got, response.Body); err != nil {
				t.Fatal(err)
			}
			if got.String() != x.answer || response.Header.Get("Content-Type") != x.kind {
				t.Errorf("the client got\n%q\nwant\n%q", got.String(), x.answer)
			}
			if want := strings.Replace(x.ask, `"model":"auto"`, `"model":"org/small"`, 1); asked != want || path != x.path {
				t.Errorf("to %s the engine got\n%s\nwant\n%s", path, asked, want)
			}
			<-g.returned
			g.settled(t, "completed")
			if len(seen.results) != 1 || seen.results[0].Tokens != x.tokens || seen.results[0].Judged != (x.tokens > 0) {
				t.Errorf("ended as %+v, want one of %d tokens, judged if there are any", seen.results, x.tokens)
			}
			if id := response.Header.Get("X-Request-Id"); len(id) != 32 {
				t.Errorf("request ID %q", id)
			}
		})
	}
}

// pieces splits a stream into its lines, of which those up to the first content are one piece: the
// router holds them back.
func pieces(stream string) []string {
	meter, held := wire.NewMeter(true), 0
	for line := range strings.Lines(stream) {
		if _, _ = meter.Write([]byte(line)); meter.Begun() {
			break
		}
		held += len(line)
	}
	rest := slices.Collect(strings.Lines(stream[held:]))
	rest[0] = stream[:held] + rest[0]
	return rest
}

// to is a transport to a server, as an upstream has one.
func to(server *httptest.Server) transport {
	return func(r *http.Request) (*http.Response, error) {
		out := r.Clone(r.Context())
		out.URL.Host = strings.TrimPrefix(server.URL, "http://")
		return server.Client().Transport.RoundTrip(out)
	}
}

// watched keeps what a watcher hears.
type watched struct {
	works   []*work.Work
	results []work.Result
}

func (w *watched) Ended(work *work.Work, r work.Result) {
	w.works, w.results = append(w.works, work), append(w.results, r)
}

func TestErrorsOfEachEndpointCarryTheRequestID(t *testing.T) {
	const theirs = `{"error":{"message":"too long","type":"invalid_request_error","param":null,"code":null}}`
	for _, path := range []string{chat, completions, embeddings, responses} {
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			answer := reply(http.StatusBadRequest, jsonType, io.NopCloser(strings.NewReader(theirs)))
			answer.Header.Set("X-Request-Id", "the engine's")
			return answer, nil
		}))
		w := g.do("POST", path, `{"model":"huge"}`, "x-request-id", "mine-7")
		if _, _, _, code := readError(t, w.Body.Bytes()); code != "model_not_found" || !strings.Contains(w.Body.String(), `"request_id":"mine-7"`) {
			t.Errorf("%s: %s", path, w.Body)
		}
		passed := g.do("POST", path, `{"model":"small"}`, "x-request-id", "mine-8")
		if passed.Body.String() != theirs {
			t.Errorf("%s: the engine's own error has changed: %s", path, passed.Body)
		}
		for id, h := range map[string]http.Header{"mine-7": w.Header(), "mine-8": passed.Header()} {
			if got := h.Values("X-Request-Id"); len(got) != 1 || got[0] != id {
				t.Errorf("%s: request ID %q, want %q", path, got, id)
			}
		}
	}
}

func TestADeadlineForTheFirstToken(t *testing.T) {
	const stream = "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\ndata: [DONE]\n\n"
	for _, c := range []struct{ name, header, ms, want string }{
		{"met", "x-llm-d-slo-ttft-ms", "1e6", `gearshift_first_token_deadlines_total{result="met",variant="small"} 1`},
		{"missed", "x-slo-ttft-ms", "0.000001", `gearshift_first_token_deadlines_total{result="missed",variant="small"} 1`},
		{"none", "x-other", "1", ""},
	} {
		for kind, answer := range map[string]string{eventType: stream, jsonType: fine} {
			g := newRig(t, says(http.StatusOK, kind, answer))
			if w := g.do("POST", chat, ask, c.header, c.ms); w.Code != http.StatusOK {
				t.Errorf("%s: status %d, %s", c.name, w.Code, w.Body)
			}
			if got := strings.Join(g.counted("gearshift_first_token_deadlines_total"), " "); got != c.want {
				t.Errorf("%s, %s: %q, want %q", c.name, kind, got, c.want)
			}
		}
	}
	// An error is no first token, however soon it comes.
	for status, want := range map[int]string{http.StatusInternalServerError: `gearshift_first_token_deadlines_total{result="missed",variant="small"} 1`, http.StatusBadRequest: ""} {
		g := newRig(t, says(status, jsonType, `{"error":{"message":"no"}}`))
		g.do("POST", chat, ask, "x-slo-ttft-ms", "1e6")
		if got := strings.Join(g.counted("gearshift_first_token_deadlines_total"), " "); got != want {
			t.Errorf("status %d: %q, want %q", status, got, want)
		}
		if strings.Contains(g.do("GET", "/metrics", "").Body.String(), `gen_ai_server_time_to_first_token_seconds_count{gen_ai_response_model="small"} 1`) {
			t.Errorf("status %d counts as a first token", status)
		}
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine))
	w := g.do("POST", chat, ask, "x-llm-d-slo-ttft-ms", "soon")
	if message, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || param != "x-llm-d-slo-ttft-ms" || code != "invalid_deadline" || !strings.Contains(message, "until the first token") {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

package serving_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// event is an event of the Responses API or of the Messages API, with more members.
func event(kind, more string) string {
	return "event: " + kind + "\ndata: " + `{"type":"` + kind + `"` + more + "}\n\n"
}

const (
	role      = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	noChoice  = `data: {"choices":[],"prompt_filter_results":[{"prompt_index":0}]}` + "\n\n"
	usageOnly = `data: {"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}` + "\n\n"
)

var (
	created   = event("response.created", `,"response":{"id":"resp_1","status":"in_progress","output":[]}`)
	progress  = event("response.in_progress", `,"response":{"id":"resp_1","output":[]}`) + event("response.output_item.added", `,"item":{"type":"message"}`)
	spoken    = event("response.output_text.delta", `,"delta":"a"`)
	completed = event("response.completed", `,"response":{"id":"resp_1","output":[]}`)
	start     = event("message_start", `,"message":{"id":"msg_1","content":[],"usage":{"input_tokens":3,"output_tokens":0}}`)
	block     = event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	piece     = event("content_block_delta", `,"index":0,"delta":{"type":"text_delta","text":"a"}`)
	turned    = event("message_delta", `,"delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}`)
	stop      = event("message_stop", "")
	aPing     = event("ping", "")
)

// asks are requests for streams, by endpoint.
var asks = map[string]string{
	chat: askStream, completions: `{"model":"auto","prompt":"a","stream":true}`,
	responses: `{"model":"auto","input":"a","stream":true}`, messages: `{"model":"auto","max_tokens":9,"stream":true,"messages":[{"role":"user","content":"a"}]}`,
}

// TestAnswersWithNothingInThem: an answer that has nothing in it is broken, and a failure of its
// replica. Another is asked as long as nothing but openings has come.
func TestAnswersWithNothingInThem(t *testing.T) {
	const head = `{"id":"x","object":"chat.completion",`
	for name, c := range map[string]struct{ path, kind, body string }{
		"a stream cut after its role":           {chat, eventType, role},
		"cut after a ping":                      {chat, eventType, role + ": ping\n\n"},
		"cut after two openings":                {chat, eventType, role + `data: {"choices":[{"delta":{"content":""}}]}` + "\n\n"},
		"no choice, and cut":                    {chat, eventType, noChoice},
		"usage alone":                           {chat, eventType, usageOnly},
		"only its last event":                   {chat, eventType, done},
		"a role and its last event":             {chat, eventType, role + done},
		"no choice and its last event":          {chat, eventType, noChoice + usageOnly + done},
		"nothing":                               {chat, eventType, ""},
		"an error for a reason":                 {chat, eventType, role + token + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n" + done},
		"an overload for a reason":              {chat, eventType, role + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"engine_overloaded"}]}` + "\n\n" + done},
		"a network's error for a reason":        {chat, eventType, role + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"network_error"}]}` + "\n\n" + done},
		"an error in a choice":                  {chat, eventType, role + `data: {"choices":[{"index":0,"delta":{},"error":{"code":502,"message":"x"},"finish_reason":"error"}]}` + "\n\n" + done},
		"a completion cut after nothing":        {completions, eventType, `data: {"object":"text_completion","choices":[{"index":0,"text":"","finish_reason":null}]}` + "\n\n"},
		"a response cut after its creation":     {responses, eventType, created},
		"cut after its item":                    {responses, eventType, created + progress},
		"ended by what ends chats":              {responses, eventType, created + progress + spoken + done},
		"completed without output":              {responses, eventType, created + completed},
		"a message cut after its start":         {messages, eventType, start},
		"cut after its block and a ping":        {messages, eventType, start + aPing + block},
		"stopped without a reason":              {messages, eventType, start + stop},
		"no choices in one piece":               {chat, jsonType, head + `"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":0}}`},
		"choices that are null":                 {chat, jsonType, head + `"choices":null}`},
		"no choices at all":                     {chat, jsonType, `{"id":"","base_resp":{"status_code":1002,"status_msg":"rate limit"}}`},
		"a message that is null":                {chat, jsonType, head + `"choices":[{"index":0,"message":null,"finish_reason":"stop"}]}`},
		"a message without a word or reason":    {chat, jsonType, head + `"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":null}]}`},
		"an error for a reason, in one piece":   {chat, jsonType, head + `"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"error","error":{"code":502}}]}`},
		"abort":                                 {chat, jsonType, head + `"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"abort"}]}`},
		"null":                                  {chat, jsonType, `null`},
		"an empty object":                       {chat, jsonType, `{}`},
		"an empty object, of vectors":           {embeddings, jsonType, `{}`},
		"no vectors":                            {embeddings, jsonType, `{"object":"list","data":[]}`},
		"an empty object, of a ranking":         {"/v1/rerank", jsonType, `{}`},
		"an error":                              {chat, jsonType, `{"error":{"message":"x","code":500}}`},
		"a response without output":             {responses, jsonType, `{"object":"response","status":"completed","output":[]}`},
		"a response that failed":                {responses, jsonType, `{"object":"response","status":"failed","output":[],"error":null}`},
		"a message without content or a reason": {messages, jsonType, `{"type":"message","content":[],"stop_reason":null}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := asks[c.path]
			if body == "" {
				body = lesser[c.path]
			}
			const embedding = `{"object":"list","data":[{"embedding":[0.5]}],"results":[{"index":0}],"choices":[{"message":{"content":"a"}}],"output":[{}],"content":[{}]}`
			var asked []string
			ill, well := says(http.StatusOK, c.kind, c.body), says(http.StatusOK, jsonType, embedding)
			g := newRig(t, nil, fleetOf(&asked, ill, well, well), func(o *serving.Options) { o.Config.Health.Failures = 1 })
			if w := g.do("POST", c.path, body); w.Code != http.StatusOK || w.Body.String() != embedding || !slices.Equal(asked, []string{"small@a", "small@b"}) {
				t.Errorf("asked %v, the client got %d %s", asked, w.Code, w.Body)
			}
			g.settled(t, "completed")
			if got := g.states(); got != "ejected/failures up up" {
				t.Errorf("states %s", got)
			}
			// Where nobody else answers, an error says so.
			g = newRig(t, ill, alone)
			w := g.do("POST", c.path, body)
			own := name == "an error" || name == "a response that failed" // which reach the client
			if w.Code != http.StatusBadGateway && !own || !strings.Contains(w.Body.String(), `"error"`) {
				t.Errorf("alone, the client got %d %s", w.Code, w.Body)
			}
			g.settled(t, "failed")
		})
	}
}

// TestEmptyMessagesAreAnswers: one that says why it has no text is whole, as is all that is content
// without being text.
func TestEmptyMessagesAreAnswers(t *testing.T) {
	delta := func(members string) string {
		return role + `data: {"choices":[{"index":0,"delta":{` + members + `},"finish_reason":null}]}` + "\n\n" + stopped("0") + done
	}
	message := func(members string) string {
		return `{"choices":[{"index":0,"message":{"role":"assistant",` + members + `}}]}`
	}
	for name, c := range map[string]struct{ path, kind, body string }{
		"a stream that stops at once":      {chat, eventType, role + stopped("0") + usageOnly + done},
		"without a last event":             {chat, eventType, role + stopped("0")},
		"by a filter":                      {chat, eventType, noChoice + role + `data: {"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]}` + "\n\n" + done},
		"a tool's call":                    {chat, eventType, delta(`"tool_calls":[{"index":0,"function":{"name":"f","arguments":""}}]`)},
		"a function's call":                {chat, eventType, delta(`"function_call":{"name":"f"}`)},
		"a refusal":                        {chat, eventType, delta(`"refusal":"no"`)},
		"thoughts":                         {chat, eventType, delta(`"reasoning_content":"hm"`)},
		"sound":                            {chat, eventType, delta(`"audio":{"data":"AAAA"}`)},
		"a completion of nothing":          {completions, eventType, `data: {"choices":[{"index":0,"text":"","finish_reason":"length"}]}` + "\n\n" + done},
		"a response that is cut short":     {responses, eventType, created + event("response.incomplete", `,"response":{"id":"resp_1","output":[]}`)},
		"a response whose text is empty":   {responses, eventType, created + progress + event("response.output_text.done", `,"text":""`) + completed},
		"a response that comes at its end": {responses, eventType, created + event("response.completed", `,"response":{"id":"resp_1","output":[{"type":"message"}]}`)},
		"a message of nothing":             {messages, eventType, start + turned + stop},
		"one piece":                        {chat, jsonType, `{"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"stop"}]}`},
		"a tool's call in one piece":       {chat, jsonType, message(`"content":null,"tool_calls":[{"id":"c"}]`)},
		"a refusal in one piece":           {chat, jsonType, message(`"content":null,"refusal":"no"`)},
		"a response in the background":     {responses, jsonType, `{"object":"response","status":"queued","output":[]}`},
		"a message in one piece":           {messages, jsonType, `{"type":"message","content":[],"stop_reason":"end_turn"}`},
		"vectors":                          {embeddings, jsonType, `{"data":[{"embedding":[0.5]}]}`},
		"tokens of nothing":                {"/tokenize", jsonType, `{"tokens":[],"count":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			body := asks[c.path]
			if body == "" {
				body = lesser[c.path]
			}
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, says(http.StatusOK, c.kind, c.body), good, good))
			if w := g.do("POST", c.path, body); w.Code != http.StatusOK || w.Body.String() != c.body || len(asked) != 1 {
				t.Errorf("asked %v, the client got %d %s", asked, w.Code, w.Body)
			}
			g.settled(t, "completed")
		})
	}
}

// TestAnAnswerThatIsGivenUpSaysSo: after content an event says what is wrong, before the last one,
// after which clients hear nothing.
func TestAnAnswerThatIsGivenUpSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for path, steps := range map[string][]step{
			chat:      {{0, role}, {0, token}, {time.Second, `data: {"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n"}, {0, done}},
			responses: {{0, created}, {0, spoken}, {time.Second, done}},
			messages:  {{0, start}, {0, piece}, {time.Second, done}},
		} {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, scripted(0, eventType, steps...), good, good))
			text := g.do("POST", path, asks[path]).Body.String()
			said, last := strings.Index(text, `"error":{`), strings.Index(text, "[DONE]")
			if said < 0 || said > last || len(asked) != 1 {
				t.Errorf("asked %v, the client got %q", asked, text)
			}
			g.settled(t, "failed")
			g.Close()
		}
	})
}

// TestOpeningsAreNoBeginning: what only announces an answer is held back until content comes, so
// that another replica can still give one, and goes out before it in order.
func TestOpeningsAreNoBeginning(t *testing.T) {
	const s = time.Second
	ill := `data: {"error":{"message":"engine overloaded","code":503}}` + "\n\n"
	opened := map[string]string{chat: noChoice + role, completions: `data: {"choices":[{"text":"","index":0}]}` + "\n\n", responses: created + progress, messages: start + aPing + block}
	bodies := map[string]string{chat: word("0", "a") + stopped("0") + done, completions: token + stopped("0") + done, responses: spoken + completed, messages: piece + turned + stop}
	for path, openings := range opened {
		for name, first := range map[string]transport{
			"breaks off":    scripted(0, eventType, step{s, openings}, step{s, ill}),
			"says an error": says(http.StatusOK, eventType, openings+ill+done),
			"falls silent":  scripted(0, eventType, step{s, openings}, step{10 * time.Minute, ""}),
			"is cut":        cuts(eventType, openings),
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked []string
					whole := openings + ": hm\n\n" + bodies[path]
					g := newRig(t, nil, fleetOf(&asked, first, scripted(0, eventType, step{s, openings}, step{s, ": hm\n\n"}, step{s, bodies[path]}), good))
					w := g.do("POST", path, asks[path])
					if w.Body.String() != whole || !slices.Equal(asked, []string{"small@a", "small@b"}) || w.Header().Get("X-Gearshift-Replica") != "small@b" {
						t.Errorf("asked %v, the client got %q, want %q", asked, w.Body, whole)
					}
					g.settled(t, "completed")
				})
			})
		}
	}
}

// TestOpeningsAreHeldBackWithinBounds: more than the router holds goes out, and no other replica can
// answer then.
func TestOpeningsAreHeldBackWithinBounds(t *testing.T) {
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, cuts(eventType, strings.Repeat(role, 1000)), good, good))
	if w, broken := g.visit(askStream); !broken || len(asked) != 1 || !strings.HasPrefix(w.Body.String(), strings.Repeat(role, 200)) {
		t.Errorf("asked %v, broken %v, the client got %d bytes", asked, broken, w.Body.Len())
	}
	g.settled(t, "failed")
}

// TestOpeningsAreNoFirstToken: a hedge is made, and a time to the first token counts, until content
// comes.
func TestOpeningsAreNoFirstToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		var seen watched
		late := scripted(0, eventType, step{0, role}, step{9 * time.Second, token}, step{0, done})
		g := newRig(t, nil, fleetOf(&asked, late, scripted(0, eventType, step{2 * time.Second, token}, step{0, done}), good), func(o *serving.Options) {
			o.Config.Retries.HedgeAfter = time.Second
			o.Watchers = []serving.Watcher{&seen}
		})
		if w := g.do("POST", chat, askStream); w.Body.String() != token+done || w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("asked %v, the client got %q", asked, w.Body)
		}
		if got := seen.works[0].FirstToken; got != 3*time.Second {
			t.Errorf("first token after %v, want 3s", got)
		}
		g.settled(t, "completed")
	})
}

package serving_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/quality/feedback"
	"gearshift/serving/work"
)

const (
	feedbackPath = "/v1/gearshift/feedback"
	askEvents    = `{"model":"auto","stream":true,"messages":[{"role":"user","content":"hi"}]}`
)

// withFeedback has a server with a predictor take scores as configured.
func withFeedback(t testing.TB, c config.Feedback) func(*serving.Options) {
	return func(o *serving.Options) {
		predicting(t)(o)
		o.Clock = work.WallClock()
		o.Feedback = newFeedback(c, feedback.Names{Tasks: []string{"chat", "copy"}, Variants: []string{"small", "large"}}, o.Clock)
		o.Modules = append(o.Modules, serving.Parts{Metrics: o.Feedback.Collectors()})
	}
}

// scores sends a score, and returns the status and the code of the error.
func (g *rig) scores(t *testing.T, body, secret string) (status int, code string) {
	t.Helper()
	w := g.do("POST", feedbackPath, body, "Authorization", "Bearer "+secret)
	if w.Code == http.StatusOK {
		return w.Code, ""
	}
	message, _, _, code := readError(t, w.Body.Bytes())
	if strings.Contains(message, "\n") {
		t.Errorf("%s: %q has several lines", body, message)
	}
	return w.Code, code
}

// An answer is scored by its own ID or its request's, in one piece or as events of any API.
func TestAnswersAreScoredByTheirIDs(t *testing.T) {
	const events = `data: {"id":"chatcmpl-2","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	const message = "event: message_start\n" + `data: {"type":"message_start","message":{"id":"msg_3"}}` + "\n\n" +
		"event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a b"}}` + "\n\n" +
		"event: message_stop\n" + `data: {"type":"message_stop"}` + "\n\n"
	for _, c := range []struct{ name, path, ask, kind, body, id string }{
		{"one piece", chat, ask, jsonType, fine, "x"},
		{"events", chat, askEvents, eventType, events, "chatcmpl-2"},
		{"events of the Messages API", "/v1/messages", askEvents, eventType, message, "msg_3"},
		{"request", chat, ask, jsonType, fine, "r-1"},
		{"request whose answer has no ID", chat, ask, jsonType, `{"choices":[{"message":{"content":"a"}}]}`, "r-1"},
	} {
		g := newRig(t, says(http.StatusOK, c.kind, c.body), withFeedback(t, config.DefaultQuality().Feedback))
		if w := g.do("POST", c.path, c.ask, "X-Request-Id", "r-1"); w.Code != http.StatusOK {
			t.Fatalf("%s: status %d, %s", c.name, w.Code, w.Body)
		}
		w := g.do("POST", feedbackPath, fmt.Sprintf(`{"id": %q, "score": 0.25}`, c.id))
		if want := fmt.Sprintf(`{"id":%q,"score":0.25,"model":"small"}`, c.id); w.Code != http.StatusOK || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s: status %d, %s, want %s", c.name, w.Code, w.Body, want)
		}
		if sum := g.counted("gearshift_quality_label_score_sum"); len(sum) != 1 || sum[0] != `gearshift_quality_label_score_sum{arm="in_charge",task="chat",variant="small"} 0.25` {
			t.Errorf("%s: sums %q", c.name, sum)
		}
	}
}

// A client may score an answer while its stream is still on its way.
func TestAnAnswerIsScoredAsSoonAsItsIDIsKnown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const first = `data: {"id":"chatcmpl-2","choices":[{"index":0,"delta":{"content":"a"}}]}` + "\n\n"
		g := newRig(t, scripted(0, eventType, step{0, first}, step{time.Second, done}), withFeedback(t, config.DefaultQuality().Feedback))
		go g.do("POST", chat, askEvents)
		synctest.Wait()
		if status, code := g.scores(t, `{"id": "chatcmpl-2", "score": 1}`, ""); status != http.StatusOK {
			t.Errorf("status %d, %s", status, code)
		}
		time.Sleep(2 * time.Second)
	})
}

func TestScoresAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		file, secrets := keysFile(t, map[string]access.Limits{"alice": {}, "bob": {}})
		g := newRig(t, good, withKeys(file), withFeedback(t, config.Feedback{Within: time.Hour, PerKey: 3}))
		asks := func(name, request string) {
			t.Helper()
			if w := g.do("POST", chat, ask, "Authorization", "Bearer "+secrets[name], "X-Request-Id", request); w.Code != http.StatusOK {
				t.Fatalf("status %d, %s", w.Code, w.Body)
			}
		}
		of := func(request string) string { return fmt.Sprintf(`{"id": %q, "score": 0.5}`, request) }
		for _, r := range []string{"r1", "r2", "r3", "r4", "old"} {
			asks("alice", r)
		}
		refuse := func(name, body, key string, status int, code string) {
			t.Helper()
			if s, c := g.scores(t, body, secrets[key]); s != status || c != code {
				t.Errorf("%s: status %d, %q, want %d, %q", name, s, c, status, code)
			}
		}
		for _, c := range []struct {
			name, body string
			status     int
			code       string
		}{
			{"nothing", ``, 400, "missing_body"}, {"no object", `[]`, 400, "invalid_type"}, {"no ID", `{"score": 1}`, 400, "missing_member"},
			{"no score", `{"id": "r1"}`, 400, "missing_member"}, {"no number", `{"id": "r1", "score": "1"}`, 400, "invalid_type"},
			{"NaN", `{"id": "r1", "score": NaN}`, 400, "invalid_json"}, {"infinity", `{"id": "r1", "score": 1e999}`, 400, "invalid_type"},
			{"2", `{"id": "r1", "score": 2}`, 400, "invalid_value"}, {"below 0", `{"id": "r1", "score": -0.1}`, 400, "invalid_value"},
			{"null", `{"id": "r1", "score": null}`, 400, "missing_member"},
			{"a long body", `{"id": "` + strings.Repeat("r", 5000) + `", "score": 1}`, 413, "body_too_large"},
			{"another member", `{"id": "r1", "score": 1, "text": "good"}`, 400, "unknown_member"},
			{"never made", of("r9"), 404, "answer_not_found"}, {"its own ID", of(proxy.RequestID), 404, "answer_not_found"},
		} {
			refuse(c.name, c.body, "alice", c.status, c.code)
		}
		refuse("another key's", of("r1"), "bob", 404, "answer_not_found")
		refuse("first", of("r1"), "alice", 200, "")
		refuse("twice", of("r1"), "alice", 409, "already_scored")
		refuse("second", of("r2"), "alice", 200, "")
		time.Sleep(time.Hour + time.Second)
		refuse("late", of("old"), "alice", 410, "answer_too_old")
		for i := range 4 {
			request := fmt.Sprint("new", i)
			asks("alice", request)
			if i < 3 {
				refuse("new", of(request), "alice", 200, "")
			} else {
				refuse("too many", of(request), "alice", 429, "too_many_scores")
			}
		}
		asks("bob", "his")
		refuse("of another key meanwhile", of("his"), "bob", 200, "")
	})
}

func TestScoresNeedAPredictor(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*serving.Options)
		code   string
	}{
		"no predictor": {func(*serving.Options) {}, "no_predictor"},
		"off":          {withFeedback(t, config.Feedback{PerKey: 1}), "feedback_off"},
	} {
		g := newRig(t, good, c.change)
		if status, code := g.scores(t, `{"id": "x", "score": 1}`, ""); status != http.StatusConflict || code != c.code {
			t.Errorf("%s: status %d, %q", name, status, code)
		}
	}
}

// A request that is remembered for its score costs no more memory than one whose quality is predicted.
func TestRememberingCostsNoMemory(t *testing.T) {
	upstream := instantly(t, "")
	off, _ := senderOf(t, proxied(t, upstream, predicting(t)), prose(10<<10))
	on, _ := senderOf(t, proxied(t, upstream, func(o *serving.Options) {
		predicting(t)(o)
		o.Feedback = newFeedback(config.DefaultQuality().Feedback, feedback.Names{}, work.WallClock())
	}), prose(10<<10))
	for range 50 {
		off()
		on()
	}
	if with, without := allocations(on), allocations(off); with > without+growth {
		t.Errorf("%v allocations with feedback, %v without", with, without)
	}
}

func newFeedback(c config.Feedback, names feedback.Names, clock work.Clock) *feedback.Service {
	return feedback.New(func() config.Feedback { return c }, names, clock)
}

package serving_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
)

// granting makes a keys file of the grants and limits, by name.
func granting(t *testing.T, list map[string]access.Key) (file string, secrets map[string]string) {
	t.Helper()
	limits := map[string]access.Limits{}
	for name, k := range list {
		limits[name] = k.Limits
	}
	file, secrets = keysFile(t, limits)
	var text strings.Builder
	for name, k := range list {
		k.Name, k.Hash = name, access.HashOf(secrets[name])
		text.Write(k.Line())
	}
	write(t, file, text.String())
	return file, secrets
}

func bearing(secret string) []string { return []string{"Authorization", "Bearer " + secret} }

func withClasses(o *serving.Options) {
	o.Config.Classes = []config.Class{{Name: "urgent", Priority: 10}, {Name: "batch"}}
}

// A key sends requests of its own classes alone; those that name none are of its first.
func TestAKeyHasItsClasses(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{
		"night": {Grants: access.Grants{Classes: []string{"batch"}}}, "all": {}, "both": {Grants: access.Grants{Classes: []string{"batch", "urgent"}}},
	})
	g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), withClasses)
	for _, c := range []struct {
		key, class string
		status     int
	}{{"night", "urgent", 403}, {"night", "batch", 200}, {"night", "", 200}, {"all", "urgent", 200}, {"both", "urgent", 200}, {"night", "none", 400}} {
		header := bearing(secrets[c.key])
		if c.class != "" {
			header = append(header, "X-Llm-D-Inference-Objective", c.class)
		}
		w := g.do("POST", chat, ask, header...)
		if w.Code != c.status {
			t.Errorf("%s with class %q: status %d, %s", c.key, c.class, w.Code, w.Body)
		}
		if c.status == http.StatusForbidden {
			if message, _, param, code := readError(t, w.Body.Bytes()); code != "class_not_allowed" || param != "x-llm-d-inference-objective" || !strings.Contains(message, "batch") {
				t.Errorf("%s: %s", c.key, w.Body)
			}
		}
	}
	if n := g.counted(`gearshift_refusals_total`); !strings.Contains(fmt.Sprint(n), `{status="403"} 1`) {
		t.Errorf("counted %v", n)
	}
}

// A key is answered by its own models alone, by whatever way it asks.
func TestAKeyHasItsModels(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"little": {Grants: access.Grants{Models: []string{"small"}}}, "big": {Grants: access.Grants{Models: []string{"large"}}}, "all": {}})
	var broken bool
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		if broken {
			return nil, errors.New("broken")
		}
		return says(http.StatusOK, jsonType, fine)(r)
	}), withKeys(file), func(o *serving.Options) { o.Config.Retries.Max = 5 })
	if err := g.core.SetPolicy(chooses(large)); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, model string
		status     int
		variant    string
		policy     string
	}{
		{"all", "auto", 200, "large", "wants@3"}, {"little", "auto", 200, "small", "limited"}, {"little", "small", 200, "small", "pinned"},
		{"little", "large", 403, "", ""}, {"big", "auto", 200, "large", "wants@3"}, {"big", "small", 403, "", ""}, {"little", "none", 404, "", ""},
	} {
		w := g.do("POST", chat, `{"model":"`+c.model+`","messages":[]}`, bearing(secrets[c.key])...)
		if w.Code != c.status || w.Header().Get("X-Gearshift-Variant") != c.variant || w.Header().Get("X-Gearshift-Policy") != c.policy {
			t.Errorf("%s asks for %s: status %d by %q of %q, %s", c.key, c.model, w.Code, w.Header().Get("X-Gearshift-Variant"), w.Header().Get("X-Gearshift-Policy"), w.Body)
		}
		if _, _, param, code := errorOf(w.Body.Bytes()); c.status == 403 && (code != "model_not_allowed" || param != "model" || strings.Count(w.Body.String(), "large")+strings.Count(w.Body.String(), "small") > 2) {
			t.Errorf("%s: %s", c.key, w.Body)
		}
	}
	for _, body := range []string{`{"model":"none","messages":[]}`, `{"messages":[]}`} {
		if w := g.do("POST", chat, body, bearing(secrets["little"])...); w.Code/100 != 4 || !strings.Contains(w.Body.String(), "there are auto, small") || strings.Contains(w.Body.String(), "large") {
			t.Errorf("%s: it learns of other models: %s", body, w.Body)
		}
	}
	var r routed
	w := g.do("POST", routePath, `{"prompt_tokens":1}`, bearing(secrets["little"])...)
	if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || r.Variant != "small" {
		t.Errorf("a lease: %s", w.Body)
	}
	if w := g.do("POST", chat, ask, append(bearing(secrets["little"]), "X-Gearshift-Min-Quality", "0.9")...); w.Code != http.StatusBadRequest {
		t.Errorf("a quality that its models do not have: status %d, %s", w.Code, w.Body)
	}
	for key, want := range map[string]string{"all": "auto small large", "little": "auto small", "big": "auto large"} {
		var list struct{ Data []struct{ ID string } }
		w := g.do("GET", "/v1/models", "", bearing(secrets[key])...)
		if err := json.Unmarshal(w.Body.Bytes(), &list); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("%s sees %s, want %s", key, got, want)
		}
	}
	if w := g.do("GET", "/v1/models/large", "", bearing(secrets["little"])...); w.Code != http.StatusNotFound || strings.Count(w.Body.String(), "large") != 1 {
		t.Errorf("another's model: status %d, %s", w.Code, w.Body)
	}
	broken = true // no retry leads elsewhere
	if w := g.do("POST", chat, ask, bearing(secrets["little"])...); strings.Contains(w.Header().Get("X-Gearshift-Replica"), "large") {
		t.Errorf("a retry went to %s", w.Header().Get("X-Gearshift-Replica"))
	}
}

// errorOf is readError of a body that may be none.
func errorOf(body []byte) (message, kind, param, code string) {
	var e wireError
	if json.Unmarshal(body, &e) != nil {
		return "", "", "", ""
	}
	if e.Error.Param != nil {
		param = *e.Error.Param
	}
	if e.Error.Code != nil {
		code = *e.Error.Code
	}
	return e.Error.Message, e.Error.Type, param, code
}

// What a key's budget has no tokens for is refused until the day is over; several answers
// to one request are as many.
func TestAKeyHasItsTokens(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"alice": {Limits: access.Limits{TokensPerDay: 100}}, "bob": {}})
	synctest.Test(t, func(t *testing.T) { // the bubble's day begins at midnight of UTC
		g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), func(o *serving.Options) { o.OutputTokens = 10 })
		send := func(key, body string) int {
			t.Helper()
			w := g.do("POST", chat, body, bearing(secrets[key])...)
			if w.Code == http.StatusTooManyRequests {
				if message, kind, _, code := readError(t, w.Body.Bytes()); code != "token_budget_exceeded" || kind != "rate_limit_error" || !strings.Contains(message, "100 tokens a day") {
					t.Errorf("%s", w.Body)
				}
				if left := time.Until(time.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)); w.Header().Get("Retry-After") != fmt.Sprint(int(left.Seconds())) || w.Header().Get("X-Should-Retry") != "false" {
					t.Errorf("header %v, left %v", w.Header(), left)
				}
			}
			return w.Code
		}
		time.Sleep(time.Hour)
		for _, body := range []string{
			`{"model":"auto","n":64,"messages":[]}`, `{"model":"auto","best_of":64,"prompt":"x"}`,
			`{"model":"small","prompt":["` + strings.Repeat(`a","`, 63) + `a"]}`,
		} {
			if status := send("alice", body); status != http.StatusTooManyRequests {
				t.Errorf("%.50s: status %d", body, status)
			}
		}
		passed := 0
		for range 40 {
			if send("alice", `{"model":"auto","max_tokens":4,"prompt":"x"}`) == http.StatusOK {
				passed++
			}
		}
		if passed < 10 || passed > 24 { // four tokens each, and those of the prompt
			t.Errorf("%d requests passed", passed)
		}
		for range 20 { // no model works for what is only counted
			for _, path := range []string{"/v1/messages/count_tokens", "/tokenize"} {
				if w := g.do("POST", path, `{"model":"small","prompt":"x","messages":[]}`, bearing(secrets["alice"])...); w.Code != http.StatusOK {
					t.Errorf("%s: status %d", path, w.Code)
				}
			}
		}
		if send("bob", `{"model":"auto","n":64,"messages":[]}`) != http.StatusOK {
			t.Error("another key's request was refused")
		}
		if w := g.do("POST", routePath, `{"prompt_tokens":99}`, bearing(secrets["alice"])...); w.Code != http.StatusTooManyRequests {
			t.Errorf("a lease: status %d", w.Code)
		}
		time.Sleep(23 * time.Hour)
		if send("alice", `{"model":"auto","prompt":"x"}`) != http.StatusOK {
			t.Error("refused on the next day")
		}
		text := fmt.Sprint(g.counted("gearshift_key_budget_refusals_total"))
		if !strings.Contains(text, `{key="alice"} `) || strings.Contains(text, "bob") {
			t.Errorf("counted %s", text)
		}
	})
}

// A request for more answers than the router passes on is refused before it holds anything.
func TestTooManyAnswers(t *testing.T) {
	g := newRig(t, good, func(o *serving.Options) { o.Config.MaxAnswers = 8 })
	for body, want := range map[string]int{
		`{"model":"auto","n":8,"messages":[]}`: http.StatusOK, `{"model":"auto","n":9,"messages":[]}`: http.StatusBadRequest,
		`{"model":"auto","n":"9","messages":[]}`: http.StatusBadRequest, `{"model":"auto","best_of":1e9,"prompt":"x"}`: http.StatusBadRequest,
		`{"model":"auto","n":4,"prompt":["a","b","c"]}`: http.StatusOK,
	} {
		w := g.do("POST", chat, body)
		if w.Code != want || want != http.StatusOK && !strings.Contains(w.Body.String(), "serving.max_answers") {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
}

// A client that leaves, and an engine that fails, leave no tokens set aside; what a lease's
// holder says does not make it cheaper.
func TestWhatIsSetAsideIsGivenBack(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"alice": {Limits: access.Limits{TokensPerMonth: 50}}})
	fails := true
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		if fails {
			return nil, errors.New("broken")
		}
		return says(http.StatusOK, jsonType, fine)(r)
	}), withKeys(file), func(o *serving.Options) {
		o.OutputTokens, o.Config.Health.Failures, o.Config.Health.FailureShare = 10, 0, 0
	})
	for range 20 {
		if w := g.do("POST", chat, `{"model":"auto","prompt":"x"}`, bearing(secrets["alice"])...); w.Code == http.StatusTooManyRequests {
			t.Fatalf("%s", w.Body)
		}
	}
	fails = false
	for i := range 3 {
		var r routed
		w := g.do("POST", routePath, `{"prompt_tokens":10}`, bearing(secrets["alice"])...)
		if err := json.Unmarshal(w.Body.Bytes(), &r); err != nil || (w.Code == http.StatusOK) != (i < 2) {
			t.Fatalf("lease %d: status %d, %s", i, w.Code, w.Body)
		}
		g.do("POST", routePath+"/"+r.Lease+"/end", `{"output_tokens":1}`, bearing(secrets["alice"])...)
	}
}

// A lease that is refused once a replica was chosen takes nothing from the budget of its key.
func TestALeaseThatIsNotGivenOutCostsNothing(t *testing.T) {
	file, secrets := granting(t, map[string]access.Key{"alice": {Limits: access.Limits{TokensPerDay: 100_000}}})
	g := newWide(t, withKeys(file))
	refused := 0
	for range 40 {
		// The share of a replica of 40,000 tokens that one key may have is 10,000.
		if w := g.do("POST", routePath, `{"prompt_tokens":9000}`, bearing(secrets["alice"])...); w.Code == http.StatusTooManyRequests {
			refused++
			if _, _, _, code := readError(t, w.Body.Bytes()); code != "lease_limit_exceeded" {
				t.Fatalf("%s", w.Body)
			}
		}
	}
	if refused < 30 {
		t.Fatalf("%d of 40 refused", refused)
	}
	if used := g.counted("gearshift_key_tokens_total"); len(used) != 0 { // all that is not zero
		t.Errorf("used: %q", used)
	}
}

func TestGrantsOfWhatThereIsNot(t *testing.T) {
	file := keysText(t, `{"name":"a","sha256":"`+strings.Repeat("ab", 32)+`","models":["huge","small"],"classes":["slow"]}`+"\n"+
		`{"name":"b","sha256":"`+strings.Repeat("cd", 32)+`","models":["auto"]}`)
	o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
	withKeys(file)(&o)
	withClasses(&o)
	_, err := serving.New(o)
	for _, want := range []string{
		file + `:1: models: there is no model "huge"; there are auto, small, large`,
		file + `:1: classes: there is no class of requests "slow"; there are urgent, batch`,
		file + `:2: models: "auto" alone`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

func keysText(t *testing.T, text string) string {
	t.Helper()
	file, _ := keysFile(t, nil)
	write(t, file, text+"\n")
	return file
}

// Several answers side by side take as many places in a replica's memory, and are judged
// by the pace of each.
func TestSeveralAnswersAreSeveral(t *testing.T) {
	h := &hand{}
	g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
		h.add(400 * time.Millisecond)
		return says(http.StatusOK, jsonType, `{"choices":[{"index":0,"message":{"content":"a"}}],"usage":{"completion_tokens":40}}`)(nil)
	}), func(o *serving.Options) { o.Clock = h.clock })
	g.do("POST", chat, `{"model":"small","n":8,"messages":[]}`)
	if met := g.counted("gearshift_deadlines_total"); len(met) != 1 || !strings.Contains(met[0], `result="missed"`) {
		t.Errorf("8 answers of 5 tokens in 400 ms: %v", met) // 80 ms per token, of 40
	}
	rule := router.AdmissionRule{DeadlineShare: 1, KV: 0.9, Output: 100}
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "v"}},
		[]fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "r", KVTokens: 1000}})
	if err != nil {
		t.Fatal(err)
	}
	view := &fleet.View{Table: table, InFlight: []int32{1}, Held: []int32{50}, Forecasts: []fleet.Forecast{{Pace: 0.1}}}
	for answers, room := range map[int]bool{0: true, 1: true, 2: true, 64: false} {
		if got := rule.Room(view, &fleet.Request{PromptTokens: 10, Answers: answers}, 0); got != room {
			t.Errorf("%d answers have room: %v", answers, got)
		}
	}
}

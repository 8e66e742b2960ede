package loadgen

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/router/fleet"
	"gearshift/workloads"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The tasks of the test: one whose deadline holds on any machine, one whose
// deadline holds on none.
const (
	patient, hasty = 0, 1
)

func testTable(t *testing.T) *fleet.Table {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{
			{Name: "patient", Deadline: time.Hour, Weight: 1, Quality: []float64{0.5, 1}},
			{Name: "hasty", Deadline: 1, Weight: 1, Quality: []float64{0.5, 1}},
		},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "host"}},
		[]fleet.Replica{{Name: "a"}, {Name: "b", Variant: 1}},
	)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// arrivals are requests a millisecond apart: of each task in turn, each one
// token longer than the one before.
func arrivals(n int) workloads.Given {
	l := make(workloads.Given, n)
	for i := range l {
		l[i] = workloads.Arrival{At: time.Duration(i) * time.Millisecond, Task: i % 2, PromptTokens: 3, OutputTokens: i + 1}
	}
	return l
}

// router is a server that knows the models and leaves completions to a
// function, which gets the number of tokens asked for.
func router(t *testing.T, complete func(w http.ResponseWriter, r *http.Request, tokens int)) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"auto"},{"id":"small"}]}`)
	})
	mux.HandleFunc("POST /v1/chat/completions", func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			MaxTokens int `json:"max_tokens"`
		}
		if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
			t.Error(err)
		}
		complete(w, r, body.MaxTokens)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

// stream answers with so many tokens.
func stream(w http.ResponseWriter, variant string, tokens int, end string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Gearshift-Variant", variant)
	for range tokens {
		fmt.Fprint(w, `data: {"choices":[{"delta":{"content":"word"}}]}`, "\n\n")
	}
	fmt.Fprint(w, end)
}

const done = "data: [DONE]\n\n"

func TestReport(t *testing.T) {
	server := router(t, func(w http.ResponseWriter, _ *http.Request, tokens int) {
		// 1 to 4 tokens: the first two from the small variant.
		stream(w, map[bool]string{true: "small", false: "large"}[tokens < 3], tokens, done)
	})
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL + "/v1/", Table: testTable(t), Requests: arrivals(4)})
	if err != nil {
		t.Fatal(err)
	}
	if r.Requests != 4 || r.Completed != 4 || r.DeadlineMet != 0.5 || r.Utility != (0.5+1)/4 || len(r.Errors) != 0 {
		t.Errorf("report %+v", r)
	}
	if !maps.Equal(r.Share, map[string]float64{"small": 0.5, "large": 0.5}) {
		t.Errorf("share %v", r.Share)
	}
	want := []TaskReport{
		{Name: "patient", Requests: 2, Utility: 0.75, DeadlineMet: 1, Share: map[string]float64{"small": 0.5, "large": 0.5}},
		{Name: "hasty", Requests: 2, Share: map[string]float64{"small": 0.5, "large": 0.5}},
	}
	if fmt.Sprint(r.Tasks) != fmt.Sprint(want) {
		t.Errorf("tasks %v, want %v", r.Tasks, want)
	}
	if r.TTFT.P50 <= 0 || r.TPOT.P99 <= 0 || r.TPOT.P50 > r.TPOT.P99 || r.DurationS <= 0 {
		t.Errorf("report %+v", r)
	}
}

func TestRequests(t *testing.T) {
	var mu sync.Mutex
	var bodies []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			fmt.Fprint(w, `{"data":[{"id":"small"}]}`)
			return
		}
		var body json.RawMessage
		_ = json.NewDecoder(r.Body).Decode(&body)
		mu.Lock()
		bodies = append(bodies, r.Header.Get("X-Gearshift-Task")+" "+string(body))
		mu.Unlock()
		stream(w, "", 1, done) // a server that is no Gearshift names no variant
	}))
	defer server.Close()
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Model: "small", Table: testTable(t), Requests: arrivals(2)})
	if err != nil || r.Share["small"] != 1 {
		t.Fatalf("report %+v, %v", r, err)
	}
	slices.Sort(bodies)
	want := []string{
		`hasty {"model":"small","messages":[{"role":"user","content":"word word word"}],"max_tokens":2,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
		`patient {"model":"small","messages":[{"role":"user","content":"word word word"}],"max_tokens":1,"ignore_eos":true,"stream":true,"stream_options":{"include_usage":true}}`,
	}
	if !slices.Equal(bodies, want) {
		t.Errorf("sent\n%s\nwant\n%s", strings.Join(bodies, "\n"), strings.Join(want, "\n"))
	}
}

// TestTheLoopIsOpen has a server that answers nothing before all have come.
func TestTheLoopIsOpen(t *testing.T) {
	const n = 300
	var all sync.WaitGroup
	all.Add(n)
	server := router(t, func(w http.ResponseWriter, _ *http.Request, tokens int) {
		all.Done()
		all.Wait()
		stream(w, "small", tokens, done)
	})
	var last ReplayProgress
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Table: testTable(t), Requests: arrivals(n), Progress: func(p ReplayProgress) { last = p }})
	if err != nil || r.Completed != n {
		t.Errorf("%d of %d completed: %v, %v", r.Completed, n, r.Errors, err)
	}
	if last.Sent != n || last.Answered != n {
		t.Errorf("last progress %+v", last)
	}
}

func TestErrorsAreSorted(t *testing.T) {
	server := router(t, func(w http.ResponseWriter, _ *http.Request, tokens int) {
		switch tokens {
		case 1, 2:
			http.Error(w, `{"error":{"code":"saturated"}}`, http.StatusTooManyRequests)
		case 8:
			http.Error(w, "<html>", http.StatusBadGateway)
		case 3:
			stream(w, "small", 1, "") // no end
		case 4:
			stream(w, "small", 1, `data: {"error":{"message":"x"}}`+"\n\n"+done)
		case 5:
			stream(w, "small", 0, done)
		case 6:
			stream(w, "huge", 1, done)
		case 7:
			stream(w, "small", 1, "")
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}
	})
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Table: testTable(t), Requests: arrivals(8)})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]int{"status 429 (saturated)": 2, "status 502": 1, "answer broke off": 4, "answer names no known variant": 1}
	if r.Requests != 8 || r.Completed != 0 || r.Utility != 0 || !maps.Equal(r.Errors, want) {
		t.Errorf("report %+v, want errors %v", r, want)
	}
	if want := "4 × answer broke off, 1 × answer names no known variant, 2 × status 429 (saturated), 1 × status 502"; r.Faults() != want {
		t.Errorf("faults %q, want %q", r.Faults(), want)
	}
}

func TestARequestHasItsTime(t *testing.T) {
	server := router(t, func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() })
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Table: testTable(t), Requests: arrivals(2), Timeout: 20 * time.Millisecond})
	if err != nil || r.Requests != 2 || r.Errors["timeout"] != 2 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// The key goes with each request; without it, or with another, nothing is sent.
func TestKey(t *testing.T) {
	server := router(t, func(w http.ResponseWriter, _ *http.Request, tokens int) { stream(w, "small", tokens, done) })
	open := server.Config.Handler
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer secret" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		open.ServeHTTP(w, r)
	})
	r, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Key: "secret", Table: testTable(t), Requests: arrivals(2)})
	if err != nil || r.Completed != 2 {
		t.Errorf("%v, report %+v", err, r)
	}
	for _, key := range []string{"", "wrong"} {
		want := "cannot replay to " + server.URL + ": it asks for an API key that it knows (--api-key-env NAME)"
		if _, err := Replay(t.Context(), ReplayConfig{URL: server.URL, Key: key, Table: testTable(t), Requests: arrivals(2)}); fmt.Sprint(err) != want {
			t.Errorf("with the key %q: %v", key, err)
		}
	}
}

func TestServersThatCannotBeUsed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	nothing := "http://" + l.Addr().String()
	page := httptest.NewServer(http.NotFoundHandler())
	defer page.Close()
	other := router(t, nil)
	for _, c := range []struct{ url, model, want string }{
		{nothing, "", "cannot reach " + nothing + ": dial tcp " + l.Addr().String() + ": connect: connection refused"},
		{"localhost:1", "", `cannot replay to "localhost:1": want the URL of a server, such as http://127.0.0.1:8080`},
		{"", "", `cannot replay to ""`},
		{"ftp://localhost", "", `cannot replay to "ftp://localhost"`},
		{"http://%zz", "", `cannot replay to "http://%zz": `},
		{page.URL, "", "answered 404 Not Found without a list of models; it needs an OpenAI-compatible server"},
		{other.URL, "huge", `it has no model "huge"; it has auto, small`},
	} {
		_, err := Replay(t.Context(), ReplayConfig{URL: c.url, Model: c.model, Table: testTable(t), Requests: arrivals(3)})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: error %v, want %q", c.url, err, c.want)
		}
	}
}

func TestTheEndOfTheContextEndsTheReplay(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	server := router(t, func(w http.ResponseWriter, r *http.Request, tokens int) {
		if tokens == 3 {
			cancel()
		}
		if tokens >= 2 {
			<-r.Context().Done()
			return
		}
		stream(w, "small", tokens, done)
	})
	l := arrivals(4)
	l[3].At = time.Hour
	r, err := Replay(ctx, ReplayConfig{URL: server.URL, Table: testTable(t), Requests: l})
	// The first may or may not have been answered by then; the others were cut.
	if err != nil || r.Requests > 1 || len(r.Errors) != 0 {
		t.Errorf("report %+v, %v", r, err)
	}
}

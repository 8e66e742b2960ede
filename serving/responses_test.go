package serving_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
)

// keeping is a fleet whose replicas give responses with IDs of their own, and say
// what is asked of them.
type keeping struct {
	mu     sync.Mutex
	asked  []string // replica, method, path and query
	bodies []string
	given  int
}

func (k *keeping) all() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.asked)
}

func (k *keeping) replica(name string) transport {
	return func(r *http.Request) (*http.Response, error) {
		var body []byte
		if r.Body != nil {
			body, _ = io.ReadAll(r.Body)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.asked = append(k.asked, strings.TrimSpace(name+" "+r.Method+" "+r.URL.RequestURI()))
		k.bodies = append(k.bodies, string(body))
		if r.URL.Path != responses {
			return says(http.StatusTeapot, jsonType, `{ "engine":"`+name+`" }`)(r)
		}
		k.given++
		id := fmt.Sprintf("resp_%d", k.given)
		if strings.Contains(string(body), `"stream":true`) {
			return says(http.StatusOK, eventType, "event: response.created\n"+`data: {"type":"response.created","response":{"object":"response","id":"`+id+`"}}`+"\n\n"+
				"event: response.completed\n"+`data: {"type":"response.completed","response":{"id":"`+id+`","output":[{"type":"message"}],"usage":{"output_tokens":3}}}`+"\n\n")(r)
		}
		padding := ""
		if strings.Contains(string(body), "long") {
			padding = strings.Repeat("a ", 40<<10)
		}
		return says(http.StatusOK, jsonType, `{"object":"response","output":[{"content":[{"type":"output_text","text":"`+padding+`"}]}],"usage":{"output_tokens":3},"id":"`+id+`"}`)(r)
	}
}

func (k *keeping) fleet(o *serving.Options) {
	for i, name := range []string{"small@a", "small@b", "large@a"} {
		o.Backends[i].Transport = k.replica(name)
	}
}

// from asks for a response that goes on from another.
func from(id, model string) string {
	return `{"model":"` + model + `","input":"b","previous_response_id":"` + id + `"}`
}

func TestAResponseIsAskedForWhereItIsKept(t *testing.T) {
	for name, body := range map[string]string{
		"in one piece": `{"model":"large","input":"a"}`,
		"long":         `{"model":"large","input":"long"}`,
		"stream":       `{"model":"large","input":"a","stream":true}`,
	} {
		t.Run(name, func(t *testing.T) {
			var k keeping
			g := newRig(t, nil, k.fleet)
			if w := g.do("POST", responses, body); w.Code != http.StatusOK {
				t.Fatalf("status %d, %s", w.Code, w.Body)
			}
			for _, c := range [][2]string{
				{"GET", "/v1/responses/resp_1"}, {"GET", "/v1/responses/resp_1?stream=true&starting_after=2"},
				{"GET", "/v1/responses/resp_1/input_items?limit=1"}, {"POST", "/v1/responses/resp_1/cancel"}, {"DELETE", "/v1/responses/resp_1"},
			} {
				w := g.do(c[0], c[1], "")
				if w.Code != http.StatusTeapot || w.Body.String() != `{ "engine":"large@a" }` || w.Header().Get("X-Gearshift-Replica") != "large@a" || len(w.Header().Values("X-Request-Id")) != 1 {
					t.Errorf("%s: status %d, %s, header %v", c, w.Code, w.Body, w.Header())
				}
				if asked := k.all(); asked[len(asked)-1] != "large@a "+c[0]+" "+c[1] {
					t.Errorf("%s became %q", c, asked[len(asked)-1])
				}
			}
			// None of these is work, nor an arrival.
			g.settled(t, "completed")
			w := g.do("POST", responses, from("resp_1", "auto"))
			if asked := k.all(); w.Code != http.StatusOK || asked[len(asked)-1] != "large@a POST /v1/responses" || w.Header().Get("X-Gearshift-Policy") != "pinned" {
				t.Errorf("status %d, asked %q, header %v", w.Code, asked[len(asked)-1], w.Header())
			}
			if last := k.bodies[len(k.bodies)-1]; last != from("resp_1", "large") {
				t.Errorf("the engine got %s", last)
			}
		})
	}
}

// TestAResponseIsKnownFromItsFirstEvent has the client come back before the end, to
// follow the same events.
func TestAResponseIsKnownFromItsFirstEvent(t *testing.T) {
	const begin = `data: {"type":"response.created","response":{"id":"resp_x"}}` + "\n\n" + `data: {"type":"response.output_text.delta","delta":"a"}` + "\n\n"
	const end = `data: {"type":"response.completed","response":{"id":"resp_x"}}` + "\n\n"
	more := make(chan struct{})
	engine := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", eventType)
		_, _ = io.WriteString(w, begin)
		w.(http.Flusher).Flush()
		<-more
		_, _ = io.WriteString(w, end)
	}))
	defer engine.Close()
	server := httptest.NewServer(newRig(t, to(engine)).Handler())
	defer server.Close()
	stream, err := http.Post(server.URL+responses, jsonType, strings.NewReader(`{"model":"auto","input":"a","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()
	if _, err := bufio.NewReader(stream.Body).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	kept, err := http.Get(server.URL + "/v1/responses/resp_x?stream=true")
	if err != nil {
		close(more)
		t.Fatal(err)
	}
	defer kept.Body.Close()
	text := make([]byte, len(begin))
	_, err = io.ReadFull(kept.Body, text) // the router must not wait for more
	close(more)
	rest, _ := io.ReadAll(kept.Body)
	if got := string(text) + string(rest); err != nil || kept.StatusCode != http.StatusOK || got != begin+end {
		t.Errorf("%v, status %d, %q", err, kept.StatusCode, got)
	}
}

func TestAResponseThatIsNotKnown(t *testing.T) {
	var k keeping
	g := newRig(t, nil, k.fleet)
	g.do("POST", responses, `{"model":"large","input":"a","store":false}`) // resp_1
	g.do("POST", chat, ask)
	before := len(k.all())
	for _, id := range []string{"resp_1", "resp_9"} {
		w := g.do("GET", "/v1/responses/"+id, "")
		if message, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || code != "response_not_found" || param != "response_id" || !strings.Contains(message, id) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	}
	if n := len(k.all()); n != before {
		t.Errorf("%d engines were asked", n-before)
	}
	// Another router may have asked for it: it goes where the policy wants it.
	w := g.do("POST", responses, from("resp_9", "auto"))
	if w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@a" || w.Header().Get("X-Gearshift-Policy") != "wants@3" {
		t.Errorf("status %d, header %v", w.Code, w.Header())
	}
	if w := g.do("POST", "/v1/responses/resp_9", "{}"); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// TestPathsOfTheResponsesAPIAreNoIDs: what agents POST beside a response reaches an engine,
// that which has the earlier response; of the rest the router says that it has no such endpoint.
func TestPathsOfTheResponsesAPIAreNoIDs(t *testing.T) {
	var k keeping
	g := newRig(t, nil, k.fleet)
	g.do("POST", responses, `{"model":"large","input":"a"}`)
	for path, at := range map[string]string{responses + "/compact": responses + "/compact", "/responses/input_tokens/": responses + "/input_tokens"} {
		for body, who := range map[string]string{`{"model":"auto","input":"a"}`: "small@a", from("resp_1", "auto"): "large@a"} {
			w := g.do("POST", path, body)
			if asked := k.all(); w.Code != http.StatusTeapot || asked[len(asked)-1] != who+" POST "+at {
				t.Errorf("%s: status %d, asked %q", path, w.Code, asked[len(asked)-1])
			}
		}
	}
	before := len(k.all())
	for _, path := range []string{responses + "/other", "/responses/input-tokens"} {
		w := g.do("POST", path, `{"model":"auto","input":"a"}`)
		if message, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || code != "unsupported_endpoint" || !strings.HasPrefix(message, "the router has no POST /v1/responses/") {
			t.Errorf("%s: status %d, %s", path, w.Code, w.Body)
		}
	}
	if n := len(k.all()); n != before {
		t.Errorf("%d engines were asked", n-before)
	}
}

func TestAResponseIsItsTenantsAlone(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}, "bob": {}})
	for name, c := range map[string]struct {
		change     func(*serving.Options)
		alice, bob []string // headers
	}{
		"by key":    {withKeys(file), []string{"Authorization", "Bearer " + secrets["alice"]}, []string{"Authorization", "Bearer " + secrets["bob"], "X-Gearshift-Tenant", "alice"}},
		"by header": {func(*serving.Options) {}, []string{"X-Gearshift-Tenant", "alice"}, []string{"X-Gearshift-Tenant", "bob"}},
	} {
		t.Run(name, func(t *testing.T) {
			var k keeping
			g := newRig(t, nil, k.fleet, c.change)
			g.do("POST", responses, `{"model":"large","input":"a"}`, c.alice...)
			for _, method := range []string{"GET", "DELETE"} {
				if w := g.do(method, "/v1/responses/resp_1", "", c.bob...); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `"response_not_found"`) {
					t.Errorf("%s: status %d, %s", method, w.Code, w.Body)
				}
			}
			w := g.do("POST", responses, from("resp_1", "auto"), c.bob...)
			if _, _, param, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || param != "previous_response_id" || code != "previous_response_not_found" {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
			if asked := k.all(); len(asked) != 1 {
				t.Errorf("asked %q", asked)
			}
			// Nor does an ID that bob's engine was made to give again become his.
			k.given = 0
			g.do("POST", responses, `{"model":"small","input":"a"}`, c.bob...)
			if w := g.do("GET", "/v1/responses/resp_1", "", c.alice...); w.Body.String() != `{ "engine":"large@a" }` {
				t.Errorf("status %d, %s", w.Code, w.Body)
			}
		})
	}
}

func TestKeysDoNotCountTheEndOfAResponse(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Rate: 1e-3, Burst: 1}})
	var k keeping
	g := newRig(t, nil, k.fleet, withKeys(file))
	header := []string{"Authorization", "Bearer " + secrets["alice"]}
	g.do("POST", responses, `{"model":"auto","input":"a"}`, header...)
	if w := g.do("POST", "/v1/responses/resp_1/cancel", "", header...); w.Code != http.StatusTeapot {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

func TestWhatGoesOnFromAResponseGoesNowhereElse(t *testing.T) {
	for name, c := range map[string]struct {
		fail   transport
		status int
		code   string
	}{
		"unreachable": {refuses, http.StatusBadGateway, "upstream_unavailable"},
		"busy":        {says(http.StatusServiceUnavailable, jsonType, theirError), http.StatusServiceUnavailable, ""},
	} {
		fail, k := transport(nil), keeping{}
		g := newRig(t, nil, k.fleet, func(o *serving.Options) {
			o.Backends[smallOnA].Transport = transport(func(r *http.Request) (*http.Response, error) {
				if fail != nil {
					return fail(r)
				}
				return k.replica("small@a")(r)
			})
		})
		g.do("POST", responses, `{"model":"auto","input":"a"}`)
		fail = c.fail
		w := g.do("POST", responses, from("resp_1", "auto"))
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != c.status || code != c.code || w.Header().Get("X-Gearshift-Attempts") != "1" {
			t.Errorf("%s: status %d, %s", name, w.Code, w.Body)
		}
		if asked := k.all(); len(asked) != 1 {
			t.Errorf("%s: asked %q", name, asked)
		}
	}
	var k keeping
	g := newRig(t, nil, k.fleet)
	g.do("POST", responses, `{"model":"auto","input":"a"}`)
	g.core.Ledger().SetUp(smallOnA, false)
	w := g.do("POST", responses, from("resp_1", "auto"))
	if message, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusServiceUnavailable || code != "no_replica" || !strings.Contains(message, `"small@a"`) || w.Header().Get("Retry-After") == "" {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
	if asked := k.all(); len(asked) != 1 {
		t.Errorf("asked %q", asked)
	}
	// It can still be read there, if the engine answers.
	if w := g.do("GET", "/v1/responses/resp_1", ""); w.Code != http.StatusTeapot {
		t.Errorf("status %d, %s", w.Code, w.Body)
	}
}

// TestWhatGoesOnFromAResponseWaits has it wait for its own replica, though others have
// room, and hold up nobody.
func TestWhatGoesOnFromAResponseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeping
		g := newRig(t, nil, k.fleet)
		g.core.Ledger().SetUp(smallOnB, false)
		g.do("POST", responses, `{"model":"small","input":"a"}`) // on small@a
		g.core.Ledger().SetUp(smallOnB, true)
		first, _ := g.core.Ledger().Begin(smallOnA, 0)
		second, _ := g.core.Ledger().Begin(smallOnA, 0)
		ended := make(chan *httptest.ResponseRecorder, 1)
		go func() { ended <- g.do("POST", responses, from("resp_1", "auto")) }()
		synctest.Wait()
		if w := g.do("POST", responses, `{"model":"small","input":"c"}`); w.Header().Get("X-Gearshift-Replica") != "small@b" {
			t.Errorf("another: status %d, header %v", w.Code, w.Header())
		}
		if len(ended) != 0 {
			t.Fatal("it did not wait")
		}
		time.Sleep(30 * time.Millisecond)
		first.End()
		if w := <-ended; w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@a" || w.Header().Get("X-Gearshift-Waited-Ms") != "30" {
			t.Errorf("status %d, header %v", w.Code, w.Header())
		}
		second.End()
		g.Close()
	})
}

// behind is a transport to a server that can be asked for its health.
type behind struct {
	transport
	base string
}

func (b behind) Base() *url.URL {
	u, err := url.Parse(b.base)
	if err != nil {
		panic(err)
	}
	return u
}

func (b behind) Get(ctx context.Context, path string) (*http.Response, error) {
	return says(http.StatusOK, jsonType, "{}")(nil)
}

func TestTheModelOfWhatGoesOnFromAResponse(t *testing.T) {
	for _, c := range []struct {
		name, model, base string // of small@b
		status            int
		want              string // replica, or the error's code
	}{
		{"its own", "large", "http://two", 200, "large@a"},
		{"one behind another server", "small", "http://two", 400, "model_mismatch"},
		{"one behind the same server", "small", "http://one", 200, "small@b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var k keeping
			g := newRig(t, nil, func(o *serving.Options) {
				o.Backends[smallOnA].Transport = behind{k.replica("small@a"), "http://three"}
				o.Backends[smallOnB].Transport = behind{k.replica("small@b"), c.base}
				o.Backends[largeA].Transport = behind{k.replica("large@a"), "http://one"}
			})
			g.do("POST", responses, `{"model":"large","input":"a"}`)
			w := g.do("POST", responses, from("resp_1", c.model))
			got := w.Header().Get("X-Gearshift-Replica")
			if w.Code != http.StatusOK {
				_, _, _, got = readError(t, w.Body.Bytes())
			}
			if w.Code != c.status || got != c.want {
				t.Errorf("status %d, %q; want %d, %q", w.Code, got, c.status, c.want)
			}
		})
	}
	var k keeping
	g := newRig(t, nil, k.fleet)
	g.do("POST", responses, `{"model":"small","input":"a"}`)
	w := g.do("POST", responses, from("resp_1", "auto"), "X-Gearshift-Min-Quality", "0.9")
	if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusBadRequest || code != "quality_not_found" {
		t.Errorf("below the least quality: status %d, %s", w.Code, w.Body)
	}
}

func TestWhatAnEngineSaysOfAResponse(t *testing.T) {
	for name, c := range map[string]struct {
		engine transport
		status int
		code   string
		says   string
	}{
		"an error of its own":   {says(http.StatusNotFound, jsonType, theirError), 404, "", "busy"},
		"nothing":               {refuses, 502, "upstream_unavailable", "could not be reached"},
		"a page":                {says(http.StatusNotFound, "text/html", "<html>"), 404, "upstream_error", "Not Found"},
		"plain text":            {says(http.StatusNotFound, "text/plain; charset=utf-8", "no such page\n"), 404, "upstream_error", "no such page"},
		"the way to elsewhere":  {says(http.StatusFound, jsonType, "{}"), 502, "upstream_error", "Found"},
		"an error of its own 5": {says(http.StatusInternalServerError, jsonType, theirError), 500, "", "busy"},
	} {
		t.Run(name, func(t *testing.T) {
			var k keeping
			g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
				if r.Method == http.MethodPost {
					return k.replica("small@a")(r)
				}
				return c.engine(r)
			}))
			g.do("POST", responses, `{"model":"auto","input":"a"}`)
			for range 20 { // of requests, as many failures would have the replica ejected
				w := g.do("GET", "/v1/responses/resp_1", "")
				if message, _, _, code := readError(t, w.Body.Bytes()); w.Code != c.status || code != c.code || !strings.Contains(message, c.says) {
					t.Fatalf("status %d, %s", w.Code, w.Body)
				}
			}
			if state := g.Status().Replicas[smallOnA]; !state.Up {
				t.Errorf("the replica is judged by it: %+v", state)
			}
		})
	}
}

func TestAResponseIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k keeping
		g := newRig(t, nil, k.fleet)
		g.do("POST", responses, `{"model":"auto","input":"a"}`)
		time.Sleep(30*24*time.Hour - time.Second)
		g.do("POST", responses, `{"model":"auto","input":"a"}`)
		if w := g.do("GET", "/v1/responses/resp_1", ""); w.Code != http.StatusTeapot {
			t.Errorf("within 30 days: status %d, %s", w.Code, w.Body)
		}
		time.Sleep(time.Second)
		for id, want := range map[string]int{"resp_1": http.StatusNotFound, "resp_2": http.StatusTeapot} {
			if w := g.do("GET", "/v1/responses/"+id, ""); w.Code != want {
				t.Errorf("%s: status %d, %s", id, w.Code, w.Body)
			}
		}
		g.Close()
	})
}

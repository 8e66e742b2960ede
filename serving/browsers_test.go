package serving_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

const page = "https://chat.example.com"

// cors lets the page ask.
func cors(o *serving.Options) {
	o.Config.CORS = access.CORS{Origins: []string{page}, MaxAge: time.Minute}
	o.Version = "7.8.9"
}

func TestPathsAsClientsWriteThem(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), cors)
	for _, c := range []struct{ method, path string }{
		{"POST", "/v1/chat/completions"}, {"POST", "/v1//chat/completions"}, {"POST", "/v1/chat/completions/"}, {"POST", "//v1/chat/completions"},
		{"POST", "/chat/completions"}, {"POST", "/completions/"}, {"POST", "//embeddings"},
		{"GET", "//v1/models"}, {"GET", "/v1/models/"}, {"GET", "/models"}, {"GET", "/v1/models//small/"}, {"GET", "/models/large"},
		{"GET", "/healthz/"}, {"GET", "/health"}, {"HEAD", "/health"}, {"GET", "/ping"}, {"GET", "//version"}, {"GET", "/v1//gearshift/status/"},
	} {
		body := ""
		if c.method == "POST" {
			body = ask
		}
		w := httptest.NewRecorder()
		r := httptest.NewRequest(c.method, "/", strings.NewReader(body)) // which would read // as a host
		r.URL.Path = c.path
		r.Header.Set("Content-Type", jsonType)
		g.Handler().ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("%s %s: status %d, %s", c.method, c.path, w.Code, w.Body)
		}
	}
	if got := g.do("GET", "/version", "").Body.String(); got != `{"version":"7.8.9"}` {
		t.Errorf("version %s", got)
	}
	if w := g.do("GET", "/v1/models/org/model/", ""); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `no model \"org/model\"`) {
		t.Errorf("a model with a slash: %d, %s", w.Code, w.Body)
	}
}

// What clients ask for beside OpenAI's endpoints reaches engines that have it, however the
// path is written; an application's own metadata.task is its own.
func TestCaseClientPaths(t *testing.T) {
	var asked []string
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		asked = append(asked, r.URL.Path)
		return says(http.StatusOK, jsonType, fine)(r)
	}), cors)
	for path, want := range map[string]string{
		"/v1/messages": "/v1/messages", "/v1//chat/completions": "/v1/chat/completions", "/v1/chat/completions/": "/v1/chat/completions",
		"/v1/rerank": "/v1/rerank", "/tokenize": "/tokenize", "/v1/audio/transcriptions": "/v1/audio/transcriptions",
	} {
		asked = nil
		if w := g.do("POST", path, `{"model":"small","messages":[{"role":"user","content":"hi"}]}`); w.Code != http.StatusOK || !slices.Equal(asked, []string{want}) {
			t.Errorf("%s: status %d, the engine was asked for %q", path, w.Code, asked)
		}
	}
	if w := g.do("OPTIONS", "/v1/chat/completions", "", "Origin", page, "Access-Control-Request-Method", "POST"); w.Code != http.StatusNoContent {
		t.Errorf("preflight: status %d", w.Code)
	}
	if w := g.do("POST", chat, `{"model":"small","metadata":{"task":"invoices"},"messages":[{"role":"user","content":"hi"}]}`); w.Code != http.StatusOK {
		t.Errorf("metadata.task: status %d, %s", w.Code, w.Body)
	}
}

func TestPreflights(t *testing.T) {
	file, _ := keysFile(t, map[string]access.Limits{"alice": {}}) // a preflight brings no key
	g := newRig(t, says(http.StatusOK, jsonType, fine), cors, func(o *serving.Options) { o.Config.KeysFile = file })
	for _, c := range []struct {
		path, origin, methods string
		status                int
	}{
		{"/v1/chat/completions", page, "POST", http.StatusNoContent},
		{"/v1//chat/completions/", page, "POST", http.StatusNoContent},
		{"/v1/models", page, "GET", http.StatusNoContent},
		{"/v1/responses/resp_1", page, "GET, DELETE", http.StatusNoContent},
		{"/healthz", page, "GET, HEAD", http.StatusNoContent},
		{"/v1/chat/completions", "https://evil.example", "", http.StatusForbidden},
		{"/v1/chat/completions", "null", "", http.StatusForbidden},
		{"/v1/nowhere", page, "", http.StatusNotFound},
	} {
		w := g.do("OPTIONS", c.path, "", "Origin", c.origin, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,content-type,x-gearshift-task")
		h := w.Header()
		got := slices.Sorted(strings.SplitSeq(h.Get("Access-Control-Allow-Methods"), ", "))
		want := slices.Sorted(strings.SplitSeq(c.methods, ", "))
		if w.Code != c.status || !slices.Equal(got, want) {
			t.Errorf("%s of %s: status %d, methods %q, want %d, %q; %s", c.path, c.origin, w.Code, got, c.status, want, w.Body)
		}
		allowed := c.status == http.StatusNoContent
		if (h.Get("Access-Control-Allow-Origin") == page) != allowed || (h.Get("Access-Control-Allow-Headers") == "authorization, content-type, x-gearshift-task") != allowed || (h.Get("Access-Control-Max-Age") == "60") != allowed {
			t.Errorf("%s of %s: header %v", c.path, c.origin, h)
		}
		if c.status == http.StatusForbidden {
			if message, _, _, code := readError(t, w.Body.Bytes()); code != "cross_origin" || !strings.Contains(message, "serving.cors.origins") {
				t.Errorf("%s: %s", c.origin, w.Body)
			}
		}
	}
}

// TestPagesReadAnswers: a page that may ask reads answers, errors among them; the engine's
// word on that counts for nothing.
func TestPagesReadAnswers(t *testing.T) {
	var sent http.Header
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		sent = r.Header.Clone()
		answer := reply(http.StatusOK, jsonType, io.NopCloser(strings.NewReader(fine)))
		answer.Header.Set("Access-Control-Allow-Origin", "https://evil.example")
		answer.Header.Set("Access-Control-Allow-Credentials", "true")
		answer.Header.Set("Vary", "Accept")
		return answer, nil
	}), cors)
	w := g.do("POST", chat, ask, "Origin", page, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Referer", page+"/secret", "X-Kept", "yes")
	h := w.Header()
	if w.Code != http.StatusOK || h.Get("Access-Control-Allow-Origin") != page || h.Get("Access-Control-Allow-Credentials") != "" || !slices.Equal(h.Values("Vary"), []string{"Origin", "Accept"}) {
		t.Errorf("status %d, header %v", w.Code, h)
	}
	for _, name := range []string{"X-Gearshift-Variant", "X-Gearshift-Replica", "X-Gearshift-Policy", "X-Gearshift-Waited-Ms", "X-Request-Id", "Retry-After"} {
		if !strings.Contains(h.Get("Access-Control-Expose-Headers"), name) {
			t.Errorf("a page may read %q, and not %s", h.Get("Access-Control-Expose-Headers"), name)
		}
	}
	for name := range sent {
		if wire.Browsing(name) {
			t.Errorf("the engine gets %s", name)
		}
	}
	if sent.Get("X-Kept") != "yes" {
		t.Errorf("the engine gets %v", sent)
	}
	if w := g.do("POST", chat, `{`, "Origin", page); w.Code != http.StatusBadRequest || w.Header().Get("Access-Control-Allow-Origin") != page {
		t.Errorf("an error: %d, %v", w.Code, w.Header())
	}
	if h := g.do("GET", "/v1/models", "", "Origin", "https://evil.example").Header(); h.Get("Access-Control-Allow-Origin") != "" || h.Get("Vary") != "Origin" {
		t.Errorf("another's page: %v", h)
	}
}

func TestPagesOfOtherSitesChangeNothing(t *testing.T) {
	reached := 0
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		reached++
		return says(http.StatusOK, jsonType, fine)(r)
	}), cors)
	for _, c := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		code                     string
	}{
		{"another's fetch", "POST", chat, ask, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"}, 403, "cross_origin"},
		{"another's fetch as text", "POST", chat, ask, []string{"Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site", "Content-Type", "text/plain"}, 403, "cross_origin"},
		{"a form in a frame", "POST", chat, ask, []string{"Origin", "null", "Content-Type", "application/x-www-form-urlencoded"}, 403, "cross_origin"},
		{"another's lease", "POST", "/v1/gearshift/route", "", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin"},
		{"another's end of a lease", "POST", "/v1/gearshift/route/x/end", "", []string{"Origin", "http://localhost:3000", "Sec-Fetch-Site", "same-site"}, 403, "cross_origin"},
		{"another's DELETE", "DELETE", "/v1/responses/x", "", []string{"Origin", "https://evil.example"}, 403, "cross_origin"},
		{"another's DELETE of nothing", "DELETE", "/nowhere", "", []string{"Origin", "https://evil.example"}, 403, "cross_origin"},
		{"an allowed page's text", "POST", chat, ask, []string{"Origin", page, "Content-Type", "text/plain"}, 415, "unsupported_media_type"},
		{"an allowed page's form", "POST", chat, ask, []string{"Origin", page, "Content-Type", "multipart/form-data; boundary=x"}, 415, "unsupported_media_type"},
		{"an allowed page's bytes without a type", "POST", chat, ask, []string{"Origin", page, "Content-Type", ""}, 415, "unsupported_media_type"},
		{"bytes without a type of the own page", "POST", chat, ask, []string{"Sec-Fetch-Site", "same-origin", "Content-Type", ""}, 415, "unsupported_media_type"},
		{"an allowed page", "POST", chat, ask, []string{"Origin", page, "Sec-Fetch-Site", "cross-site"}, 200, ""},
		{"the own page", "POST", chat, ask, []string{"Origin", "http://example.com", "Sec-Fetch-Site", "same-origin"}, 200, ""},
		{"no browser, without a type", "POST", chat, ask, []string{"Content-Type", ""}, 200, ""},
		{"no browser, with that of a form", "POST", chat, ask, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type"},
		{"another's link", "GET", "/v1/models", "", []string{"Sec-Fetch-Site", "cross-site"}, 200, ""},
	} {
		before := reached
		r := httptest.NewRequest(c.method, c.path, strings.NewReader(c.body))
		r.Header.Set("Content-Type", jsonType)
		for i := 0; i < len(c.header); i += 2 {
			if r.Header.Set(c.header[i], c.header[i+1]); c.header[i+1] == "" {
				r.Header.Del(c.header[i])
			}
		}
		w := httptest.NewRecorder()
		g.Handler().ServeHTTP(w, r)
		code := ""
		if w.Code != http.StatusOK {
			_, _, _, code = readError(t, w.Body.Bytes())
		}
		if w.Code != c.status || code != c.code {
			t.Errorf("%s: %d %s, want %d %s", c.name, w.Code, code, c.status, c.code)
		}
		if got := reached > before; got != (c.status == http.StatusOK && c.method == "POST") {
			t.Errorf("%s: reached a replica: %v", c.name, got)
		}
	}
}

// onLoopback is a request that comes in on an address of this machine.
func onLoopback(h http.Handler, ip, host, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("GET", path, nil)
	r.Host = host
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 8080})))
	return w
}

func TestNamesOnALoopbackAddress(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.Hosts = []string{"api.example.com"}
		o.Config.Admin.Addr = "0.0.0.0:8081"
	})
	for host, want := range map[string]int{"localhost:8080": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "api.example.com": 200, "rebound.example:8080": 403} {
		for path, h := range map[string]http.Handler{"/v1/models": g.Handler(), "/healthz": g.AdminHandler()} {
			w := onLoopback(h, "127.0.0.1", host, path)
			if w.Code != want {
				t.Errorf("%s as %s: status %d, want %d", path, host, w.Code, want)
			}
			if want != http.StatusForbidden {
				continue
			}
			if message, _, _, code := readError(t, w.Body.Bytes()); code != "wrong_host" || !strings.Contains(message, "serving.hosts") || !strings.Contains(message, host) {
				t.Errorf("%s as %s: %s", path, host, w.Body)
			}
		}
	}
	if w := onLoopback(g.Handler(), "10.0.0.7", "rebound.example:8080", "/v1/models"); w.Code != http.StatusOK {
		t.Errorf("on an address of the network: status %d", w.Code)
	}
}

// TestCORSChangesWhileServing: origins and names are taken over by a reload.
func TestCORSChangesWhileServing(t *testing.T) {
	w := &ward{}
	g := newRig(t, says(http.StatusOK, jsonType, fine), withReloader(w))
	allowed := func() string {
		return g.do("GET", "/v1/models", "", "Origin", page).Header().Get("Access-Control-Allow-Origin")
	}
	if got := allowed(); got != "" {
		t.Fatalf("without cors %q may read", got)
	}
	w.change.Config.CORS.Origins, w.change.Config.Hosts = []string{"*"}, []string{"api.example.com"}
	out, err := g.Reload("test")
	if err != nil || !slices.Equal(out.Changed, []string{"serving.cors.origins", "serving.hosts"}) || allowed() != "*" {
		t.Errorf("changed %q, %v: %q may read", out.Changed, err, allowed())
	}
	if got := onLoopback(g.Handler(), "::1", "api.example.com", "/healthz"); got.Code != http.StatusOK {
		t.Errorf("by a new name: %d", got.Code)
	}
	w.change.Config.CORS.Origins = []string{"chat.example.com"}
	if _, err := g.Reload("test"); err == nil || !strings.Contains(err.Error(), "cors.origins[0]") || allowed() != "*" {
		t.Errorf("a faulty origin: %v", err)
	}
}

package access

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/openai/wire"
)

// newGate is a gate for the holder of one key, of which at most one request may be in flight.
func newGate(t *testing.T) (gate *Gate, secret string) {
	t.Helper()
	key, secret, err := NewKey("team", Limits{Concurrency: 1}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	ring := NewRing([]Key{key}, nil)
	return New(Options{
		Ring: func() *Ring { return ring },
		Open: func(c *gin.Context) bool { return c.Request.URL.Path == "/healthz" },
		Free: func(c *gin.Context) bool { return c.Request.URL.Path == "/done" },
		Refuse: func(c *gin.Context, status int, e wire.Error) {
			c.AbortWithStatusJSON(status, gin.H{"code": string(e.Code)})
		},
		RetryAfter: func() time.Duration { return 1500 * time.Millisecond },
		Clock:      func() time.Duration { return 0 },
	}), secret
}

// ask sends a request through the gate to the handler.
func ask(gate *Gate, handler gin.HandlerFunc, method, path string, header ...string) *httptest.ResponseRecorder {
	g := gin.New()
	g.Use(gate.Unlock)
	g.Handle(method, path, handler)
	r := httptest.NewRequest(method, path, http.NoBody)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

// TestKeysStayHere: a key is taken from whichever header brings it, and what is no key of this
// router is passed on.
func TestKeysStayHere(t *testing.T) {
	gate, secret := newGate(t)
	var seen http.Header
	var tenant string
	note := func(c *gin.Context) { seen, tenant = c.Request.Header, Tenant(c) }
	for name, value := range map[string]string{"Authorization": "Bearer " + secret, "X-Api-Key": secret, "Api-Key": secret} {
		seen, tenant = nil, ""
		other := "X-Api-Key"
		if name == other {
			other = "Api-Key"
		}
		if w := ask(gate, note, http.MethodPost, "/work", name, value, other, "another's"); w.Code != http.StatusOK {
			t.Errorf("%s: status %d", name, w.Code)
		}
		if tenant != "team" || seen.Get(name) != "" || seen.Get(other) != "another's" {
			t.Errorf("%s: of %q, the handler sees %v", name, tenant, seen)
		}
	}
}

// TestWithoutAKey: only open paths are served, and each refusal says how to send a key.
func TestWithoutAKey(t *testing.T) {
	gate, _ := newGate(t)
	fine := func(*gin.Context) {}
	if w := ask(gate, fine, http.MethodGet, "/healthz"); w.Code != http.StatusOK {
		t.Errorf("an open path: status %d", w.Code)
	}
	for _, path := range []string{"/work", "/done"} {
		w := ask(gate, fine, http.MethodPost, path, "Authorization", "Bearer sk-guessed")
		if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") == "" {
			t.Errorf("%s: status %d, header %v", path, w.Code, w.Header())
		}
	}
}

// TestPlacesOfAKey: a request has one of its key's places until it ends, or until the lease that
// keeps the place does. What only reads, or frees, needs none.
func TestPlacesOfAKey(t *testing.T) {
	gate, secret := newGate(t)
	fine := func(*gin.Context) {}
	send := func(handler gin.HandlerFunc, method, path string) *httptest.ResponseRecorder {
		return ask(gate, handler, method, path, "Authorization", "Bearer "+secret)
	}
	full := func(when string) {
		t.Helper()
		w := send(fine, http.MethodPost, "/work")
		if h := w.Header(); w.Code != http.StatusTooManyRequests || h.Get(HeaderReason) != "concurrency_limit_exceeded" || h.Get("Retry-After") != "2" || h.Get("Retry-After-Ms") != "1500" {
			t.Errorf("%s: status %d, header %v", when, w.Code, h)
		}
		if w := send(fine, http.MethodGet, "/list"); w.Code != http.StatusOK {
			t.Errorf("%s: what reads gets %d", when, w.Code)
		}
		if w := send(fine, http.MethodPost, "/done"); w.Code != http.StatusOK {
			t.Errorf("%s: what frees gets %d", when, w.Code)
		}
	}
	var held *Held
	send(func(c *gin.Context) {
		full("in flight")
		held = Of(c)
		held.Keep(true)
	}, http.MethodPost, "/work")
	full("leased")
	held.Holder().End()
	if w := send(fine, http.MethodPost, "/work"); w.Code != http.StatusOK {
		t.Errorf("after the lease: status %d", w.Code)
	}
}

package serving_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// later answers with a status and a time after which to come again.
func later(status int, after string) transport {
	return func(*http.Request) (*http.Response, error) {
		r := reply(status, jsonType, http.NoBody)
		r.Header.Set("Retry-After", after)
		return r, nil
	}
}

// TestRetryAfterOfEnginesReachesClients: a client that the router refuses itself, because every
// replica that could answer has asked to be spared, is to wait for the first of them.
func TestRetryAfterOfEnginesReachesClients(t *testing.T) {
	for name, c := range map[string]struct {
		model    string
		replicas [3]transport
		want     string // of the router's own refusal, 2 s after the engines'
	}{
		"both":                     {"small", [3]transport{later(429, "30"), later(429, "12"), good}, "10"},
		"one does not ask":         {"small", [3]transport{later(429, "30"), says(429, jsonType, theirError), good}, "1"},
		"longer than is ever said": {"small", [3]transport{later(429, "99999999999"), later(429, "999999"), good}, "60"},
		"with another status":      {"large", [3]transport{good, good, later(429, "7")}, "5"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, c.replicas[0], c.replicas[1], c.replicas[2]), func(o *serving.Options) {
					o.Config.Overload.MaxQueue = 0
					for i := range o.Backends { // with a key of the router's own: it is no client's quota
						o.Backends[i].Transport = keyed{o.Backends[i].Transport.(transport), false}
					}
				})
				body := `{"model":"` + c.model + `","messages":[]}`
				w := g.do("POST", chat, body)
				if w.Code != 429 || w.Header().Get("Retry-After") == "" && c.want != "1" {
					t.Fatalf("the engine's own answer: %d, header %v", w.Code, w.Header())
				}
				time.Sleep(2 * time.Second)
				for i := range g.core.Table().Replicas { // all places are taken
					for range 2 {
						if _, ok := g.core.Ledger().Begin(i, 0); !ok {
							break
						}
					}
				}
				w = g.do("POST", chat, body)
				if w.Code != 429 || w.Header().Get("Retry-After") != c.want {
					t.Errorf("refused with %d, header %v, want Retry-After %s", w.Code, w.Header(), c.want)
				}
			})
		})
	}
}

package serving_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/control"
	"gearshift/serving/engines/agents"
)

// asleep is a crowd before a large model that sleeps, and wakes in so long once requests are held for it.
func asleep(t *testing.T, wakes time.Duration, change ...func(*serving.Options)) (*crowd, *loader) {
	t.Helper()
	vllm, err := agents.DialectNamed("vllm")
	if err != nil {
		t.Fatal(err)
	}
	e := newLoader("http://a", "READY")
	e.takes, e.wakes = time.Second, wakes
	c := &crowd{answers: map[string]answer{}}
	c.rig = newRig(t, takes(time.Second), append([]func(*serving.Options){withToken, keptAlive, func(o *serving.Options) {
		o.Config.Gauges.Interval = 0
		o.Config.Health.ProbeModels = false
		o.Config.Hold = config.Hold{For: 30 * time.Second, Most: 2}
		o.Backends[largeA] = serving.Backend{Transport: e, Lifecycle: vllm, Model: "large"}
		o.Modules = append(o.Modules, control.NewWaking(o.Router.Ledger(), nil))
	}}, change...)...)
	time.Sleep(time.Second)
	if w := c.order("POST", "/admin/replicas/large@a/sleep?wait", ""); w.Code != http.StatusOK {
		t.Fatalf("the sleep: %d, %s", w.Code, w.Body)
	}
	time.Sleep(time.Second)
	return c, e
}

const askLarge = `{"model":"large","messages":[{"role":"user","content":"hi"}]}`

// asks sends a request for the large model by a name.
func (c *crowd) asks(ctx context.Context, name, body string) {
	c.all.Go(func() {
		r := httptest.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(body))
		r.Header.Set("Content-Type", jsonType)
		w := httptest.NewRecorder()
		began := time.Now()
		c.Handler().ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		c.answers[name] = answer{w.Code, w.Header(), w.Body.Bytes(), time.Since(began)}
	})
	synctest.Wait()
}

// Requests for a model that sleeps wake it and are answered by it; a stream's client gets comments meanwhile, and
// others are answered at once.
func TestHeldRequestsAreAnsweredAfterAWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := asleep(t, 20*time.Second)
		c.asks(t.Context(), "whole", askLarge)
		c.asks(t.Context(), "stream", strings.Replace(askLarge, "{", `{"stream":true,`, 1))
		if got := c.metric(t, `gearshift_held_requests{variant="large"}`); got != "2" || c.core.Ledger().Awaited(large) != 2 {
			t.Errorf("%s held", got)
		}
		c.asks(t.Context(), "other", ask)
		c.all.Wait()
		if a := c.answer("other"); a.status != http.StatusOK || a.took != time.Second {
			t.Errorf("the small model's answer: %d after %v", a.status, a.took)
		}
		if a := c.answer("whole"); a.status != http.StatusOK || a.took != 21*time.Second || a.header.Get("X-Gearshift-Replica") != "large@a" || a.header.Get("X-Gearshift-Waited-Ms") != "20000" {
			t.Errorf("the answer in one piece: %d after %v, %v", a.status, a.took, a.header)
		}
		if a := c.answer("stream"); a.status != http.StatusOK || !strings.HasPrefix(string(a.body), kept) {
			t.Errorf("the stream: %d, %s", a.status, a.body)
		}
		for name, want := range map[string]string{
			`gearshift_held_requests{variant="large"}`:             "0",
			`gearshift_held_total{result="begun",variant="large"}`: "2",
			`gearshift_held_seconds_count{variant="large"}`:        "2",
		} {
			if got := c.metric(t, name); got != want {
				t.Errorf("%s is %s, want %s", name, got, want)
			}
		}
	})
}

// The refusal for a model that is not awake in time, or for which too many wait, reports since when it is asleep, and when to come
// again; before the first comment the client of a stream gets the status too.
func TestHeldRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := asleep(t, time.Minute, func(o *serving.Options) { o.Config.KeepAlive = time.Hour })
		c.asks(t.Context(), "whole", askLarge)
		c.asks(t.Context(), "stream", strings.Replace(askLarge, "{", `{"stream":true,`, 1))
		c.asks(t.Context(), "third", askLarge)
		c.all.Wait()
		for name, want := range map[string]struct {
			took            time.Duration
			reason, message string
		}{
			"whole":  {30 * time.Second, "asleep", `model "large" is still being loaded or woken, and the request was held for 30s; try again later`},
			"stream": {30 * time.Second, "asleep", `model "large" is still`},
			"third":  {0, "held_full", "too many requests are held for a model already"},
		} {
			a := c.answer(name)
			message, kind, _, code := readError(t, a.body)
			if a.status != http.StatusServiceUnavailable || a.took != want.took || kind != "server_error" || code != want.reason || !strings.Contains(message, want.message) {
				t.Errorf("%s: %d after %v, %s", name, a.status, a.took, a.body)
			}
			if a.header.Get("X-Gearshift-Reason") != want.reason || a.header.Get("Retry-After") != "1" {
				t.Errorf("%s: %v", name, a.header)
			}
		}
		for result, want := range map[string]string{"timed_out": "2", "full": "1", "begun": "0"} {
			if got := c.metric(t, `gearshift_held_total{result="`+result+`",variant="large"}`); got != want {
				t.Errorf("%s %s, want %s", got, result, want)
			}
		}
	})
}

// The refusal for a model that cannot be woken reports that it is asleep, and since when.
func TestARefusalSaysSinceWhenAModelSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := asleep(t, 0, func(o *serving.Options) { o.Modules = nil }) // nothing wakes it
		since := time.Now().Add(-time.Second).UTC().Format(time.RFC3339)
		c.asks(t.Context(), "whole", askLarge)
		c.all.Wait()
		if message, _, _, _ := readError(t, c.answer("whole").body); !strings.Contains(message, `model "large" has been asleep since `+since) {
			t.Errorf("%s, want it asleep since %s", message, since)
		}
	})
}

// A client that leaves is not counted any more, and a server that ends answers those that are held.
func TestHeldRequestsEndWithTheirClientsAndTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := asleep(t, time.Minute)
		ctx, leave := context.WithCancel(t.Context())
		c.asks(ctx, "leaves", askLarge)
		c.asks(t.Context(), "stays", askLarge)
		leave()
		synctest.Wait()
		if n := c.core.Ledger().Awaited(large); n != 1 || c.waiting() != 1 || c.core.Ledger().InFlight() != 0 {
			t.Errorf("%d held, %d wait once one has left", n, c.waiting())
		}
		c.Close()
		c.all.Wait()
		if a := c.answer("stays"); a.status != http.StatusServiceUnavailable || a.header.Get("X-Gearshift-Reason") != "not_ready" || c.core.Ledger().Awaited(large) != 0 {
			t.Errorf("at the end: %d, %v, %d held", a.status, a.header, c.core.Ledger().Awaited(large))
		}
	})
}

// Without serving.hold a request for a model that sleeps is refused at once.
func TestNothingIsHeldByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := asleep(t, 0, func(o *serving.Options) { o.Config.Hold = config.DefaultHold() })
		c.asks(t.Context(), "whole", askLarge)
		if a := c.answer("whole"); a.status != http.StatusServiceUnavailable || a.took != 0 || a.header.Get("X-Gearshift-Reason") != "no_replica" {
			t.Errorf("%d after %v, %v", a.status, a.took, a.header)
		}
	})
}

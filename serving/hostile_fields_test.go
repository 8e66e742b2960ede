package serving_test

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
)

// trusting makes a server that believes the proxies.
func trusting(list ...string) func(*serving.Options) {
	return func(o *serving.Options) { o.Config.TrustedProxies = list }
}

// What a client says of where it comes from, and of what the router decides, does not
// reach the replica; where it does come from does. A test's client is at 192.0.2.1.
func TestClientsDoNotSpeakForTheRouter(t *testing.T) {
	smuggled := []string{
		"X-Gearshift-Variant", "large", "X-Gearshift-Tenant", "root", "X-Gearshift-Admin", "1", "X-Gearshift-Task", "chat",
		"X-Forwarded-For", "6.6.6.6", "X-Forwarded-Host", "bank.example", "X-Forwarded-Proto", "https", "X-Forwarded-Prefix", "/x",
		"Forwarded", "for=6.6.6.6", "Via", "1.1 trusted", "X-Real-Ip", "6.6.6.6", "True-Client-Ip", "6.6.6.6", "Cf-Connecting-Ip", "6.6.6.6", "X-Original-Url", "/admin",
	}
	for name, c := range map[string]struct {
		trusted   []string
		forwarded string
	}{
		"no proxy is trusted":       {nil, "192.0.2.1"},
		"another proxy is trusted":  {[]string{"10.0.0.0/8"}, "192.0.2.1"},
		"the client's proxy is one": {[]string{"192.0.2.0/24"}, "6.6.6.6 192.0.2.1"},
	} {
		for _, path := range []string{chat, "/v1/embeddings", "/v1/responses"} {
			var got http.Header
			g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
				got = r.Header.Clone()
				return says(http.StatusOK, jsonType, fine)(r)
			}), trusting(c.trusted...))
			if w := g.do("POST", path, `{"model":"small","input":"x","messages":[]}`, append(slices.Clone(smuggled), "X-Custom", "kept", "Traceparent", "00-1")...); w.Code != http.StatusOK {
				t.Fatalf("status %d, %s", w.Code, w.Body)
			}
			for i := 0; i < len(smuggled); i += 2 {
				if smuggled[i] != "X-Forwarded-For" && got.Get(smuggled[i]) != "" {
					t.Errorf("%s, %s: %s went on as %q", name, path, smuggled[i], got.Get(smuggled[i]))
				}
			}
			if forwarded := strings.Join(got["X-Forwarded-For"], " "); forwarded != c.forwarded {
				t.Errorf("%s, %s: the replica is told of %q, want %q", name, path, forwarded, c.forwarded)
			}
			if got.Get("X-Custom") != "kept" || got.Get("Traceparent") != "00-1" {
				t.Errorf("%s: the replica got %v", path, got)
			}
		}
	}
}

// An engine does not speak to browsers, or to proxies, in the router's name.
func TestEnginesDoNotSpeakForTheRouter(t *testing.T) {
	stopped := http.Header{
		"Set-Cookie": {"a=b"}, "Server": {"uvicorn"}, "Strict-Transport-Security": {"max-age=1"}, "Alt-Svc": {`h3=":443"`},
		"Access-Control-Allow-Origin": {"*"}, "Access-Control-Allow-Credentials": {"true"}, "Public-Key-Pins": {"x"}, "Clear-Site-Data": {`"*"`},
		"Content-Security-Policy": {"default-src *"}, "X-Accel-Redirect": {"/etc/passwd"}, "X-Powered-By": {"x"}, "Via": {"x"}, "Refresh": {"0"},
		"Connection": {"X-Hop"}, "X-Hop": {"1"}, "Keep-Alive": {"timeout=5"}, "Proxy-Authenticate": {"Basic"}, "Trailer": {"X"}, "Upgrade": {"h2c"},
		"X-Gearshift-Policy": {"mine"}, "X-Frame-Options": {"ALLOWALL"}, "Cross-Origin-Opener-Policy": {"unsafe-none"}, "Nel": {"{}"},
	}
	passed := http.Header{"Openai-Processing-Ms": {"7"}, "X-Ratelimit-Remaining-Tokens": {"9"}, "X-Vendor": {"v"}, "Cache-Control": {"no-store"}}
	for _, stream := range []bool{false, true} {
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			kind, body := jsonType, fine
			if stream {
				kind, body = eventType, "data: {\"choices\":[{\"delta\":{\"content\":\"a\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"
			}
			r := reply(http.StatusOK, kind, io.NopCloser(strings.NewReader(body)))
			for _, h := range []http.Header{stopped, passed} {
				for name, values := range h {
					r.Header[name] = values
				}
			}
			return r, nil
		}))
		w := g.do("POST", chat, ask)
		for name, values := range stopped {
			if got := w.Header().Get(name); got == values[0] {
				t.Errorf("the client got %s: %s", name, got)
			}
		}
		for name, values := range passed {
			if got := w.Header().Get(name); got != values[0] {
				t.Errorf("the client got %s: %q, want %q", name, got, values[0])
			}
		}
	}
}

func TestAccessLinesHaveTheClientsAddress(t *testing.T) {
	for _, c := range []struct {
		trusted   []string
		forwarded string
		want      string
	}{{nil, "6.6.6.6", "client=192.0.2.1"}, {[]string{"192.0.2.1"}, "6.6.6.6, 203.0.113.9", "client=203.0.113.9"}, {[]string{"192.0.2.1"}, "", "client=192.0.2.1"}} {
		g := newRig(t, says(http.StatusOK, jsonType, fine), trusting(c.trusted...), func(o *serving.Options) { o.Config.Log.Access = config.AccessAll })
		g.do("POST", chat, ask, "X-Forwarded-For", c.forwarded)
		if text := g.logs.String(); !strings.Contains(text, c.want+"\n") {
			t.Errorf("%q trusted: want %s in %s", c.trusted, c.want, text)
		}
		g.do("POST", chat, `{"model":"none"}`, "X-Forwarded-For", c.forwarded)
		if text := g.logs.String(); strings.Count(text, c.want) != 2 {
			t.Errorf("of a refused one: %s", text)
		}
	}
}

func TestMetricsNeedAKeyWhereKeysAreSet(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	for _, c := range []struct {
		metrics                string
		open, without, withKey int
	}{{config.MetricsKey, 200, 401, 200}, {config.MetricsOpen, 200, 200, 200}, {config.MetricsOff, 404, 401, 404}} {
		set := func(o *serving.Options) { o.Config.Metrics = c.metrics }
		g, keyed := newRig(t, nil, set), newRig(t, nil, set, withKeys(file), withToken)
		for _, x := range []struct {
			g      *rig
			header []string
			want   int
		}{{g, nil, c.open}, {keyed, nil, c.without}, {keyed, []string{"Authorization", "Bearer " + secrets["alice"]}, c.withKey}} {
			if w := x.g.do("GET", "/metrics", "", x.header...); w.Code != x.want {
				t.Errorf("%s with %v: status %d, want %d", c.metrics, x.header, w.Code, x.want)
			}
		}
		if w := keyed.order("GET", "/metrics", ""); w.Code != http.StatusOK {
			t.Errorf("%s on the admin listener: status %d", c.metrics, w.Code)
		}
	}
	if config.Default().Metrics != config.MetricsKey {
		t.Error("by default metrics need no key")
	}
}

// A client that guesses the admin token gets slower answers with every guess, and a line in
// the log; who has it is not kept waiting.
func TestGuessesOfTheAdminTokenAreSlowedAndLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := newRig(t, nil, withToken, func(o *serving.Options) {
			o.Clock = func() time.Duration { return time.Since(start) }
		})
		looked := 0
		answers := make(chan int)
		const guessers, each = 50, 40
		for range guessers {
			go func() {
				for range each {
					answers <- g.order("GET", "/admin/status", "", "Authorization", "Bearer guessed-token-of-mine").Code
				}
			}()
		}
		for range guessers * each {
			switch <-answers {
			case http.StatusUnauthorized:
				looked++
			case http.StatusTooManyRequests:
			default:
				t.Fatal("a guess was let in")
			}
		}
		if took := time.Since(start); looked > 1000 || float64(looked) > 20+15*took.Seconds() {
			t.Errorf("%d of %d guesses were looked at in %v", looked, guessers*each, took)
		}
		text := g.logs.String()
		if n := strings.Count(text, "wrong admin token"); n == 0 || n > looked || !strings.Contains(text, "client=192.0.2.1 method=GET path=/admin/status failed=1\n") {
			t.Errorf("%d lines: %.300s", n, text)
		}
		if strings.Contains(text, "guessed-token") {
			t.Error("the log tells the guess")
		}
		time.Sleep(5 * time.Second)
		before := time.Now()
		if w := g.order("GET", "/admin/status", ""); w.Code != http.StatusOK || time.Since(before) > 0 {
			t.Errorf("the operator: status %d after %v", w.Code, time.Since(before))
		}
	})
}

package serving_test

import (
	"fmt"
	"io"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/config"
)

// keysFile writes a file of new keys, by name, and returns their secrets.
func keysFile(t *testing.T, limits map[string]access.Limits) (file string, secrets map[string]string) {
	t.Helper()
	var text strings.Builder
	secrets = map[string]string{}
	for name, l := range limits {
		k, secret, err := access.NewKey(name, l, time.Unix(0, 0))
		if err != nil {
			t.Fatal(err)
		}
		text.Write(k.Line())
		secrets[name] = secret
	}
	file = filepath.Join(t.TempDir(), "keys")
	write(t, file, text.String())
	return file, secrets
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func withKeys(file string) func(*serving.Options) {
	return func(o *serving.Options) { o.Config.KeysFile = file }
}

func TestKeysAreAskedForEverywhere(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file))
	for _, c := range []struct{ method, path, body string }{
		{"POST", chat, ask}, {"POST", "/v1/completions", ask}, {"GET", "/v1/models", ""}, {"GET", "/v1/models/auto", ""},
		{"GET", "/v1/gearshift/status", ""}, {"POST", "/v1/gearshift/route", "{}"}, {"POST", "/v1/gearshift/route/x/end", ""},
		{"GET", "/nothing/here", ""}, {"DELETE", chat, ""},
	} {
		for _, header := range [][]string{
			nil, {"Authorization", "Bearer "}, {"Authorization", "Bearer gs-wrong"}, {"Authorization", secrets["alice"]},
			{"Authorization", "Basic " + secrets["alice"]}, {"X-Api-Key", "Bearer " + secrets["alice"]}, {"Cookie", "key=" + secrets["alice"]},
		} {
			w := g.do(c.method, c.path, c.body, header...)
			if _, kind, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusUnauthorized || code != "invalid_api_key" || kind != "invalid_request_error" || w.Header().Get("WWW-Authenticate") == "" {
				t.Errorf("%s %s with %v: status %d, %s, %s", c.method, c.path, header, w.Code, kind, code)
			}
		}
	}
	if s := g.Status(); s.Total.Requests != 0 || s.InFlight != 0 {
		t.Errorf("requests without a key were routed: %+v", s)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if w := g.do("GET", path, ""); w.Code != http.StatusOK {
			t.Errorf("%s: status %d", path, w.Code)
		}
	}
	for _, header := range [][]string{
		{"Authorization", "Bearer " + secrets["alice"]}, {"Authorization", "bearer  " + secrets["alice"]},
		{"X-Api-Key", secrets["alice"]}, {"Api-Key", secrets["alice"]},
		{"Authorization", "Bearer of-another-service", "X-Api-Key", secrets["alice"]},
	} {
		if w := g.do("POST", chat, ask, header...); w.Code != http.StatusOK {
			t.Errorf("with %v: status %d, %s", header[:1], w.Code, w.Body)
		}
	}
}

// What reaches an upstream server holds no key of a client, wherever it stood.
func TestKeysStayHere(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	var got http.Header
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		got = r.Header.Clone()
		return says(http.StatusOK, jsonType, fine)(r)
	}), withKeys(file))
	g.do("POST", chat, ask, "X-Api-Key", secrets["alice"], "Authorization", "Bearer "+secrets["alice"], "X-Other", "kept")
	if text := fmt.Sprint(got); strings.Contains(text, secrets["alice"]) || !strings.Contains(text, "kept") {
		t.Errorf("the upstream got %v", text)
	}
	g.do("POST", chat, ask, "X-Api-Key", secrets["alice"], "Authorization", "Bearer for-the-upstream")
	if got.Get("Authorization") != "Bearer for-the-upstream" || got.Get("X-Api-Key") != "" {
		t.Errorf("the upstream got %v", got)
	}
}

// Eight clients hammer one key for half a minute, over connections: it gets its rate
// and burst to within 1 %. Another key feels nothing of it.
func TestKeyLimitUnderParallelClients(t *testing.T) {
	const rate, burst, over = 20.0, 5, 30 * time.Second
	file, secrets := keysFile(t, map[string]access.Limits{"flood": {Rate: rate, Burst: burst}, "calm": {Rate: 1, Burst: 1}})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		g := newRig(t, says(http.StatusOK, jsonType, fine), withKeys(file), func(o *serving.Options) {
			o.Clock = func() time.Duration { return time.Since(start) }
		})
		l, stop, ended := serve(t, g)
		send := func(c *http.Client, key string) *http.Response {
			r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://x"+chat, strings.NewReader(ask))
			r.Header.Set("Authorization", "Bearer "+secrets[key])
			response, err := c.Do(r)
			if err != nil {
				t.Error(err)
				return &http.Response{}
			}
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
			return response
		}
		var mu sync.Mutex
		passed, refused := 0, 0
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				c := l.client()
				for time.Since(start) < over {
					response := send(c, "flood")
					mu.Lock()
					switch response.StatusCode {
					case http.StatusOK:
						passed++
					case http.StatusTooManyRequests:
						refused++
						if response.Header.Get("Retry-After") != "1" || response.Header.Get("Retry-After-Ms") == "" {
							t.Errorf("Retry-After %q", response.Header.Get("Retry-After"))
						}
					default:
						t.Errorf("status %d", response.StatusCode)
					}
					mu.Unlock()
					time.Sleep(time.Duration(57+i) * time.Millisecond)
				}
			})
		}
		all.Go(func() {
			for range 25 {
				time.Sleep(time.Second)
				if response := send(l.client(), "calm"); response.StatusCode != http.StatusOK {
					t.Errorf("the calm key's request: status %d", response.StatusCode)
				}
			}
		})
		all.Wait()
		if want := burst + rate*over.Seconds(); math.Abs(float64(passed)/want-1) > 0.01 || refused == 0 {
			t.Errorf("%d requests passed, want %v; %d refused", passed, want, refused)
		}
		metrics := g.do("GET", "/metrics", "").Body.String()
		for _, line := range []string{
			fmt.Sprintf(`gearshift_key_requests_total{key="flood",result="accepted"} %d`, passed),
			fmt.Sprintf(`gearshift_key_requests_total{key="flood",result="rate"} %d`, refused),
			`gearshift_key_requests_total{key="calm",result="accepted"} 25`, `gearshift_key_in_flight{key="flood"} 0`,
		} {
			if !strings.Contains(metrics, line+"\n") {
				t.Errorf("metrics have no %s", line)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// A third request at the same time is refused with the reason, and let in once
// one of the two is over, also if that ended in a panic or a cancel.
func TestKeyConcurrency(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Concurrency: 2}})
	release := make(chan struct{})
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		<-release
		return says(http.StatusOK, jsonType, fine)(r)
	}), withKeys(file))
	header := []string{"Authorization", "Bearer " + secrets["alice"]}
	var all sync.WaitGroup
	synctest.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		for range 2 {
			all.Go(func() { g.do("POST", chat, ask, header...) })
		}
		synctest.Wait()
		w := g.do("POST", chat, ask, header...)
		message, kind, _, code := readError(t, w.Body.Bytes())
		if w.Code != http.StatusTooManyRequests || code != "concurrency_limit_exceeded" || kind != "rate_limit_error" || !strings.Contains(message, "2 requests at the same time") || w.Header().Get("Retry-After") != "1" || w.Header().Get("X-Gearshift-Reason") != code {
			t.Errorf("status %d, %s, %s: %s", w.Code, kind, code, message)
		}
		if w := g.do("GET", "/v1/models", "", header...); w.Code != http.StatusOK {
			t.Errorf("models, which make no work: status %d", w.Code)
		}
		close(release)
		all.Wait()
		if w := g.do("POST", chat, ask, header...); w.Code != http.StatusOK {
			t.Errorf("after the others: status %d", w.Code)
		}
	})
}

func TestKeysFileFaults(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad"), "gs-a-secret-at-the-wrong-place\n")
	for file, want := range map[string]string{
		filepath.Join(dir, "none"): "there is no keys file " + filepath.Join(dir, "none") + "; make one by: gearshift key new NAME",
		filepath.Join(dir, "bad"):  filepath.Join(dir, "bad") + ":1: not JSON",
		dir:                        "cannot read keys",
	} {
		o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
		o.Config.KeysFile = file
		if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "gs-a") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	write(t, filepath.Join(dir, "empty"), "# nobody\n")
	g := newRig(t, nil, withKeys(filepath.Join(dir, "empty")))
	if w := g.do("GET", "/v1/models", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("a file without keys lets in: status %d", w.Code)
	}
}

package serving_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/access"
)

// Whatever happens, neither log nor metrics nor any answer of the router's own
// tell an API key, the admin token, a private key or what a client asked and got.
func TestNoSecretIsTold(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Rate: 1000, Burst: 1000, Concurrency: 1}})
	key, wrong := secrets["alice"], "gs-this-key-is-wrong"
	config, roots := certificate(t, t.TempDir(), 1)
	const prompt, answer = "the-prompt-is-private", "the-answer-is-private"
	fail := 0
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		switch fail++; fail % 4 {
		case 0:
			panic("a fault in the backend")
		case 1:
			return says(http.StatusInternalServerError, jsonType, `{"error":{"message":"`+answer+`"}}`)(r)
		case 2:
			return nil, io.ErrUnexpectedEOF
		}
		return says(http.StatusOK, jsonType, strings.Replace(fine, "a b c d", answer, 1))(r)
	}), withToken, withKeys(file), func(o *serving.Options) { o.Config.TLS = config })
	l, stop, ended := serve(t, g)
	ctx, stopAdmin := context.WithCancel(t.Context())
	operators, adminEnded := newPipes(), make(chan error, 1)
	go func() { adminEnded <- g.ServeAdmin(ctx, operators) }()

	var answers strings.Builder
	send := func(c *http.Client, method, url, body string, header ...string) {
		r, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", jsonType)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if response, err := c.Do(r); err == nil {
			defer response.Body.Close()
			text, _ := io.ReadAll(response.Body)
			if response.Header.Get("X-Gearshift-Variant") == "" { // not an engine's
				answers.Write(text)
				_ = response.Header.Write(&answers)
			}
		}
	}
	body := strings.Replace(ask, `"hi"`, `"`+prompt+`"`, 1)
	client := tlsClient(l, roots, 0)
	for range 8 {
		send(client, "POST", "https://localhost"+chat, body, "Authorization", "Bearer "+key, "X-Api-Key", key)
	}
	send(client, "POST", "https://localhost"+chat, body, "Authorization", "Bearer "+wrong)
	send(client, "POST", "https://localhost"+chat+"?api_key="+key, body, "Authorization", "Bearer "+key)
	send(client, "POST", "https://localhost"+chat, body[:len(body)-2], "Authorization", "Bearer "+key)
	send(client, "POST", "https://localhost/nothing?key="+key, body, "Authorization", "Bearer "+key)
	send(l.client(), "POST", "http://localhost"+chat, body, "Authorization", "Bearer "+key) // not encrypted
	for _, path := range []string{"/admin/status", "/admin/policy", "/admin/replicas", "/admin/reload", "/admin/policy/shadow", "/metrics"} {
		for _, method := range []string{"GET", "POST"} {
			for _, token := range []string{adminToken, wrong} {
				send(operators.client(), method, "http://127.0.0.1"+path, `{"policy":"x"}`, "Authorization", "Bearer "+token)
			}
		}
	}
	private, err := os.ReadFile(config.Key)
	if err != nil {
		t.Fatal(err)
	}
	write(t, file, key+"\n")               // at the wrong place
	write(t, config.Cert, string(private)) // likewise
	if _, err := g.Reload("test"); err == nil {
		t.Error("the faulty files are taken")
	}
	stop()
	stopAdmin()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := <-adminEnded; err != nil {
		t.Error(err)
	}
	hash, _ := access.HashOf(key).MarshalText()
	for name, text := range map[string]string{"log": g.logs.String(), "answers": answers.String(), "metrics": g.do("GET", "/metrics", "").Body.String()} {
		if len(text) < 500 {
			t.Errorf("the %s tell nothing at all: %s", name, text)
		}
		for _, secret := range []string{key, key[3:], wrong, adminToken, prompt, answer, string(hash), strings.Split(string(private), "\n")[1]} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("the %s tell %q: …%s", name, secret, text[max(0, at-200):at+len(secret)])
			}
		}
	}
}

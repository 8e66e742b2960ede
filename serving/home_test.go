package serving_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"gearshift/internal/memnet"
	"gearshift/serving"
	"gearshift/serving/access"
)

// blank is a module whose page has nothing on it.
type blank struct{}

func (blank) Join(*serving.Server) serving.Parts {
	return serving.Parts{Routes: []serving.Route{
		{Method: http.MethodGet, Path: "/", Access: serving.AdminOpen, About: "a page", Handler: http.NotFound},
	}}
}

// addressed is a listener in memory that says it is at an address.
type addressed struct{ *memnet.Listener }

func (addressed) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4zero, Port: 8081} }

// "/" says what this is, to anyone, with keys or without; where the operators' page is, to
// this machine alone. The start says that in a line of its own.
func TestHome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, nil, func(o *serving.Options) { o.Modules = []serving.Module{blank{}} })
		ask := func(remote string) string {
			r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1/", nil)
			r.RemoteAddr = remote
			w := httptest.NewRecorder()
			g.Handler().ServeHTTP(w, r)
			if text := w.Body.String(); w.Code != http.StatusOK || !strings.Contains(text, "POST /v1/chat/completions") || !strings.Contains(text, "docs/README.md") {
				t.Errorf("%s: %d\n%s", remote, w.Code, text)
			}
			return w.Body.String()
		}
		if text := ask("127.0.0.1:5"); strings.Contains(text, "page for operators") {
			t.Errorf("a page before anybody listens:\n%s", text)
		}
		l := addressed{memnet.Listen()}
		ctx, end := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- g.ServeAdmin(ctx, l) }()
		synctest.Wait()
		const want = "http://localhost:8081/"
		for remote, here := range map[string]bool{"127.0.0.1:5": true, "[::1]:5": true, "10.0.0.9:5": false, "": false} {
			if text := ask(remote); strings.Contains(text, "The page for operators: "+want) != here {
				t.Errorf("%q:\n%s", remote, text)
			}
		}
		if text := g.logs.String(); !strings.Contains(text, `msg="the page is at" url=`+want) {
			t.Errorf("the start says:\n%s", text)
		}
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestHomeNeedsNoKey(t *testing.T) {
	file, _ := keysFile(t, map[string]access.Limits{"alice": {}})
	g := newRig(t, nil, func(o *serving.Options) { o.Config.KeysFile = file })
	if w := g.do("GET", "/v1/models", ""); w.Code != http.StatusUnauthorized {
		t.Errorf("without a key: %d", w.Code)
	}
	if w := g.do("GET", "/", ""); w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" {
		t.Errorf("%d, %q", w.Code, w.Header())
	}
	g = newRig(t, nil)
	if w := g.do("POST", "/", ""); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

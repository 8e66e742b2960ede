package streams

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"net/http"

	"gearshift/serving"
)

// PagePath is that of a page that streams what it draws, and ScriptPath of the client in JavaScript that it uses.
const (
	PagePath   = Path + "/page"
	ScriptPath = Path + "/stream.js"
)

var (
	//go:embed page/stream.html
	pageText []byte
	//go:embed page/stream.js
	scriptText []byte
)

// pagePolicy lets the page run its own script, and connect to the router alone.
var pagePolicy = fmt.Sprintf("default-src 'none'; script-src 'self' %s; style-src %s; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'",
	hashOf(pageText, "<script type=\"module\">", "</script>"), hashOf(pageText, "<style>", "</style>"))

// hashOf returns what a policy calls the text between begin and end.
func hashOf(page []byte, begin, end string) string {
	_, rest, _ := bytes.Cut(page, []byte(begin))
	text, _, _ := bytes.Cut(rest, []byte(end))
	sum := sha256.Sum256(text)
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// pageRoutes are open to anyone, since the files hold no data.
func (m *Module) pageRoutes() []serving.Route {
	file := func(kind string, text []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			policy := pagePolicy
			if l := m.listener.Load(); l != nil {
				policy += fmt.Sprintf(" https://*:%d", l.port)
			}
			h := w.Header()
			h.Set("Content-Type", kind+"; charset=utf-8")
			h.Set("Content-Security-Policy", policy)
			h.Set("X-Content-Type-Options", "nosniff")
			h.Set("Cache-Control", "no-cache") // the next binary may have others
			_, _ = w.Write(text)
		}
	}
	return []serving.Route{
		{Method: http.MethodGet, Path: PagePath, Access: serving.ClientOpen, About: "a page that streams what it draws", Handler: file("text/html", pageText)},
		{Method: http.MethodGet, Path: ScriptPath, Access: serving.ClientOpen, About: "a streaming client in JavaScript", Handler: file("text/javascript", scriptText)},
	}
}

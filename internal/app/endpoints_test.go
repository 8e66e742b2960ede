package app

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/streams"
)

// undocumented are paths that only the router's own page asks for.
var undocumented = map[string]bool{"/assets/{path...}": true, "/admin/dashboard": true}

// Each endpoint of a server as it is wired stands in the documentation.
func TestEndpointsAreDocumented(t *testing.T) {
	s := parse(t, cameras)
	core, err := NewCore(s, s.Serving.Fallback, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	applications, err := (&Options{}).newFailover(s, core.Table(), stateFiles{}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	server, err := serving.New(serving.Options{
		Config: s.Serving.Config(), Router: core, Backends: make([]serving.Backend, len(core.Table().Replicas)),
		Modules: append(modules(core.Table(), dashboard.About{}), applications, streams.New(streams.Options{Ledger: core.Ledger()})),
	})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	text := documentation(t)
	for _, r := range server.Endpoints() {
		if !undocumented[r.Path] && !documented(text, r.Path) {
			t.Errorf("no page of docs/ has %s %s", r.Method, r.Path)
		}
	}
	if documented(text, "/admin/replicas/{replica...}/frobnicate") || documented(text, "/v1/frobnicate") {
		t.Error("what is not there counts as documented")
	}
}

// documentation is the text of all pages.
func documentation(t *testing.T) string {
	t.Helper()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal("no pages", err)
	}
	var all strings.Builder
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// documented reports whether the text has the path up to its first wildcard, and what
// follows its last one.
func documented(text, path string) bool {
	head, rest, wild := strings.Cut(path, "{")
	if !wild {
		return strings.Contains(text, path)
	}
	tail := rest[strings.LastIndex(rest, "}")+1:]
	return strings.Contains(text, head) && strings.Contains(text, tail)
}

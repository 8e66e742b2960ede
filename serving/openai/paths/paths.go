// Package paths reads the paths of requests as clients write them: with a slash too
// many, where a base that ends in one was joined with a path that begins with one, or
// without the base's /v1.
package paths

import (
	"net/http"
	"net/url"
	"strings"
)

// models is what the names of models stand behind. They may hold slashes of their own.
const models = "/v1/models/"

// Clean returns the path that is meant: runs of slashes are one, a slash at the end is
// dropped, and an OpenAI path without /v1 gets it. The name of a model keeps the slashes
// within it. A path that is clean is returned as it is, without an allocation.
func Clean(path string) string {
	if len(path) < 2 || path[0] != '/' {
		return path
	}
	name := ""
	if doubled(path) {
		path, name = split(path)
		path = collapse(path)
	} else if name, ok := strings.CutPrefix(path, models); ok && strings.Trim(name, "/") != "" {
		return strings.TrimRight(path, "/")
	}
	if name == "" && len(path) > 1 && path[len(path)-1] == '/' {
		path = path[:len(path)-1]
	}
	if withoutBase(path) {
		path = "/v1" + path
	}
	return path + name
}

func doubled(path string) bool { return strings.Contains(path, "//") }

// split parts the name of a model, which is not to be collapsed, from what is before it.
func split(path string) (before, name string) {
	rest, first := path, ""
	for _, want := range []string{"v1", "models"} {
		rest = strings.TrimLeft(rest, "/")
		if first, rest, _ = strings.Cut(rest, "/"); first == "models" && want == "v1" {
			break // without the base
		} else if first != want {
			return path, ""
		}
	}
	if name = strings.Trim(rest, "/"); name == "" {
		return path, ""
	}
	return models, name
}

// collapse makes each run of slashes one.
func collapse(path string) string {
	var b strings.Builder
	b.Grow(len(path))
	for i := range len(path) {
		if path[i] != '/' || i == 0 || path[i-1] != '/' {
			b.WriteByte(path[i])
		}
	}
	return b.String()
}

// bases are OpenAI's paths below /v1 that other servers answer without it, too.
var bases = []string{"/chat/completions", "/completions", "/embeddings", "/models", "/responses", "/audio/transcriptions", "/audio/translations"}

// withoutBase reports whether the path is one of OpenAI's without its /v1.
func withoutBase(path string) bool {
	if len(path) > 1 && path[1] == 'v' { // as nearly all
		return false
	}
	for _, base := range bases {
		if rest, ok := strings.CutPrefix(path, base); ok && (rest == "" || rest[0] == '/' && (base == "/models" || base == "/responses")) {
			return true
		}
	}
	return false
}

// Handler has paths read as they are meant; see [Clean].
func Handler(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := Clean(r.URL.Path); path != r.URL.Path {
			meant := *r
			meant.URL = new(url.URL)
			*meant.URL = *r.URL
			meant.URL.Path, meant.URL.RawPath = path, ""
			r = &meant
		}
		next.ServeHTTP(w, r)
	})
}

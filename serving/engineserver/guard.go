package engineserver

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"slices"
	"time"

	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

// healthPaths are the endpoints that need no key.
var healthPaths = []string{"/health", "/v2/health/live", "/v2/health/ready"}

// guard admits requests to the server. Pages of other sites are kept out, and clients without the
// key reach the endpoints of health alone.
type guard struct {
	key   [sha256.Size]byte
	keyed bool
	rules *access.PageRules
	tries access.Tries // with wrong keys and tokens
	began time.Time
}

func newGuard(key string, hosts []string) *guard {
	return &guard{key: sha256.Sum256([]byte(key)), keyed: key != "", rules: access.NewPageRules(access.CORS{}, nil, hosts), began: time.Now()}
}

// protect is the handler behind the guard.
func (s *Server) protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		refuse := func(status int, code wire.Optional, message string) {
			fail(w, status, wire.Error{Type: wire.InvalidRequest, Code: code, Message: message})
		}
		switch g := s.guard; {
		case access.Loopback(r) && !g.rules.Local(r.Host):
			refuse(http.StatusForbidden, "wrong_host", access.WrongHost(r, "--hosts"))
		case g.rules.CrossSite(r):
			refuse(http.StatusForbidden, "cross_origin", "pages of other sites may not ask an engine")
		case !g.admits(r) && !slices.Contains(healthPaths, r.URL.Path):
			s.hold(r, "a wrong API key")
			refuse(http.StatusUnauthorized, "invalid_api_key", "the API key is missing or wrong")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// admits reports whether the request has the key, if there is one.
func (g *guard) admits(r *http.Request) bool {
	sum := sha256.Sum256([]byte(wire.Bearer(r.Header)))
	return !g.keyed || subtle.ConstantTimeCompare(sum[:], g.key[:]) == 1
}

// hold keeps the answer to a wrong key or token back: the longer, the more of them have come from
// the client's address.
func (s *Server) hold(r *http.Request, what string) {
	client, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		client = r.RemoteAddr
	}
	failed := s.guard.tries.Hold(r.Context(), client, time.Since(s.guard.began))
	s.log.Debug("refused", "cause", what, "client", client, "path", wire.Clipped(r.URL.Path), "failed", failed)
}

package serving

import (
	"fmt"
	"net/http"
	"os"
	"slices"

	"github.com/gin-gonic/gin"

	"gearshift/serving/browser"
)

// exposed are the headers of an answer that a page may read.
var exposed = []string{
	headerRequestID, "Retry-After", "Retry-After-Ms",
	headerVariant, headerReplica, headerPolicy, headerOverhead, headerFallback, headerAttempts, headerExplain, headerReason, headerWaited,
}

func browserRules(c *Config) *browser.Rules {
	hosts := slices.Clone(c.Hosts)
	if name, err := os.Hostname(); err == nil {
		hosts = append(hosts, name) // which may stand for a loopback address in /etc/hosts
	}
	return browser.New(c.CORS, exposed, hosts)
}

// guard keeps pages of other sites out, unless serving.cors lets them in, and answers the
// questions that browsers ask ahead of a request.
func (s *Server) guard(c *gin.Context) {
	rules := s.live.Load().browser
	if browser.Loopback(c.Request) && !rules.Local(c.Request.Host) {
		s.refuse(c, wrongHost(c.Request))
		return
	}
	if browser.Preflight(c.Request) {
		s.preflight(c, rules)
		return
	}
	if rules.CrossSite(c.Request) {
		s.refuse(c, foreignOrigin(c.Request))
		return
	}
	rules.Mark(c.Writer.Header(), c.Request)
}

// wrongHost refuses a request that knows this machine by a name that is not its own.
func wrongHost(r *http.Request) *refusal {
	return bad(http.StatusForbidden, "", "wrong_host", browser.WrongHost(r))
}

// preflight answers a browser's question by the methods of the path. It brings no key:
// the request that follows does.
func (s *Server) preflight(c *gin.Context, rules *browser.Rules) {
	methods := field(c.Writer.Header(), "Allow") // gin has looked for them
	if methods == "" {
		s.unknownPath(c)
		return
	}
	if !rules.Answer(c.Writer.Header(), c.Request, methods) {
		s.refuse(c, foreignOrigin(c.Request))
		return
	}
	c.AbortWithStatus(http.StatusNoContent)
}

// foreignOrigin refuses what a page of another site asks.
func foreignOrigin(r *http.Request) *refusal {
	who := "pages of other sites"
	if from := r.Header.Get("Origin"); from != "" {
		who = fmt.Sprintf("pages of the origin %q", from)
	}
	return bad(http.StatusForbidden, "", "cross_origin", who+" may not ask; serving.cors.origins lists those that may")
}

// getVersion answers with the version of this program.
func (s *Server) getVersion(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"version": s.version}) }

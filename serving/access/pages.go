package access

import (
	"fmt"
	"net/http"

	"github.com/gin-gonic/gin"
)

// Guard keeps pages of other sites out, unless serving.cors lets them in, and answers the
// questions that browsers ask ahead of a request.
func (g *Gate) Guard(c *gin.Context) {
	rules := g.Rules()
	if Loopback(c.Request) && !rules.Local(c.Request.Host) {
		g.refuse(c, http.StatusForbidden, "wrong_host", WrongHost(c.Request, HostsKey))
		return
	}
	if Preflight(c.Request) {
		g.preflight(c, rules)
		return
	}
	if rules.CrossSite(c.Request) {
		g.refuse(c, http.StatusForbidden, "cross_origin", foreignOrigin(c.Request))
		return
	}
	rules.Mark(c.Writer.Header(), c.Request)
}

// preflight answers a browser's question by the methods of the path. It brings no key:
// the request that follows does.
func (g *Gate) preflight(c *gin.Context, rules *PageRules) {
	methods := c.Writer.Header().Get("Allow") // gin has looked for them
	if methods == "" {
		g.NotFound(c)
		return
	}
	if !rules.Answer(c.Writer.Header(), c.Request, methods) {
		g.refuse(c, http.StatusForbidden, "cross_origin", foreignOrigin(c.Request))
		return
	}
	c.AbortWithStatus(http.StatusNoContent)
}

// foreignOrigin is the message to a page of another site.
func foreignOrigin(r *http.Request) string {
	who := "pages of other sites"
	if from := r.Header.Get("Origin"); from != "" {
		who = fmt.Sprintf("pages of the origin %q", from)
	}
	return who + " may not ask; serving.cors.origins lists those that may"
}

package serving

import "github.com/gin-gonic/gin"

// keptResponse passes what is asked about a response on to the replica that has it, and
// its answer back; see [proxy.Proxy.Fetch].
func (s *Server) keptResponse(c *gin.Context) {
	id := c.Param("id")
	at, ok := s.kept.Find(id)
	if !ok || at.Tenant != s.tenant(c) {
		fault := noResponse(id)
		s.fail(c, fault.Status, fault.Error)
		return
	}
	s.proxy.Fetch(c, at.Replica)
}

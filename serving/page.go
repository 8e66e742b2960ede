package serving

import (
	"net/http"
	"net/http/pprof"
	"net/url"

	"github.com/gin-gonic/gin"
)

// Page is a page for operators on the admin listener. It is told of each request.
type Page interface {
	Observer
	// Files serves what the page is made of, from "/" on. It holds no data:
	// anyone who can connect gets it.
	Files() http.Handler
	// Data is what the page shows, to be encoded as JSON. The query is its own.
	Data(status Status, policies Policies, query url.Values) any
}

// pageFiles are the files that pages are made of: nothing from elsewhere, and
// nothing that is not a file.
const pageFiles = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pageRoutes adds the page, and what it reads.
func (s *Server) pageRoutes(e *gin.Engine) {
	if s.page == nil {
		return
	}
	files := s.page.Files()
	serve := func(c *gin.Context) {
		c.Header("Content-Security-Policy", pageFiles)
		c.Header("Cache-Control", "no-cache") // the next binary may have others
		files.ServeHTTP(c.Writer, c.Request)
	}
	for _, method := range []string{http.MethodGet, http.MethodHead} {
		e.Handle(method, "/", serve)
		e.Handle(method, "/assets/*path", serve)
	}
	e.GET("/admin/dashboard", s.authoriseReading, func(c *gin.Context) {
		c.JSON(http.StatusOK, s.page.Data(s.Status(), s.Policies(), c.Request.URL.Query()))
	})
}

// authoriseReading is authorise for what changes nothing: where no token is set,
// this machine may look.
func (s *Server) authoriseReading(c *gin.Context) {
	if s.admin.set || !s.admin.loopback {
		s.authorise(c)
	}
}

// profileRoutes adds Go's profiles of the running process, for who has the token.
func (s *Server) profileRoutes(private *gin.RouterGroup) {
	private.GET("/debug/pprof/*profile", func(c *gin.Context) {
		switch c.Param("profile") {
		case "/cmdline": // it may hold what is nobody's business
			s.unknownPath(c)
		case "/profile":
			pprof.Profile(c.Writer, c.Request)
		case "/symbol":
			pprof.Symbol(c.Writer, c.Request)
		case "/trace":
			pprof.Trace(c.Writer, c.Request)
		default:
			pprof.Index(c.Writer, c.Request)
		}
	})
	private.POST("/debug/pprof/symbol", gin.WrapF(pprof.Symbol))
}

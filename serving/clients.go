package serving

import (
	"os"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/access"
	"gearshift/serving/browser"
	"gearshift/serving/config"
	"gearshift/serving/keys"
	"gearshift/serving/wire"
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

// newGate makes what lets clients in.
func (s *Server) newGate() *access.Gate {
	return access.New(access.Options{
		Rules: func() *browser.Rules { return s.live.Load().browser },
		Ring:  func() *keys.Ring { return s.live.Load().ring },
		Open:  s.open, Free: func(c *gin.Context) bool { return s.known.free[c.FullPath()] },
		RetryAfter: func() time.Duration { return s.settings().RetryAfter },
		Refuse:     func(c *gin.Context, status int, e wire.Error) { s.refuse(c, &refusal{status, e}) },
		NotFound:   s.unknownPath, Clock: s.clock,
	})
}

// open reports whether the path needs no key. Those who ask are machines that watch
// this one.
func (s *Server) open(c *gin.Context) bool {
	path := c.Request.URL.Path
	if path == metricsPath {
		return s.settings().Metrics == config.MetricsOpen
	}
	return s.known.open[path] || s.known.open[c.FullPath()]
}

// clientMetrics are the metrics on the clients' port, unless they are off there.
func (s *Server) clientMetrics(c *gin.Context) {
	if s.settings().Metrics == config.MetricsOff {
		s.unknownPath(c)
		return
	}
	s.metrics.Handler().ServeHTTP(c.Writer, c.Request)
}

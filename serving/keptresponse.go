package serving

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"

	"github.com/gin-gonic/gin"

	"gearshift/serving/config"
	"gearshift/serving/fields"
)

// keptResponse passes what is asked about a response on to the replica that has it, and
// its answer back. It is no work of a model: it takes no place, and no policy, balancer
// or judge of the replica's health hears of it.
func (s *Server) keptResponse(c *gin.Context) {
	id := c.Param("id")
	at, ok := s.kept.Find(id)
	if !ok || at.Tenant != s.tenant(c) {
		fault := noResponse(id)
		s.fail(c, fault.Status, fault.Error)
		return
	}
	total := s.settings().Timeouts.Total
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), total, config.Overdue(config.PhaseTotal))
	defer cancel()
	s.writableAfter(c, total)
	replica := s.table.Replicas[at.Replica]
	c.Header(headerReplica, replica.Name)
	c.Header(headerVariant, s.table.Variants[replica.Variant].Name)
	d := &dispatch{Server: s, ctx: c.Request.Context(), gin: c}
	proxy := httputil.ReverseProxy{
		Transport: s.backends[at.Replica].Transport,
		Rewrite:   d.rewrite,
		ModifyResponse: func(r *http.Response) error {
			s.closing(c)
			return understandable(r, s.keyed(at.Replica))
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			var foreign foreignAnswer
			if errors.As(err, &foreign) {
				d.foreign(foreign.answer)
				return
			}
			d.undone(err)
		},
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	proxy.ServeHTTP(c.Writer, c.Request.WithContext(ctx))
}

// rewrite makes the request one to the replica. It has no body: none of these needs one.
func (d *dispatch) rewrite(p *httputil.ProxyRequest) {
	// The host means nothing: a transport leads to one replica.
	p.Out.URL = &url.URL{Scheme: "http", Host: "replica", Path: p.In.URL.Path, RawQuery: p.In.URL.RawQuery}
	p.Out.Host = "replica"
	p.Out.Header = d.forward(d.gin)
	p.Out.Body, p.Out.ContentLength, p.Out.TransferEncoding = nil, 0, nil
}

// foreignAnswer is an answer that no OpenAI client would understand.
type foreignAnswer struct{ *answer }

func (foreignAnswer) Error() string { return "the replica's answer is no JSON" }

// understandable leaves in the header what concerns the client. The error is an answer
// that it would not understand. Keyed says that it was asked for with the router's key.
func understandable(r *http.Response, keyed bool) error {
	a := &answer{response: r, keyed: keyed, reported: true} // the replica is not judged by it
	a.media, _ = mediaType(r.Header.Get("Content-Type"))
	if r.StatusCode/100 != 2 && a.foreign() {
		a.first, _ = io.ReadAll(io.LimitReader(r.Body, fields.MaxMessage))
		return foreignAnswer{a}
	}
	h := http.Header{}
	answered(h, r.Header)
	r.Header = h
	return nil
}

package proxy

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
	"gearshift/serving/openai/wire"
)

// note remembers where the answer is kept, as soon as it says its ID and before any of
// that goes out: the client may come back for it at once.
func (d *dispatch) note(a *answer) {
	if !d.Endpoint.Stores || a.noted {
		return
	}
	if a.noted = d.Request.Unstored || a.response.StatusCode/100 != 2; a.noted {
		return
	}
	if id := a.meter.ID(); id != "" {
		a.noted = true
		d.Keep(id, a.replica, d.Owner)
	}
}

// name has the answer scored by its ID, or that of the request. The client may do so as soon as it
// has them.
func (d *dispatch) name(a *answer) {
	if d.Work.Ticket == 0 || a.named || a.response.StatusCode/100 != 2 {
		return
	}
	id := a.meter.PlainID()
	if a.named = id != nil; !a.named && a.begun {
		return
	}
	a.begun = true
	d.Answered(d.Work, id)
}

// Fetch passes what is asked about something that the replica keeps on to it, and its
// answer back. It is no work of a model: it takes no place, and neither policy, balancer
// nor the replica's health takes note of it.
func (p *Proxy) Fetch(c *gin.Context, replica int) {
	total := p.Settings().Timeouts.Total
	ctx, cancel := context.WithTimeoutCause(c.Request.Context(), total, config.Overdue(config.PhaseTotal))
	defer cancel()
	p.Reply.WritableAfter(c, total)
	r := p.Table.Replicas[replica]
	c.Header(Replica, r.Name)
	c.Header(Variant, p.Table.Variants[r.Variant].Name)
	d := &dispatch{Proxy: p, ctx: c.Request.Context(), gin: c}
	through := httputil.ReverseProxy{
		Transport: p.Backends[replica].Transport,
		Rewrite:   d.rewrite,
		ModifyResponse: func(r *http.Response) error {
			p.Reply.Closing(c)
			return understandable(r, p.Keyed(replica))
		},
		ErrorHandler: func(_ http.ResponseWriter, _ *http.Request, err error) {
			var foreign foreignAnswer
			if errors.As(err, &foreign) {
				d.foreign(foreign.answer)
				return
			}
			d.undone(err)
		},
		ErrorLog: slog.NewLogLogger(p.Log.Handler(), slog.LevelDebug),
	}
	through.ServeHTTP(c.Writer, c.Request.WithContext(ctx))
}

// rewrite makes the request one to the replica. It has no body: none of these needs one.
func (d *dispatch) rewrite(p *httputil.ProxyRequest) {
	// The host means nothing: a transport leads to one replica.
	p.Out.URL = &url.URL{Scheme: "http", Host: "replica", Path: p.In.URL.Path, RawQuery: p.In.URL.RawQuery}
	p.Out.Host = "replica"
	p.Out.Header = d.Forward(d.gin)
	p.Out.Body, p.Out.ContentLength, p.Out.TransferEncoding = nil, 0, nil
}

// foreignAnswer is an answer that no OpenAI client would understand.
type foreignAnswer struct{ *answer }

func (foreignAnswer) Error() string { return "the replica's answer is no JSON" }

// understandable leaves in the header what concerns the client. The error is an answer
// that it would not understand. Keyed says that it was asked for with the router's key.
func understandable(r *http.Response, keyed bool) error {
	a := &answer{response: r, keyed: keyed, reported: true} // the replica is not judged by it
	a.media, _ = wire.MediaType(r.Header.Get("Content-Type"))
	if r.StatusCode/100 != 2 && a.foreign() {
		a.first, _ = io.ReadAll(io.LimitReader(r.Body, wire.MaxMessage))
		return foreignAnswer{a}
	}
	h := http.Header{}
	answered(h, r.Header)
	r.Header = h
	return nil
}

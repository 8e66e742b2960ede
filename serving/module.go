package serving

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"
	"github.com/gin-gonic/gin/render"
	"github.com/prometheus/client_golang/prometheus"

	"gearshift/router/fleet"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// Module is a part of the server that brings endpoints and metrics of its own. Options
// list the modules, so that the server's own routes and metrics need not know them.
type Module interface {
	// Join returns what the module adds to the server. New calls it once, before anything
	// is served. The module may keep s and call it from its handlers, not from Join.
	Join(s *Server) Parts
}

// Parts are what a [Module] adds. All of them are optional.
type Parts struct {
	Routes  []Route
	Metrics []prometheus.Collector
	// Observer and Watcher come after those of the [Options].
	Observer Observer
	Watcher  Watcher
	// Unready returns why requests should not be sent to the server yet, or "". It is called from any goroutine.
	Unready func() string
	// Hide returns replicas that a request is not to be given when it is routed; see
	// [work.Adapter]. Of one module at most.
	Hide func(r *fleet.Request) []int
}

// Join implements [Module]: parts that need nothing of the server are one by themselves.
func (p Parts) Join(*Server) Parts { return p }

// Access says on which port an endpoint is, and who may use it.
type Access uint8

// The kinds of access. The zero value is the strictest.
const (
	AdminToken Access = iota // admin listener: callers with the admin token
	AdminRead                // admin listener: as AdminToken; without a token set, this machine too. For what changes nothing
	FleetToken               // admin listener: agents of engines, with the fleet's token
	AdminOpen                // admin listener: anyone who can connect. For what holds no data
	ClientKey                // clients' port: callers with an API key, where keys are required
	ClientOpen               // clients' port: anyone who can connect
)

// admin reports whether the endpoint is on the admin listener.
func (a Access) admin() bool { return a <= AdminOpen }

// Route is an endpoint of a [Module].
//
// A path is written as [http.ServeMux] has it: {name} is a segment and {name...} the rest.
// Names of replicas and models hold slashes, so that here literal segments may follow
// {name...}, as in /admin/replicas/{replica...}/drain. [http.Request.PathValue] has
// the values. GET does not include HEAD.
//
// Whatever applies to the port's own endpoints applies to a module's too: request IDs, time
// limits, checks of origins, recovery from panics, keys and their limits. A path with another
// method is answered by 405 and the methods that it has. [Fail] and [Answer] write answers in
// the server's shapes.
type Route struct {
	Method string
	Path   string
	Access Access
	// About says in a line what the endpoint does.
	About   string
	Handler http.HandlerFunc
}

// methods are those that a route may have.
var methods = []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodConnect}

func (r *Route) validate() error {
	switch {
	case !slices.Contains(methods, r.Method):
		return fmt.Errorf("unknown method %q; want one of %s", r.Method, strings.Join(methods, ", "))
	case !strings.HasPrefix(r.Path, "/"):
		return errors.New("the path must begin with /")
	case r.Access > ClientOpen:
		return fmt.Errorf("unknown access %d", r.Access)
	case r.About == "":
		return errors.New("about is empty; want a line on what the endpoint does")
	case r.Handler == nil:
		return errors.New("there is no handler")
	}
	return nil
}

// join adds the modules' metrics and observers, and keeps their routes for the routers.
func (s *Server) join(modules []Module) error {
	for _, m := range modules {
		parts := m.Join(s)
		for _, c := range parts.Metrics {
			if err := s.metrics.Registry.Register(c); err != nil {
				return fmt.Errorf("cannot join %T: %w", m, err)
			}
		}
		for _, r := range parts.Routes {
			if err := r.validate(); err != nil {
				return fmt.Errorf("cannot join %T: route %q: %w", m, r.Method+" "+r.Path, err)
			}
			s.added = append(s.added, route{Route: r, serve: plain(s.reply, r.Handler)})
		}
		if parts.Unready != nil {
			s.overview.Joining = append(s.overview.Joining, parts.Unready)
		}
		if parts.Hide != nil {
			if s.adapter.Hide != nil {
				return fmt.Errorf("cannot join %T: another module hides replicas from requests", m)
			}
			s.adapter.Hide = parts.Hide
		}
		if parts.Observer != nil {
			s.accounts.observers = append(s.accounts.observers, parts.Observer)
		}
		if parts.Watcher != nil {
			s.settler.watchers = append(s.settler.watchers, parts.Watcher)
		}
	}
	return nil
}

// asked is a request to a module's endpoint, as the server knows it.
type asked struct {
	reply   *proxy.Writer
	context *gin.Context
}

// askedKey is where the context of such a request holds it.
type askedKey struct{}

// plain has gin call a handler of net/http.
func plain(reply *proxy.Writer, h http.HandlerFunc) gin.HandlerFunc {
	return func(c *gin.Context) {
		r := c.Request.WithContext(context.WithValue(c.Request.Context(), askedKey{}, asked{reply, c}))
		for _, p := range c.Params {
			r.SetPathValue(p.Key, strings.TrimPrefix(p.Value, "/"))
		}
		h(c.Writer, r)
	}
}

// Fail answers a request to a module's endpoint with an error, in the shape of the server's
// own errors.
func Fail(w http.ResponseWriter, r *http.Request, status int, e wire.Error) {
	if by, ok := r.Context().Value(askedKey{}).(asked); ok {
		by.reply.Fail(by.context, status, e)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(e.JSON()) // who does not read it is gone
}

// NotFound answers as for a path that the server does not have.
func NotFound(w http.ResponseWriter, r *http.Request) {
	Fail(w, r, http.StatusNotFound, unknownURL(r))
}

// Answer writes the value as JSON.
func Answer(w http.ResponseWriter, status int, value any) error {
	body := render.JSON{Data: value}
	body.WriteContentType(w)
	w.WriteHeader(status)
	return body.Render(w)
}

package serving

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"gearshift/serving/admin"
	"gearshift/serving/admin/metrics"
	"gearshift/serving/admin/overview"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// route is an endpoint of the server, its own or a module's.
type route struct {
	Route
	serve gin.HandlerFunc
	// operation is what the endpoint does with a request that it routes; such a request has
	// an [Account].
	operation string
	// free says that limits of API keys do not count its requests: they end something.
	free bool
}

// Where many endpoints need the path.
const (
	routePath   = "/v1/gearshift/route"
	metricsPath = "/metrics"
)

// clientRoutes are the server's own endpoints on the clients' port.
func (s *Server) clientRoutes() []route {
	keyed := func(method, path string, serve gin.HandlerFunc) route {
		return route{Route: Route{Method: method, Path: path, Access: ClientKey}, serve: serve}
	}
	free := func(r route) route { r.free = true; return r }
	routed := func(r route, operation string) route { r.operation = operation; return r }
	list := []route{
		keyed(http.MethodGet, "/v2/models/{model...}", s.jobs.describe),
		keyed(http.MethodGet, "/v2/models/{model...}/ready", s.jobs.ready),
		keyed(http.MethodGet, "/v2", describeServer(s.home.version)),
		keyed(http.MethodPost, "/v1/gearshift/plan", s.jobs.plan),
		keyed(http.MethodGet, wire.ResponsesPath+"/{id}", s.responses.serve),
		keyed(http.MethodDelete, wire.ResponsesPath+"/{id}", s.responses.serve),
		keyed(http.MethodGet, wire.ResponsesPath+"/{id}/input_items", s.responses.serve),
		free(keyed(http.MethodPost, wire.ResponsesPath+"/{id}/cancel", s.responses.serve)),
		keyed(http.MethodGet, "/v1/models", s.catalogue.ListModels),
		keyed(http.MethodGet, "/v1/models/{id...}", s.catalogue.OneModel), // names of models may hold slashes
		keyed(http.MethodGet, metricsPath, clientMetrics(s.running.Config, s.metrics.Handler(), s.middleware.unknownPath)),
		keyed(http.MethodGet, "/version", s.home.getVersion),
		keyed(http.MethodGet, "/v1/gearshift/status", s.overview.ServeStatus),
		keyed(http.MethodGet, gauges.LoadsPath, s.loads.show),
		routed(keyed(http.MethodPost, routePath, s.route.begin), "route"),
		free(keyed(http.MethodPost, routePath+"/{lease}/end", s.route.end)),
		keyed(http.MethodPost, feedbackPath, s.feedback.score),
	}
	for i := range proxy.Endpoints {
		e := &proxy.Endpoints[i]
		serve := s.completions.complete
		switch {
		case e.Tensors:
			serve = s.jobs.infer
		case e.Classifies && s.jobs.service.On():
			serve = s.classifier.classify
		}
		list = append(list, routed(keyed(http.MethodPost, e.Path, func(c *gin.Context) { serve(c, e) }), e.Operation))
	}
	probe := func(path string, serve gin.HandlerFunc) { // probes use either method
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			list = append(list, route{Route: Route{Method: method, Path: path, Access: ClientOpen}, serve: serve})
		}
	}
	probe("/", s.home.serve)
	probe("/healthz", s.overview.Alive)
	probe("/health", s.overview.Alive) // vLLM's
	probe("/ping", s.overview.Alive)   // SageMaker's
	probe("/readyz", s.overview.Ready)
	probe("/v2/health/live", s.overview.Alive) // the Open Inference Protocol's
	probe("/v2/health/ready", s.overview.Ready)
	return list
}

// adminRoutes are the server's own endpoints on the admin listener.
func adminRoutes(o *overview.Overview, m *metrics.Requests, orders *admin.Orders) []route {
	tokened := func(method, path string, serve gin.HandlerFunc) route {
		return route{Route: Route{Method: method, Path: path, Access: AdminToken}, serve: serve}
	}
	list := []route{
		{Route: Route{Method: http.MethodGet, Path: "/healthz", Access: AdminOpen}, serve: o.Alive},
		tokened(http.MethodGet, metricsPath, gin.WrapH(m.Handler())),
	}
	for _, order := range orders.Routes() {
		r := tokened(order.Method, order.Path, order.Serve)
		r.About = order.About
		list = append(list, r)
	}
	return list
}

// makeRouters makes both routers: of the clients' port and of the admin listener.
func (s *Server) makeRouters() error {
	m := s.middleware
	clients, operators := m.newRouter(), m.newRouter()
	clients.Use(s.drain.count, s.reply.Closing, func(c *gin.Context) { s.clients.Begin(c.Request) }, identify, s.loads.say, s.accounts.keep, m.recovery, m.holdHeader, s.receiver.bound, s.reply.Hurry, s.gate.Guard, s.gate.Unlock)
	operators.Use(identify, m.recovery, s.guard.SameOrigin, s.reply.Unhurried, s.receiver.bound)
	client, admin := s.clientRoutes(), adminRoutes(s.overview, s.metrics, s.orders)
	for _, r := range s.added {
		if r.Access.admin() {
			admin = append(admin, r)
		} else {
			client = append(client, r)
		}
	}
	s.handler, s.adminHandler = wire.CleanPaths(clients), operators
	s.known.add(client)
	guards := map[Access]gin.HandlerFunc{AdminToken: s.guard.Authorise, AdminRead: s.guard.AuthoriseReading, FleetToken: s.guard.AuthoriseAgent}
	if err := mount(clients, client, guards, m.unknownPath); err != nil {
		return err
	}
	return mount(operators, admin, guards, m.unknownPath)
}

// mount adds the routes to the router. Those whose paths differ after a wildcard for
// several segments share one of gin's. API keys are asked for ahead of all routes, unknown ones included; what
// else a route asks for is in guards.
func mount(e *gin.Engine, routes []route, guards map[Access]gin.HandlerFunc, unknown gin.HandlerFunc) error {
	shared := map[string]*branches{}
	for i := range routes {
		r := &routes[i]
		path, tail := ginPath(r.Path)
		key := r.Method + " " + path
		guard := guards[r.Access]
		serve := guarded(guard, r.serve)
		if b := shared[key]; b != nil {
			if err := b.add(tail, serve); err != nil {
				return fmt.Errorf("route %q: %w", r.Method+" "+r.Path, err)
			}
			continue
		}
		b := &branches{otherwise: guarded(guard, unknown)}
		_ = b.add(tail, serve) // the first one
		shared[key] = b
		if strings.Contains(path, "*") {
			serve = b.serve
		}
		if err := handle(e, r.Method, path, serve); err != nil {
			return fmt.Errorf("route %q: %w", r.Method+" "+r.Path, err)
		}
	}
	return nil
}

// handle adds a route to the router, which panics where it contradicts another one.
func handle(e *gin.Engine, method, path string, serve gin.HandlerFunc) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%v", fault)
		}
	}()
	e.Handle(method, path, serve)
	return nil
}

// guarded serves those whom the guard lets through.
func guarded(guard, serve gin.HandlerFunc) gin.HandlerFunc {
	if guard == nil {
		return serve
	}
	return func(c *gin.Context) {
		if guard(c); !c.IsAborted() {
			serve(c)
		}
	}
}

// ginPath is the path as gin writes it up to a wildcard for several segments, and what
// follows that.
func ginPath(path string) (pattern, tail string) {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		name, ok := strings.CutPrefix(segment, "{")
		if !ok {
			continue
		}
		name = strings.TrimSuffix(name, "}")
		if name, ok = strings.CutSuffix(name, "..."); ok {
			segments[i] = "*" + name
			return strings.Join(segments[:i+1], "/"), strings.Join(append([]string{""}, segments[i+1:]...), "/")
		}
		segments[i] = ":" + name
	}
	return strings.Join(segments, "/"), ""
}

// branches are the routes that share a wildcard for several segments.
type branches struct {
	tails     []string // what follows it; empty is the one for everything else
	serves    []gin.HandlerFunc
	otherwise gin.HandlerFunc
}

func (b *branches) add(tail string, serve gin.HandlerFunc) error {
	if slices.Contains(b.tails, tail) {
		return errors.New("it is there already")
	}
	b.tails, b.serves = append(b.tails, tail), append(b.serves, serve)
	return nil
}

// serve finds the route by how the path ends, and leaves the wildcard the rest.
func (b *branches) serve(c *gin.Context) {
	wild := &c.Params[len(c.Params)-1]
	best := -1
	for i, tail := range b.tails {
		if strings.HasSuffix(wild.Value, tail) && (best < 0 || len(tail) > len(b.tails[best])) {
			best = i
		}
	}
	if best < 0 {
		b.otherwise(c)
		return
	}
	wild.Value = strings.TrimSuffix(wild.Value, b.tails[best])
	b.serves[best](c)
}

// known is what middleware asks of the clients' endpoints, by their paths in gin's form.
type known map[string]struct {
	open      bool // needs no key, whatever the method
	free      bool
	operation string
}

func (k known) add(routes []route) {
	for i := range routes {
		r := &routes[i]
		path, _ := ginPath(r.Path)
		x, seen := k[path]
		x.open = r.Access == ClientOpen && (x.open || !seen)
		x.free = x.free || r.free
		x.operation = cmp.Or(r.operation, x.operation)
		k[path] = x
	}
}

// Endpoints are all endpoints of the server, its own and the modules'. Handlers, and
// lines about its own, are left out.
func (s *Server) Endpoints() []Route {
	var all []Route
	for _, list := range [][]route{s.clientRoutes(), adminRoutes(s.overview, s.metrics, s.orders), s.added} {
		for _, r := range list {
			r.Handler = nil
			all = append(all, r.Route)
		}
	}
	return all
}

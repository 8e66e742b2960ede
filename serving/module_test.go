package serving_test

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"gearshift/serving"
	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

// sleeper is a module made up: it counts how often replicas were put to sleep, and the
// requests that it was told of.
type sleeper struct {
	server   *serving.Server
	slept    prometheus.Counter
	observed int
	routes   []serving.Route // besides its own
}

func newSleeper() *sleeper {
	return &sleeper{slept: prometheus.NewCounter(prometheus.CounterOpts{Name: "gearshift_sleeps_total", Help: "Replicas put to sleep."})}
}

func (m *sleeper) Curious() bool           { return false }
func (m *sleeper) Routed(*serving.Account) {}
func (m *sleeper) Over(*serving.Account)   { m.observed++ }

func (m *sleeper) Join(s *serving.Server) serving.Parts {
	m.server = s
	return serving.Parts{Metrics: []prometheus.Collector{m.slept}, Observer: m, Routes: append([]serving.Route{
		{Method: "POST", Path: "/admin/replicas/{replica...}/nap", About: "puts a replica to sleep", Handler: m.sleep},
		{Method: "GET", Path: "/admin/sleepers", Access: serving.AdminRead, About: "who sleeps", Handler: says204},
		{Method: "GET", Path: "/about-sleep", Access: serving.AdminOpen, About: "what sleep is", Handler: says204},
		{Method: "POST", Path: "/v1/naps/{nap}", Access: serving.ClientKey, About: "a nap", Handler: m.nap},
		{Method: "GET", Path: "/v1/bedtime", Access: serving.ClientOpen, About: "when to sleep", Handler: says204},
	}, m.routes...)}
}

func (m *sleeper) sleep(w http.ResponseWriter, r *http.Request) {
	for _, x := range m.server.Status().Replicas {
		if x.Name == r.PathValue("replica") {
			m.slept.Inc()
			_ = serving.Answer(w, http.StatusAccepted, x)
			return
		}
	}
	serving.Fail(w, r, http.StatusNotFound, wire.Error{Type: wire.InvalidRequest, Code: "unknown_replica", Message: fmt.Sprintf("there is no replica %q", r.PathValue("replica"))})
}

func (m *sleeper) nap(w http.ResponseWriter, r *http.Request) {
	switch r.PathValue("nap") {
	case "nightmare":
		panic("bad dream")
	case "none":
		serving.Fail(w, r, http.StatusConflict, wire.Error{Type: wire.InvalidRequest, Code: "awake", Message: "not tired"})
	default:
		_ = serving.Answer(w, http.StatusOK, r.PathValue("nap"))
	}
}

func says204(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func withModule(m serving.Module) func(*serving.Options) {
	return func(o *serving.Options) { o.Modules = append(o.Modules, m) }
}

// What a module registers is served like the server's own: on its port, to whom it is for.
func TestModuleBringsEndpointsAndMetrics(t *testing.T) {
	m := newSleeper()
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {}})
	g := newRig(t, says(http.StatusOK, jsonType, fine), withToken, withModule(m), func(o *serving.Options) { o.Config.KeysFile = file })
	key := []string{"Authorization", "Bearer " + secrets["alice"]}
	for _, c := range []struct {
		name         string
		admin        bool
		method, path string
		header       []string
		status       int
		body         string
	}{
		{"an order about a replica", true, "POST", "/admin/replicas/small@a/nap", nil, 202, `"name":"small@a"`},
		{"the server's own order next to it", true, "POST", "/admin/replicas/small@a/drain", nil, 200, `"drained":true`},
		{"an unknown replica, slashes included", true, "POST", "/admin/replicas/a/b/nap", nil, 404, `there is no replica \"a/b\"`},
		{"an unknown order", true, "POST", "/admin/replicas/small@a/dream", nil, 404, "unknown_url"},
		{"another method", true, "GET", "/admin/replicas/small@a/nap", nil, 405, "want POST"},
		{"no token", true, "POST", "/admin/replicas/small@a/nap", []string{"Authorization", ""}, 401, "invalid_admin_token"},
		{"reading with the token", true, "GET", "/admin/sleepers", nil, 204, ""},
		{"reading without", true, "GET", "/admin/sleepers", []string{"Authorization", ""}, 401, ""},
		{"open to operators", true, "GET", "/about-sleep", []string{"Authorization", ""}, 204, ""},
		{"a key", false, "POST", "/v1/naps/siesta", key, 200, `"siesta"`},
		{"no key", false, "POST", "/v1/naps/siesta", nil, 401, "invalid_api_key"},
		{"an error of its own", false, "POST", "/v1/naps/none", append([]string{"X-Request-Id", "n1"}, key...), 409, `"request_id":"n1"`},
		{"a panic", false, "POST", "/v1/naps/nightmare", key, 500, "internal_error"},
		{"open to clients", false, "GET", "/v1/bedtime", nil, 204, ""},
		{"another method of it", false, "DELETE", "/v1/bedtime", nil, 405, "want GET"},
		{"the admin's on the clients' port", false, "GET", "/about-sleep", key, 404, "unknown_url"},
		{"the clients' on the admin's", true, "GET", "/v1/bedtime", nil, 404, "unknown_url"},
	} {
		ask := g.do
		if c.admin {
			ask = g.order
		}
		w := ask(c.method, c.path, "", c.header...)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s: %s %s: status %d, %s; want %d and %s", c.name, c.method, c.path, w.Code, w.Body, c.status, c.body)
		}
	}
	if text := g.order("GET", "/metrics", "").Body.String(); !strings.Contains(text, "\ngearshift_sleeps_total 1\n") {
		t.Error("the metrics lack the module's")
	}
	if text := g.do("GET", "/", "").Body.String(); !strings.Contains(text, "  GET  /v1/bedtime            when to sleep\n") || strings.Contains(text, "who sleeps") {
		t.Errorf("home says\n%s", text)
	}
	if g.do("POST", chat, ask, key...); m.observed != 1 {
		t.Errorf("told of %d requests, want 1", m.observed)
	}
}

// A key's limits count what a module's endpoint does.
func TestModuleEndpointsCountTowardsLimits(t *testing.T) {
	file, secrets := keysFile(t, map[string]access.Limits{"alice": {Rate: 1, Burst: 1}})
	g := newRig(t, nil, withModule(newSleeper()), func(o *serving.Options) { o.Config.KeysFile = file })
	var got []int
	for range 2 {
		got = append(got, g.do("POST", "/v1/naps/siesta", "", "Authorization", "Bearer "+secrets["alice"]).Code)
	}
	if !slices.Equal(got, []int{200, 429}) {
		t.Errorf("statuses %v, want 200 and 429", got)
	}
}

// Endpoints are all that there are, of both ports.
func TestEndpointsOfModulesAreListed(t *testing.T) {
	plain, with := newRig(t, nil), newRig(t, nil, withModule(newSleeper()))
	list := func(g *rig) map[string]bool {
		m := map[string]bool{}
		for _, r := range g.Endpoints() {
			m[r.Method+" "+r.Path] = true
		}
		return m
	}
	before, after := list(plain), list(with)
	for _, want := range []string{"POST /v1/chat/completions", "GET /healthz", "POST /admin/replicas/{replica...}/drain"} {
		if !before[want] {
			t.Errorf("%s is not listed", want)
		}
	}
	maps.DeleteFunc(after, func(k string, _ bool) bool { return before[k] })
	if len(after) != 5 || !after["POST /v1/naps/{nap}"] {
		t.Errorf("the module adds %v", after)
	}
}

// What cannot be served is a fault of the start, with the module's name.
func TestModulesThatCannotJoin(t *testing.T) {
	for want, r := range map[string]serving.Route{
		`route "GET /v1/models": it is there already`:            {Method: "GET", Path: "/v1/models", Access: serving.ClientKey, About: "x", Handler: says204},
		`route "GET /v1/models/{other...}": `:                    {Method: "GET", Path: "/v1/models/{other...}", Access: serving.ClientKey, About: "x", Handler: says204},
		`route "POST /admin/replicas/{replica...}/drain": `:      {Method: "POST", Path: "/admin/replicas/{replica...}/drain", About: "x", Handler: says204},
		`cannot join *serving_test.sleeper: route "get /x": unk`: {Method: "get", Path: "/x", About: "x", Handler: says204},
		`route "GET x": the path must begin with /`:              {Method: "GET", Path: "x", About: "x", Handler: says204},
		`route "GET /x": about is empty`:                         {Method: "GET", Path: "/x", Handler: says204},
		`route "GET /x": there is no handler`:                    {Method: "GET", Path: "/x", About: "x"},
	} {
		m := newSleeper()
		m.routes = []serving.Route{r}
		err := tryModules(t, m)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if err := tryModules(t, newSleeper(), newSleeper()); err == nil || !strings.Contains(err.Error(), "duplicate metrics") {
		t.Errorf("a metric twice: %v", err)
	}
}

// tryModules makes a server with the modules, and reports why it cannot.
func tryModules(t *testing.T, modules ...serving.Module) error {
	t.Helper()
	s, err := serving.New(serving.Options{
		Config: openConfig(), Router: testRouter(t, nil), Modules: modules,
		Backends: []serving.Backend{{Transport: says(200, jsonType, fine)}, {Transport: says(200, jsonType, fine)}, {Transport: says(200, jsonType, fine)}},
	})
	if err == nil {
		s.Close()
	}
	return err
}

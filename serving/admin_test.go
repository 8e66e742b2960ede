package serving_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving"
	"gearshift/serving/config"
)

const adminToken = "an-admin-token-for-tests"

// withToken makes a server whose admin API takes the token.
func withToken(o *serving.Options) { o.AdminToken = adminToken }

// order calls the admin handler as an operator on this machine would.
func (g *rig) order(method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer "+adminToken)
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		}
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	g.AdminHandler().ServeHTTP(w, r)
	return w
}

// adminPages are what the admin listener shows without a token: they hold no
// data of the router.
var adminPages = []string{"/healthz"}

// adminRoutes are all endpoints of the admin listener.
func adminRoutes(t *testing.T, g *rig) gin.RoutesInfo {
	t.Helper()
	engine, ok := g.AdminHandler().(*gin.Engine)
	if !ok {
		t.Fatalf("the admin handler is a %T", g.AdminHandler())
	}
	return engine.Routes()
}

// Each endpoint there is now, and each to come, is refused without the token,
// and with a wrong one.
func TestNothingOfTheAdminAPIWithoutItsToken(t *testing.T) {
	g := newRig(t, nil, withToken)
	off := newRig(t, nil)
	for _, route := range adminRoutes(t, g) {
		if slices.Contains(adminPages, route.Path) {
			continue
		}
		for _, authorization := range []string{
			"", "Bearer", "Bearer ", "Bearer wrong", "Bearer " + adminToken + "x", "Bearer " + adminToken[1:],
			"Basic " + adminToken, adminToken, "Bearer " + adminToken + ", Bearer x",
		} {
			w := g.order(route.Method, route.Path, "{}", "Authorization", authorization)
			if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusUnauthorized || code != "invalid_admin_token" {
				t.Errorf("%s %s with %q: status %d, code %s", route.Method, route.Path, authorization, w.Code, code)
			}
		}
		w := g.order(route.Method, route.Path+"?token="+adminToken, "{}", "Authorization", "", "Cookie", "token="+adminToken)
		if w.Code != http.StatusUnauthorized {
			t.Errorf("%s %s with the token elsewhere: status %d", route.Method, route.Path, w.Code)
		}
		// Where no token is configured, no token is the right one.
		for _, authorization := range []string{"", "Bearer ", "Bearer " + adminToken} {
			w := off.order(route.Method, route.Path, "{}", "Authorization", authorization)
			message, _, _, code := readError(t, w.Body.Bytes())
			if w.Code != http.StatusForbidden || code != "admin_disabled" || !strings.Contains(message, "GEARSHIFT_ADMIN_TOKEN") {
				t.Errorf("%s %s without a configured token, with %q: status %d, %s", route.Method, route.Path, authorization, w.Code, message)
			}
		}
	}
	if s := g.Status(); s.Draining {
		t.Error("an order without its token was carried out")
	}
}

// The client port has none of the admin paths, with the token or without.
func TestNothingOfTheAdminAPIOnTheClientPort(t *testing.T) {
	g := newRig(t, nil, withToken)
	shared := []string{"/healthz", "/metrics"} // the client port has its own
	for _, route := range adminRoutes(t, g) {
		if slices.Contains(shared, route.Path) {
			continue
		}
		for _, authorization := range []string{"", "Bearer " + adminToken} {
			if w := g.do(route.Method, route.Path, "{}", "Authorization", authorization); w.Code != http.StatusNotFound {
				t.Errorf("%s %s on the client port: status %d", route.Method, route.Path, w.Code)
			}
		}
	}
	if s := g.Status(); s.Draining {
		t.Error("an order on the client port was carried out")
	}
}

func TestAdminKeepsOtherSitesOut(t *testing.T) {
	g := newRig(t, nil, withToken)
	for _, c := range []struct {
		header []string
		method string
		path   string
		code   string // empty: let through
	}{
		{[]string{"Host", "localhost:8081"}, "GET", "/admin/status", ""},
		{[]string{"Host", "[::1]:8081"}, "GET", "/admin/status", ""},
		{[]string{"Host", "LOCALHOST"}, "GET", "/healthz", ""},
		{[]string{"Host", "rebound.example:8081"}, "GET", "/admin/status", "wrong_host"},
		{[]string{"Host", "rebound.example"}, "GET", "/healthz", "wrong_host"},
		{[]string{"Host", "127.0.0.1.example"}, "POST", "/admin/drain", "wrong_host"},
		{[]string{"Sec-Fetch-Site", "cross-site"}, "POST", "/admin/drain", "cross_origin"},
		{[]string{"Sec-Fetch-Site", "same-site"}, "POST", "/admin/drain", "cross_origin"},
		{[]string{"Origin", "https://elsewhere.example"}, "POST", "/admin/drain", "cross_origin"},
		{[]string{"Origin", "null"}, "POST", "/admin/drain", "cross_origin"},
		{[]string{"Origin", "http://127.0.0.1:8081", "Sec-Fetch-Site", "same-origin"}, "POST", "/admin/drain", ""},
	} {
		w := g.order(c.method, c.path, "", c.header...)
		if c.code == "" {
			if w.Code >= 300 {
				t.Errorf("%v: status %d, %s", c.header, w.Code, w.Body)
			}
			continue
		}
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusForbidden || code != c.code {
			t.Errorf("%v: status %d, code %s, want %s", c.header, w.Code, code, c.code)
		}
	}
	open := newRig(t, nil, withToken, func(o *serving.Options) { o.Config.Admin.Addr = ":8081" })
	if w := open.order("GET", "/admin/status", "", "Host", "router.internal:8081"); w.Code != http.StatusOK {
		t.Errorf("a listener for other machines, by its name: status %d", w.Code)
	}
}

func TestAdminFaults(t *testing.T) {
	for want, change := range map[string]func(*serving.Options){
		"GEARSHIFT_ADMIN_TOKEN: the admin token has 5 characters; want at least 16":     func(o *serving.Options) { o.AdminToken = "short" },
		"GEARSHIFT_FLEET_TOKEN: the fleet's token has 5 characters":                     func(o *serving.Options) { o.FleetToken = "short" },
		"GEARSHIFT_ADMIN_TOKEN and GEARSHIFT_FLEET_TOKEN hold the same token; want two": func(o *serving.Options) { o.AdminToken, o.FleetToken = adminToken, adminToken },
		`admin.fleet_token_env: "a b" is not the name`:                                  func(o *serving.Options) { o.Config.Admin.FleetTokenEnv = "a b" },
		"the admin token holds characters that no header":                               func(o *serving.Options) { o.AdminToken = "with spaces in it\n" },
		`admin.addr: "8081" is not an address`:                                          func(o *serving.Options) { o.Config.Admin.Addr = "8081" },
		`admin.addr: ":70000" is not an address`:                                        func(o *serving.Options) { o.Config.Admin.Addr = ":70000" },
		`admin.token_env: "" is not the name`:                                           func(o *serving.Options) { o.Config.Admin.TokenEnv = "" },
		"ready_grace: -1s is negative":                                                  func(o *serving.Options) { o.Config.ReadyGrace = -time.Second },
	} {
		o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
		change(&o)
		if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		} else if strings.Contains(err.Error(), "with spaces") {
			t.Errorf("the error tells the token: %v", err)
		}
	}
}

func TestAdminPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newRig(t, nil, func(o *serving.Options) { o.Config.Admin.Addr = l.Addr().String() })
	if _, err := g.ListenAdmin(t.Context()); !errors.Is(err, syscall.EADDRINUSE) || !strings.Contains(err.Error(), "or off") {
		t.Errorf("error %v", err)
	}
	off := newRig(t, nil, func(o *serving.Options) { o.Config.Admin.Addr = config.AdminOff })
	if l, err := off.ListenAdmin(t.Context()); l != nil || err != nil {
		t.Errorf("an admin listener that is off: %v, %v", l, err)
	}
}

// An ordered drain: not ready at once, requests still taken for the grace, what
// is in flight finished, then the end. The admin API answers throughout.
func TestDrainByOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, takes(20*time.Second), withToken, func(o *serving.Options) { o.Config.ReadyGrace = 5 * time.Second })
		l, _, ended := serve(t, g)
		adminCtx, stopAdmin := context.WithCancel(t.Context())
		operators, adminEnded := newPipes(), make(chan error, 1)
		go func() { adminEnded <- g.ServeAdmin(adminCtx, operators) }()
		ask := func() int { // on a connection of its own
			response, err := l.client().Post("http://x"+chat, jsonType, strings.NewReader(ask))
			if err != nil {
				return 0
			}
			defer response.Body.Close()
			return response.StatusCode
		}
		first := make(chan int, 2)
		go func() { first <- ask() }()
		synctest.Wait()

		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://127.0.0.1:8081/admin/drain", nil)
		r.Header.Set("Authorization", "Bearer "+adminToken)
		response, err := operators.client().Do(r)
		if err != nil || response.StatusCode != http.StatusAccepted {
			t.Fatalf("%v, %v", response, err)
		}
		response.Body.Close()
		if w := g.do("GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready while draining: status %d", w.Code)
		}
		time.Sleep(4 * time.Second)
		go func() { first <- ask() }() // within the grace
		synctest.Wait()
		if n := g.core.Ledger().InFlight(); n != 2 {
			t.Errorf("%d requests in flight within the grace, want 2", n)
		}
		time.Sleep(2 * time.Second)
		if status := ask(); status != 0 {
			t.Errorf("status %d after the grace, want no connection", status)
		}
		if w := g.order("GET", "/admin/status", ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"draining":true`) {
			t.Errorf("the admin API while draining: status %d, %s", w.Code, w.Body)
		}
		if a, b := <-first, <-first; a != http.StatusOK || b != http.StatusOK {
			t.Errorf("requests in flight got %d and %d", a, b)
		}
		if err := <-ended; err != nil {
			t.Error(err)
		}
		stopAdmin()
		if err := <-adminEnded; err != nil {
			t.Error(err)
		}
	})
}

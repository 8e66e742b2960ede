package access_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"gearshift/serving/access"
)

func TestOrigins(t *testing.T) {
	r := access.NewPageRules(access.CORS{Origins: []string{
		"https://chat.example.com", "https://*.apps.example.com", "http://localhost:*", "HTTPS://Upper.example.com:443", "http://[::1]:3000", "tauri://localhost", "null",
	}}, nil, nil)
	for origin, want := range map[string]bool{
		"https://chat.example.com":           true,
		"https://chat.example.com:8443":      false,
		"http://chat.example.com":            false,
		"https://chat.example.com.evil":      false,
		"https://evilchat.example.com":       false,
		"https://a.apps.example.com":         true,
		"https://a.b.apps.example.com":       true,
		"https://apps.example.com":           false,
		"https://.apps.example.com":          false,
		"https://evilapps.example.com":       false,
		"https://a.apps.example.com.evil":    false,
		"https://evil/.apps.example.com":     false,
		"https://evil@a.apps.example.com":    false,
		"http://localhost":                   true,
		"http://localhost:3000":              true,
		"http://localhost.evil:3000":         false,
		"http://localhost:3000@evil":         false,
		"https://localhost:3000":             false,
		"https://upper.example.com":          true,
		"http://[::1]:3000":                  true,
		"http://[::1]:3001":                  false,
		"tauri://localhost":                  true,
		"null":                               true,
		"":                                   false,
		"*":                                  false,
		"https://chat.example.com, http://x": false,
	} {
		if got := r.Allows(origin); got != want {
			t.Errorf("%q may ask: %v, want %v", origin, got, want)
		}
	}
	if access.NewPageRules(access.DefaultCORS(), nil, nil).Allows("null") || !access.NewPageRules(access.CORS{Origins: []string{"*"}}, nil, nil).Allows("null") {
		t.Error("null may ask without CORS, or may not with any origin")
	}
}

func TestFaults(t *testing.T) {
	c := access.CORS{
		Origins: []string{"https://ok.example", "chat.example.com", "https://chat.example.com/", "https://", "https://*", "https://a.*.com", "http://x:0", "http://x:http", "https://me@x", "https://bücher.example", "*"},
		Headers: []string{"x-ok", "x bad", "", "*"},
		MaxAge:  -time.Second,
	}
	got := c.Validate().Error()
	if n := strings.Count(got, "\n") + 1; n != 12 {
		t.Errorf("%d faults:\n%s", n, got)
	}
	for _, want := range []string{
		`cors.origins[1]: "chat.example.com" is not an origin; want scheme://host[:port] without a path, such as https://chat.example.com`,
		`cors.origins[2]: `, `cors.origins[9]: `, `cors.headers[1]: "x bad" is not the name of a header`, `cors.headers[2]: `, `cors.max_age: -1s is negative`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no fault %q in\n%s", want, got)
		}
	}
	hosts := access.ValidateHosts([]string{"api.example.com", "*", "::1", "http://x", "x:8080", "", "[::1]:80"}).Error()
	if strings.Count(hosts, "\n") != 3 || !strings.Contains(hosts, `hosts[4]: "x:8080" is not a host; want a name or an address without a port`) {
		t.Errorf("hosts: %s", hosts)
	}
}

func TestPreflight(t *testing.T) {
	ask := func(c access.CORS, header ...string) (http.Header, bool) {
		r := httptest.NewRequest(http.MethodOptions, "/", nil)
		r.Header.Set("Access-Control-Request-Method", "POST")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		if !access.Preflight(r) {
			t.Fatalf("%q is no preflight", header)
		}
		h := http.Header{}
		return h, access.NewPageRules(c, []string{"X-Seen"}, nil).Answer(h, r, "GET, POST")
	}
	one := access.CORS{Origins: []string{"https://chat.example.com"}, Headers: []string{"X-Gearshift-Task"}, MaxAge: time.Minute}
	h, ok := ask(one, "Origin", "https://chat.example.com", "Access-Control-Request-Headers", "authorization, x-gearshift-task,X-Other, bad name")
	want := http.Header{
		"Access-Control-Allow-Origin": {"https://chat.example.com"}, "Access-Control-Allow-Methods": {"GET, POST"},
		"Access-Control-Allow-Headers": {"authorization, x-gearshift-task"}, "Access-Control-Max-Age": {"60"},
		"Vary": {"Origin, Access-Control-Request-Method, Access-Control-Request-Headers"},
	}
	if !ok || len(h) != len(want) {
		t.Errorf("%v: header %v", ok, h)
	}
	for name := range want {
		if h.Get(name) != want.Get(name) {
			t.Errorf("%s: %q, want %q", name, h.Get(name), want.Get(name))
		}
	}
	if h, ok := ask(one, "Origin", "https://evil.example"); ok || len(h) > 0 {
		t.Errorf("another's page may ask: %v", h)
	}
	all := access.CORS{Origins: []string{"*"}}
	h, ok = ask(all, "Origin", "null", "Access-Control-Request-Headers", "x-stainless-os,x-api-key", "Access-Control-Request-Private-Network", "true")
	if !ok || h.Get("Access-Control-Allow-Origin") != "*" || h.Get("Access-Control-Allow-Headers") != "x-stainless-os, x-api-key" || h.Get("Access-Control-Max-Age") != "" ||
		h.Get("Access-Control-Allow-Private-Network") != "true" {
		t.Errorf("any page: %v, %v", ok, h)
	}
}

// TestCrossSite is the requests that a browser can send, and those of other clients.
func TestCrossSite(t *testing.T) {
	r := access.NewPageRules(access.CORS{Origins: []string{"https://chat.example.com"}}, nil, nil)
	for _, c := range []struct {
		name, method, origin, fetched string
		want                          bool
	}{
		{"no browser", "POST", "", "", false},
		{"typed into the address bar", "POST", "", "none", false},
		{"the server's own page", "POST", "http://router:8080", "same-origin", false},
		{"its own page, in an old browser", "POST", "http://router:8080", "", false},
		{"another site's page", "POST", "https://evil.example", "cross-site", true},
		{"another site's, in an old browser", "POST", "https://evil.example", "", true},
		{"another site's form", "POST", "null", "cross-site", true},
		{"a file's page, in an old browser", "POST", "null", "", true},
		{"without an origin", "POST", "", "cross-site", true},
		{"another port of this host", "POST", "http://router:3000", "same-site", true},
		{"a site nearby, without an origin", "POST", "", "same-site", true},
		{"a word that nobody knows", "POST", "", "sideways", true},
		{"an allowed page", "POST", "https://chat.example.com", "cross-site", false},
		{"an allowed page, in an old browser", "POST", "https://chat.example.com", "", false},
		{"one that claims to be", "POST", "https://chat.example.com.evil", "cross-site", true},
		{"another's DELETE", "DELETE", "https://evil.example", "cross-site", true},
		{"another's PUT", "PUT", "https://evil.example", "", true},
		{"another's PATCH", "PATCH", "", "cross-site", true},
		{"a method that nobody knows", "CHANGE", "https://evil.example", "cross-site", true},
		{"another's GET, which changes nothing", "GET", "https://evil.example", "cross-site", false},
		{"another's image", "HEAD", "", "cross-site", false},
		{"a preflight", "OPTIONS", "https://evil.example", "", false},
	} {
		request := httptest.NewRequest(c.method, "http://router:8080/v1/chat/completions", nil)
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		if c.fetched != "" {
			request.Header.Set("Sec-Fetch-Site", c.fetched)
		}
		if got := r.CrossSite(request); got != c.want {
			t.Errorf("%s: across sites %v, want %v", c.name, got, c.want)
		}
	}
	twice := httptest.NewRequest("POST", "http://router:8080/", nil)
	twice.Header["Origin"] = []string{"https://chat.example.com", "https://evil.example"}
	if !r.CrossSite(twice) {
		t.Error("two origins pass")
	}
}

func TestLocal(t *testing.T) {
	r := access.NewPageRules(access.DefaultCORS(), nil, []string{"api.example.com", "Box"})
	for host, want := range map[string]bool{
		"": true, "localhost": true, "localhost:8080": true, "LOCALHOST": true, "localhost.": true, "app.localhost:8080": true,
		"127.0.0.1": true, "127.0.0.1:8080": true, "127.9.9.9": true, "[::1]:8080": true, "[::1]": true, "::1": true,
		"api.example.com": true, "API.example.com:443": true, "box:8080": true, "host.docker.internal:8080": true,
		"evil.example": false, "evil.example:8080": false, "localhost.evil.example": false, "evillocalhost": false, "127.0.0.1.evil.example": false,
		"0.0.0.0:8080": true, "[::]:8080": true, "192.0.2.7": true, "[fd00::7]:8080": true, // no name, so nobody made it resolve to here
		"192.0.2.7.evil.example": false, "x.api.example.com": false, "2130706433": false,
	} {
		if got := r.Local(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
	if !access.NewPageRules(access.DefaultCORS(), nil, []string{"*"}).Local("evil.example") {
		t.Error("any host is refused")
	}
}

func TestLoopback(t *testing.T) {
	for ip, want := range map[string]bool{"127.0.0.1": true, "::1": true, "127.3.2.1": true, "10.0.0.1": false, "": false} {
		r := httptest.NewRequest("GET", "/", nil)
		if ip != "" {
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(ip), Port: 80}))
		}
		if got := access.Loopback(r); got != want {
			t.Errorf("%q is loopback: %v, want %v", ip, got, want)
		}
	}
}

// What is asked of each request costs no memory where no browser sends it.
func TestRequestsOfOtherClientsCostNothing(t *testing.T) {
	r := access.NewPageRules(access.CORS{Origins: []string{"https://chat.example.com"}}, nil, nil)
	request := httptest.NewRequest("POST", "http://127.0.0.1:8080/v1/chat/completions", nil)
	request = request.WithContext(context.WithValue(request.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8080}))
	for _, host := range []string{"127.0.0.1:8080", "localhost:8080", "[::1]:8080"} {
		if n := testing.AllocsPerRun(100, func() {
			if !access.Loopback(request) || !r.Local(host) || access.Preflight(request) || r.CrossSite(request) {
				t.Error("refused")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}

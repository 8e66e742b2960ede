package engineserver

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// asked calls the server's handler as on a loopback address, with header fields in pairs.
func (r *rig) asked(method, path, body string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(context.WithValue(r.t.Context(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 8101})), method, path, strings.NewReader(body))
	request.Host = "127.0.0.1:8101"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			request.Host = header[i+1]
		}
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.server.Handler().ServeHTTP(w, request)
	return w
}

// Everything except health needs the key, paths that are not there included, and without it health
// names no model.
func TestKeyIsAsked(t *testing.T) {
	withRig(t, func(c *Config) { c.Key = "sesame" }, func(r *rig) {
		for path, method := range map[string]string{
			chat: "POST", "/v1/models": "GET", "/metrics": "GET", "/v1/loads": "GET", "/fault": "POST", "/v2": "GET", "/v2/models/small": "GET",
			"/v2/models/small/ready": "GET", "/v2/repository/index": "POST", "/v2/repository/models/small/load": "POST", "/sleep": "POST", "/wake_up": "POST", "/nothing": "GET",
		} {
			for _, authorization := range []string{"", "Bearer", "Bearer sesam", "Basic sesame", "sesame"} {
				if w := r.asked(method, path, ask, "Authorization", authorization); w.Code != http.StatusUnauthorized || !strings.Contains(w.Body.String(), `"invalid_api_key"`) {
					t.Errorf("%s %s with %q: status %d, %s", method, path, authorization, w.Code, w.Body)
				}
			}
			if w := r.asked(method, path, ask, "Authorization", "Bearer sesame"); w.Code == http.StatusUnauthorized {
				t.Errorf("%s %s with the key: status %d", method, path, w.Code)
			}
		}
		for _, path := range healthPaths {
			if w := r.asked("GET", path, ""); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "small") {
				t.Errorf("%s without the key: status %d, %s", path, w.Code, w.Body)
			}
		}
		if w := r.asked("GET", "/health", "", "Authorization", "Bearer sesame"); !strings.Contains(w.Body.String(), `"small":`) {
			t.Errorf("/health with the key: %s", w.Body)
		}
	})
}

// Pages of other sites may change nothing, and know a server on a loopback address by no name of theirs.
func TestPagesOfOtherSites(t *testing.T) {
	withRig(t, func(c *Config) { c.Hosts = []string{"gpu.example.com"} }, func(r *rig) {
		for _, c := range []struct {
			method string
			header []string
			want   int
			code   string
		}{
			{"POST", nil, 200, ""}, // what no browser sends
			{"POST", []string{"Origin", "https://evil.example"}, 403, "cross_origin"},
			{"POST", []string{"Origin", "null"}, 403, "cross_origin"},
			{"POST", []string{"Sec-Fetch-Site", "cross-site"}, 403, "cross_origin"},
			{"POST", []string{"Sec-Fetch-Site", "same-site", "Origin", "http://127.0.0.1:9"}, 403, "cross_origin"},
			{"POST", []string{"Sec-Fetch-Site", "same-origin", "Origin", "http://127.0.0.1:8101"}, 200, ""},
			{"POST", []string{"Host", "evil.example:8101"}, 403, "wrong_host"},
			{"GET", []string{"Host", "evil.example:8101"}, 403, "wrong_host"},
			{"POST", []string{"Host", "gpu.example.com"}, 200, ""},
			{"POST", []string{"Host", "localhost:8101"}, 200, ""},
		} {
			path := map[string]string{"GET": "/v1/models", "POST": "/v2/repository/models/small/load"}[c.method]
			if w := r.asked(c.method, path, "", c.header...); w.Code != c.want || !strings.Contains(w.Body.String(), c.code) {
				t.Errorf("%s with %q: status %d, %s; want %d %s", c.method, c.header, w.Code, w.Body, c.want, c.code)
			}
		}
	})
}

// Faults can be changed only where they may be set at all.
func TestNoFaultsByDefault(t *testing.T) {
	withRig(t, func(c *Config) { c.Faulty = false }, func(r *rig) {
		for _, method := range []string{"GET", "POST"} {
			r.expect(method, "/fault", "die_loading", http.StatusNotFound, "unknown_url")
		}
	})
}

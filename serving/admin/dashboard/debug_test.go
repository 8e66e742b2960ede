package dashboard_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/admin/dashboard"
	"gearshift/serving/config"
)

// first is a policy and balancer for a fleet of one replica.
type first struct{}

func (first) Name() string                                      { return "first" }
func (first) Scratch() int                                      { return 0 }
func (first) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }
func (first) Pick(*fleet.View, *fleet.Request, int, uint64) int { return 0 }

const token = "0123456789abcdef"

func newServer(t *testing.T) *serving.Server {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Weight: 1, Deadline: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a"}})
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: first{}, Balancer: first{}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := serving.New(serving.Options{
		Config: config.Default(), Router: core, Backends: []serving.Backend{{Transport: http.DefaultTransport}},
		Modules: []serving.Module{dashboard.Profiles{}}, AdminToken: token,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Profiles are for callers with the token, on the admin listener alone, and without the
// command line.
func TestProfilesNeedTheToken(t *testing.T) {
	s := newServer(t)
	for _, c := range []struct {
		method, path, token string
		handler             http.Handler
		status              int
		body                string
	}{
		{"GET", "/debug/pprof/", token, s.AdminHandler(), 200, "goroutine"},
		{"GET", "/debug/pprof/heap?debug=1", token, s.AdminHandler(), 200, "heap profile"},
		{"GET", "/debug/pprof/symbol", token, s.AdminHandler(), 200, "num_symbols"},
		{"POST", "/debug/pprof/symbol", token, s.AdminHandler(), 200, "num_symbols"},
		{"GET", "/debug/pprof/cmdline", token, s.AdminHandler(), 404, "there is no GET /debug/pprof/cmdline"},
		{"GET", "/debug/pprof/heap", "", s.AdminHandler(), 401, "invalid_admin_token"},
		{"GET", "/debug/pprof/", token, s.Handler(), 404, "unknown_url"},
	} {
		r := httptest.NewRequest(c.method, "http://127.0.0.1"+c.path, nil)
		r.Header.Set("Authorization", "Bearer "+c.token)
		w := httptest.NewRecorder()
		c.handler.ServeHTTP(w, r)
		if w.Code != c.status || !strings.Contains(w.Body.String(), c.body) {
			t.Errorf("%s %s: status %d, %.200s", c.method, c.path, w.Code, w.Body)
		}
	}
}

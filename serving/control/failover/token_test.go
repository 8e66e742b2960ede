package failover_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/engines/agents"
)

// with asks the admin handler with a token.
func (g *rig) with(token, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	g.admin().ServeHTTP(w, r)
	return w
}

// The fleet's token lets agents report and nothing else, and the admin token lets nobody report.
func TestTheFleetsTokenOnlyReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		time.Sleep(100 * time.Millisecond)
		for _, x := range g.server.Endpoints() {
			path := strings.NewReplacer("{host...}", "h1", "{name...}", "small", "{replica...}", "small@h1").Replace(x.Path)
			var refused string
			switch x.Access {
			case serving.FleetToken:
				refused = token
			case serving.AdminToken, serving.AdminRead:
				refused = fleetToken
			default:
				continue
			}
			if w := g.with(refused, x.Method, path); w.Code != http.StatusUnauthorized || x.Method != http.MethodHead && !strings.Contains(w.Body.String(), "_token") {
				t.Errorf("%s %s with the other token: status %d, %s", x.Method, path, w.Code, w.Body)
			}
		}
		if w := g.with(fleetToken, http.MethodPost, agents.HeartbeatPath("h1")); w.Code == http.StatusUnauthorized {
			t.Errorf("a heartbeat with the fleet's token: status %d", w.Code)
		}
	})
}

// Without the fleet's token no agent can report, and the error says what to set.
func TestNoFleetToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, func(_ *failover.Options, s *serving.Options) { s.FleetToken = "" })
		for _, with := range []string{"", token, fleetToken} {
			if w := g.with(with, http.MethodPost, agents.AgentPath("h1")); w.Code != http.StatusForbidden || !strings.Contains(w.Body.String(), "GEARSHIFT_FLEET_TOKEN") {
				t.Errorf("with %q: status %d, %s", with, w.Code, w.Body)
			}
		}
	})
}

// Guesses are slowed down at an address from which agents report too, and guesses of the fleet's token
// do not silence the agents there.
func TestGuessesBesideAgents(t *testing.T) {
	const most = 400
	for path, method := range map[string]string{"/admin/status": http.MethodGet, agents.AgentPath("h1"): http.MethodPost} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t)
			time.Sleep(time.Second)
			guesses := 0
			for end := time.Now().Add(12 * time.Second); time.Now().Before(end); guesses++ {
				if w := g.with("a-guess-of-enough-characters", method, path); w.Code == http.StatusOK {
					t.Fatal("a guess is right")
				}
				time.Sleep(2 * time.Millisecond) // as a client needs
			}
			if s := g.look(); guesses > most || s.Counts.Failovers > 0 || s.Counts.FalseAlarms > 0 {
				t.Errorf("%s: %d guesses in 12 s, want at most %d; counts %+v", path, guesses, most, s.Counts)
			}
		})
	}
}

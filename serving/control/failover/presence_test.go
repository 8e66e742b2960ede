package failover_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving/engines/agents"
)

// attend has the engine's agent keep a connection open, until the function that it returns is called.
// Status is that of the answer, once it has ended.
func (g *rig) attend(e *engine, incarnation string) (end func() (status int)) {
	ctx, cancel := context.WithCancel(g.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, agents.PresencePath(e.host)+"?incarnation="+incarnation, nil)
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer "+fleetToken)
	w, done := httptest.NewRecorder(), make(chan struct{})
	go func() { defer close(done); g.admin().ServeHTTP(w, r) }()
	synctest.Wait()
	return func() int { cancel(); <-done; return w.Code }
}

// TestPresence: a connection of an agent that breaks is the loss of its host if the engine refuses
// connections, and nothing otherwise.
func TestPresence(t *testing.T) {
	for name, c := range map[string]struct {
		killed, again bool
		want          string
	}{
		"the process is gone":          {killed: true, want: "lost"},
		"the connection alone is gone": {want: "up"},
		"the agent has another one":    {killed: true, again: true, want: "up"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				time.Sleep(time.Second)
				end := g.attend(g.engines[0], "100")
				if c.again {
					defer g.attend(g.engines[0], "100")()
				}
				time.Sleep(time.Second + time.Millisecond) // between two heartbeats
				if c.killed {
					g.engines[0].kill()
				}
				if status := end(); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				if s := g.look().Hosts[0]; s.State != c.want { // no time has passed
					t.Errorf("the host is %s, want %s", s.State, c.want)
				}
			})
		})
	}
}

// TestPresenceOfStrangers: an agent that is not registered is told so.
func TestPresenceOfStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		time.Sleep(time.Second)
		for _, incarnation := range []string{"", "x", "7"} {
			if status := g.attend(g.engines[0], incarnation)(); status != http.StatusConflict {
				t.Errorf("incarnation %q: status %d", incarnation, status)
			}
		}
		if log := g.logs.String(); strings.Contains(log, "panic") {
			t.Error(log)
		}
	})
}

// TestSecondSign: heartbeats that do not come cost a host nothing as long as its engine answers the
// router. An engine that does not is lost within 70 ms, and one whose port refuses as soon as it is asked.
func TestSecondSign(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*engine)
		within time.Duration
		want   string
	}{
		"the agent alone is silent": {(*engine).quiet, 10 * time.Second, "up"},
		"the engine stands still":   {(*engine).freeze, 71 * time.Millisecond, "lost"},
		"the engine is gone":        {(*engine).kill, 41 * time.Millisecond, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t)
				g.after(5*time.Second, homes...)
				c.change(g.engines[0])
				time.Sleep(c.within)
				s := g.look()
				if s.Hosts[0].State != c.want || s.Counts.Suspicions == 0 {
					t.Errorf("the host is %s, want %s; %+v", s.Hosts[0].State, c.want, s.Counts)
				}
				if c.want == "up" && s.Counts.Failovers > 0 {
					t.Errorf("%d failovers", s.Counts.Failovers)
				}
				time.Sleep(time.Second) // so that no question is open
				if name == "the engine stands still" {
					g.engines[0].thaw()
				}
			})
		})
	}
}

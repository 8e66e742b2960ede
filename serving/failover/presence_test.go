package failover_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/failover"
	"gearshift/serving/heartbeat"
)

// attend has the engine's agent keep a connection open, until the function that it returns is called.
// Status is that of the answer, once it has ended.
func (g *rig) attend(e *engine, incarnation string) (end func() (status int)) {
	ctx, cancel := context.WithCancel(g.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, heartbeat.PresencePath(e.host)+"?incarnation="+incarnation, nil)
	r.Host = "127.0.0.1:8081"
	r.Header.Set("Authorization", "Bearer "+token)
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
				var g *rig
				g = newRig(t, func(o *failover.Options, _ *serving.Options) {
					o.Dial = func(ctx context.Context, _, address string) (net.Conn, error) {
						for _, e := range g.engines {
							if e.base.Host == address && e.there(ctx) == nil {
								conn, _ := net.Pipe()
								return conn, nil
							}
						}
						return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
					}
				})
				time.Sleep(time.Second)
				end := g.attend(g.engines[0], "100")
				if c.again {
					defer g.attend(g.engines[0], "100")()
				}
				time.Sleep(time.Second)
				if c.killed {
					g.engines[0].kill()
				}
				if status := end(); status != http.StatusOK {
					t.Errorf("status %d", status)
				}
				if s := g.look().Servers[0]; s.State != c.want { // no time has passed
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

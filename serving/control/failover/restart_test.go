package failover_test

import (
	"net/http"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/states"
)

// A router that starts while a host is lost goes on from its state: it sends nothing there, and what
// the host had is answered by its backups.
func TestRouterThatStartsWhileAHostIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "state.db")
		g := newRig(t, func(o *failover.Options, _ *serving.Options) { o.States = states.At(path) })
		time.Sleep(5 * time.Second)
		g.engines[0].kill()
		time.Sleep(time.Second)
		if s := g.look(); s.Hosts[0].State != "lost" {
			t.Fatalf("%s is %s", s.Hosts[0].Name, s.Hosts[0].State)
		}
		before := g.look().Term
		g.end()
		g.start()
		s := g.look()
		if s.Hosts[0].State != "lost" || s.Term <= before {
			t.Errorf("%s is %s in term %d after %d", s.Hosts[0].Name, s.Hosts[0].State, s.Term, before)
		}
		if code, replica := g.ask(tasks[0]); code != http.StatusOK || replica == models[1]+"@"+hosts[0] {
			t.Errorf("status %d from %s", code, replica)
		}
	})
}

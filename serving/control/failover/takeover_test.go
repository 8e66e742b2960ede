package failover_test

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	control "gearshift/router/failover"
	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/states"
	"gearshift/serving/engines/agents"
)

// withState has the rig's routers keep their state in a file, whose path it returns.
func withState(t *testing.T) (path string, change func(*failover.Options, *serving.Options)) {
	path = filepath.Join(t.TempDir(), "failover.db")
	return path, func(o *failover.Options, _ *serving.Options) { o.States = states.At(path) }
}

// crash ends the router as if its process were killed: the file is as it was last written.
func (g *rig) crash(path string) {
	g.t.Helper()
	synctest.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatal(err)
	}
	g.end()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		g.t.Fatal(err)
	}
}

// A router that dies is taken over where it was: what its backups have loaded stays loaded, an
// application that runs elsewhere stays there, and nothing is loaded twice. Orders carry the epochs
// of the new term.
func TestControllerThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, change := withState(t)
		g := newRig(t, change)
		g.after(5*time.Second, homes...)
		g.engines[0].kill()
		before := g.after(3*time.Second, "small@h2", "large-two@h2", "large-three@h3")
		orders := [][]string{g.orders(1), g.orders(2)}
		g.crash(path)
		time.Sleep(time.Second)
		g.start()
		s := g.after(5*time.Second, "small@h2", "large-two@h2", "large-three@h3")
		if s.Term != before.Term+1 && s.Term <= before.Term || s.Counts.Recovered != 1 || s.Hosts[0].State != "lost" {
			t.Errorf("term %d after %d, counts %+v, servers %+v", s.Term, before.Term, s.Counts, s.Hosts)
		}
		for i, want := range orders {
			if got := g.orders(i + 1); !slices.Equal(got, want) {
				t.Errorf("%s got the orders %v, and had %v before", hosts[i+1], got, want)
			}
		}
		for _, task := range tasks {
			if status, replica := g.ask(task); status != http.StatusOK {
				t.Errorf("%s: status %d by %s", task, status, replica)
			}
		}
		g.engines[0].start()
		g.after(10*time.Second, homes...)
		g.engines[0].mu.Lock()
		term := g.engines[0].epoch >> 32
		g.engines[0].mu.Unlock()
		if term != s.Term {
			t.Errorf("the epoch of the last order has term %d, want %d", term, s.Term)
		}
	})
}

// orders lists what the engine was ordered.
func (g *rig) orders(engine int) []string {
	e := g.engines[engine]
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.orders)
}

// A router that dies while loads are under way asks for them again, and its successor knows what an
// engine has lost while no router watched.
func TestControllerThatDiesInALoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, change := withState(t)
		g := newRig(t, change)
		time.Sleep(100 * time.Millisecond)
		g.crash(path) // the first backups are being loaded
		time.Sleep(time.Second)
		g.start()
		s := g.after(5*time.Second, homes...)
		if s.Unprotected != 0 {
			t.Errorf("%d applications are unprotected: %+v", s.Unprotected, s.Applications)
		}
		g.crash(path)
		g.engines[1].kill()
		g.engines[1].start()
		time.Sleep(time.Second)
		g.start()
		time.Sleep(100 * time.Millisecond)
		if s := g.look(); s.Applications[1].Active == "large-two@h2" {
			t.Errorf("%+v is answered by an engine that has lost its model", s.Applications[1])
		}
		g.after(10*time.Second, homes...)
	})
}

// Two controllers do not have one state file.
func TestTwoControllers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "failover.db")
	o := failover.Options{Problem: problem(1000), Table: table(t, 1000, 0), States: states.At(path), Controller: control.DefaultOptions()}
	first, err := failover.New(o)
	if err != nil {
		t.Fatal(err)
	}
	o.Problem = problem(1000)
	if _, err = failover.New(o); !errors.Is(err, states.ErrHeld) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error %v, want in one line that another controller holds the file", err)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	o.Problem = problem(1000)
	second, err := failover.New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
}

// An engine refuses the orders of a router that has been replaced; that router learns it as a load
// that fails.
func TestRouterThatWasReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		for _, e := range g.engines {
			e.mu.Lock()
			e.epoch = 1 << 62
			e.mu.Unlock()
		}
		g.engines[0].kill()
		time.Sleep(time.Second)
		s := g.look()
		if s.Counts.LoadsFailed == 0 || !slices.ContainsFunc(s.Last.Steps, func(n failover.Notice) bool { return strings.Contains(n.Reason, "one of a newer epoch has been seen") }) {
			t.Errorf("counts %+v, steps %+v; want loads that fail for their epoch", s.Counts, s.Last.Steps)
		}
	})
}

// Agents that cannot be those of a host are refused, with the reason on one line.
func TestAgentsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		time.Sleep(100 * time.Millisecond)
		good := agents.Registration{Version: "9.9", Protocol: agents.Protocol, Incarnation: 7, URL: "http://elsewhere:9001"}
		other := good
		other.Protocol = agents.Protocol - 1
		for _, c := range []struct {
			path   string
			body   any
			status int
			want   string
		}{
			{agents.AgentPath("h1"), other, http.StatusBadRequest, `the agent, of version \"9.9\", speaks 1 and this router 2`},
			{agents.AgentPath("h9"), good, http.StatusNotFound, `the scenario has no host \"h9\"; it has h1, h2, h3`},
			{agents.AgentPath("h1"), good, http.StatusConflict, "an agent at http://h1:9001 reports for it"},
			{agents.AgentPath("h1"), "no registration", http.StatusBadRequest, "cannot register the agent of h1"},
			{agents.HeartbeatPath("h1"), agents.Pulse{Incarnation: 7, Sequence: 1}, http.StatusConflict, "register again"},
			{agents.HeartbeatPath("h9"), agents.Pulse{Incarnation: 7, Sequence: 1}, http.StatusNotFound, "h9"},
			{"/admin/failover/drill", map[string]string{"host": "h9"}, http.StatusNotFound, `the scenario has no host \"h9\"; it has h1, h2, h3`},
		} {
			w := post(g.admin(), c.path, c.body)
			if text := w.Body.String(); w.Code != c.status || !strings.Contains(text, c.want) || strings.Contains(strings.TrimSpace(text), `\n`) {
				t.Errorf("%s %v: status %d, %s; want %d, %s", c.path, c.body, w.Code, text, c.status, c.want)
			}
		}
		// The agent of a host that is gone makes room for another.
		g.engines[0].kill()
		time.Sleep(2 * time.Second)
		if w := post(g.admin(), agents.AgentPath("h1"), good); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"heartbeat_ms":20,"misses":2`) {
			t.Errorf("status %d, %s; want that it is accepted", w.Code, w.Body)
		}
	})
}

// An engine that stands still breaks no connection: what it was asked is asked of others as soon as
// its heartbeats are missed and it gives no other sign, and it answers again as soon as it is heard again.
func TestEngineThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		g.engines[0].freeze()
		began := time.Now()
		status, replica := g.ask("one")
		if took := time.Since(began); status != http.StatusOK || strings.HasSuffix(replica, "h1") || took > 100*time.Millisecond {
			t.Errorf("status %d by %s after %v, want an answer of another host within 100 ms", status, replica, took)
		}
		time.Sleep(time.Second)
		g.engines[0].thaw()
		time.Sleep(40 * time.Millisecond)
		if s := g.look(); s.Counts.FalseAlarms != 1 || s.Hosts[0].State != "returned" {
			t.Errorf("counts %+v, h1 %s; want a false alarm", s.Counts, s.Hosts[0].State)
		}
		if status, replica := g.ask("one"); status != http.StatusOK || replica != "large-one@h1" {
			t.Errorf("after its return: status %d by %s", status, replica)
		}
		s := g.after(5*time.Second, homes...)
		for i, e := range g.engines {
			if n := len(slices.DeleteFunc(g.orders(i), func(o string) bool { return !strings.HasPrefix(o, "load large") })); n > 0 {
				t.Errorf("%s has loaded a large model: %v", e.host, g.orders(i))
			}
		}
		if s.Unprotected != 0 {
			t.Error(fmt.Sprint(s.Applications))
		}
	})
}

// An engine whose agent reports, and that refuses connections, gets no requests with each of its
// heartbeats: only once it has been well for a while.
func TestEngineThatRefusesAndReports(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		e := g.engines[0]
		e.mu.Lock()
		e.shut = true
		e.mu.Unlock()
		for range 20 {
			if status, replica := g.ask("one"); status != http.StatusOK || strings.HasSuffix(replica, "@h1") {
				t.Fatalf("status %d by %s", status, replica)
			}
			time.Sleep(20 * time.Millisecond)
		}
		if n := g.look().Counts.Failovers; n > 2 {
			t.Errorf("%d failovers in 0.8 s of one refusal", n)
		}
		e.mu.Lock()
		e.shut = false
		e.mu.Unlock()
		g.after(10*time.Second, homes...)
		if status, replica := g.ask("one"); status != http.StatusOK || replica != "large-one@h1" {
			t.Errorf("status %d by %s once it listens again", status, replica)
		}
	})
}

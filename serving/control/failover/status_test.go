package failover_test

import (
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/engines/agents"
)

// A drill is a loss, though its server is there, until failback: then everything is as before at
// once, without the wait after a real return.
func TestDrill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		g.drill("h3")
		s := g.after(5*time.Second, "large-one@h1", "large-two@h2", "small@h2")
		if h := s.Hosts[2]; h.State != "lost" || !h.Drill || s.Counts.FalseAlarms != 0 || s.Counts.Failovers != 1 {
			t.Errorf("servers %+v, counts %+v", s.Hosts, s.Counts)
		}
		if status, replica := g.ask("three"); status != http.StatusOK || strings.HasSuffix(replica, "h3") {
			t.Errorf("status %d by %s during the drill", status, replica)
		}
		if w := post(g.admin(), "/admin/failover/drill", map[string]string{"host": "h3"}); w.Code != http.StatusConflict {
			t.Errorf("a second drill of it: status %d, %s", w.Code, w.Body)
		}
		if w := post(g.admin(), "/admin/failover/failback", struct{}{}); w.Code != http.StatusOK {
			t.Errorf("failback: status %d, %s", w.Code, w.Body)
		}
		s = g.after(time.Second, homes...)
		if status, replica := g.ask("three"); status != http.StatusOK || replica != "large-three@h3" {
			t.Errorf("status %d by %s after it", status, replica)
		}
		if s.Counts.FailedBack != 1 || s.Hosts[2].State != "up" {
			t.Errorf("counts %+v, servers %+v", s.Counts, s.Hosts)
		}
		if n := len(g.orders(2)); n > 1 {
			t.Errorf("h3 was ordered %v: its models were there", g.orders(2))
		}
	})
}

// What an engine cannot do is in the log at the start.
func TestDialectsThatDoLess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vllm, _ := agents.DialectNamed("vllm")
		triton, _ := agents.DialectNamed("triton")
		g := newRig(t, func(_ *failover.Options, s *serving.Options) {
			for i := range models {
				s.Backends[i].Lifecycle = vllm
				s.Backends[len(models)+i].Lifecycle = triton
				s.Backends[2*len(models)+i].Lifecycle = nil
			}
		})
		synctest.Wait()
		g.mu.Lock()
		log := g.logs.String()
		g.mu.Unlock()
		for _, want := range []string{"lifecycle=vllm hosts=h1", "it cannot load", "lifecycle=triton hosts=h2", "lifecycle=none hosts=h3", "nothing is loaded there"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %q:\n%s", want, log)
			}
		}
	})
}

var update = flag.Bool("update", false, "rewrite testdata/metrics.txt")

// exposed checks the metrics' names and labels against a file, which other tests read.
func exposed(t *testing.T, lines []string) {
	t.Helper()
	const file = "testdata/metrics.txt"
	var text strings.Builder
	for _, line := range lines {
		if name, _, ok := strings.Cut(line, " "); ok && strings.HasPrefix(name, "gearshift_failover_") {
			fmt.Fprintln(&text, name, "0")
		}
	}
	if *update {
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil || string(want) != text.String() {
		t.Errorf("%v; the metrics are\n%sif that is meant: go test ./serving/control/failover -run TestMetrics -update", err, text.String())
	}
}

// Each metric is there from the start, and counts.
func TestMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		g.drill("h1")
		time.Sleep(time.Second)
		synctest.Wait()
		w := httptest.NewRecorder()
		g.server.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		lines := strings.Split(w.Body.String(), "\n")
		exposed(t, lines)
		for _, want := range []string{
			`gearshift_failover_applications{state="active"} 3`,
			`gearshift_failover_applications{state="unrecovered"} 0`,
			`gearshift_failover_unprotected_applications 0`,
			`gearshift_failover_servers_lost_total{server="h1"} 1`,
			`gearshift_failover_servers_lost_total{server="h2"} 0`,
			`gearshift_failover_false_alarms_total{server="h1"} 0`,
			`gearshift_failover_affected_total 1`,
			`gearshift_failover_recovery_seconds_count 1`,
			`gearshift_failover_server_up{server="h1"} 0`,
			`gearshift_failover_server_up{server="h2"} 1`,
			`gearshift_failover_agents 3`,
			`gearshift_failover_subscribers 0`,
			`gearshift_failover_state_unsaved_total 0`,
			`gearshift_failover_loads_total{result="failure"} 0`,
			fmt.Sprintf("gearshift_failover_term %v", float64(g.module.Situation().Term)),
		} {
			if !slices.Contains(lines, want) {
				t.Errorf("no %s", want)
			}
		}
	})
}

// A router whose process stood still does not take its agents for lost by what it has not read yet.
func TestPausesAreNoSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.after(5*time.Second, homes...)
		for _, e := range g.engines {
			e.freeze() // as all of them look to a router that hears nothing
		}
		time.Sleep(70 * time.Millisecond)
		for _, e := range g.engines {
			e.thaw()
		}
		if s := g.after(time.Second, homes...); s.Counts.Failovers != 0 {
			t.Errorf("%d failovers, want none: %+v", s.Counts.Failovers, s.Last)
		}
		// One alone is lost.
		g.engines[0].freeze()
		time.Sleep(80 * time.Millisecond)
		if s := g.look(); s.Hosts[0].State != "lost" {
			t.Errorf("h1 is %s after 80 ms of silence", s.Hosts[0].State)
		}
		g.engines[0].thaw()
		time.Sleep(time.Second)
	})
}

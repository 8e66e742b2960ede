package failover_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// homes are what answers when all is well.
var homes = []string{"large-one@h1", "large-two@h2", "large-three@h3"}

// One of three engines dies under load: its application is answered by its backup within the time of
// two heartbeats, no request is lost, and what it needs is loaded after that. It comes back with
// nothing loaded, and its application moves back once it has been well for a while.
func TestEngineThatDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		s := g.after(5*time.Second, homes...)
		if s.Unprotected != 0 || s.Unrecovered != 0 {
			t.Errorf("%d unprotected and %d unrecovered: %+v", s.Unprotected, s.Unrecovered, s.Applications)
		}
		for i, a := range s.Applications {
			if len(a.Backups) != 1 || !strings.HasPrefix(a.Backups[0], "small@") || a.Backups[0] == "small@"+hosts[i] {
				t.Errorf("backups of %s: %v, want a small one on another host", a.Name, a.Backups)
			}
		}
		stop, lost := make(chan struct{}), make(chan string, 1000)
		var clients sync.WaitGroup
		for _, task := range tasks {
			clients.Go(func() {
				for {
					select {
					case <-stop:
						return
					case <-time.After(7 * time.Millisecond):
					}
					if status, replica := g.ask(task); status != http.StatusOK {
						lost <- fmt.Sprint(task, " ", status, " ", replica)
					}
				}
			})
		}
		time.Sleep(time.Second)
		g.engines[0].kill()
		time.Sleep(60 * time.Millisecond)
		s = g.look()
		if a := s.Applications[0]; !strings.HasPrefix(a.Active, "small@h2") && !strings.HasPrefix(a.Active, "small@h3") || s.Hosts[0].State != "lost" {
			t.Errorf("after 60 ms %+v, on servers %+v; want its backup", a, s.Hosts)
		}
		if s.Last == nil || s.Last.Host != "h1" || s.Counts.Recovered != 1 || s.Counts.MeanMS > 1 {
			t.Errorf("last failover %+v, counts %+v", s.Last, s.Counts)
		}
		time.Sleep(10 * time.Second)
		s = g.look()
		if s.Unrecovered != 0 {
			t.Errorf("after 10 s %+v", s.Applications)
		}
		g.engines[0].start()
		g.after(10*time.Second, homes...)
		close(stop)
		clients.Wait()
		close(lost)
		for l := range lost {
			t.Error("lost: ", l)
		}
		if got := g.engines[0].loaded(); !slices.Contains(got, "large-one") {
			t.Errorf("h1 has %v again, want its own large one", got)
		}
		if s := g.server.Status(); s.Replicas[1].State != "up" || s.Replicas[1].Lifecycle.State != "up" {
			t.Errorf("large-one@h1 is %+v", s.Replicas[1])
		}
	})
}

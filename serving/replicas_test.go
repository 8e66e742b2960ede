package serving_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A drained replica gets nothing new, keeps what it has, and stays drained when
// its health says that it is up.
func TestReplicaDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, takes(10*time.Second), withToken)
		done := make(chan *string, 1)
		go func() {
			w := g.do("POST", chat, ask)
			replica := w.Header().Get("X-Gearshift-Replica")
			done <- &replica
		}()
		synctest.Wait()
		w := g.order("POST", "/admin/replicas/small@a/drain", "")
		if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"name":"small@a"`) || !strings.Contains(w.Body.String(), `"up":false,"drained":true,"in_flight":1`) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		g.core.Ledger().SetUp(smallOnA, true) // as a probe that succeeds
		for range 2 {
			if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" {
				t.Errorf("status %d by %s", w.Code, w.Header().Get("X-Gearshift-Replica"))
			}
		}
		if replica := <-done; *replica != "small@a" {
			t.Errorf("the request in flight was answered by %s", *replica)
		}
		if got := g.metric(t, `gearshift_replica_drained{replica="small@a",variant="small"}`); got != "1" {
			t.Errorf("metric %s", got)
		}
		g.order("POST", "/admin/replicas/small@b/drain", "")
		g.order("POST", "/admin/replicas/large@a/drain", "")
		if w := g.do("GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
			t.Errorf("ready with all drained: status %d", w.Code)
		}
		if w := g.order("POST", "/admin/replicas/small@a/undrain", ""); !strings.Contains(w.Body.String(), `"up":true,"drained":false`) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		if w := g.do("POST", chat, ask); w.Header().Get("X-Gearshift-Replica") != "small@a" {
			t.Errorf("after the end of the drain by %s", w.Header().Get("X-Gearshift-Replica"))
		}
	})
}

func TestReplicaOrdersAreRefused(t *testing.T) {
	g := newRig(t, nil, withToken)
	for path, code := range map[string]string{
		"nobody@a/drain": "unknown_replica", "small@a/stop": "unknown_url", "small@a": "unknown_url", "/drain": "unknown_replica", "drain": "unknown_replica",
	} {
		w := g.order("POST", "/admin/replicas/"+path, "")
		if message, _, _, got := readError(t, w.Body.Bytes()); w.Code != http.StatusNotFound || got != code {
			t.Errorf("%s: status %d, %s: %s", path, w.Code, got, message)
		}
	}
}

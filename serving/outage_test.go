package serving_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// The case of LiteLLM's issue 40405: twenty requests, one each four seconds, of which the first
// replica's port refuses connections for a minute. There each of them cost three tries and 5 to 6 s. Here
// none takes longer than one that meets no outage, since a refused port costs no time, and is asked by
// probes alone from then on. On a real network the first one takes a round trip more.
func TestAnOutageCostsNoRequestAnyTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		primary, attempts := 0, 0
		for i := range 20 {
			down := i >= 3 && i < 18
			engines[smallOnA].down.Store(down)
			start := time.Now()
			w := g.do("POST", chat, ask)
			if took := time.Since(start); w.Code != http.StatusOK || took != 10*time.Millisecond {
				t.Errorf("request %d: status %d after %v, want 200 after 10ms", i, w.Code, took)
			}
			if w.Header().Get("X-Gearshift-Replica") == "small@a" {
				if primary++; down {
					t.Errorf("request %d was answered by a replica that refuses connections", i)
				}
			}
			if w.Header().Get("X-Gearshift-Attempts") != "1" {
				attempts++
			}
			time.Sleep(time.Until(start.Add(4 * time.Second)))
		}
		if primary < 4 || attempts > 1 {
			t.Errorf("%d were answered by the first replica, want those before the outage and those soon after it; %d were sent twice, want at most the first of the outage", primary, attempts)
		}
	})
}

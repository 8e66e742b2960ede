package serving_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
)

// A replica that is empty because it refuses all would be every balancer's first choice.
func TestAReplicaThatIsFullAttractsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, forwards := range []bool{false, true} { // of which it may be one client's quota
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, says(429, jsonType, theirError), good, good), func(o *serving.Options) {
				o.Config.Retries.BudgetMin = 100
				o.Backends[smallOnA].Transport = keyed{o.Backends[smallOnA].Transport.(transport), forwards}
			})
			for range 20 {
				if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
					t.Fatalf("status %d", w.Code)
				}
			}
			want := 1
			if forwards {
				want = 20
			}
			if n := len(asked) - 20; n != want {
				t.Errorf("forwards %v: asked %d times in vain, want %d", forwards, n, want)
			}
			if busy := len(g.counted("gearshift_replica_busy")); busy != 1 && !forwards {
				t.Errorf("%d replicas are busy by the metrics", busy)
			}
			if got := g.states(); got != "up up up" {
				t.Errorf("states %s", got)
			}
			g.Close()
		}
	})
}

// SGLang says 503 while its queue is full, and works on what is in it.
func TestAFullQueueIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var full atomic.Bool
		g := newRig(t, good, func(o *serving.Options) {
			o.Backends[smallOnA].Transport = transport(func(r *http.Request) (*http.Response, error) {
				if full.Load() {
					return says(503, jsonType, theirError)(r)
				}
				return good(r)
			})
		})
		for range 20 {
			full.Store(false)
			g.do("POST", chat, ask) // an answer
			full.Store(true)
			g.do("POST", chat, ask)
			time.Sleep(200 * time.Millisecond)
		}
		if got := g.states(); got != "up up up" {
			t.Errorf("states %s", got)
		}
		time.Sleep(time.Minute)
		for range 10 { // now it answers nothing any more
			g.do("POST", chat, ask)
		}
		if got := g.states(); got != "ejected/failures up up" {
			t.Errorf("states %s", got)
		}
	})
}

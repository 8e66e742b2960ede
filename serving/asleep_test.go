package serving_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/engines/agents"
)

// silentAsleep is an engine that takes requests while it sleeps, and answers none.
type silentAsleep struct{ *loader }

func (m silentAsleep) RoundTrip(r *http.Request) (*http.Response, error) {
	if m.is() != "READY" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return m.loader.RoundTrip(r)
}

// An engine that others put to sleep is asked as soon as its requests are silent, and what no client
// has a byte of is tried elsewhere, whole answers and streams.
func TestRequestsOfAnEngineThatSleepsGoElsewhere(t *testing.T) {
	for _, stream := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			e := silentAsleep{newLoader("http://a", "READY")}
			vllm, err := agents.DialectNamed("vllm")
			if err != nil {
				t.Fatal(err)
			}
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, good, good, good), func(o *serving.Options) {
				o.Config.Gauges.Interval, o.Config.Health.ProbeInterval = 0, 0
				o.Config.Lifecycle.PollInterval = time.Hour
				o.Config.Retries.BudgetPercent, o.Config.Retries.BudgetMin = 0, 0
				o.Backends[smallOnA] = serving.Backend{Transport: e, Lifecycle: vllm, Model: "small"}
			})
			time.Sleep(time.Second)
			e.become("ASLEEP")
			began := time.Now()
			var all sync.WaitGroup
			for range 6 {
				all.Go(func() {
					w := g.do("POST", chat, fmt.Sprintf(`{"model":"small","stream":%v,"messages":[]}`, stream))
					if took := time.Since(began); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" || took > 3*time.Second {
						t.Errorf("stream %v: status %d of %s after %v", stream, w.Code, w.Header().Get("X-Gearshift-Replica"), took)
					}
				})
			}
			all.Wait()
			g.stands(t, smallOnA, "warm")
			if retried := g.counted(`gearshift_retries_total`); len(retried) == 0 {
				t.Error("no request was moved")
			}
			if n := g.core.Ledger().InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
		})
	}
}

// An engine that says that it is awake after a wake that has failed gets no requests, and the order's
// error stays.
func TestAFailedWakeGetsNoRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLoader("http://a", "READY")
		g := newRig(t, takes(time.Millisecond), withToken, drivenBy(t, e, "vllm"))
		synctest.Wait()
		g.ordered(t, "sleep?level=2", http.StatusAccepted, `"state"`)
		g.stands(t, smallOnA, "warm")
		g.ordered(t, "wake", http.StatusAccepted, `"state"`)
		time.Sleep(time.Minute)
		g.stands(t, smallOnA, "warm")
		if why := g.Status().Replicas[smallOnA].Lifecycle.Error; !strings.Contains(why, "small@a was not woken: the engine has no POST /collective_rpc") {
			t.Errorf("error %q", why)
		}
		if e.is() != "ASLEEP" {
			t.Errorf("the engine is %s, want it asleep", e.is())
		}
	})
}

// A sleep of one model waits for the requests of all models of its engine, which are warm at once.
func TestModelsOfOneEngineSleepTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newLoader("http://a", "READY")
		g := newRig(t, takes(time.Millisecond), withToken, drivenBy(t, e, "vllm"), func(o *serving.Options) {
			o.Config.Lifecycle.PollInterval = time.Hour
			o.Backends[smallOnB] = o.Backends[smallOnA]
		})
		time.Sleep(time.Second)
		answered := make(chan int, 12)
		for range cap(answered) {
			go func() { answered <- g.do("POST", chat, ask).Code }()
		}
		time.Sleep(time.Millisecond)
		g.ordered(t, "sleep", http.StatusAccepted, `"state"`)
		g.stands(t, smallOnB, "draining draining to warm")
		for range cap(answered) {
			if code := <-answered; code != http.StatusOK {
				t.Errorf("a request in flight got %d", code)
			}
		}
		time.Sleep(time.Second)
		g.stands(t, smallOnA, "warm")
		g.stands(t, smallOnB, "warm")
		g.ordered(t, "wake", http.StatusAccepted, `"state"`)
		time.Sleep(time.Second)
		g.stands(t, smallOnB, "up")
	})
}

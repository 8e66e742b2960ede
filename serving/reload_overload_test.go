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
	"gearshift/serving/config"
)

const objective = "x-llm-d-inference-objective"

// reloads is a crowd that one request at a time of serves, and whose configuration can
// be changed.
func reloads(t *testing.T, rt http.RoundTripper, change ...func(*serving.Options)) (*crowd, func(func(*config.Config))) {
	t.Helper()
	w := &ward{}
	c := overloaded(t, rt, append(change, withReloader(w))...)
	return c, func(f func(*config.Config)) {
		t.Helper()
		f(&w.change.Config)
		if out, err := c.Reload("test"); err != nil || len(out.NeedRestart) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
}

// wantShed says that the request was refused at once, for the reason.
func (c *crowd) wantShed(t *testing.T, name, reason string) {
	t.Helper()
	if a := c.answer(name); a.status != http.StatusTooManyRequests || a.header.Get("X-Gearshift-Reason") != reason || a.took != 0 {
		t.Errorf("%s: status %d, %q after %v; want %s at once", name, a.status, a.header.Get("X-Gearshift-Reason"), a.took, reason)
	}
}

// Bounds hold from the reload on. Who waits already stays, in order.
func TestReloadOfTheQueueWhileSomeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reload := reloads(t, lasting(time.Second), patient, func(o *serving.Options) { o.Config.Overload.MaxQueue = 1 })
		send := func(names ...string) {
			for _, name := range names {
				c.send(t.Context(), name)
			}
		}
		send("a", "b", "too many")
		c.wantShed(t, "too many", "queue_full")
		reload(func(f *config.Config) { f.Overload.MaxQueue = 3 })
		send("c", "d", "too many of four")
		c.wantShed(t, "too many of four", "queue_full")
		reload(func(f *config.Config) { f.Overload.MaxQueue = 2 })
		send("too many of two")
		c.wantShed(t, "too many of two", "queue_full")
		if c.waiting() != 3 {
			t.Errorf("%d wait", c.waiting())
		}
		reload(func(f *config.Config) { f.Overload.MaxQueue = 0 })
		send("nobody waits")
		c.wantShed(t, "nobody waits", "queue_full")
		c.all.Wait()
		if got := strings.Join(c.finished, " "); got != "a b c d" {
			t.Errorf("served %s", got)
		}
		send("e", "nobody waits now") // who finds room needs no queue
		c.wantShed(t, "nobody waits now", "saturated")
		c.all.Wait()
		if a := c.answer("e"); a.status != http.StatusOK || a.took != time.Second {
			t.Errorf("status %d after %v", a.status, a.took)
		}
	})
}

// Who waits has the time that it was given; who comes then, what is allowed then.
func TestReloadOfTheBoundsOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reload := reloads(t, lasting(time.Minute), func(o *serving.Options) { o.OutputTokens, o.Config.Overload.WaitShare = 500, 1 })
		c.send(t.Context(), "first")
		c.send(t.Context(), "before") // 5 s, by max_wait
		reload(func(f *config.Config) { f.Overload.MaxWait = 3 * time.Second })
		c.send(t.Context(), "shorter")
		reload(func(f *config.Config) { f.Overload.WaitShare = 0.05 }) // of 40 ms × 500
		c.send(t.Context(), "share")
		c.all.Wait()
		for name, want := range map[string]time.Duration{"before": 5 * time.Second, "shorter": 3 * time.Second, "share": time.Second} {
			if a := c.answer(name); a.took.Round(time.Millisecond) != want || a.status != http.StatusTooManyRequests {
				t.Errorf("%s: status %d after %v, want %v", name, a.status, a.took, want)
			}
		}
	})
}

func TestReloadOfTheTenantsHeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reload := reloads(t, lasting(time.Second), patient)
		c.send(t.Context(), "before")
		reload(func(f *config.Config) { f.Overload.TenantHeader = "x-team" })
		for _, name := range []string{"a1", "a2", "b1"} {
			c.send(t.Context(), name, "x-team", name[:1])
		}
		c.all.Wait()
		if got := strings.Join(c.finished, " "); got != "before a1 b1 a2" {
			t.Errorf("served %s", got)
		}
	})
}

func TestReloadOfRetryAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reload := reloads(t, lasting(2*time.Second), patient, func(o *serving.Options) { o.Config.Overload.MaxQueue = 20 })
		for range 21 {
			c.send(t.Context(), "one of many")
		}
		time.Sleep(19 * time.Second)
		reload(func(f *config.Config) { f.Overload.MaxQueue, f.Overload.MaxRetryAfter = 1, 7*time.Second })
		c.send(t.Context(), "refused")
		if after := c.answer("refused").header.Get("Retry-After"); after != "7" {
			t.Errorf("Retry-After %q", after)
		}
		c.all.Wait()
	})
}

// Classes come, go and change their priorities under those who wait.
func TestReloadOfClassesWhileSomeWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, reload := reloads(t, lasting(time.Second), patient)
		send := func(name, class string) { c.send(t.Context(), name, objective, class) }
		wantBad := func(name string) {
			t.Helper()
			if a := c.answer(name); a.status != http.StatusBadRequest {
				t.Errorf("%s: status %d", name, a.status)
			}
		}
		send("before", "anything")
		send("default", "anything") // there are no classes yet
		reload(func(f *config.Config) {
			f.Classes = []config.Class{{Name: "plain"}, {Name: "batch", Priority: -1}, {Name: "urgent", Priority: 1}}
		})
		send("batch", "batch")
		send("plain", "")
		send("urgent", "urgent")
		send("unknown", "anything")
		wantBad("unknown")
		// The first becomes the last, one goes, and one comes.
		reload(func(f *config.Config) {
			f.Classes = []config.Class{{Name: "batch", Priority: 9}, {Name: "urgent", Priority: 1}, {Name: "now", Priority: 99}}
		})
		send("gone", "plain")
		wantBad("gone")
		send("now", "now")
		send("first", "") // of the first class by now
		var classes []string
		for _, q := range c.Status().Queue {
			classes = append(classes, q.Class)
		}
		if got := strings.Join(classes, " "); got != "batch urgent now default plain" { // two of which only wait
			t.Errorf("classes %s", got)
		}
		c.all.Wait()
		if got := strings.Join(c.finished, " "); got != "before now batch first urgent default plain" {
			t.Errorf("served %s", got)
		}
		if q := c.Status().Queue; len(q) != 3 {
			t.Errorf("nobody waits, and the status is of %+v", q)
		}
		for class, n := range map[string]string{"default": "1", "plain": "1", "batch": "2", "urgent": "1", "now": "1"} {
			c.wantMetric(t, `gearshift_queue_wait_seconds_count{class="`+class+`"} `+n)
		}
		reload(func(f *config.Config) { f.Classes = nil })
		if w := c.do("POST", chat, ask, objective, "anything"); w.Code != http.StatusOK {
			t.Errorf("without classes again: status %d", w.Code)
		}
	})
}

// A crowd in real time, while classes, bounds and all else change under it: each request
// ends in one way, and no place is lost.
func TestACrowdLosesNothingThroughReloads(t *testing.T) {
	w := &ward{}
	g := newRig(t, lasting(100*time.Microsecond), withReloader(w))
	var clients sync.WaitGroup
	for n := range 20 {
		clients.Go(func() {
			for range 50 {
				w := g.do("POST", chat, ask, objective, []string{"steady", "comes-and-goes"}[n%2], "X-Gearshift-Tenant", fmt.Sprint(n%5))
				if w.Code != http.StatusOK && w.Code != http.StatusTooManyRequests && (w.Code != http.StatusBadRequest || n%2 == 0) {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			}
		})
	}
	over := make(chan struct{})
	go func() {
		clients.Wait()
		close(over)
	}()
	for i := 0; ; i++ {
		c := &w.change.Config
		c.Classes = []config.Class{{Name: "steady", Priority: i % 3}, {Name: "comes-and-goes", Share: 2}}[:1+i%2]
		c.Overload.MaxQueue, c.Retries.BudgetWindow = i%4*3, time.Duration(1+i%3)*time.Second
		c.Health.SilentAfter, c.Health.Trials = time.Duration(i%2)*time.Second, 1+i%5
		if _, err := g.Reload("test"); err != nil {
			t.Fatal(err)
		}
		select {
		case <-over:
			if n := g.core.Ledger().InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
			for _, q := range g.Status().Queue {
				if q.Waiting != 0 {
					t.Errorf("%d wait of %s", q.Waiting, q.Class)
				}
			}
			return
		default:
		}
	}
}

package serving_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

// steeredEngines are engines whose server's configuration can be changed.
func steeredEngines(t *testing.T, change ...func(*serving.Options)) (*rig, []*asked, func(func(*config.Config))) {
	t.Helper()
	w := &ward{}
	g, engines := newEngines(t, append(change, withReloader(w))...)
	return g, engines, func(f func(*config.Config)) {
		t.Helper()
		f(&w.change.Config)
		if out, err := g.Reload("test"); err != nil || len(out.Changed) == 0 || len(out.NeedRestart) > 0 {
			t.Fatalf("%+v, %v", out, err)
		}
	}
}

// Requests go on while those who ask after their engines are sent out anew.
func TestReloadOfProbesUnderLoad(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines, reload := steeredEngines(t)
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan int)
		go func() {
			served := 0
			for ctx.Err() == nil {
				if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				served++
			}
			done <- served
		}()
		probes := func(least, most int32) {
			t.Helper()
			engines[0].probes.Store(0)
			time.Sleep(time.Minute)
			if n := engines[0].probes.Load(); n < least || n > most {
				t.Errorf("%d probes in a minute, want %d to %d", n, least, most)
			}
		}
		probes(26, 33)
		reload(func(c *config.Config) { c.Health.ProbeInterval = 10 * time.Second })
		probes(5, 7)
		reload(func(c *config.Config) { c.Health.ProbePath = "/v1/models" })
		probes(0, 0)
		reload(func(c *config.Config) { c.Health.ProbePath, c.Health.ProbeInterval = "/health", 0 })
		probes(0, 0)
		reload(func(c *config.Config) { c.Health.ProbeInterval = time.Second })
		probes(52, 66)
		stop()
		if served := <-done; served < 100 {
			t.Errorf("only %d requests", served)
		}
		g.wantStates(t, "up up up")
	})
}

func TestReloadOfWhatEjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines, reload := steeredEngines(t, func(o *serving.Options) { o.Config.Retries.Max = 0 })
		// It hangs: by default it is found out after half a minute.
		engines[0].hangs.Store(true)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		silent := func() time.Duration {
			start := time.Now()
			for g.Status().Replicas[smallOnA].Up && time.Since(start) < 20*time.Second {
				go g.unread(ctx)
				time.Sleep(100 * time.Millisecond)
			}
			return time.Since(start)
		}
		reload(func(c *config.Config) { c.Health.SilentAfter = 0 })
		if took := silent(); took < 20*time.Second {
			t.Errorf("ejected after %v, though silence is none", took)
		}
		reload(func(c *config.Config) { c.Health.SilentAfter, c.Cooldown = 5*time.Second, 40*time.Second })
		if took := silent(); took < 5*time.Second || took > 7*time.Second {
			t.Errorf("it is ejected after %v, want 5 s of silence from the reload on", took)
		}
		g.wantStates(t, "ejected/silent up up")
		if !strings.Contains(g.logs.String(), "cooldown=3") { // 40 s, less a fifth at most
			t.Errorf("another cooldown: %s", g.logs)
		}
		// Without probes it is the cooldown alone that counts, with them their word too.
		engines[1].down.Store(true)
		time.Sleep(3 * time.Second)
		g.wantStates(t, "ejected/silent ejected/connect up")
		time.Sleep(50 * time.Second)
		g.wantStates(t, "half_open/silent ejected/connect up")
		reload(func(c *config.Config) { c.Health.ProbeInterval = 0 })
		g.wantStates(t, "half_open/silent half_open/connect up")
	})
}

func TestReloadOfGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines, reload := steeredEngines(t)
		page := "vllm:num_requests_running 1\n"
		engines[1].metrics.Store(&page)
		counts := func(want int32) {
			t.Helper()
			synctest.Wait()
			var v fleet.View
			g.core.Ledger().View(0, &v)
			if v.InFlight[smallOnB] != want {
				t.Errorf("%d in flight by the view, want %d", v.InFlight[smallOnB], want)
			}
		}
		time.Sleep(10 * time.Second)
		counts(1)
		reload(func(c *config.Config) { c.Gauges.Interval = 0 })
		counts(0)
		reload(func(c *config.Config) { c.Gauges.Interval = time.Second })
		time.Sleep(10 * time.Second)
		counts(1)
	})
}

// After the end a reload sends nobody out.
func TestReloadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines, reload := steeredEngines(t)
		g.Close()
		reload(func(c *config.Config) { c.Health.ProbeInterval, c.Health.SilentAfter = 5*time.Second, time.Second })
		time.Sleep(time.Minute)
		if n := engines[0].probes.Load(); n != 0 {
			t.Errorf("%d probes", n)
		}
	})
}

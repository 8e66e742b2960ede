package serving_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

// The budget of retries is another from the next failure on, and what has been spent
// counts on.
func TestReloadOfTheBudgetOfRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		var asked []string
		status := http.StatusOK
		backend := transport(func(r *http.Request) (*http.Response, error) { return says(status, jsonType, fine)(r) })
		g := newRig(t, nil, fleetOf(&asked, backend, backend, backend), withReloader(w), func(o *serving.Options) {
			o.Config.Retries = config.Retries{Max: 5, BudgetMin: 3, BudgetWindow: 10 * time.Second}
			o.Config.Health.Failures, o.Config.Health.FailureShare = 0, 0 // all stay up
			w.change.Config = o.Config
		})
		reload := func(change func(*config.Retries)) {
			t.Helper()
			change(&w.change.Config.Retries)
			if out, err := g.Reload("test"); err != nil || len(out.Changed) == 0 {
				t.Fatalf("%+v, %v", out, err)
			}
		}
		want := func(requests, retries int) {
			t.Helper()
			asked = nil
			for range requests {
				g.do("POST", chat, ask)
			}
			if n := len(asked) - requests; n != retries {
				t.Errorf("%d retries of %d requests, want %d", n, requests, retries)
			}
		}
		want(91, 0)
		status = http.StatusBadGateway
		want(9, 3)
		reload(func(r *config.Retries) { r.BudgetMin = 5 })
		want(10, 2)
		reload(func(r *config.Retries) { r.BudgetPercent = 10 }) // of 110, and of those that come
		want(1, 2)
		want(9, 5)
		reload(func(r *config.Retries) { r.BudgetWindow = time.Minute })
		want(9, 0)
		time.Sleep(30 * time.Second)
		want(1, 1) // of 130, half a minute ago
		reload(func(r *config.Retries) { r.BudgetWindow = 10 * time.Second })
		want(1, 2) // of the minimum: what was half a minute ago counts no more
		want(9, 2)
		reload(func(r *config.Retries) { r.Max = 0 })
		time.Sleep(time.Minute)
		want(9, 0)
	})
}

// A lease has the time that its answer has promised.
func TestReloadOfTheTimeOfALease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		g := newRig(t, nil, withReloader(w))
		lease := func(expires string) {
			t.Helper()
			if w := g.do("POST", "/v1/gearshift/route", "{}"); !strings.Contains(w.Body.String(), `"expires_s":`+expires+`}`) {
				t.Errorf("want one that expires after %s s: %s", expires, w.Body)
			}
		}
		lease("600")
		w.change.Config.LeaseTimeout = 7 * time.Second
		if out, err := g.Reload("test"); err != nil || len(out.Changed) != 1 {
			t.Fatalf("%+v, %v", out, err)
		}
		lease("7")
		for _, c := range []struct {
			after time.Duration
			open  int
		}{{6 * time.Second, 2}, {2 * time.Second, 1}, {591 * time.Second, 1}, {2 * time.Second, 0}} {
			time.Sleep(c.after)
			synctest.Wait()
			if n := g.core.Ledger().InFlight(); n != c.open {
				t.Errorf("after another %v %d are open, want %d", c.after, n, c.open)
			}
		}
	})
}

// It is all or nothing: a fault in any key keeps the sound ones out too.
func TestAFaultInOneKeyKeepsAllOthersOut(t *testing.T) {
	for fault, spoil := range map[string]func(*config.Config){
		"overload.shed":            func(c *config.Config) { c.Overload.Shed = "some" },
		"overload.pace":            func(c *config.Config) { c.Overload.Pace = 0 },
		"overload.kv":              func(c *config.Config) { c.Overload.KV = -1 },
		"overload.max_queue":       func(c *config.Config) { c.Overload.MaxQueue = -1 },
		"overload.max_wait":        func(c *config.Config) { c.Overload.MaxWait = 0 },
		"overload.wait_share":      func(c *config.Config) { c.Overload.WaitShare = 2 },
		"overload.max_retry_after": func(c *config.Config) { c.Overload.MaxRetryAfter = 1 },
		"overload.tenant_header":   func(c *config.Config) { c.Overload.TenantHeader = "x y" },
		"classes[1].name":          func(c *config.Config) { c.Classes = append(c.Classes, config.Class{Name: "new"}) },
		"classes[0].share":         func(c *config.Config) { c.Classes = []config.Class{{Name: "new", Share: -1}} },
		"retries.max":              func(c *config.Config) { c.Retries.Max = -1 },
		"retries.budget_percent":   func(c *config.Config) { c.Retries.BudgetPercent = -1 },
		"retries.budget_min":       func(c *config.Config) { c.Retries.BudgetMin = -1 },
		"retries.budget_window":    func(c *config.Config) { c.Retries.BudgetWindow = 0 },
		"lease_timeout":            func(c *config.Config) { c.LeaseTimeout = 0 },
		"log.level":                func(c *config.Config) { c.Log.Level = "loud" },
		"log.access":               func(c *config.Config) { c.Log.Access = "some" },
		"log.sample":               func(c *config.Config) { c.Log.Sample = 0 },
		"cooldown":                 func(c *config.Config) { c.Cooldown = 0 },
		"health.max_cooldown":      func(c *config.Config) { c.Cooldown = time.Hour },
		"health.trials":            func(c *config.Config) { c.Health.Trials = 0 },
		"health.silent_after":      func(c *config.Config) { c.Health.SilentAfter = -1 },
		"gauges.scrape_timeout":    func(c *config.Config) { c.Gauges.Timeout = 0 },
		"gauges.stale_after":       func(c *config.Config) { c.Gauges.Interval = time.Hour },
	} {
		t.Run(fault, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &ward{}
				g, engines := newEngines(t, withReloader(w))
				c := &w.change.Config
				c.Classes = []config.Class{{Name: "new"}}
				c.LeaseTimeout, c.Log.Access, c.Health.ProbePath = 7*time.Second, config.AccessAll, "/new"
				w.change.Commit = func() { t.Error("committed") }
				spoil(c)
				if out, err := g.Reload("test"); err == nil || !strings.Contains(err.Error(), fault+":") || len(out.Changed)+len(out.NeedRestart) > 0 {
					t.Errorf("%+v, %v", out, err)
				}
				if w := g.do("POST", chat, ask, objective, "old"); w.Code != http.StatusOK || strings.Contains(g.logs.String(), "msg=request") {
					t.Errorf("status %d, and the log says %s", w.Code, g.logs)
				}
				if w := g.do("POST", "/v1/gearshift/route", "{}"); !strings.Contains(w.Body.String(), `"expires_s":600}`) {
					t.Errorf("lease %s", w.Body)
				}
				engines[0].probes.Store(0)
				time.Sleep(time.Minute)
				if n := engines[0].probes.Load(); n < 25 {
					t.Errorf("%d probes of the path before", n)
				}
			})
		})
	}
}

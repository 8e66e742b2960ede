package serving_test

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

func TestHedges(t *testing.T) {
	const s = time.Second
	late := func(d time.Duration, rt transport) transport {
		return func(r *http.Request) (*http.Response, error) {
			if !sleep(r.Context(), d) {
				return nil, context.Cause(r.Context())
			}
			return rt(r)
		}
	}
	for _, c := range []struct {
		name      string
		a, b      transport
		asked     []string
		replica   string
		took      time.Duration
		hedge     string // its result; empty without one
		outcome   string
		minBudget int
	}{
		{"the first is quick", late(s, good), good, []string{"small@a"}, "small@a", s, "", "completed", 9},
		{"the second is quicker", late(9*s, good), late(s, good), []string{"small@a", "small@b"}, "small@b", 3 * s, "won", "completed", 9},
		{"the first is quicker after all", late(3*s, good), late(9*s, good), []string{"small@a", "small@b"}, "small@a", 3 * s, "lost", "completed", 9},
		{"a header is no byte", scripted(0, eventType, step{9 * s, token}, step{0, done}), late(s, good), []string{"small@a", "small@b"}, "small@b", 3 * s, "won", "completed", 9},
		{"the second fails", late(9*s, good), late(s, refuses), []string{"small@a", "small@b"}, "small@a", 9 * s, "lost", "completed", 9},
		{"the first fails after the second was asked", late(3*s, refuses), late(5*s, good), []string{"small@a", "small@b"}, "small@b", 7 * s, "won", "completed", 9},
		{"the first fails before", late(s, refuses), good, []string{"small@a", "small@b"}, "small@b", s, "", "completed", 9},
		{"both fail, so the next variant is asked", late(3*s, refuses), late(5*s, refuses), []string{"small@a", "small@b", "large@a"}, "large@a", 7 * s, "failed", "completed", 9},
		{"no budget", late(9*s, good), good, []string{"small@a"}, "small@a", 9 * s, "", "completed", 0},
		{"a panic", late(3*s, func(*http.Request) (*http.Response, error) { panic("boom") }), late(9*s, good), []string{"small@a", "small@b"}, "", 3 * s, "", "panicked", 9},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, c.a, c.b, good), func(o *serving.Options) {
					o.Config.Retries = config.Retries{Max: 2, BudgetMin: c.minBudget, BudgetWindow: time.Minute, HedgeAfter: 2 * s}
				})
				start := time.Now()
				w, broken := g.visit(askStream)
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				// The loser's place is free and its work cancelled as soon as another has won.
				synctest.Wait()
				g.settled(t, c.outcome)
				if !slices.Equal(asked, c.asked) || broken {
					t.Errorf("asked %v, want %v; broken %v", asked, c.asked, broken)
				}
				if c.outcome == "completed" && (w.Header().Get("X-Gearshift-Replica") != c.replica || w.Code != http.StatusOK) {
					t.Errorf("status %d, header %v", w.Code, w.Header())
				}
				var want []string
				if c.hedge != "" {
					want = []string{`gearshift_hedges_total{result="` + c.hedge + `"} 1`}
				}
				if got := g.counted("gearshift_hedges_total"); !slices.Equal(got, want) {
					t.Errorf("counted %q, want %q", got, want)
				}
			})
		})
	}
}

// TestALostHedgeHoldsNothing looks at the ledger and at the loser's context while
// the winner still streams.
func TestALostHedgeHoldsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var cancelled atomic.Bool
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			cancelled.Store(true)
			return nil, r.Context().Err()
		}, scripted(time.Second, eventType, step{0, token}, step{9 * time.Second, done}), good), func(o *serving.Options) {
			o.Config.Retries.HedgeAfter = time.Second
		})
		over := make(chan struct{})
		go func() {
			defer close(over)
			g.visit(`{"model":"auto","stream":true,"messages":[{"role":"user","content":"one two three"}]}`)
		}()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		var v fleet.View
		g.core.Ledger().View(0, &v)
		if !slices.Equal(v.InFlight, []int32{0, 1, 0}) || !cancelled.Load() {
			t.Errorf("in flight %v, the loser cancelled %v", v.InFlight, cancelled.Load())
		}
		if got := v.Recent.Known(); !slices.Equal(got, []float32{0.5}) { // taken to be in time, on the small variant
			t.Errorf("remembered are %v, want one request", got)
		}
		<-over
		g.settled(t, "completed")
		g.do("POST", chat, ask) // routing brings what is held up to date
		g.core.Ledger().View(0, &v)
		if !slices.Equal(v.Held, []int32{0, 0, 0}) {
			t.Errorf("held %v", v.Held)
		}
	})
}

package serving_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/serving"
	"gearshift/serving/config"
)

// The hosts of the test fleet: small@a and large@a are on the first.
const hostA, hostB = 0, 1

// caught is a request that is at small@a when host a is lost, ten seconds after it came.
type caught struct {
	*httptest.ResponseRecorder
	broken bool
	took   time.Duration // after the loss
}

// lose has a request sent, and host a lost ten seconds later.
func (g *rig) lose(body string) (c caught) {
	over := make(chan struct{})
	start := time.Now()
	go func() {
		defer close(over)
		c.ResponseRecorder, c.broken = g.visit(body)
		c.took = time.Since(start) - 10*time.Second
	}()
	time.Sleep(10 * time.Second)
	synctest.Wait()
	g.Engines().Leave(hostA)
	<-over
	return c
}

// No connection breaks when a process is stopped, or a link is gone. Requests of which no client
// has anything go elsewhere as soon as the host counts as lost; they cost none of the budget.
func TestARequestOnALostHostIsAnsweredElsewhere(t *testing.T) {
	const s = time.Second
	for name, first := range map[string]transport{
		"before the header":      mute,
		"after the header":       scripted(s, jsonType),
		"within an answer":       scripted(s, jsonType, step{s, fine[:40]}),
		"within the first event": scripted(s, eventType, step{s, `data: {"choi`}),
		"connecting": func(r *http.Request) (*http.Response, error) {
			_, err := mute(r)
			return nil, fmt.Errorf("cannot connect: %w", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, first, good, mute), func(o *serving.Options) {
					o.Config.Retries = config.Retries{Max: 1, BudgetWindow: time.Second}
				})
				c := g.lose(askStream)
				if c.Code != http.StatusOK || c.Body.String() != fine || c.broken || c.took != 0 {
					t.Errorf("status %d %q, broken %v, %v after the loss", c.Code, c.Body, c.broken, c.took)
				}
				if h := c.Header(); !slices.Equal(asked, []string{"small@a", "small@b"}) || h.Get("X-Gearshift-Replica") != "small@b" || h.Get("X-Gearshift-Attempts") != "2" {
					t.Errorf("asked %v, header %v", asked, h)
				}
				if got := g.counted("gearshift_retries_total"); !slices.Equal(got, []string{`gearshift_retries_total{reason="lost",to="replica"} 1`}) {
					t.Errorf("counted %q", got)
				}
				g.wantStates(t, "ejected/host up ejected/host")
				g.settled(t, "completed")
			})
		})
	}
}

// Comments are no beginning: the answer may still be another replica's.
func TestAStreamOfCommentsFromALostHostGoesOnElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, scripted(0, eventType, step{0, ping}), scripted(0, eventType, step{0, token}, step{0, done}), good))
		if c := g.lose(askStream); c.Body.String() != ping+token+done || c.broken || c.took != 0 {
			t.Errorf("got %q, broken %v, %v after the loss", c.Body, c.broken, c.took)
		}
		g.settled(t, "completed")
	})
}

// However many hosts are lost one after the other, the request goes on as long as any can answer,
// and ends with an error when none is left, and none comes back for a while.
func TestLossesCostNoRetries(t *testing.T) {
	for _, heard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, mutedOnce(), mute, good), func(o *serving.Options) {
				o.Config.Retries = config.Retries{Max: 1, BudgetWindow: time.Second}
			})
			steps := []func(){func() { g.Engines().Leave(hostA) }, func() {}, func() { g.Engines().Leave(hostB) }}
			if heard {
				steps[1] = func() { g.Engines().Return(hostA) }
			}
			for i, f := range steps {
				time.AfterFunc(time.Duration(i+1)*time.Second, f)
			}
			start := time.Now()
			w := g.do("POST", chat, ask)
			want, status := []string{"small@a", "small@b"}, http.StatusBadGateway
			if heard {
				want, status = append(want, "small@a"), http.StatusOK // which is well again
			}
			took := time.Since(start)
			if heard {
				took += 2 * time.Second // for which any is waited for
			}
			if !slices.Equal(asked, want) || w.Code != status || took != 5*time.Second {
				t.Errorf("asked %v, status %d %s after %v", asked, w.Code, w.Body, took)
			}
		})
	}
}

// An answer that has begun is the client's: it ends as broken, and says so, once nothing more
// comes. Until then the loss may be a false alarm.
func TestAnAnswerThatHasBegunOnALostHostBreaks(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		steps  []step
		heard  time.Duration // after the loss; zero is never
		whole  bool
		within time.Duration
	}{
		"nothing more comes":            {steps: []step{{0, token}}, within: s},
		"a little more comes":           {steps: []step{{0, token}, {10*s + s/2, token}}, within: 2 * s},
		"it goes on":                    {steps: []step{{10*s - s/4, token}, {s / 2, token}, {3 * s / 4, token}, {s / 2, done}}, whole: true, within: 2 * s},
		"it pauses, and it was nothing": {steps: []step{{0, token}, {15 * s, token}, {0, done}}, heard: s / 2, whole: true, within: 5 * s},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, scripted(0, eventType, c.steps...), good, good))
				if c.heard > 0 {
					time.AfterFunc(10*s+c.heard, func() { g.Engines().Return(hostA) })
				}
				got := g.lose(askStream)
				text := got.Body.String()
				if got.broken == c.whole || got.took > c.within || len(asked) != 1 || !strings.HasPrefix(text, token) {
					t.Errorf("broken %v %v after the loss, asked %v: %q", got.broken, got.took, asked, text)
				}
				if says := strings.Contains(text, `"code":"upstream_broke_off"`) && strings.Contains(text, "host was lost"); says == c.whole {
					t.Errorf("the client got %q", text)
				}
				outcome := "failed"
				if c.whole {
					outcome = "completed"
				}
				g.settled(t, outcome)
			})
		})
	}
}

// Where the configuration allows no second attempt there is none after a loss either.
func TestRetriesThatAreOffStayOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, mute, good, good), alone)
		c := g.lose(ask)
		if _, _, _, code := readError(t, c.Body.Bytes()); c.Code != http.StatusBadGateway || code != "upstream_unavailable" || c.took != 0 || len(asked) != 1 {
			t.Errorf("status %d %s, asked %v", c.Code, c.Body, asked)
		}
		g.settled(t, "failed")
	})
}

// Each request gets exactly one whole answer, wherever the loss falls between its arrival and its
// end, with hedging and without.
func TestALossAtAnyMomentLeavesOneAnswer(t *testing.T) {
	slow := func(name string) transport {
		return func(r *http.Request) (*http.Response, error) {
			if !sleep(r.Context(), 50*time.Millisecond) {
				return nil, context.Cause(r.Context())
			}
			return says(http.StatusOK, jsonType, strings.Replace(fine, "a b c d", name, 1))(r)
		}
	}
	for _, hedge := range []time.Duration{0, 20 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, slow("at a"), slow("at b"), slow("large")), func(o *serving.Options) {
				o.Config.Retries = config.Retries{Max: 2, BudgetMin: 1000, BudgetWindow: time.Second, HedgeAfter: hedge}
			})
			var each sync.WaitGroup
			var mu sync.Mutex
			answers := map[string]int{}
			for i := range 150 {
				each.Go(func() {
					time.Sleep(time.Duration(i) * time.Millisecond)
					w, broken := g.visit(ask)
					mu.Lock()
					defer mu.Unlock()
					if broken || w.Code != http.StatusOK || strings.Count(w.Body.String(), `"id":"x"`) != 1 || !strings.HasSuffix(w.Body.String(), "}}") {
						t.Errorf("request %d: broken %v, status %d, %s", i, broken, w.Code, w.Body)
					}
					answers[w.Header().Get("X-Gearshift-Replica")]++
				})
			}
			time.Sleep(75*time.Millisecond + time.Microsecond)
			g.Engines().Leave(hostA)
			each.Wait()
			if answers["small@a"] == 0 || answers["small@b"] == 0 || answers["small@a"]+answers["small@b"]+answers["large@a"] != 150 {
				t.Errorf("answered by %v", answers)
			}
			if n := g.core.Ledger().InFlight(); n != 0 {
				t.Errorf("%d in flight", n)
			}
		})
	}
}

// Where all places elsewhere are taken, what a lost host had takes more: it was admitted before
// those who still wait.
func TestWhatALostHostHadFindsAPlaceWhereAllAreTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, mute, takes(20*time.Second), good), pinned)
		codes := g.crowd(4) // two on each of the small variant
		time.Sleep(10 * time.Second)
		start := time.Now()
		g.Engines().Leave(hostA)
		for range 4 {
			if code := <-codes; code != http.StatusOK {
				t.Errorf("status %d", code)
			}
		}
		if took := time.Since(start); took != 20*time.Second || len(asked) != 6 {
			t.Errorf("took %v, asked %v", took, asked)
		}
	})
}

// pinned leaves no budget of attempts.
func pinned(o *serving.Options) {
	o.Config.Retries = config.Retries{Max: 2, BudgetWindow: time.Second}
}

// crowd sends requests for the small variant at once.
func (g *rig) crowd(n int) <-chan int {
	codes := make(chan int, n)
	for range n {
		go func() {
			w, _ := g.visit(`{"model":"small","messages":[{"role":"user","content":"hi"}]}`)
			codes <- w.Code
		}()
	}
	return codes
}

// A process that is killed breaks its connections before anything else is known of it. What it had
// goes elsewhere though the budget of attempts is empty, as soon as its port refuses.
func TestWhatAKilledProcessHadNeedsNoBudget(t *testing.T) {
	for _, dies := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			broken := make(chan struct{})
			first := func(r *http.Request) (*http.Response, error) {
				select {
				case <-broken:
					return nil, io.EOF
				case <-r.Context().Done():
					return nil, context.Cause(r.Context())
				}
			}
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, first, good, good), pinned)
			codes := g.crowd(1)
			time.Sleep(time.Second)
			start := time.Now()
			close(broken)
			if dies {
				time.AfterFunc(30*time.Millisecond, func() { g.Engines().Controller().Failed(smallOnA, health.Connect, 0) })
			}
			status, wait := http.StatusBadGateway, 100*time.Millisecond
			if dies {
				status, wait = http.StatusOK, 30*time.Millisecond
			}
			if code, took := <-codes, time.Since(start); code != status || took != wait {
				t.Errorf("status %d after %v, want %d after %v", code, took, status, wait)
			}
		})
	}
}

// Where nothing is up that could answer, what a lost host had waits for what is being loaded.
func TestWhatALostHostHadWaitsForItsReplacement(t *testing.T) {
	for _, loads := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			var asked []string
			g := newRig(t, nil, fleetOf(&asked, mute, good, good), pinned)
			ledger := g.core.Ledger()
			ledger.Place(smallOnB, fleet.Cold)
			codes := g.crowd(1)
			time.Sleep(time.Second)
			start := time.Now()
			if loads {
				time.AfterFunc(50*time.Millisecond, func() { ledger.Place(smallOnB, fleet.Loading) })
				time.AfterFunc(600*time.Millisecond, func() { ledger.Place(smallOnB, fleet.Up) })
			}
			g.Engines().Leave(hostA)
			status, wait := http.StatusBadGateway, 2*time.Second // for which the host may come back
			if loads {
				status, wait = http.StatusOK, 600*time.Millisecond
			}
			if code, took := <-codes, time.Since(start); code != status || took < wait || took > wait+5*time.Millisecond {
				t.Errorf("status %d after %v, want %d after %v", code, took, status, wait)
			}
		})
	}
}

// mutedOnce leaves the first request without an answer.
func mutedOnce() transport {
	asked := false
	return func(r *http.Request) (*http.Response, error) {
		if asked {
			return good(r)
		}
		asked = true
		return mute(r)
	}
}

// A false alarm costs no request: where none else can answer, what the host had goes there again
// as soon as it is heard.
func TestAFalseAlarmCostsNoRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, mutedOnce(), good, good), pinned)
		g.core.Ledger().SetUp(smallOnB, false)
		codes := g.crowd(1)
		time.Sleep(time.Second)
		start := time.Now()
		g.Engines().Leave(hostA)
		time.AfterFunc(300*time.Millisecond, func() { g.Engines().Return(hostA) })
		if code, took := <-codes, time.Since(start); code != http.StatusOK || took < 300*time.Millisecond || took > 305*time.Millisecond {
			t.Errorf("status %d after %v", code, took)
		}
		if want := []string{"small@a", "small@a"}; !slices.Equal(asked, want) {
			t.Errorf("asked %v, want %v", asked, want)
		}
	})
}

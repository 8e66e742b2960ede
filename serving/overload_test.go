package serving_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

func TestAWaitIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*serving.Options)
		header []string
		want   time.Duration
	}{
		"by max_wait": {func(o *serving.Options) { o.Config.Overload.MaxWait = 7 * time.Second }, nil, 7 * time.Second},
		// 40 ms per token × 500 tokens × 5 %
		"by its share of the deadline":   {func(o *serving.Options) { o.OutputTokens, o.Config.Overload.WaitShare = 500, 0.05 }, nil, time.Second},
		"by the request's own":           {func(o *serving.Options) { o.OutputTokens, o.Config.Overload.WaitShare = 500, 0.05 }, []string{"x-slo-tpot-ms", "20"}, 500 * time.Millisecond},
		"by the time to its first token": {patient, []string{"x-llm-d-slo-ttft-ms", "250"}, 250 * time.Millisecond},
		"by the older name of that":      {patient, []string{"x-slo-ttft-ms", "250.5"}, 250500 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := overloaded(t, lasting(time.Minute), c.change)
				g.send(t.Context(), "first")
				g.send(t.Context(), "second", c.header...)
				g.all.Wait()
				got := g.answer("second")
				_, kind, _, code := readError(t, got.body)
				if got.took.Truncate(time.Millisecond) != c.want.Truncate(time.Millisecond) || got.status != http.StatusTooManyRequests || kind != "rate_limit_error" || code != "saturated" {
					t.Errorf("took %v, want %v; status %d, %s", got.took, c.want, got.status, got.body)
				}
				if got.header.Get("X-Gearshift-Reason") != "saturated" || got.header.Get("Retry-After") != "1" {
					t.Errorf("headers %v", got.header)
				}
			})
		})
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second), patient, func(o *serving.Options) {
			o.Config.Overload.MaxQueue = 2
			o.Config.Classes = []config.Class{{Name: "plain"}, {Name: "urgent", Priority: 1}}
		})
		for _, name := range []string{"first", "second", "third", "fourth"} {
			c.send(t.Context(), name)
		}
		c.send(t.Context(), "urgent", "x-llm-d-inference-objective", "urgent")
		c.all.Wait()
		if got := strings.Join(c.finished, " "); got != "first urgent second" {
			t.Errorf("served %s", got)
		}
		for name, want := range map[string]string{"fourth": "queue_full", "third": "displaced"} {
			a := c.answer(name)
			if a.status != http.StatusTooManyRequests || a.header.Get("X-Gearshift-Reason") != want || a.header.Get("Retry-After") == "" || a.took != 0 {
				t.Errorf("%s: status %d, %v after %v", name, a.status, a.header, a.took)
			}
		}
	})
}

// Nobody loses a place in the queue to one who needs none.
func TestNobodyMakesWayForOneThatThereIsRoomFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{rig: newRig(t, lasting(time.Second), patient, func(o *serving.Options) {
			o.Config.Overload.MaxQueue = 2
			o.Config.Classes = []config.Class{{Name: "plain"}, {Name: "urgent", Priority: 1}}
		}), answers: map[string]answer{}}
		c.core.Ledger().SetUp(largeA, false)
		c.core.Ledger().SetUp(smallOnB, false)
		for range 2 {
			c.core.Ledger().Begin(smallOnA, 0)
		}
		var waits sync.WaitGroup
		for range 2 {
			waits.Go(func() {
				if w := c.do("POST", chat, `{"model":"small"}`); w.Code != http.StatusOK {
					t.Errorf("one that waited got %d, %s", w.Code, w.Header().Get("X-Gearshift-Reason"))
				}
			})
			synctest.Wait()
		}
		c.core.Ledger().SetUp(largeA, true)
		c.send(t.Context(), "urgent", "x-llm-d-inference-objective", "urgent")
		if c.waiting() != 2 {
			t.Errorf("%d wait, want both", c.waiting())
		}
		c.core.Ledger().SetUp(smallOnB, true)
		waits.Wait()
		c.all.Wait()
		if a := c.answer("urgent"); a.status != http.StatusOK {
			t.Errorf("the urgent one got %d", a.status)
		}
	})
}

// llm-d-router #2489: a refusal for want of capacity says when to come again, and
// means it.
func TestRetryAfterIsWhatTheQueueTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(2*time.Second), patient, func(o *serving.Options) { o.Config.Overload.MaxQueue = 20 })
		for i := range 21 {
			c.send(t.Context(), fmt.Sprint(i))
		}
		time.Sleep(19 * time.Second) // nine have had their turn from the queue, one each 2 s
		for i := range 9 {
			c.send(t.Context(), fmt.Sprint("more", i))
		}
		c.send(t.Context(), "refused")
		// 20 wait, so the next would begin 42 s from now; the present rate is a little
		// lower than one in 2 s, for the last turn was a second ago.
		if got := c.answer("refused").header.Get("Retry-After"); got != "45" && got != "46" && got != "47" && got != "48" {
			t.Errorf("Retry-After %q", got)
		}
		c.all.Wait()
	})
}

// What waits will not have its turn in time by the rate at which others have theirs:
// it hears so at once.
func TestNoWaitWithoutHope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second), patient)
		const ttft = "x-llm-d-slo-ttft-ms"
		for i := range 40 {
			c.send(t.Context(), fmt.Sprint(i), ttft, "30000")
		}
		time.Sleep(6 * time.Second)
		c.send(t.Context(), "hopeless", ttft, "29000") // 34 wait, and one a second goes
		c.send(t.Context(), "hopeful", ttft, "60000")
		if a := c.answer("hopeless"); a.took != 0 || a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") == "1" {
			t.Errorf("status %d after %v, %v", a.status, a.took, a.header)
		}
		c.all.Wait()
		if a := c.answer("hopeful"); a.status != http.StatusOK {
			t.Errorf("status %d after %v", a.status, a.took)
		}
	})
}

// Nor to one that would not have its turn in time.
func TestNobodyMakesWayForOneWithoutHope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(2*time.Second), patient, func(o *serving.Options) {
			o.Config.Overload.MaxQueue = 6
			o.Config.Classes = []config.Class{{Name: "plain"}, {Name: "urgent", Priority: 1}}
		})
		for i := range 7 {
			c.send(t.Context(), fmt.Sprint(i))
		}
		time.Sleep(9 * time.Second) // four of the six have had their turn
		for i := range 4 {
			c.send(t.Context(), fmt.Sprint("more", i))
		}
		const class, ttft = "x-llm-d-inference-objective", "x-llm-d-slo-ttft-ms"
		c.send(t.Context(), "plain", ttft, "500")
		c.send(t.Context(), "urgent", class, "urgent", ttft, "500")
		for name, want := range map[string]string{"plain": "queue_full", "urgent": "saturated"} {
			if a := c.answer(name); a.status != http.StatusTooManyRequests || a.took != 0 || a.header.Get("X-Gearshift-Reason") != want {
				t.Errorf("%s: status %d after %v, %v", name, a.status, a.took, a.header)
			}
		}
		c.all.Wait()
		if len(c.finished) != 11 {
			t.Errorf("served %s, want all but the two", c.finished)
		}
	})
}

func TestTheRouteEndpointDoesNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second), patient)
		c.send(t.Context(), "first")
		began := time.Now()
		w := c.do("POST", "/v1/gearshift/route", "{}")
		if _, _, _, code := readError(t, w.Body.Bytes()); w.Code != http.StatusTooManyRequests || code != "saturated" || time.Since(began) != 0 {
			t.Errorf("status %d after %v: %s", w.Code, time.Since(began), w.Body)
		}
		if w.Header().Get("X-Gearshift-Reason") != "saturated" || w.Header().Get("Retry-After") != "1" {
			t.Errorf("headers %v", w.Header())
		}
		c.all.Wait()
	})
}

func TestFaultyClaims(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.Classes = []config.Class{{Name: "urgent", Priority: 1}, {Name: "batch"}}
	})
	for _, c := range []struct{ header, value, code, message string }{
		{"x-llm-d-inference-objective", "bulk", "unknown_objective", `"bulk"; there are urgent, batch`},
		{"x-llm-d-slo-ttft-ms", "soon", "invalid_deadline", `"soon"`},
		{"x-slo-ttft-ms", "-1", "invalid_deadline", `"-1"`},
		{"x-slo-ttft-ms", "NaN", "invalid_deadline", `"NaN"`},
	} {
		w := g.do("POST", chat, ask, c.header, c.value)
		message, _, param, code := readError(t, w.Body.Bytes())
		if w.Code != http.StatusBadRequest || code != c.code || param != c.header || !strings.Contains(message, c.message) {
			t.Errorf("%s %s: status %d, %s", c.header, c.value, w.Code, w.Body)
		}
	}
	if w := g.do("POST", chat, ask, "x-llm-d-inference-objective", "batch"); w.Code != http.StatusOK {
		t.Errorf("status %d", w.Code)
	}
	plain := newRig(t, says(http.StatusOK, jsonType, fine))
	if w := plain.do("POST", chat, ask, "x-llm-d-inference-objective", "anything"); w.Code != http.StatusOK {
		t.Errorf("without classes: status %d", w.Code)
	}
}

func TestOverloadIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second), func(o *serving.Options) {
			o.Config.Classes = []config.Class{{Name: "urgent", Priority: 1}, {Name: "batch"}}
			o.Config.Overload.MaxQueue = 1
		})
		c.send(t.Context(), "first")
		c.send(t.Context(), "second", "x-llm-d-inference-objective", "batch")
		c.send(t.Context(), "third", "x-llm-d-inference-objective", "batch")
		text := c.do("GET", "/metrics", "").Body.String()
		for _, line := range []string{
			`gearshift_queue_length{class="batch"} 1`, `gearshift_queue_length{class="urgent"} 0`,
			`gearshift_sheds_total{class="batch",reason="queue_full"} 1`, `gearshift_sheds_total{class="urgent",reason="deadline"} 0`,
		} {
			if !strings.Contains(text, line) {
				t.Errorf("metrics have no %s", line)
			}
		}
		if q := c.Status().Queue; len(q) != 2 || q[1].Class != "batch" || q[1].Waiting != 1 || q[1].Shed["queue_full"] != 1 || q[0].Waiting != 0 || len(q[0].Shed) != 0 {
			t.Errorf("status %+v", q)
		}
		c.all.Wait()
		text = c.do("GET", "/metrics", "").Body.String()
		for _, line := range []string{`gearshift_queue_wait_seconds_count{class="batch"} 1`, `gearshift_queue_wait_seconds_sum{class="batch"} 1`, `gearshift_queue_wait_seconds_count{class="urgent"} 0`} {
			if !strings.Contains(text, line) {
				t.Errorf("metrics have no %s", line)
			}
		}
	})
}

// full is a gate without room on the replicas listed.
type full []int

func (f full) Room(_ *fleet.View, _ *fleet.Request, replica int) bool {
	return !slices.Contains(f, replica)
}

// With places on every replica, what would be late goes to a smaller model first,
// and is refused only where no model could answer in time.
func TestDegradeBeforeRefusing(t *testing.T) {
	for name, c := range map[string]struct {
		late    full
		status  int
		variant string
	}{
		"the large model is late": {full{largeA}, http.StatusOK, "small"},
		"all are late":            {full{smallOnA, smallOnB, largeA}, http.StatusTooManyRequests, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
					core, err := router.New(router.Config{Ledger: fleet.NewLedger(testTable(t)), Fallback: chooses(large), Balancer: emptiest{}, Gate: c.late})
					if err != nil {
						t.Fatal(err)
					}
					if err := core.SetPolicy(chooses(large)); err != nil {
						t.Fatal(err)
					}
					o.Router = core
				})
				w := g.do("POST", chat, ask)
				if w.Code != c.status || w.Header().Get("X-Gearshift-Variant") != c.variant {
					t.Errorf("status %d, header %v", w.Code, w.Header())
				}
				if c.status != http.StatusOK {
					if reason := w.Header().Get("X-Gearshift-Reason"); reason != "deadline" {
						t.Errorf("reason %q", reason)
					}
					return
				}
				if w.Header().Get("X-Gearshift-Policy") != router.Degraded || w.Header().Get("X-Gearshift-Fallback") != router.ReasonLate {
					t.Errorf("header %v", w.Header())
				}
				if strings.Contains(g.logs.String(), "does not route") {
					t.Error("the log says that the policy does not route")
				}
			})
		})
	}
}

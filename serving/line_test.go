package serving_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/work"
)

// lasting is a backend whose answers take their time.
func lasting(d time.Duration) transport {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return says(http.StatusOK, jsonType, fine)(r)
		case <-r.Context().Done():
			return nil, context.Cause(r.Context())
		}
	}
}

// crowd sends requests side by side and keeps what came of each.
type crowd struct {
	*rig
	all sync.WaitGroup

	mu       sync.Mutex
	finished []string // names of those served, in order
	answers  map[string]answer
}

type answer struct {
	status int
	header http.Header
	body   []byte
	took   time.Duration
}

// overloaded is a rig with a single place, on small@a, unless changed.
func overloaded(t *testing.T, rt http.RoundTripper, change ...func(*serving.Options)) *crowd {
	c := &crowd{rig: newRig(t, rt, change...), answers: map[string]answer{}}
	c.core.Ledger().SetUp(smallOnB, false)
	c.core.Ledger().SetUp(largeA, false)
	if _, ok := c.core.Ledger().Begin(smallOnA, 0); !ok { // one of its two
		t.Fatal("no place to take")
	}
	return c
}

// send sends a request by a name and waits until it is settled or waits itself.
func (c *crowd) send(ctx context.Context, name string, header ...string) {
	c.all.Go(func() {
		r := httptest.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(ask))
		r.Header.Set("Content-Type", jsonType)
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		began := time.Now()
		c.Handler().ServeHTTP(w, r)
		c.mu.Lock()
		defer c.mu.Unlock()
		if w.Code == http.StatusOK {
			c.finished = append(c.finished, name)
		}
		c.answers[name] = answer{w.Code, w.Header(), w.Body.Bytes(), time.Since(began)}
	})
	synctest.Wait()
}

// answer is what came of the request by that name; zero if nothing yet.
func (c *crowd) answer(name string) answer {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answers[name]
}

func (c *crowd) waiting() (n int) {
	for _, q := range c.Status().Queue {
		n += q.Waiting
	}
	return n
}

// patient lets requests wait as long as ten minutes.
func patient(o *serving.Options) { o.Config.Overload.MaxWait = 10 * time.Minute }

// heard keeps what a watcher hears, by the request's number.
type heard struct {
	mu    sync.Mutex
	ended map[uint64]work.Result
	waits map[uint64]time.Duration
}

func (h *heard) Ended(w *work.Work, r work.Result) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.ended[w.Request.ID], h.waits[w.Request.ID] = r, w.Waited
}

// The moment that a place comes free the next begins. Its wait is part of its
// latency, and not of the router's overhead.
func TestWhatFindsNoRoomWaitsForIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{ended: map[uint64]work.Result{}, waits: map[uint64]time.Duration{}}
		c := overloaded(t, lasting(time.Second), func(o *serving.Options) { o.Watchers = []serving.Watcher{h} })
		c.send(t.Context(), "first")
		time.Sleep(300 * time.Millisecond)
		c.send(t.Context(), "second")
		if c.waiting() != 1 {
			t.Fatalf("%d wait", c.waiting())
		}
		c.all.Wait()
		first, second := c.answer("first"), c.answer("second")
		if first.took != time.Second || second.took != 1700*time.Millisecond || second.status != http.StatusOK {
			t.Errorf("took %v and %v, status %d", first.took, second.took, second.status)
		}
		if first.header.Get("X-Gearshift-Waited-Ms") != "" || second.header.Get("X-Gearshift-Waited-Ms") != "700" || second.header.Get("X-Gearshift-Overhead-Us") != "0" {
			t.Errorf("headers %v", second.header)
		}
		if h.waits[1] != 0 || h.waits[2] != 700*time.Millisecond || h.ended[1].Latency != time.Second || h.ended[2].Latency != 1700*time.Millisecond {
			t.Errorf("heard of waits %v, ends %v", h.waits, h.ended)
		}
	})
}

// One that was not tried as long as others of its kind waited has waited no less.
func TestTheWaitOfOneThatIsTriedLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &heard{ended: map[uint64]work.Result{}, waits: map[uint64]time.Duration{}}
		c := overloaded(t, lasting(time.Minute), patient, func(o *serving.Options) { o.Watchers = []serving.Watcher{h} })
		for _, name := range []string{"first", "second", "third"} {
			c.send(t.Context(), name)
		}
		time.Sleep(5 * time.Second)
		c.core.Ledger().SetUp(largeA, true) // room for two
		c.all.Wait()
		if h.waits[2] != 5*time.Second || h.waits[3] != 5*time.Second {
			t.Errorf("waits %v", h.waits)
		}
		if header := c.answer("third").header; header.Get("X-Gearshift-Waited-Ms") != "5000" || header.Get("X-Gearshift-Overhead-Us") != "0" {
			t.Errorf("header %v", header)
		}
	})
}

// The rate that the policy sees counts arrivals, not tries.
func TestTheRateCountsEachArrivalOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(3*time.Second), patient)
		for i := range 6 { // one a second, each tried many times
			c.send(t.Context(), fmt.Sprint(i))
			time.Sleep(time.Second)
		}
		if rate := c.Status().ArrivalRate; rate != 0.8 { // 4 / Σ of 5 gaps, unbiased
			t.Errorf("rate %v, want 0.8", rate)
		}
		c.all.Wait()
	})
}

func TestAReplicaThatComesUpTakesWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Minute), patient)
		c.send(t.Context(), "first")
		c.send(t.Context(), "second")
		c.core.Ledger().SetUp(largeA, true)
		synctest.Wait()
		if c.waiting() != 0 || c.core.Ledger().InFlight() != 3 {
			t.Errorf("%d wait, %d in flight", c.waiting(), c.core.Ledger().InFlight())
		}
		c.all.Wait()
	})
}

func TestTheOrderOfThoseWhoWait(t *testing.T) {
	const objective, ttft, tenant = "x-llm-d-inference-objective", "x-llm-d-slo-ttft-ms", "x-gearshift-tenant"
	type request struct {
		name   string
		header []string
	}
	for name, c := range map[string]struct {
		requests []request
		want     string
	}{
		"as they come":                     {[]request{{"a", nil}, {"b", nil}, {"c", nil}}, "a b c"},
		"earliest deadline first":          {[]request{{"c", []string{ttft, "90000"}}, {"a", []string{ttft, "60000"}}, {"b", []string{ttft, "80000"}}}, "a b c"},
		"priority first":                   {[]request{{"c", []string{objective, "batch", ttft, "60000"}}, {"a", []string{objective, "urgent"}}, {"b", []string{objective, "urgent"}}}, "a b c"},
		"the first class if none is named": {[]request{{"b", []string{objective, "batch"}}, {"a", nil}}, "a b"},
		"tenants in turn": {[]request{
			{"a1", []string{tenant, "a"}}, {"a2", []string{tenant, "a"}}, {"a3", []string{tenant, "a"}}, {"b1", []string{tenant, "b"}}, {"b2", []string{tenant, "b"}},
		}, "a1 b1 a2 b2 a3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := overloaded(t, lasting(time.Second), patient, func(o *serving.Options) {
					o.Config.Classes = []config.Class{{Name: "urgent", Priority: 10}, {Name: "batch"}}
				})
				g.send(t.Context(), "before")
				for _, r := range c.requests {
					g.send(t.Context(), r.name, r.header...)
				}
				g.all.Wait()
				if got := strings.Join(g.finished[1:], " "); got != c.want {
					t.Errorf("order %s, want %s", got, c.want)
				}
			})
		})
	}
}

func TestAWaiterThatLeavesTakesNoPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second))
		ctx, leave := context.WithCancel(t.Context())
		c.send(t.Context(), "first")
		c.send(ctx, "second")
		c.send(t.Context(), "third")
		leave()
		synctest.Wait()
		if a := c.answer("second"); a.status != 499 || c.waiting() != 1 {
			t.Errorf("%+v, %d wait", a, c.waiting())
		}
		c.all.Wait()
		if got := strings.Join(c.finished, " "); got != "first third" || c.answer("third").took != 2*time.Second {
			t.Errorf("served %s, the third after %v", got, c.answer("third").took)
		}
		if n := c.Status().Queue[0].Shed["cancelled"]; n != 1 {
			t.Errorf("%d counted as cancelled", n)
		}
	})
}

func TestWhatWaitsHearsThatTheLastReplicaIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Second))
		c.send(t.Context(), "first")
		c.send(t.Context(), "second")
		c.core.Ledger().SetUp(smallOnA, false)
		synctest.Wait()
		a := c.answer("second")
		if a.status != http.StatusServiceUnavailable || a.header.Get("X-Gearshift-Reason") != "no_replica" || a.header.Get("Retry-After") == "" {
			t.Errorf("status %d, %v", a.status, a.header)
		}
		c.send(t.Context(), "third")
		if a := c.answer("third"); a.status != http.StatusServiceUnavailable || a.took != 0 {
			t.Errorf("status %d after %v", a.status, a.took)
		}
		c.all.Wait()
	})
}

// One that waits for what is full holds up nobody who wants something else.
func TestAPinnedRequestHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &crowd{rig: newRig(t, lasting(time.Second), patient), answers: map[string]answer{}}
		c.core.Ledger().SetUp(largeA, false)
		c.core.Ledger().SetUp(smallOnB, false)
		var held []fleet.Lease
		for range 2 {
			lease, _ := c.core.Ledger().Begin(smallOnA, 0)
			held = append(held, lease)
		}
		c.send(t.Context(), "auto")
		c.core.Ledger().SetUp(largeA, true)
		synctest.Wait()
		if c.waiting() != 0 {
			t.Error("the large model has room, and one who would take it waits")
		}
		w := make(chan int, 1)
		go func() { w <- c.do("POST", chat, `{"model":"small"}`).Code }()
		synctest.Wait()
		if c.waiting() != 1 {
			t.Fatalf("%d wait for the small model", c.waiting())
		}
		c.send(t.Context(), "after")
		if c.waiting() != 1 {
			t.Error("one for the small model holds up one for any")
		}
		held[0].End()
		if status := <-w; status != http.StatusOK {
			t.Errorf("status %d", status)
		}
		c.all.Wait()
	})
}

// few is a gate that has no room for several answers.
type few struct{}

func (few) Room(_ *fleet.View, r *fleet.Request, _ int) bool { return r.Answers <= 1 }

// A request for so many answers that there is no room for it holds up nobody who asks for one.
func TestARequestForManyAnswersHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, err := router.New(router.Config{Ledger: fleet.NewLedger(testTable(t)), Fallback: chooses(small), Balancer: emptiest{}, Gate: few{}})
		if err != nil {
			t.Fatal(err)
		}
		c := &crowd{rig: newRig(t, lasting(time.Second), patient, func(o *serving.Options) { o.Router = core }), answers: map[string]answer{}}
		ctx, leave := context.WithCancel(t.Context())
		c.all.Go(func() {
			r := httptest.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(`{"model":"auto","n":128}`))
			c.Handler().ServeHTTP(httptest.NewRecorder(), r)
		})
		synctest.Wait()
		c.send(t.Context(), "one")
		if c.waiting() != 1 {
			t.Errorf("%d wait, want the one for many answers", c.waiting())
		}
		time.Sleep(2 * time.Second)
		if a := c.answer("one"); a.status != http.StatusOK || a.took != time.Second {
			t.Errorf("status %d after %v", a.status, a.took)
		}
		leave()
		c.all.Wait()
	})
}

func TestAtTheEndNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := overloaded(t, lasting(time.Minute), patient)
		c.send(t.Context(), "first")
		c.send(t.Context(), "second")
		c.Close()
		synctest.Wait()
		if a := c.answer("second"); a.status != http.StatusServiceUnavailable {
			t.Errorf("status %d", a.status)
		}
		c.send(t.Context(), "third")
		if a := c.answer("third"); a.status != http.StatusServiceUnavailable {
			t.Errorf("after the end: status %d", a.status)
		}
		c.all.Wait()
	})
}

// A crowd in real time, with clients that leave: each request ends in one way, no
// place is lost, and nobody waits where there is room.
func TestACrowdLosesNothing(t *testing.T) {
	var busy, most atomic.Int32
	g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
		if n := busy.Add(1); n > most.Load() {
			most.Store(n)
		}
		defer busy.Add(-1)
		return lasting(time.Duration(rand.IntN(300)) * time.Microsecond)(r)
	}))
	var all sync.WaitGroup
	var served, refused, left atomic.Int32
	const clients, each = 40, 50
	for n := range clients {
		all.Go(func() {
			for range each {
				ctx, cancel := context.WithCancel(t.Context())
				if rand.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(2000))*time.Microsecond, cancel)
				}
				r := httptest.NewRequestWithContext(ctx, "POST", chat, strings.NewReader(ask))
				r.Header.Set("X-Gearshift-Tenant", fmt.Sprint(n%5))
				w := httptest.NewRecorder()
				g.Handler().ServeHTTP(w, r)
				switch w.Code {
				case http.StatusOK:
					served.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				case 499:
					left.Add(1)
				default:
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				cancel()
			}
		})
	}
	all.Wait()
	if n := served.Load() + refused.Load() + left.Load(); n != clients*each {
		t.Errorf("%d of %d ended", n, clients*each)
	}
	if n := most.Load(); n > 6 {
		t.Errorf("%d at once on 6 places", n)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d in flight", n)
	}
	if q := g.Status().Queue[0]; q.Waiting != 0 {
		t.Errorf("%d wait", q.Waiting)
	}
}

package serving_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strconv"
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

// misbehave is an engine that treats each request as its number and the engine's
// own say: well, late, not at all, or in one of the ways in which engines fail.
func misbehave(engine int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		number, _ := strconv.Atoi(r.Header.Get("X-Number"))
		random := rand.New(rand.NewPCG(uint64(number), uint64(engine)))
		say := func(status int, kind, text string) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
			w.(http.Flusher).Flush()
		}
		hang := func() { sleep(r.Context(), time.Hour) }
		breakOff := func(text string) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				_, _ = io.WriteString(conn, text)
				conn.Close()
			}
		}
		if !sleep(r.Context(), time.Duration(random.IntN(3000))*time.Millisecond) {
			return
		}
		switch random.IntN(16) {
		case 0:
			say(503, jsonType, theirError)
		case 1:
			say(429, jsonType, theirError)
		case 2:
			say(500, jsonType, theirError)
		case 3:
			say(400, jsonType, theirError)
		case 4:
			hang()
		case 5:
			say(200, eventType, "")
			hang()
		case 6:
			say(200, eventType, token)
			hang()
		case 7:
			say(200, eventType, token)
			panic(http.ErrAbortHandler)
		case 8:
			breakOff("")
		case 9:
			breakOff("500 oh no\r\n\r\n")
		case 10:
			breakOff("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 900\r\n\r\n{\"choices\":")
		case 11:
			say(200, "text/html", "<html>")
		default:
			if random.IntN(2) == 0 {
				say(200, jsonType, fine)
				return
			}
			say(200, eventType, token)
			for i := range 20 {
				if !sleep(r.Context(), 100*time.Millisecond) {
					return
				}
				_, _ = io.WriteString(w, []string{token, done}[i/19])
				w.(http.Flusher).Flush()
			}
		}
	})
}

// soak is a router with real servers around it, whose connections are in memory
// and whose clock is synctest's.
type soak struct {
	core    *router.Core
	server  *serving.Server
	handled atomic.Int64
	mu      sync.Mutex // protects ended
	ended   map[uint64]int
}

func (s *soak) Ended(w *work.Work, _ work.Result) {
	s.mu.Lock()
	s.ended[w.Request.ID]++
	s.mu.Unlock()
}

func soakTable(t *testing.T) *fleet.Table {
	var replicas []fleet.Replica
	for v := range 3 {
		for h := range 2 {
			replicas = append(replicas, fleet.Replica{Name: fmt.Sprintf("%d@%d", v, h), Variant: v, Host: h, Limit: 8})
		}
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: time.Second, Weight: 1, Quality: []float64{1, 1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "medium"}, {Name: "large"}}, []fleet.Host{{Name: "0"}, {Name: "1"}}, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// upstreams starts an engine for each replica. Connections to one of them fail for
// a while now and then. Stop ends them all.
func (s *soak) upstreams() (backends []serving.Backend, stop func()) {
	var stops []func()
	for i := range s.core.Table().Replicas {
		l := newPipes()
		server := &http.Server{Handler: misbehave(i)}
		go server.Serve(l)
		start := time.Now()
		transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			if int(time.Since(start)/(3*time.Second))%9 == i {
				return nil, refused()
			}
			return l.dial(ctx)
		}}
		backends = append(backends, serving.Backend{Transport: transport})
		stops = append(stops, func() {
			transport.CloseIdleConnections()
			server.Close()
		})
	}
	return backends, func() {
		for _, stop := range stops {
			stop()
		}
	}
}

// visit is one client, who may leave early, or stop reading, or never come back
// for the lease that it took.
func (s *soak) visit(ctx context.Context, client *http.Client, number int) {
	random := rand.New(rand.NewPCG(uint64(number), 1<<32))
	path := []string{chat, completions, embeddings, responses}[random.IntN(4)]
	body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"one two"}]}`,
		[]string{"auto", "auto", "auto", "medium", "none"}[random.IntN(5)], random.IntN(2) == 0)
	if random.IntN(12) == 0 {
		path, body = "/v1/gearshift/route", `{"prompt_tokens":3}`
	}
	if random.IntN(3) == 0 {
		patience := time.Duration(random.IntN(6000)) * time.Millisecond
		var leave context.CancelFunc
		ctx, leave = context.WithTimeout(ctx, patience)
		defer leave()
	}
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://router"+path, strings.NewReader(body))
	r.Header.Set("X-Number", strconv.Itoa(number))
	response, err := client.Do(r)
	if err != nil {
		return
	}
	defer response.Body.Close()
	if random.IntN(8) == 0 {
		sleep(ctx, time.Minute) // it does not read
	}
	_, _ = io.Copy(io.Discard, response.Body)
}

// TestNothingIsLeftOver sends many requests from clients that leave to engines
// that fail, hang, cut and answer garbage, with retries and hedges, and holds that
// each ended once, in one way, and that nothing of it is left.
func TestNothingIsLeftOver(t *testing.T) {
	const clients, each = 40, 25
	synctest.Test(t, func(t *testing.T) {
		core, err := router.New(router.Config{Ledger: fleet.NewLedger(soakTable(t)), Fallback: fallback{}, Balancer: emptiest{}})
		if err != nil {
			t.Fatal(err)
		}
		s := &soak{core: core, ended: map[uint64]int{}}
		backends, stop := s.upstreams()
		c := config.Default()
		c.Timeouts.Header, c.Timeouts.FirstToken, c.Timeouts.Idle, c.Timeouts.Total = 9*time.Second, 5*time.Second, 4*time.Second, 20*time.Second
		c.Retries = config.Retries{Max: 3, BudgetPercent: 50, BudgetMin: 3, BudgetWindow: 10 * time.Second, HedgeAfter: 2 * time.Second}
		c.Health.MaxEjected = 0.2 // or few would get to the engines, which all misbehave
		c.WriteTimeout, c.LeaseTimeout = 5*time.Second, 30*time.Second
		if s.server, err = serving.New(serving.Options{Config: c, Router: core, Backends: backends, Watchers: []serving.Watcher{s}}); err != nil {
			t.Fatal(err)
		}
		l := newPipes()
		front := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.handled.Add(1)
			s.server.Handler().ServeHTTP(w, r)
		})}
		go front.Serve(l)
		var all sync.WaitGroup
		for c := range clients {
			all.Go(func() {
				client := l.client()
				for i := range each {
					s.visit(t.Context(), client, c*each+i)
				}
			})
		}
		all.Wait()
		time.Sleep(time.Minute) // for leases to expire and losers to hear of it
		synctest.Wait()
		s.check(t)
		stop()
		front.Close()
		s.server.Close()
	})
}

var sample = regexp.MustCompile(`(?m)^(gearshift_\w+)(\{.*\})? (\S+)$`)

// sums of the metrics' samples, by name.
func (s *soak) sums(t *testing.T) map[string]float64 {
	t.Helper()
	g := &rig{Server: s.server}
	sums := map[string]float64{}
	for _, m := range sample.FindAllStringSubmatch(g.do("GET", "/metrics", "").Body.String(), -1) {
		value, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			t.Fatal(err)
		}
		sums[m[1]] += value
	}
	return sums
}

func (s *soak) check(t *testing.T) {
	t.Helper()
	sums := s.sums(t)
	if n := s.core.Ledger().InFlight(); n != 0 || sums["gearshift_in_flight"] != 0 {
		t.Errorf("%d in flight, %v by the metrics", n, sums["gearshift_in_flight"])
	}
	// Routing brings what is held up to date; the request's own is not in it yet.
	(&rig{Server: s.server}).do("POST", "/v1/gearshift/route", "{}")
	var v fleet.View
	s.core.Ledger().View(0, &v)
	if slices.Max(v.Held) != 0 || slices.Min(v.Held) != 0 {
		t.Errorf("tokens held: %v", v.Held)
	}
	routed, handled := sums["gearshift_requests_total"], float64(s.handled.Load())
	if total := routed + sums["gearshift_rejections_total"] + sums["gearshift_refusals_total"]; total != handled {
		t.Errorf("%v requests came; %v are counted: %v routed, %v rejected, %v refused", handled, total,
			routed, sums["gearshift_rejections_total"], sums["gearshift_refusals_total"])
	}
	for id, times := range s.ended {
		if times != 1 {
			t.Errorf("request %d ended %d times", id, times)
		}
	}
	if float64(len(s.ended)) != routed {
		t.Errorf("%d requests ended, %v are counted", len(s.ended), routed)
	}
	for _, name := range []string{"retries_total", "retries_exhausted_total", "hedges_total", "timeouts_total", "rejections_total", "refusals_total"} {
		if sums["gearshift_"+name] == 0 {
			t.Errorf("%s is zero: the soak leaves it out", name)
		}
	}
	t.Logf("%v handled: %v", handled, sums)
}

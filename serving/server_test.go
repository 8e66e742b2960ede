package serving_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

func TestModels(t *testing.T) {
	g := newRig(t, nil)
	var list struct {
		Object string
		Data   []struct{ ID, Object, OwnedBy string }
	}
	if err := json.Unmarshal(g.do("GET", "/v1/models", "").Body.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(list) != "{list [{auto model } {small model } {large model }]}" {
		t.Errorf("got %v", list)
	}
	for _, name := range []string{"auto", "large"} {
		if w := g.do("GET", "/v1/models/"+name, ""); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `"id":"`+name+`"`) {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	}
}

func TestMetricsHaveBoundedLabels(t *testing.T) {
	g := newRig(t, says(http.StatusOK, jsonType, fine))
	series := func() (n int, text string) {
		text = g.do("GET", "/metrics", "").Body.String()
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "gearshift_") {
				n++
			}
		}
		return n, text
	}
	visit := func(name string) {
		g.do("POST", chat, ask)
		g.do("POST", chat, `{"model":"`+name+`"}`)
		g.do("POST", chat, ask, "x-gearshift-task", name)
		g.do("GET", "/"+name, "")
	}
	visit("first")
	before, text := series()
	for _, want := range []string{
		`gearshift_requests_total{outcome="completed",task="chat",variant="small"} 1`,
		`gearshift_deadlines_total{result="met",task="chat",variant="small"} 1`,
		`gearshift_utility_total{task="chat",variant="small"} 0.5`,
		`gearshift_refusals_total{status="404"} 1`,
		`gearshift_in_flight{replica="small@b",variant="small"} 0`,
		`gearshift_replica_up{replica="large@a",variant="large"} 1`,
		`gearshift_policy_info{policy="wants",version="3"} 1`,
		`gearshift_decision_seconds_count 1`, `gearshift_overhead_seconds_count 1`, `gearshift_arrival_rate 0`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	for i := range 20 {
		visit(fmt.Sprint("other", i))
	}
	if after, _ := series(); after != before {
		t.Errorf("%d series after strange requests, %d before", after, before)
	}
}

func TestNewFaults(t *testing.T) {
	for want, change := range map[string]func(*serving.Options){
		"1 backends for 3 replicas":                                               func(o *serving.Options) { o.Backends = o.Backends[:1] },
		`default_task: no task "sing"`:                                            func(o *serving.Options) { o.Config.DefaultTask = "sing" },
		"max_answers: 0 must be at least 1":                                       func(o *serving.Options) { o.Config.MaxAnswers = 0 },
		"max_body: 0 must be at least 1 byte":                                     func(o *serving.Options) { o.Config.MaxBody = 0 },
		"cooldown: -1ns must be positive":                                         func(o *serving.Options) { o.Config.Cooldown = -1 },
		"must be at least 1 byte\nmax_answers: 0 must be at least 1\nbody_timeou": func(o *serving.Options) { o.Config = config.Config{} },
	} {
		o := serving.Options{Config: config.Default(), Router: testRouter(t, nil), Backends: make([]serving.Backend, 3)}
		change(&o)
		if _, err := serving.New(o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

func TestPortInUse(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	g := newRig(t, nil, func(o *serving.Options) { o.Config.Addr = l.Addr().String() })
	_, err = g.Listen(t.Context())
	if !errors.Is(err, syscall.EADDRINUSE) || !strings.HasPrefix(err.Error(), fmt.Sprintf("cannot listen on %q", l.Addr())) {
		t.Errorf("error %v", err)
	}
}

func TestAddressWithoutAPort(t *testing.T) {
	g := newRig(t, nil, func(o *serving.Options) { o.Config.Addr = "localhost" })
	if _, err := g.Listen(t.Context()); err == nil || err.Error() != `cannot listen on "localhost": missing port in address; want HOST:PORT or :PORT, such as 127.0.0.1:8080` {
		t.Errorf("error %v", err)
	}
}

// Probes of health use GET or HEAD.
func TestProbes(t *testing.T) {
	g := newRig(t, nil)
	for _, path := range []string{"/healthz", "/readyz"} {
		for _, method := range []string{"GET", "HEAD"} {
			if w := g.do(method, path, ""); w.Code != http.StatusOK {
				t.Errorf("%s %s: status %d", method, path, w.Code)
			}
		}
	}
}

// serve runs the rig's server on a listener in memory.
func serve(t *testing.T, g *rig) (l *pipes, stop func(), ended chan error) {
	l, ended = newPipes(), make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	go func() { ended <- g.Serve(ctx, l) }()
	return l, stop, ended
}

// takes is a replica that answers after a time, unless the request ends first.
func takes(d time.Duration) transport {
	return func(r *http.Request) (*http.Response, error) {
		select {
		case <-time.After(d):
			return says(http.StatusOK, jsonType, fine)(r)
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
}

func TestShutdownDrains(t *testing.T) {
	for _, c := range []struct {
		name    string
		takes   time.Duration
		drained bool
	}{{"in time", 20 * time.Second, true}, {"too slow", time.Minute, false}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, takes(c.takes), func(o *serving.Options) { o.Config.DrainTimeout = 30 * time.Second })
				l, stop, ended := serve(t, g)
				answered := make(chan string)
				go func() {
					response, err := l.client().Post("http://router"+chat, jsonType, strings.NewReader(ask))
					if err != nil {
						answered <- ""
						return
					}
					defer response.Body.Close()
					text, _ := io.ReadAll(response.Body)
					answered <- string(text)
				}()
				synctest.Wait()
				if w := g.do("GET", "/readyz", ""); w.Code != http.StatusOK {
					t.Errorf("ready with status %d", w.Code)
				}
				start := time.Now()
				stop()
				synctest.Wait()
				if w := g.do("GET", "/readyz", ""); w.Code != http.StatusServiceUnavailable {
					t.Errorf("ready with status %d while draining", w.Code)
				}
				if _, err := l.dial(t.Context()); err == nil {
					t.Error("still takes connections")
				}
				if text := <-answered; (text == fine) != c.drained {
					t.Errorf("answer %q", text)
				}
				if err := <-ended; err != nil {
					t.Error(err)
				}
				// Shutdown looks every half second whether all is done.
				if took, most := time.Since(start), min(c.takes, 30*time.Second)+time.Second; took > most {
					t.Errorf("took %v, more than %v", took, most)
				}
				synctest.Wait()
				if n := g.core.Ledger().InFlight(); n != 0 {
					t.Errorf("%d in flight", n)
				}
			})
		})
	}
}

// What is cut off at the end is in the log and in the books before Serve returns, unless
// it hangs: the process ends then.
func TestWhatIsCutOffIsAccountedFor(t *testing.T) {
	for lasts, accounted := range map[time.Duration]bool{100 * time.Millisecond: true, time.Minute: false} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
				<-r.Context().Done()
				time.Sleep(lasts)
				return nil, r.Context().Err()
			}), func(o *serving.Options) { o.Config.DrainTimeout = time.Second })
			l, stop, ended := serve(t, g)
			go func() {
				if response, err := l.client().Post("http://router"+chat, jsonType, strings.NewReader(ask)); err == nil {
					response.Body.Close()
				}
			}()
			synctest.Wait()
			start := time.Now()
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if lines := g.lines(); (len(lines) == 1 && strings.Contains(lines[0], "outcome=cancelled")) != accounted {
				t.Errorf("one that lasts %v has the lines %q", lasts, lines)
			}
			if took := time.Since(start); took > 3*time.Second {
				t.Errorf("took %v", took)
			}
			time.Sleep(lasts)
		})
	}
}

func TestAClientThatStopsReadingIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := `data: {"choices":[{"text":"` + strings.Repeat("x", 8<<10) + `"}]}` + "\n\n"
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{reads(func(p []byte) (int, error) { return copy(p, event), nil }), nil}), nil
		}), func(o *serving.Options) { o.Config.WriteTimeout = 10 * time.Second })
		l, stop, ended := serve(t, g)
		conn, err := l.dial(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		start := time.Now()
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", chat, len(ask), ask)
		if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		g.settled(t, "cancelled")
		if took := time.Since(start); took > 12*time.Second {
			t.Errorf("took %v", took)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestABodyHasItsTime(t *testing.T) {
	for path, want := range map[string]int{chat: http.StatusRequestTimeout, "/nowhere": http.StatusNotFound} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, nil, func(o *serving.Options) { o.Config.BodyTimeout = 10 * time.Second })
				l, stop, ended := serve(t, g)
				conn, err := l.dial(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				start := time.Now()
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{", path)
				response, err := http.ReadResponse(bufio.NewReader(conn), nil)
				if err != nil {
					t.Fatal(err)
				}
				defer response.Body.Close()
				text, _ := io.ReadAll(response.Body)
				readError(t, text)
				if took := time.Since(start); response.StatusCode != want || took != 10*time.Second {
					t.Errorf("status %d after %v", response.StatusCode, took)
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

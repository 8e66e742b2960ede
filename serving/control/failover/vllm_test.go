package failover_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	control "gearshift/router/failover"
	"gearshift/serving"
	"gearshift/serving/control/failover"
	"gearshift/serving/control/states"
	"gearshift/serving/engines/agents"
)

// sleeper is a vLLM server in memory, without a path to read weights again.
type sleeper struct {
	base *url.URL

	mu     sync.Mutex
	dead   bool
	asleep bool
	orders []string
}

// Base implements [engines.Server].
func (e *sleeper) Base() *url.URL { return e.base }

// Get implements [engines.Server].
func (e *sleeper) Get(ctx context.Context, path string) (*http.Response, error) {
	return e.Ask(ctx, http.MethodGet, path, nil, nil)
}

// Ask implements [agents.Engine].
func (e *sleeper) Ask(_ context.Context, method, path string, _ http.Header, _ []byte) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.dead {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	w := httptest.NewRecorder()
	switch verb, _, _ := strings.Cut(path, "?"); {
	case verb == "/is_sleeping":
		_ = json.NewEncoder(w).Encode(map[string]bool{"is_sleeping": e.asleep})
	case verb == "/sleep", verb == "/wake_up":
		e.asleep = verb == "/sleep"
		e.orders = append(e.orders, path)
	case verb != "/health":
		http.NotFound(w, httptest.NewRequest(method, path, nil))
	}
	return w.Result(), nil
}

// RoundTrip implements [http.RoundTripper].
func (e *sleeper) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, _ = io.Copy(io.Discard, r.Body)
	switch {
	case e.dead:
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	case e.asleep:
		return answer(http.StatusInternalServerError, `{"error":{"message":"the engine is asleep"}}`), nil
	}
	return answer(http.StatusOK, fine), nil
}

// sleepers are vLLM servers of the test fleet, one for each replica, or one for each host.
type sleepers map[string]*sleeper

func newSleepers(shared bool) sleepers {
	list := sleepers{}
	for i, h := range hosts {
		for v, m := range models {
			port := 8000 + v
			if shared {
				port = 8000
			}
			base, _ := url.Parse(fmt.Sprintf("http://%s:%d", hosts[i], port))
			e := &sleeper{base: base}
			if shared && v > 0 {
				e = list[models[0]+"@"+h]
			}
			list[m+"@"+h] = e
		}
	}
	return list
}

// quiet has no agent report.
func (g *rig) quiet() {
	for _, e := range g.engines {
		e.quiet()
	}
}

// on has the rig's routers serve by the servers.
func (e sleepers) on(t *testing.T, path string) func(*failover.Options, *serving.Options) {
	vllm, err := agents.DialectNamed("vllm")
	if err != nil {
		t.Fatal(err)
	}
	return func(o *failover.Options, s *serving.Options) {
		o.States, o.Dial = states.At(path), nil
		o.Controller.Policy = control.FailLite // without critical applications: all backups are cold
		for i, r := range o.Table.Replicas {
			s.Backends[i] = serving.Backend{Transport: e[r.Name], Lifecycle: vllm, Model: o.Table.Variants[r.Variant].Name}
		}
	}
}

// awake are the replicas whose servers do not sleep, in order.
func (e sleepers) awake() (list []string) {
	for name, x := range e {
		x.mu.Lock()
		if !x.asleep {
			list = append(list, name)
		}
		x.mu.Unlock()
	}
	slices.Sort(list)
	return list
}

func (e sleepers) kill(host string) {
	for _, x := range e {
		if x.base.Hostname() == host {
			x.mu.Lock()
			x.dead = true
			x.mu.Unlock()
		}
	}
}

// Engines that are awake after their start and that nothing needs are put to sleep, and woken for what
// is lost: by a router that has started since too, which knows the level of the sleep.
func TestEnginesThatNothingNeedsSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, _ := withState(t)
		e := newSleepers(false)
		g := newRig(t, e.on(t, path))
		g.quiet()
		g.after(10*time.Second, homes...)
		if got, want := e.awake(), []string{"large-one@h1", "large-three@h3", "large-two@h2"}; !slices.Equal(got, want) {
			t.Fatalf("awake are %q, want %q", got, want)
		}
		g.crash(path)
		time.Sleep(time.Minute)
		g.start()
		time.Sleep(10 * time.Second)
		e.kill("h3")
		s := g.after(10*time.Second, "large-one@h1", "large-two@h2", "small@h1")
		if got := e["small@h1"].orders; !slices.Equal(got, []string{"/sleep?level=1&mode=wait", "/wake_up"}) {
			t.Errorf("the backup was asked for %q", got)
		}
		for _, step := range s.Last.Steps {
			if step.Kind == string(control.StepLoadFailed) {
				t.Errorf("step %+v", step)
			}
		}
	})
}

// A model stays up that shares its server with one that is needed.
func TestOneServerForSeveralModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path, _ := withState(t)
		e := newSleepers(true)
		g := newRig(t, e.on(t, path))
		g.quiet()
		g.after(10*time.Second, homes...)
		for name, x := range e {
			if len(x.orders) > 0 {
				t.Errorf("%s was asked for %q", name, x.orders)
			}
		}
	})
}

// The times of a failover that a router has died in are right in the next one, the time between them
// included.
func TestTimesOverARestart(t *testing.T) {
	t.Run("by a right clock", func(t *testing.T) { timesOverARestart(t, 0, 14500) })
	t.Run("by a clock that was set back", func(t *testing.T) { timesOverARestart(t, time.Hour, 9500) })
}

// timesOverARestart loses hosts, has the router away for 3 s, and its clock set back in that time. What the steps
// took is then counted from when the state was saved.
func timesOverARestart(t *testing.T, back time.Duration, least float64) {
	synctest.Test(t, func(t *testing.T) {
		path, _ := withState(t)
		set := time.Duration(0)
		g := newRig(t, func(o *failover.Options, _ *serving.Options) {
			o.States, o.Controller.Policy = states.At(path), control.FailLite // all backups are cold
			o.Now = func() time.Time { return time.Now().Add(-set) }
		})
		g.after(5*time.Second, homes...)
		lost := time.Now()
		for _, e := range g.engines[1:] {
			e.kill()
		}
		g.engines[0].mu.Lock()
		g.engines[0].takes["small"] = 10 * time.Second // what is lost waits for it
		g.engines[0].mu.Unlock()
		time.Sleep(2 * time.Second)
		g.crash(path)
		time.Sleep(3 * time.Second)
		set = back
		g.start()
		time.Sleep(30 * time.Second)
		s := g.look().Last
		notified := 0
		last := 0.0
		for _, step := range s.Steps {
			if step.AtMS < last || step.AtMS > milliseconds(time.Since(lost)) {
				t.Errorf("step %+v after one at %v ms", step, last)
			}
			if last = step.AtMS; step.Kind != string(control.StepNotified) {
				continue
			}
			if notified++; step.TookMS < least || step.TookMS > step.AtMS {
				t.Errorf("step %+v", step)
			}
		}
		if notified != 2 || s.TookMS < least || s.TookMS > milliseconds(time.Since(lost)) {
			t.Errorf("%d are answered again, after %v ms", notified, s.TookMS)
		}
	})
}

func milliseconds(d time.Duration) float64 { return float64(d) / 1e6 }

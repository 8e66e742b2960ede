package agents

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// sleeper is a vLLM server with sleep mode.
type sleeper struct {
	mu      sync.Mutex
	asleep  bool
	eager   bool // it is awake once its weights have memory
	stays   bool // it does not sleep again
	reloads int  // status of reloads; 0 if it has no such path
	metrics string
}

// ServeHTTP implements [http.Handler].
func (s *sleeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/sleep":
		s.asleep = !s.stays
	case "/wake_up":
		s.asleep = s.asleep && !s.eager && r.URL.RawQuery == "tags=weights"
	case "/is_sleeping":
		_ = json.NewEncoder(w).Encode(map[string]bool{"is_sleeping": s.asleep})
	case "/metrics":
		_, _ = w.Write([]byte(s.metrics))
	case reloadWeights:
		if s.reloads == 0 {
			http.NotFound(w, r)
			return
		}
		w.WriteHeader(s.reloads)
	}
}

// orders lists what the engine was ordered, without what it was asked.
func (b *bench) orders() (list []string) {
	for _, asked := range b.engine.all() {
		if strings.HasPrefix(asked, http.MethodPost) {
			list = append(list, strings.TrimSpace(asked))
		}
	}
	return list
}

// A level that the router does not know is read from the server's metrics.
func TestTheLevelOfASleepIsAskedFor(t *testing.T) {
	const gauge = `vllm:engine_sleep_state{engine="0",sleep_state="awake"} 0.0
vllm:engine_sleep_state{engine="0",sleep_state="weights_offloaded"} %v
vllm:engine_sleep_state{engine="0",sleep_state="discard_all"} %v
`
	reload := []string{"POST /wake_up?tags=weights", `POST /collective_rpc {"method":"reload_weights"}`, "POST /wake_up?tags=kv_cache"}
	for metrics, want := range map[string][]string{
		fmt.Sprintf(gauge, "1.0", "0.0"): {"POST /wake_up"},
		fmt.Sprintf(gauge, "1", "0"):     {"POST /wake_up"},
		fmt.Sprintf(gauge, "0.0", "1.0"): reload,
		"vllm:num_requests_running 0\n":  reload,
	} {
		b := &bench{engine: &engine{handler: &sleeper{asleep: true, reloads: http.StatusOK, metrics: metrics}}}
		if err := (vllm{}).Do(t.Context(), b.engine, "", Order{Verb: control.Wake}); err != nil {
			t.Fatal(err)
		}
		if got := b.orders(); !slices.Equal(got, want) {
			t.Errorf("%s: asked %q, want %q", metrics, got, want)
		}
	}
}

// An engine whose wake has failed does not take requests: it is put to sleep again, and while it says
// that it is awake it is not believed.
func TestAFailedWakeIsNoWake(t *testing.T) {
	for name, c := range map[string]struct {
		engine *sleeper
		want   string
	}{
		"no reload":            {&sleeper{eager: true}, "answer nonsense"},
		"a reload that fails":  {&sleeper{eager: true, reloads: 500}, "the engine answers 500"},
		"it does not go back":  {&sleeper{eager: true, stays: true}, "answer nonsense"},
		"asleep until the end": {&sleeper{}, "answer nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := c.engine
				e.asleep = true
				b := newBench(t, "vllm", e, "small", "adapter")
				b.place(0, fleet.Warm)
				b.place(1, fleet.Warm)
				b.Start()
				synctest.Wait()
				if err := b.Act(control.Action{Verb: control.Wake}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				all := b.take()
				if len(all) != 1 || all[0].Kind != control.ActionFailed || !strings.Contains(all[0].Reason, c.want) {
					t.Errorf("events %v, want that the wake has failed, alone", all)
				}
				if last := b.orders(); last[len(last)-1] != "POST /sleep?level=1&mode=abort" {
					t.Errorf("asked %q, want that it sleeps again", last)
				}
				if note := b.Note(1); e.stays != strings.Contains(note, "its last wake has failed") {
					t.Errorf("note %q", note)
				}
				// Another process has its weights.
				b.engine.fail(http.ErrServerClosed)
				time.Sleep(DefaultConfig().PollInterval)
				synctest.Wait()
				b.engine.fail(nil)
				e.mu.Lock()
				e.asleep = false
				e.mu.Unlock()
				time.Sleep(DefaultConfig().PollInterval)
				synctest.Wait()
				if all := b.take(); len(all) != 2 || all[0].State != fleet.Up || all[1].State != fleet.Up {
					t.Errorf("events %v, want that both are up", all)
				}
			})
		})
	}
}

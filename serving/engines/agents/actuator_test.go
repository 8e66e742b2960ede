package agents

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/control"
	"gearshift/router/fleet"
)

// repository is an engine with Triton's repository API. Loads take their time.
type repository struct {
	takes time.Duration
	mu    sync.Mutex
	state map[string]string
	fault map[string]string // of loads
}

func newRepository(takes time.Duration, models ...string) *repository {
	r := &repository{takes: takes, state: map[string]string{}, fault: map[string]string{}}
	for _, m := range models {
		r.state[m] = "UNAVAILABLE"
	}
	return r
}

func (f *repository) set(model, state string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state[model] = state
}

// ServeHTTP implements [http.Handler].
func (f *repository) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/v2/repository/")
	if path == "index" {
		f.index(w)
		return
	}
	path, verb, _ := strings.Cut(strings.TrimPrefix(path, "models/"), "/")
	model, _ := url.PathUnescape(path)
	if verb == "unload" {
		f.set(model, "UNLOADING")
		go func() { time.Sleep(f.takes); f.set(model, "UNAVAILABLE") }()
		return
	}
	f.mu.Lock()
	fault, there := f.fault[model], f.state[model] != ""
	f.mu.Unlock()
	if !there {
		fault = "failed to load '" + model + "', no model of that name in the repository"
	} else if fault == "" {
		f.set(model, "LOADING")
		select {
		case <-time.After(f.takes):
		case <-r.Context().Done():
			return
		}
		f.set(model, "READY")
		return
	}
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": fault})
}

func (f *repository) index(w io.Writer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []entry{}
	for name, state := range f.state {
		list = append(list, entry{Name: name, State: state})
	}
	_ = json.NewEncoder(w).Encode(list)
}

// bench is an Actuator over one engine with some models, each a replica.
type bench struct {
	*Actuator
	*events
	engine *engine
	mu     sync.Mutex
	placed map[int]fleet.State
	ended  []string
}

func newBench(t *testing.T, dialect string, handler http.Handler, models ...string) *bench {
	b := &bench{events: new(events), engine: &engine{handler: handler}, placed: map[int]fleet.State{}}
	var replicas []Replica
	for i, m := range models {
		replicas = append(replicas, Replica{Name: m + "@gpu0", Engine: b.engine, Model: m, Dialect: dialects[dialect], Server: "http://gpu0"})
		b.placed[i] = fleet.Cold
	}
	start := time.Now()
	b.Actuator = New(Options{
		Config: DefaultConfig(), Replicas: replicas, Clock: func() time.Duration { return time.Since(start) },
		Placed:  func(i int) fleet.State { b.mu.Lock(); defer b.mu.Unlock(); return b.placed[i] },
		Observe: b.observe,
		Ended: func(a control.Action, took time.Duration, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.ended = append(b.ended, a.Verb.String()+" "+took.String())
		},
	})
	t.Cleanup(b.Stop)
	return b
}

func (b *bench) place(replica int, s fleet.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.placed[replica] = s
}

// one waits for d, and returns the one event that has come in that time.
func (b *bench) one(t *testing.T, d time.Duration) control.Event {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	all := b.take()
	if len(all) != 1 {
		t.Fatalf("%d events, want one: %v", len(all), all)
	}
	return all[0]
}

// An action begins at once, and its end comes as an event once the engine has it done.
func TestActionsEndAsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "triton", newRepository(2950*time.Millisecond, "small", "large"), "small", "large")
		if err := b.Act(control.Action{Verb: control.Load, Replica: 0, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if e := b.one(t, 3*time.Second); e.Kind != control.Loaded || e.Replica != 0 || e.At != 2950*time.Millisecond || e.Reason != "" || e.Action.Epoch != 1 {
			t.Errorf("event %+v, want a load after 2.95 s", e)
		}
		// Triton answers an unload before the model is gone.
		if err := b.Act(control.Action{Verb: control.Unload, Replica: 0, Epoch: 2}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if all := b.take(); len(all) > 0 {
			t.Errorf("events %v while the model has its memory still", all)
		}
		if e := b.one(t, 1100*time.Millisecond); e.Kind != control.Unloaded {
			t.Errorf("event %+v, want that it is unloaded", e)
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if want := []string{"load 2.95s", "unload 3s"}; !slices.Equal(b.ended, want) {
			t.Errorf("ended %q, want %q", b.ended, want)
		}
	})
}

// Where the router warms engines up, a model answers a token before its load counts as done, or refuses to.
func TestALoadIsWarmedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "triton", newRepository(time.Second, "small"), "small")
		b.options.Config.WarmUp = true
		if err := b.Act(control.Action{Verb: control.Load, Replica: 0, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if e := b.one(t, 3*time.Second); e.Kind != control.Loaded {
			t.Errorf("event %+v, want a load", e)
		}
		const want = `POST /v1/completions {"max_tokens":1,"model":"small","prompt":"1"}`
		if all := b.orders(); len(all) == 0 || all[len(all)-1] != want {
			t.Errorf("orders %q, want %s last", all, want)
		}
	})
}

// Two actions are not under way on one replica at once, and one of an older placement
// than has been seen is refused. Other replicas of the server are free.
func TestActionsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "triton", newRepository(time.Second, "small", "large"), "small", "large")
		act := func(v control.Verb, replica int, epoch uint64, want string) {
			t.Helper()
			err := b.Act(control.Action{Verb: v, Replica: replica, Epoch: epoch})
			if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
				t.Errorf("error %v, want %q", err, want)
			}
		}
		act(control.Load, 0, 5, "")
		act(control.Unload, 0, 6, "replica small@gpu0: its engine is busy with another action, load")
		act(control.Load, 1, 5, "")
		time.Sleep(time.Second)
		synctest.Wait()
		act(control.Unload, 0, 4, "replica small@gpu0: the action is of placement 4, and one of placement 5 has been seen")
		act(control.Sleep, 0, 9, "triton cannot put a model to sleep; it can load and unload")
		act(control.Unload, 0, 5, "")
		time.Sleep(time.Second)
		b.Stop()
		act(control.Load, 0, 7, "the router is ending")
	})
	none := New(Options{Replicas: []Replica{{Name: "small@gpu0"}}})
	defer none.Stop()
	err := none.Act(control.Action{Verb: control.Load})
	if want := "nothing drives the engine of replica small@gpu0: set serving.upstreams.small@gpu0.lifecycle to gearshift, llamacpp, ollama, triton or vllm"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %q", err, want)
	}
	if none.Driven(0) {
		t.Error("a replica without a dialect is driven")
	}
}

// What fails is an event with the reason, and the engine is asked what it has now.
func TestActionsFail(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(f *repository, e *engine)
		want    string
		after   time.Duration
	}{
		"no such model":     {func(f *repository, _ *engine) { delete(f.state, "small") }, "the engine answers 400: failed to load 'small', no model of that name in the repository", 0},
		"a damaged one":     {func(f *repository, _ *engine) { f.fault["small"] = "model.onnx: protobuf parsing failed" }, "the engine answers 400: model.onnx: protobuf parsing failed", 0},
		"the engine dies":   {func(_ *repository, e *engine) { e.fail(errors.New("EOF")) }, "the engine is gone: EOF", 0},
		"it takes too long": {func(f *repository, _ *engine) { f.takes = time.Hour }, "the engine has not answered in time", 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newRepository(time.Second, "small")
				b := newBench(t, "triton", f, "small")
				b.place(0, fleet.Loading)
				b.Actuator.options.Config.PollInterval = 0
				b.Start()
				synctest.Wait()
				b.take()
				c.prepare(f, b.engine)
				if err := b.Act(control.Action{Verb: control.Load}); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.after)
				synctest.Wait()
				all := b.take()
				if len(all) == 0 || all[0].Kind != control.ActionFailed || all[0].Reason != c.want {
					t.Fatalf("events %v, want a failure: %s", all, c.want)
				}
				if name == "the engine dies" || name == "it takes too long" {
					return // the engine does not say what it has, or is at it still
				}
				if len(all) != 2 || all[1].Kind != control.Changed || all[1].State != fleet.Cold {
					t.Errorf("events %v, want that the replica is cold", all)
				}
			})
		})
	}
}

// An engine that is changed from outside is noticed at the next question, and what was asked
// before an action says nothing after it.
func TestAnotherHandIsNoticed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newRepository(time.Second, "small", "large")
		b := newBench(t, "triton", f, "small", "large")
		b.Start()
		synctest.Wait()
		if all := b.take(); len(all) > 0 {
			t.Errorf("events %v where all is as it is placed", all)
		}
		f.set("large", "READY")
		if e := b.one(t, DefaultConfig().PollInterval); e.Kind != control.Changed || e.Replica != 1 || e.State != fleet.Up {
			t.Errorf("event %+v, want that the second replica is up", e)
		}
		b.place(1, fleet.Up)
		f.set("large", "UNLOADING")
		if e := b.one(t, DefaultConfig().PollInterval); e.State != fleet.Draining {
			t.Errorf("event %+v, want that the second replica is being unloaded", e)
		}
		f.set("large", "UNAVAILABLE")
		if e := b.one(t, DefaultConfig().PollInterval); e.State != fleet.Cold {
			t.Errorf("event %+v, want that the second replica is cold", e)
		}
		b.place(1, fleet.Cold)
		// The first is loaded by the actuator: its states until then are no news.
		f.takes = 19 * time.Second
		if err := b.Act(control.Action{Verb: control.Load, Epoch: 1}); err != nil {
			t.Fatal(err)
		}
		if e := b.one(t, 19*time.Second); e.Kind != control.Loaded {
			t.Errorf("event %+v, want the load alone", e)
		}
	})
}

// A question that an action has overtaken is not answered by what was true before it.
func TestOvertakenQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "triton", newRepository(0, "small"), "small")
		before := b.turns([]int{0})
		if err := b.Act(control.Action{Verb: control.Load}); err != nil {
			t.Fatal(err)
		}
		if b.takeIn(0, before[0], Reading{State: fleet.Up}) {
			t.Error("a reading is news while an action is under way")
		}
		synctest.Wait()
		b.place(0, fleet.Up)
		if b.takeIn(0, before[0], Reading{State: fleet.Cold}) {
			t.Error("a reading is news that is older than the action's end")
		}
		if !b.takeIn(0, b.turns([]int{0})[0], Reading{State: fleet.Cold}) {
			t.Error("a new reading is no news")
		}
	})
}

// The state of an engine that does not say is not guessed at; a note says why.
func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, "triton", newRepository(time.Second, "small"), "small", "huge")
		b.Start()
		synctest.Wait()
		if got, want := b.Note(1), `the engine's repository has no model "huge"`; got != want || b.Note(0) != "" {
			t.Errorf("notes %q and %q, want none and %q", b.Note(0), got, want)
		}
		b.engine.fail(errors.New("connection refused"))
		time.Sleep(DefaultConfig().PollInterval)
		synctest.Wait()
		if got, want := b.Note(0), "its state is not known: the engine is gone: connection refused"; got != want {
			t.Errorf("note %q, want %q", got, want)
		}
		if all := b.take(); len(all) > 0 {
			t.Errorf("events %v of an engine that is gone", all)
		}
	})
}

// A wake that ends a sleep of level 2 has the weights read again; after one from outside,
// of which the level is not known, too.
func TestSleepLevels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asleep := false
		handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/sleep":
				asleep = true
			case "/wake_up":
				asleep = r.URL.RawQuery == "tags=weights"
			case "/is_sleeping":
				_ = json.NewEncoder(w).Encode(map[string]bool{"is_sleeping": asleep})
			}
		})
		b := newBench(t, "vllm", handler, "small")
		do := func(v control.Verb, want string) {
			t.Helper()
			before := len(b.engine.all())
			if err := b.Act(control.Action{Verb: v}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if all := b.take(); len(all) != 1 || all[0].Kind != v.Done() {
				t.Errorf("%v: events %v", v, all)
			}
			var got []string
			for _, asked := range b.engine.all()[before:] {
				if asked = strings.TrimSpace(asked); strings.HasPrefix(asked, "POST") {
					got = append(got, asked)
				}
			}
			if strings.Join(got, ", ") != want {
				t.Errorf("%v: asked %q, want %q", v, got, want)
			}
		}
		const reload = `POST /wake_up?tags=weights, POST /collective_rpc {"method":"reload_weights"}, POST /wake_up?tags=kv_cache`
		do(control.Sleep, "POST /sleep?level=1&mode=wait")
		do(control.Wake, "POST /wake_up")
		b.SetLevel(0, 2)
		do(control.Sleep, "POST /sleep?level=2&mode=wait")
		do(control.Wake, reload)
		asleep = true
		b.poll(&b.servers[0])
		if e := b.take(); len(e) != 1 || e[0].State != fleet.Warm {
			t.Fatalf("events %v, want that it sleeps", e)
		}
		do(control.Wake, reload)
	})
}

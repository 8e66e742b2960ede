package repository

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/serving/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const loadTime = 10 * time.Second

// source has the models a, b and c of 100, 200 and 300 bytes, which take some time to load.
type source struct {
	mu      sync.Mutex
	models  []Model
	fail    map[string]error
	loading int // at present
	most    int // at once
	loads   []string
	engines []*engine
}

func newSource() *source {
	return &source{
		models: []Model{{Name: "a", Memory: 100, Kept: 10}, {Name: "b", Memory: 200, Kept: 20}, {Name: "c", Memory: 300, Kept: 30}},
		fail:   map[string]error{},
	}
}

func (s *source) Models() ([]Model, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Model(nil), s.models...), nil
}

func (s *source) Load(ctx context.Context, m Model, _ func(backend.Span)) (Engine, error) {
	s.mu.Lock()
	s.loads = append(s.loads, m.Name)
	s.loading++
	s.most = max(s.most, s.loading)
	err := s.fail[m.Name]
	s.mu.Unlock()
	select {
	case <-time.After(loadTime):
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loading--
	if err != nil {
		return nil, err
	}
	e := &engine{mark: m.Mark}
	s.engines = append(s.engines, e)
	return e, nil
}

// engine notes what befalls it.
type engine struct {
	http.RoundTripper
	mark string
	wake error

	mu     sync.Mutex
	events []string
}

func (e *engine) note(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.events = append(e.events, fmt.Sprintf(format, args...))
}

func (e *engine) Context() int       { return 64 }
func (e *engine) Load() backend.Load { return backend.Load{} }
func (e *engine) Close()             { e.note("close") }
func (e *engine) Sleep(_ context.Context, l Level) error {
	e.note("sleep %d", l)
	return nil
}

func (e *engine) Wake(_ context.Context, p Part) error {
	e.note("wake %d", p)
	return e.wake
}

// try runs the test in a bubble, on a repository of so many bytes.
func try(t *testing.T, memory int64, test func(t *testing.T, r *Repository, s *source)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSource()
		r, err := New(Config{Source: s, Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		test(t, r, s)
	})
}

// must ends the test if the operation failed.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// in holds the model's state, and what it holds of the memory, against what they should be.
func in(t *testing.T, r *Repository, name string, want State, held int64) Status {
	t.Helper()
	s, err := r.Status(name)
	must(t, err)
	if s.State != want || s.Held != held {
		t.Fatalf("%s is %v with %d bytes (%s); want %v with %d", name, s.State, s.Held, s.Reason, want, held)
	}
	return s
}

// says holds an error's text against what it must have.
func says(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one that says %q", parts)
	}
	for _, p := range parts {
		if !strings.Contains(err.Error(), p) {
			t.Errorf("the error is %q; want %q in it", err, p)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error is of several lines: %q", err)
	}
}

func TestLoadAndUnload(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, s *source) {
		in(t, r, "a", Unloaded, 0)
		begin := time.Now()
		must(t, r.Load(t.Context(), "a"))
		if status := in(t, r, "a", Ready, 100); time.Since(begin) != loadTime || status.LoadTime != loadTime || status.Loads != 1 || status.Context != 64 {
			t.Errorf("%+v after %v", status, time.Since(begin))
		}
		must(t, r.Load(t.Context(), "a")) // is loaded
		must(t, r.Unload(t.Context(), "a"))
		if status := in(t, r, "a", Unloaded, 0); status.Reason != "unloaded" || len(s.loads) != 1 || len(s.engines[0].events) != 1 {
			t.Errorf("%+v, loads %v, %v", status, s.loads, s.engines[0].events)
		}
		must(t, r.Unload(t.Context(), "a")) // is unloaded
		says(t, r.Load(t.Context(), "d"), `"d"`, "there are a, b, c")
		says(t, r.Unload(t.Context(), "d"), `"d"`, "there are a, b, c")
	})
}

// The second load of a model waits for the first, and is none.
func TestLoadTwiceAtOnce(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, s *source) {
		s.fail["b"] = errors.New("the file is damaged")
		for _, name := range []string{"a", "b"} {
			errs, before := make(chan error), len(s.loads)
			for range 3 {
				go func() { errs <- r.Load(t.Context(), name) }()
			}
			for range 3 {
				if err := <-errs; !errors.Is(err, s.fail[name]) {
					t.Errorf("%s: %v", name, err)
				}
			}
			if len(s.loads) != before+1 {
				t.Errorf("%s: loads %v", name, s.loads)
			}
		}
	})
}

// Loads of several models follow one another, and those that are loaded answer meanwhile.
func TestLoadsFollowOneAnother(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		done := make(chan error)
		begin := time.Now()
		for _, name := range []string{"b", "c"} {
			go func() { done <- r.Load(t.Context(), name) }()
		}
		synctest.Wait()
		in(t, r, "b", Loading, 200)
		in(t, r, "c", Loading, 300)
		if lease, err := r.Acquire("a"); err != nil {
			t.Error(err)
		} else {
			lease.End()
		}
		_, err := r.Acquire("b")
		says(t, err, `"b" is loading`, "ready is a")
		must(t, <-done)
		must(t, <-done)
		if s.most != 1 || time.Since(begin) != 2*loadTime {
			t.Errorf("%d loads at once, done after %v", s.most, time.Since(begin))
		}
	})
}

func TestFailedLoad(t *testing.T) {
	try(t, 300, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		s.fail["b"] = errors.New("the file is damaged")
		says(t, r.Load(t.Context(), "b"), "the file is damaged")
		if status := in(t, r, "b", Failed, 0); status.Reason != "the file is damaged" || status.Failures != 1 {
			t.Errorf("%+v", status)
		}
		in(t, r, "a", Ready, 100)
		_, err := r.Acquire("b")
		says(t, err, "not loaded, since its last load failed")
		delete(s.fail, "b")
		must(t, r.Load(t.Context(), "b"))
		in(t, r, "b", Ready, 200)
	})
}

func TestMemoryBounds(t *testing.T) {
	try(t, 350, func(t *testing.T, r *Repository, _ *source) {
		must(t, r.Load(t.Context(), "a"))
		go func() { _ = r.Load(t.Context(), "b") }()
		synctest.Wait() // what is loading counts as well
		err := r.Load(t.Context(), "c")
		says(t, err, `"c" needs 300 bytes, and 50 bytes of 350 bytes are free; unload one or more of b (200 bytes), a (100 bytes)`)
		var memory *MemoryError
		if !errors.As(err, &memory) || memory.Need != 300 || memory.Free != 50 {
			t.Errorf("%+v", err)
		}
		must(t, r.Unload(t.Context(), "b"))
		in(t, r, "c", Unloaded, 0)
		says(t, r.Load(t.Context(), "c"), "unload a (100 bytes)")
		must(t, r.Unload(t.Context(), "a"))
		must(t, r.Load(t.Context(), "c"))
	})
	try(t, 250, func(t *testing.T, r *Repository, _ *source) {
		says(t, r.Load(t.Context(), "c"), "needs 300 bytes, and the engine has 250 bytes in all; raise --memory, or bound the cache of models with --kv-tokens")
	})
}

// A busy model takes no more requests, and is freed when its last one has ended.
func TestUnloadDrains(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		lease, err := r.Acquire("a")
		must(t, err)
		done := make(chan error)
		begin := time.Now()
		go func() { done <- r.Unload(t.Context(), "a") }()
		synctest.Wait()
		in(t, r, "a", Unloading, 100)
		_, err = r.Acquire("a")
		says(t, err, "is unloading")
		again := make(chan error) // which waits for the unload
		go func() { again <- r.Load(t.Context(), "a") }()
		time.Sleep(time.Minute)
		ctx, stop := lease.Bind(t.Context())
		if len(s.engines[0].events) != 0 || ctx.Err() != nil {
			t.Errorf("%v while a request runs, whose context has ended with %v", s.engines[0].events, ctx.Err())
		}
		stop()
		lease.End()
		must(t, <-done)
		if took := time.Since(begin); took != time.Minute {
			t.Errorf("unloaded after %v", took)
		}
		must(t, <-again)
		in(t, r, "a", Ready, 100)
	})
}

func TestUnloadCancelsALoad(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, _ *source) {
		loaded := make(chan error, 1)
		go func() { loaded <- r.Load(t.Context(), "a") }()
		synctest.Wait()
		begin := time.Now()
		must(t, r.Unload(t.Context(), "a"))
		if err := <-loaded; !errors.Is(err, ErrUnloaded) || time.Since(begin) > 0 {
			t.Errorf("the load ended with %v after %v", err, time.Since(begin))
		}
		in(t, r, "a", Unloaded, 0)
	})
}

// A client that goes does not end what it has asked for.
func TestLoadWithoutItsClient(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, _ *source) {
		ctx, cancel := context.WithTimeout(t.Context(), loadTime/2)
		defer cancel()
		if err := r.Load(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		in(t, r, "a", Loading, 100)
		time.Sleep(loadTime)
		in(t, r, "a", Ready, 100)
	})
}

// A model whose files have changed is replaced without a gap: requests of the old one end
// there.
func TestReload(t *testing.T) {
	try(t, 250, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		old, err := r.Acquire("a")
		must(t, err)
		s.models[0].Mark = "new"
		done := make(chan error)
		go func() { done <- r.Load(t.Context(), "a") }()
		synctest.Wait()
		in(t, r, "a", Ready, 200)
		time.Sleep(2 * loadTime)
		lease, err := r.Acquire("a")
		must(t, err)
		if lease.Engine.(*engine).mark != "new" || len(s.engines[0].events) > 0 {
			t.Errorf("answers come from %q, and the old one has had %v", lease.Engine.(*engine).mark, s.engines[0].events)
		}
		lease.End()
		old.End()
		must(t, <-done)
		in(t, r, "a", Ready, 100)
		if fmt.Sprint(s.engines[0].events) != "[close]" {
			t.Errorf("the old one has had %v", s.engines[0].events)
		}
		s.models[0].Mark, s.fail["a"] = "newer", errors.New("the file is damaged")
		says(t, r.Load(t.Context(), "a"), "damaged")
		if status := in(t, r, "a", Ready, 100); status.Reason != "the last reload failed: the file is damaged" {
			t.Error(status.Reason)
		}
	})
}

func TestSleep(t *testing.T) {
	try(t, 320, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		must(t, r.Load(t.Context(), "b"))
		must(t, r.Sleep(t.Context(), "b", Offload, false))
		if status := in(t, r, "b", Asleep, 20); status.Level != Offload || status.Sleeping != All {
			t.Errorf("%+v", status)
		}
		_, err := r.Acquire("b")
		says(t, err, `"b" is asleep at level 1`)
		must(t, r.Wake(t.Context(), "b", Cache))
		in(t, r, "b", Asleep, 20)
		must(t, r.Wake(t.Context(), "b", Weights))
		in(t, r, "b", Ready, 200)
		must(t, r.Wake(t.Context(), "b", All)) // is awake
		must(t, r.Sleep(t.Context(), "b", Offload, false))
		must(t, r.Wake(t.Context(), "b", Weights))
		in(t, r, "b", Asleep, 200)
		must(t, r.Sleep(t.Context(), "b", Discard, false))
		must(t, r.Sleep(t.Context(), "b", Offload, false)) // what is gone is gone
		in(t, r, "b", Asleep, 0)
		must(t, r.Load(t.Context(), "b")) // which wakes it
		in(t, r, "b", Ready, 200)
		if got := fmt.Sprint(s.engines[1].events); got != "[sleep 1 wake 1 wake 2 sleep 1 wake 1 sleep 2 wake 1 wake 2]" || len(s.loads) != 2 {
			t.Errorf("%s, loads %v", got, s.loads)
		}
		says(t, r.Sleep(t.Context(), "c", Offload, false), `"c" is not loaded`)
		says(t, r.Wake(t.Context(), "c", All), `"c" is not loaded`)
		must(t, r.Sleep(t.Context(), "b", Discard, false))
		must(t, r.Unload(t.Context(), "b"))
		in(t, r, "b", Unloaded, 0)
	})
}

// What sleeps has to fit again when it wakes.
func TestWakeNeedsMemory(t *testing.T) {
	try(t, 320, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		must(t, r.Sleep(t.Context(), "a", Offload, false))
		must(t, r.Load(t.Context(), "c"))
		says(t, r.Wake(t.Context(), "a", All), "needs 100 bytes, and 20 bytes of 320 bytes are free; unload c (300 bytes)")
		in(t, r, "a", Asleep, 10)
		must(t, r.Unload(t.Context(), "c"))
		s.engines[0].wake = errors.New("the disk is gone")
		says(t, r.Wake(t.Context(), "a", All), "the disk is gone")
		if status := in(t, r, "a", Asleep, 10); status.Reason != "waking failed: the disk is gone" {
			t.Error(status.Reason)
		}
	})
}

// A sleep waits for requests, or aborts them.
func TestSleepAborts(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, _ *source) {
		must(t, r.Load(t.Context(), "a"))
		lease, err := r.Acquire("a")
		must(t, err)
		ctx, stop := lease.Bind(t.Context())
		defer stop()
		go func() {
			<-ctx.Done()
			lease.End()
		}()
		must(t, r.Sleep(t.Context(), "a", Offload, true))
		if !errors.Is(context.Cause(ctx), ErrAborted) {
			t.Errorf("the request ended with %v", context.Cause(ctx))
		}
		must(t, r.Wake(t.Context(), "a", All))
		again, err := r.Acquire("a")
		must(t, err)
		after, end := again.Bind(t.Context())
		if after.Err() != nil {
			t.Errorf("a request after the wake is aborted: %v", context.Cause(after))
		}
		end()
		again.End()
	})
}

// A repository that is closed ends loads, and does not wait for requests.
func TestClose(t *testing.T) {
	try(t, 0, func(t *testing.T, r *Repository, s *source) {
		must(t, r.Load(t.Context(), "a"))
		lease, err := r.Acquire("a")
		must(t, err)
		done := make(chan error, 2)
		go func() { done <- r.Unload(t.Context(), "a") }()
		go func() { done <- r.Load(t.Context(), "b") }()
		synctest.Wait()
		begin := time.Now()
		r.Close()
		<-done
		<-done
		if time.Since(begin) > 0 || fmt.Sprint(s.engines[0].events) != "[close]" {
			t.Errorf("closed after %v, %v", time.Since(begin), s.engines[0].events)
		}
		lease.End()
		if err := r.Load(t.Context(), "a"); !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
}

package decoder

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"go.uber.org/goleak"

	"gearshift/serving/backend"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// generate starts an answer to a completion.
func generate(t testing.TB, e *Engine, body string) backend.Generation {
	t.Helper()
	g, fault, err := e.Generate([]byte(body), false)
	if err != nil || fault != nil {
		t.Fatalf("%s: %v, %v", body, fault, err)
	}
	return g
}

// answer waits for the whole text.
func answer(t testing.TB, g backend.Generation) (text, finish string) {
	t.Helper()
	for i := 0; ; {
		now, done, err := g.Wait(i)
		if err != nil {
			t.Fatal(err)
		}
		for ; i < now; i++ {
			text += g.Piece(i)
		}
		if done {
			return text, string(g.Finish())
		}
	}
}

// Whoever else is in the batch, and whenever they come and go, each sequence is
// answered as if it were alone.
func TestSequencesDoNotMix(t *testing.T) {
	c := plenty
	c.MaxSequences, c.KVTokens = 3, 150
	f := &fake{next: letters}
	e := start(t, f, c)
	random := rand.New(rand.NewPCG(1, 2))
	var all sync.WaitGroup
	for i := range 40 {
		prompt := strings.Repeat("x", 1+random.IntN(20)) + fmt.Sprint(i)
		limit := 1 + random.IntN(30)
		g := generate(t, e, fmt.Sprintf(`{"prompt": %q, "max_tokens": %d, "temperature": 0}`, prompt, limit))
		all.Go(func() {
			var history []int64
			want := ""
			for _, b := range []byte(prompt) {
				history = append(history, int64(b))
			}
			for range limit {
				next := letters(history)
				history, want = append(history, next), want+string(rune(next))
			}
			if got, finish := answer(t, g); got != want || finish != "length" {
				t.Errorf("%s: got %q (%s), want %q", prompt, got, finish, want)
			}
		})
	}
	all.Wait()
	if f.widest > c.KVTokens {
		t.Errorf("the cache held %d tokens, more than %d", f.widest, c.KVTokens)
	}
}

// Those who wait begin in the order in which they came, as room comes.
func TestFirstComeFirstServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plenty
		c.MaxSequences = 2
		f := &fake{next: letters, step: make(chan struct{})}
		e := start(t, f, c)
		defer close(f.step)
		var list []backend.Generation
		for _, limit := range []int{4, 2, 9, 9} {
			list = append(list, generate(t, e, fmt.Sprintf(`{"prompt": "a", "max_tokens": %d}`, limit)))
			synctest.Wait()
		}
		// Each has its first token before the step that it joins. The second
		// ends with the second step, the first with the third.
		for step, want := range []int{1, 2, 3, 4} {
			if step > 0 {
				f.step <- struct{}{}
				synctest.Wait()
			}
			for i, g := range list {
				if began := g.(*sequence).tokens > 0; began != (i < want) {
					t.Errorf("after %d steps: request %d began: %v, want the first %d", step, i, began, want)
				}
			}
			if l := e.Load(); l.Running != min(2, want) || l.Waiting != 4-want {
				t.Errorf("after %d steps: load %+v", step, l)
			}
		}
	})
}

// A sequence that is cancelled has left the cache before the next step, and its
// room is another's in that step.
func TestCancelFreesWithinOneStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plenty
		c.KVTokens = 2 * 41 // of two sequences
		f := &fake{next: letters, step: make(chan struct{})}
		e := start(t, f, c)
		defer close(f.step)
		const body = `{"prompt": "a", "max_tokens": 40}`
		first := generate(t, e, body)
		generate(t, e, body)
		third := generate(t, e, body).(*sequence)
		synctest.Wait()
		f.step <- struct{}{}
		synctest.Wait()
		if rows := f.rows(); rows != 2 || third.tokens != 0 {
			t.Fatalf("%d rows, the third has %d tokens; want it to wait for room", rows, third.tokens)
		}
		cause := errors.New("the client has gone")
		first.Cancel(cause)
		if _, done, err := first.Wait(99); !done || err != cause {
			t.Errorf("after its end: %v, %v", done, err)
		}
		f.step <- struct{}{} // the step that was under way
		synctest.Wait()
		if rows := f.rows(); rows != 2 || third.tokens != 1 {
			t.Errorf("%d rows, the third has %d tokens; want it in the place of the first", rows, third.tokens)
		}
		third.Cancel(cause)
		f.step <- struct{}{}
		synctest.Wait()
		if l := e.Load(); f.rows() != 1 || l.CacheUsage != 0.5 {
			t.Errorf("%d rows, load %+v; want one that takes half", f.rows(), l)
		}
	})
}

// One that is cancelled while it waits never begins.
func TestCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := plenty
		c.MaxSequences = 1
		f := &fake{next: letters, step: make(chan struct{})}
		e := start(t, f, c)
		defer close(f.step)
		generate(t, e, `{"prompt": "a"}`)
		waiting := generate(t, e, `{"prompt": "b"}`)
		synctest.Wait()
		waiting.Cancel(context.Canceled)
		if l := e.Load(); l.Waiting != 0 {
			t.Errorf("load %+v, want none to wait", l)
		}
		if _, done, err := waiting.Wait(0); !done || err != context.Canceled {
			t.Errorf("it ended %v, %v", done, err)
		}
	})
}

// Answers of one token, which come again as soon as they are given, do not keep those
// that run waiting.
func TestShortAnswersDoNotStarve(t *testing.T) {
	f := &fake{next: letters}
	var e *Engine
	const most = 1000
	prefills := 0
	f.prefilled = func() { // while one is prefilled, the next gets in line
		if prefills++; prefills < most {
			_, _, _ = e.Generate([]byte(`{"prompt": "b", "max_tokens": 1}`), false)
		}
	}
	e = start(t, f, plenty)
	if text, _ := answer(t, generate(t, e, `{"prompt": "a", "max_tokens": 20, "temperature": 0}`)); len(text) != 20 {
		t.Errorf("%q", text)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.prefills == most {
		t.Error("an answer of 20 tokens ended when there was nothing else left to do")
	}
}

// A model that fails ends every answer with its error, and takes no more.
func TestModelFails(t *testing.T) {
	f := &fake{next: letters, fail: errFake}
	e := start(t, f, plenty)
	g := generate(t, e, `{"prompt": "a"}`)
	if _, _, err := g.Wait(1000); !errors.Is(err, errFake) || !strings.Contains(err.Error(), "fake") {
		t.Errorf("the answer ends with %v", err)
	}
	for range 2 {
		if _, _, err := e.Generate([]byte(`{"prompt": "a"}`), false); !errors.Is(err, errFake) {
			t.Errorf("a request after that: %v", err)
		}
	}
}

// A prompt that the model fails on, as one longer than it has positions for, takes
// nobody with it.
func TestAPromptThatFailsIsAlone(t *testing.T) {
	f := &fake{next: letters, step: make(chan struct{}), refuse: func(prompt []int64) error {
		if len(prompt) > 3 {
			return errFake
		}
		return nil
	}}
	e := start(t, f, plenty)
	before := generate(t, e, `{"prompt": "a", "max_tokens": 9}`)
	bad := generate(t, e, `{"prompt": "abcd"}`)
	close(f.step)
	if _, _, err := bad.Wait(1000); !errors.Is(err, errFake) || !strings.Contains(err.Error(), "fake") {
		t.Errorf("it ends with %v", err)
	}
	for _, g := range []backend.Generation{before, generate(t, e, `{"prompt": "b", "max_tokens": 9}`)} {
		if text, _ := answer(t, g); len(text) != 9 {
			t.Errorf("another answer is %q, want 9 letters", text)
		}
	}
}

func TestClose(t *testing.T) {
	f := &fake{next: letters}
	e, err := New(f, bytesOnly(t), plenty)
	if err != nil {
		t.Fatal(err)
	}
	g := generate(t, e, `{"prompt": "a", "max_tokens": 127}`)
	e.Close()
	e.Close()
	if _, done, err := g.Wait(1000); err != nil && err != ErrClosed || !done {
		t.Errorf("the answer ended %v, %v", done, err)
	}
	if _, _, err := e.Generate([]byte(`{"prompt": "a"}`), false); err != ErrClosed || !f.closed {
		t.Errorf("after Close: %v, the model closed: %v", err, f.closed)
	}
}

// What is observed of an answer is what became of it.
func TestObserve(t *testing.T) {
	spans := make(chan backend.Span, 3)
	c := plenty
	c.Observe = func(s backend.Span) { spans <- s }
	e := start(t, &fake{next: says(2, "hi there")}, c)
	answer(t, generate(t, e, `{"prompt": "ab"}`))
	if s := <-spans; s.PromptTokens != 2 || s.OutputTokens != 9 || s.Cut || s.Err != nil || s.First <= 0 || s.Total < s.First {
		t.Errorf("observed %+v", s)
	}
	answer(t, generate(t, e, `{"prompt": "ab", "max_tokens": 3}`))
	if s := <-spans; s.OutputTokens != 3 || !s.Cut {
		t.Errorf("observed %+v", s)
	}
}

func TestConfigFaults(t *testing.T) {
	for want, change := range map[string]func(*Config){
		"a context of 1 tokens is too short":               func(c *Config) { c.Context = 1 },
		"at least 1 sequence must run, not 0":              func(c *Config) { c.MaxSequences = 0 },
		"the KV cache must hold at least 2 tokens, not -5": func(c *Config) { c.KVTokens = -5 },
	} {
		c := plenty
		change(&c)
		if _, err := New(&fake{}, bytesOnly(t), c); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

//go:build onnx && cgo

package onnx

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"gearshift/serving/backend"
	"gearshift/serving/backend/decoder"
	"gearshift/serving/backend/models"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve runs an engine over a model of the size.
func serve(t *testing.T, size models.Size) *decoder.Engine {
	t.Helper()
	load(t)
	dir := write(t, size)
	folder, err := decoder.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	e, err := decoder.New(m, folder.Tokenizer, decoder.Config{Name: size.Name, Context: folder.Context, End: folder.End, MaxSequences: 4, KVTokens: 4 * testContext})
	if err != nil {
		m.Close()
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// answer asks for a completion and returns the text.
func answer(t *testing.T, e *decoder.Engine, body string) string {
	t.Helper()
	response, err := backend.NewFront(e).RoundTrip(httptest.NewRequest("POST", backend.CompletionPath, strings.NewReader(body)))
	if err != nil {
		t.Error(err)
		return ""
	}
	defer response.Body.Close()
	var a struct{ Choices []struct{ Text string } }
	if err := json.NewDecoder(response.Body).Decode(&a); err != nil || response.StatusCode != http.StatusOK || len(a.Choices) != 1 {
		t.Errorf("status %d, %v", response.StatusCode, err)
		return ""
	}
	return a.Choices[0].Text
}

// A seed gives the same answer, alone, again, and among others.
func TestSeedRepeats(t *testing.T) {
	e := serve(t, tiny)
	ask := func(seed int) string {
		return answer(t, e, fmt.Sprintf(`{"prompt": "the gear number %d", "max_tokens": 40, "seed": %d, "ignore_eos": true}`, seed%3, seed))
	}
	var alone [8]string
	for i := range alone {
		alone[i] = ask(i)
	}
	if alone[0] == alone[3] || len(alone[0]) < 20 {
		t.Errorf("two seeds gave %q and %q", alone[0], alone[3])
	}
	var all sync.WaitGroup
	for i := range 3 * len(alone) {
		all.Go(func() {
			if got := ask(i % len(alone)); got != alone[i%len(alone)] {
				t.Errorf("seed %d among others: %q, alone %q", i%len(alone), got, alone[i%len(alone)])
			}
		})
	}
	all.Wait()
	if free := answer(t, e, `{"prompt": "the", "max_tokens": 40}`); free == answer(t, e, `{"prompt": "the", "max_tokens": 40}`) {
		t.Errorf("two answers without a seed are %q", free)
	}
}

// A client that goes ends its work, whether the answer is streamed or not.
func TestClientGoes(t *testing.T) {
	e := serve(t, small)
	idle := func() {
		for deadline := time.Now().Add(5 * time.Second); e.Load().Running > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("load %+v", e.Load())
			}
		}
	}
	ask := func(ctx context.Context, stream bool) (*http.Response, error) {
		body := fmt.Sprintf(`{"prompt": "the", "ignore_eos": true, "stream": %v}`, stream)
		return backend.NewFront(e).RoundTrip(httptest.NewRequestWithContext(ctx, "POST", backend.CompletionPath, strings.NewReader(body)))
	}
	brokenOff := func() bool {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		response, err := ask(ctx, true)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if _, err := io.ReadFull(response.Body, make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		cancel()
		running := e.Load().Running > 0
		_, err = io.ReadAll(response.Body)
		if running && err == nil {
			t.Fatal("the stream ends well after its client has gone")
		}
		return err != nil
	}
	tries := 0
	for !brokenOff() { // the machine was busy elsewhere until the answer had ended
		if tries++; tries == 100 {
			t.Fatal("no answer lasted until its client could go")
		}
	}
	idle()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	time.AfterFunc(5*time.Millisecond, cancel)
	if response, err := ask(ctx, false); err == nil {
		response.Body.Close() // it was quicker
	}
	idle()
}

// A sequence that is cancelled leaves the cache after the step that is under way.
func TestCancelFreesWithinOneStep(t *testing.T) {
	e := serve(t, small)
	start := func() backend.Generation {
		g, fault, err := e.Generate([]byte(`{"prompt": "the", "ignore_eos": true}`), false)
		if fault != nil || err != nil {
			t.Fatal(fault, err)
		}
		return g
	}
	for range 100 {
		stays, goes := start(), start()
		goes.Wait(0)
		before := e.Load()
		goes.Cancel(context.Canceled)
		now, _, _ := stays.Wait(0)
		// One of its next two tokens may be of the step that was under way.
		_, ended, _ := stays.Wait(now + 1)
		after := e.Load()
		stays.Cancel(context.Canceled)
		stays.Wait(1 << 30)
		if ended || before.Running != 2 {
			continue // the machine was busy elsewhere until an answer had ended
		}
		if after.Running != 1 || after.CacheUsage != before.CacheUsage/2 {
			t.Errorf("before %+v, a step after %+v; want half", before, after)
		}
		return
	}
	t.Error("no answer lasted until it could be cancelled")
}

// A tokenizer of another model is refused, and one of more rows than tokens is not.
func TestTokenizerMustMatch(t *testing.T) {
	load(t)
	dir := write(t, tiny)
	path := filepath.Join(dir, "tokenizer.json")
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	more := strings.Replace(string(text), `"added_tokens": [`, `"added_tokens": [{"id": 263, "content": "<|more|>", "special": true},`, 1)
	if err := os.WriteFile(path, []byte(more), 0o644); err != nil {
		t.Fatal(err)
	}
	folder, err := decoder.ReadFolder(dir)
	if err != nil {
		t.Fatal(err)
	}
	m, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	_, err = decoder.New(m, folder.Tokenizer, decoder.Config{Context: 9, MaxSequences: 1, KVTokens: 9})
	if want := "the tokenizer does not match the model: it has 264 tokens, the model 263"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

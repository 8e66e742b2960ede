package backend

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router/profile"
)

// ten is a profile whose every step takes 10 ms.
var ten = profile.Profile{Overhead: 10}

func TestAnswersTakeTheTimeOfTheirSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		defer s.Close()
		time.Sleep(3 * time.Millisecond) // steps begin with the request, not with a beat
		start := time.Now()
		if _, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`}`); decode(t, text).Usage.CompletionTokens != drawn {
			t.Fatal(text)
		}
		// One step for the prompt and its first token, one for each other.
		if took := time.Since(start); took != drawn*10*time.Millisecond {
			t.Errorf("%d tokens took %v", drawn, took)
		}
	})
}

func TestTokensComeAsTheirStepsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		defer s.Close()
		start := time.Now()
		response, err := post(t.Context(), s.Replica(0), ChatPath, `{`+hello+`,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if took := time.Since(start); took != 0 {
			t.Errorf("the stream began after %v", took)
		}
		buffer := make([]byte, 8<<10)
		for i := range drawn {
			n, err := response.Body.Read(buffer)
			if err != nil || !strings.Contains(string(buffer[:n]), `"content":"`) {
				t.Fatalf("token %d: %v, %s", i, err, buffer[:n])
			}
			if took, want := time.Since(start), time.Duration(i+1)*10*time.Millisecond; took != want {
				t.Errorf("token %d came after %v, want %v", i, took, want)
			}
		}
	})
}

func TestNeighboursOnAHostContend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := profile.Profile{Weights: 10, Contention: 0.5}
		s := simulated(t, busy, busy)
		defer s.Close()
		start := time.Now()
		answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
		alone := time.Since(start)
		response, err := post(t.Context(), s.Replica(1), ChatPath, `{`+hello+`,"max_tokens":50,"ignore_eos":true,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		start = time.Now()
		answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
		if together := time.Since(start); together < alone*5/4 {
			t.Errorf("%v alone, %v beside a busy neighbour", alone, together)
		}
	})
}

func TestCancelledWorkLeavesItsEngine(t *testing.T) {
	const long = `{` + hello + `,"max_tokens":100,"ignore_eos":true`
	for name, leave := range map[string]func(t *testing.T, s *Simulated){
		"context of an answer in one piece": func(t *testing.T, s *Simulated) {
			ctx, cancel := context.WithTimeout(t.Context(), 25*time.Millisecond)
			defer cancel()
			if _, err := post(ctx, s.Replica(0), ChatPath, long+`}`); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("error %v", err)
			}
		},
		"context of a stream": func(t *testing.T, s *Simulated) {
			ctx, cancel := context.WithCancel(t.Context())
			response, err := post(ctx, s.Replica(0), ChatPath, long+`,"stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Millisecond)
			cancel()
			if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		},
		"body closed": func(t *testing.T, s *Simulated) {
			response, err := post(t.Context(), s.Replica(0), ChatPath, long+`,"stream":true}`)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(25 * time.Millisecond)
			response.Body.Close()
		},
		"before it began": func(t *testing.T, s *Simulated) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			if _, err := post(ctx, s.Replica(0), ChatPath, long+`}`); !errors.Is(err, context.Canceled) {
				t.Errorf("error %v", err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := simulated(t, ten, ten)
				defer s.Close()
				leave(t, s)
				time.Sleep(10 * time.Millisecond) // to the end of the step in progress
				synctest.Wait()
				h := s.hosts[0]
				h.mu.Lock()
				defer h.mu.Unlock()
				if n := h.host.Engine(0).Load(); n != 0 || len(h.jobs) != 0 {
					t.Errorf("%d sequences and %d jobs left over", n, len(h.jobs))
				}
			})
		})
	}
}

func TestAnIdleHostSleeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		defer s.Close()
		answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
		time.Sleep(time.Hour)
		start := time.Now()
		answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
		if took := time.Since(start); took != drawn*10*time.Millisecond {
			t.Errorf("after an hour's rest an answer took %v", took)
		}
	})
}

// The answers of several hosts have different ids, by which a client's score or next request
// finds the right one.
func TestHostsShareNoIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seen := map[string]bool{}
		for range 3 {
			s := simulated(t, ten, ten)
			_, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
			seen[decode(t, text).ID] = true
			s.Close()
		}
		if len(seen) != 3 {
			t.Errorf("three hosts have the ids %v", seen)
		}
	})
}

func TestManyAnswersShareSteps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		defer s.Close()
		start := time.Now()
		done := make(chan string)
		for range 4 {
			go func() {
				_, text := answer(t, s.Replica(0), ChatPath, `{`+hello+`}`)
				done <- text
			}()
		}
		seen := map[string]bool{}
		for range 4 {
			seen[decode(t, <-done).ID] = true
		}
		if len(seen) != 4 {
			t.Errorf("answers share IDs: %v", seen)
		}
		// One by one they would take four times as long.
		if took := time.Since(start); took > 2*drawn*10*time.Millisecond {
			t.Errorf("four answers took %v", took)
		}
	})
}

func TestCloseEndsAllWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := simulated(t, ten, ten)
		response, err := post(t.Context(), s.Replica(0), ChatPath, `{`+hello+`,"stream":true}`)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		waiting := make(chan error)
		go func() {
			_, err := post(t.Context(), s.Replica(1), ChatPath, `{`+hello+`}`)
			waiting <- err
		}()
		synctest.Wait()
		s.Close()
		s.Close()
		if err := <-waiting; !errors.Is(err, ErrClosed) {
			t.Errorf("an answer in one piece ended with %v", err)
		}
		if _, err := io.Copy(io.Discard, response.Body); !errors.Is(err, ErrClosed) {
			t.Errorf("a stream ended with %v", err)
		}
		if _, err := post(t.Context(), s.Replica(0), ChatPath, `{`+hello+`}`); !errors.Is(err, ErrClosed) {
			t.Errorf("a new request got %v", err)
		}
	})
}

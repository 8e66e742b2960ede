package engineserver

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"
)

func TestParseFaults(t *testing.T) {
	const text = "refuse=0.1,hang=0.25,slow=0.05,delay=3s,sick,lie"
	f, err := ParseFaults(text)
	if want := (Faults{Refuse: 0.1, Hang: 0.25, Slow: 0.05, Delay: 3 * time.Second, Sick: true, Lie: true}); err != nil || f != want {
		t.Errorf("%+v, %v", f, err)
	}
	if f.String() != "refuse=0.1,hang=0.25,slow=0.05,delay=3s,sick,lie" {
		t.Errorf("%s", f)
	}
	if f, err := ParseFaults(" , "); err != nil || f != (Faults{Delay: defaultDelay}) || f.String() != "" {
		t.Errorf("%+v, %v", f, err)
	}
	for bad, want := range map[string]string{
		"hang": "a share from 0 to 1", "hang=1.1": "a share", "cut=NaN": "a share", "die=1": "there are refuse",
		"hang=0.7,cut=0.7": "add up to 1.4", "delay=-1s": "a time", "sick=1": "there are",
	} {
		if _, err := ParseFaults(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestFaultsBefallRequests(t *testing.T) {
	for fault, test := range map[string]func(t *testing.T, r *rig, body string){
		"error=1": func(t *testing.T, r *rig, body string) {
			if status, text := r.get("POST", chat, body); status != 500 || !strings.Contains(text, "engine_error") {
				t.Errorf("status %d, %s", status, text)
			}
		},
		"refuse=1": func(t *testing.T, r *rig, body string) {
			if status, _, err := r.do(r.t.Context(), "POST", chat, body); err == nil {
				t.Errorf("status %d", status)
			}
		},
		"hang=1": func(t *testing.T, r *rig, body string) {
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
			defer cancel()
			if status, _, err := r.do(ctx, "POST", chat, body); !errors.Is(err, context.DeadlineExceeded) || status != 0 {
				t.Errorf("status %d, %v", status, err)
			}
		},
		"slow=1,delay=7s": func(t *testing.T, r *rig, body string) {
			start := time.Now()
			if status, _ := r.get("POST", chat, body); status != 200 {
				t.Errorf("status %d", status)
			}
			if took := time.Since(start); took != 7*time.Second+drawn*10*time.Millisecond {
				t.Errorf("took %v", took)
			}
		},
		"stall=1": func(t *testing.T, r *rig, body string) {
			ctx, cancel := context.WithTimeout(r.t.Context(), time.Hour)
			defer cancel()
			if status, text, err := r.do(ctx, "POST", chat, body); !errors.Is(err, context.DeadlineExceeded) || status != 200 || strings.Contains(text, "[DONE]") {
				t.Errorf("status %d, %v, %s", status, err, text)
			}
		},
		"cut=1": func(t *testing.T, r *rig, body string) {
			if status, text, err := r.do(r.t.Context(), "POST", chat, body); !errors.Is(err, io.ErrUnexpectedEOF) || status != 200 {
				t.Errorf("status %d, %v, %s", status, err, text)
			}
		},
		"garbage=1": func(t *testing.T, r *rig, body string) {
			if status, text := r.get("POST", chat, body); status != 200 || strings.Contains(text, "finish_reason") {
				t.Errorf("status %d, %s", status, text)
			}
		},
	} {
		for form, body := range map[string]string{"whole": ask, "stream": stream} {
			t.Run(fault+" "+form, func(t *testing.T) {
				withRig(t, nil, func(r *rig) {
					if status, text := r.get("POST", "/fault", fault); status != 200 {
						t.Fatal(text)
					}
					for range 8 { // garbage and cuts have several forms
						test(t, r, body)
					}
					if status, text := r.get("POST", "/fault", ""); status != 200 || text != "\n" {
						t.Fatal(text)
					}
					if status, _ := r.get("POST", chat, body); status != 200 {
						t.Errorf("status %d once the fault is over", status)
					}
					time.Sleep(20 * time.Millisecond)
					if n := r.metric(running); n != "0" {
						t.Errorf("%s still running", n)
					}
				})
			})
		}
	}
}

func TestSickAndLyingServers(t *testing.T) {
	withRig(t, func(c *Config) { c.Faults = Faults{Sick: true, Lie: true} }, func(r *rig) {
		if status, _ := r.get("GET", "/health", ""); status != 503 {
			t.Errorf("health %d", status)
		}
		ctx, leave := context.WithCancel(r.t.Context())
		left := make(chan struct{})
		go func() {
			_, _, _ = r.do(ctx, "POST", chat, endless+`}`)
			close(left)
		}()
		time.Sleep(15 * time.Millisecond)
		if n := r.metric(running); n != "0" {
			t.Errorf("it says that %s are running", n)
		}
		if status, _ := r.get("POST", "/fault", ""); status != 200 {
			t.Fatal(status)
		}
		if n := r.metric(running); n != "1" {
			t.Errorf("%s are running", n)
		}
		leave()
		<-left
	})
}

// The same seed befalls the same requests, and the shares are kept.
func TestDrawsRepeat(t *testing.T) {
	f, err := ParseFaults("hang=0.1,cut=0.2,garbage=0.3")
	if err != nil {
		t.Fatal(err)
	}
	a, b := newInjector(f, 1), newInjector(f, 1)
	counts := map[string]int{}
	const n = 100_000
	for range n {
		x, y := a.draw(), b.draw()
		if x != y {
			t.Fatalf("%+v and %+v", x, y)
		}
		counts[x.kind]++
	}
	for kind, share := range map[string]float64{"hang": 0.1, "cut": 0.2, "garbage": 0.3, "": 0.4} {
		if got := float64(counts[kind]) / n; got < share-0.01 || got > share+0.01 {
			t.Errorf("%q befell %v of the requests, want %v", kind, got, share)
		}
	}
}

func FuzzParseFaults(f *testing.F) {
	for _, seed := range []string{"", "hang=0.1,cut=0.2", "sick,lie,delay=1ms,slow=1", "hang=0x1p-2", "=", "hang=1e-400"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		faults, err := ParseFaults(text)
		if err != nil {
			return
		}
		again, err := ParseFaults(faults.String())
		if faults.Slow == 0 {
			again.Delay = faults.Delay
		}
		if err != nil || again != faults {
			t.Errorf("%q: %+v, printed and read again %+v, %v", text, faults, again, err)
		}
	})
}

package serving_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

const (
	askStream = `{"model":"auto","stream":true,"messages":[]}`
	token     = `data: {"choices":[{"delta":{"content":"one"}}]}` + "\n\n"
	done      = "data: [DONE]\n\n"
)

// step is a pause of a scripted body, and what it says after it.
type step struct {
	after time.Duration
	text  string
}

// scripted answers after a time with a body that comes in steps, and then, unless
// the last step is the end of a stream, says no more.
func scripted(header time.Duration, kind string, steps ...step) transport {
	return func(r *http.Request) (*http.Response, error) {
		ctx := r.Context()
		if !sleep(ctx, header) {
			return nil, context.Cause(ctx)
		}
		body, out := io.Pipe()
		context.AfterFunc(ctx, func() { out.CloseWithError(context.Cause(ctx)) })
		go func() {
			for _, s := range steps {
				if !sleep(ctx, s.after) {
					return
				}
				_, _ = io.WriteString(out, s.text)
				if s.text == done || s.text == fine {
					out.Close()
				}
			}
		}()
		return reply(http.StatusOK, kind, body), nil
	}
}

func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// neverConnects is what a transport says whose dialling took too long.
func neverConnects(*http.Request) (*http.Response, error) {
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: slow{}}
}

// alone leaves the request to one attempt.
func alone(o *serving.Options) { o.Config.Retries.Max = 0 }

// visit is do for an answer that may break off.
func (g *rig) visit(body string, header ...string) (w *httptest.ResponseRecorder, broken bool) {
	w = httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, chat, strings.NewReader(body))
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	func() {
		defer func() { broken = recover() == http.ErrAbortHandler }()
		g.Handler().ServeHTTP(w, r)
	}()
	return w, broken
}

func TestEachPhaseHasItsTime(t *testing.T) {
	const s = time.Second
	for _, c := range []struct {
		name    string
		body    string
		backend transport
		code    string // empty: it is answered
		begun   bool   // part of the answer has gone out
		took    time.Duration
	}{
		{"connect", ask, neverConnects, "connect_timeout", false, 0},
		{"header, one piece", ask, mute, "header_timeout", false, 40 * s},
		{"header, stream", askStream, mute, "first_token_timeout", false, 20 * s},
		{"first token, after the header", askStream, scripted(15*s, eventType), "first_token_timeout", false, 20 * s},
		{"first token, after pings", askStream, scripted(0, eventType, step{15 * s, ": ping\n\n"}), "first_token_timeout", true, 20 * s},
		{"first token, after its announcement", askStream, scripted(0, eventType, step{15 * s, `data: {"type":"response.created"}` + "\n\n"}), "first_token_timeout", false, 20 * s},
		{"an answer in one piece has no first token", ask, scripted(39*s, jsonType, step{0, fine}), "", false, 39 * s},
		{"idle, stream", askStream, scripted(0, eventType, step{15 * s, token}, step{9 * s, token}), "idle_timeout", true, 34 * s},
		{"idle, one piece", ask, scripted(30*s, jsonType, step{0, fine[:20]}), "idle_timeout", false, 40 * s},
		{"idle, one long piece", ask, scripted(30*s, jsonType, step{0, long}), "idle_timeout", true, 40 * s},
		{"idle, one piece, nothing yet", ask, scripted(30*s, jsonType), "idle_timeout", false, 40 * s},
		{"slow, but not too slow", askStream, scripted(0, eventType, step{19 * s, token}, step{9 * s, token}, step{9 * s, done}), "", true, 37 * s},
		{"total", askStream, scripted(0, eventType, step{9 * s, token}, step{9 * s, token}, step{9 * s, token}, step{9 * s, token}, step{9 * s, token}, step{9 * s, token}), "total_timeout", true, 50 * s},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, c.backend, alone, func(o *serving.Options) {
					o.Config.Timeouts = config.Timeouts{
						PhaseTimeouts: config.PhaseTimeouts{Connect: s, Header: 40 * s, FirstToken: 20 * s, Idle: 10 * s}, Total: 50 * s,
					}
				})
				start := time.Now()
				w, broken := g.visit(c.body)
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				if c.code == "" {
					g.settled(t, "completed")
					return
				}
				stream := w.Header().Get("Content-Type") == eventType
				if said := strings.Contains(w.Body.String(), `"code":"`+c.code+`"`); said != (!c.begun || stream) {
					t.Errorf("%s is said: %v, in %s", c.code, said, w.Body)
				}
				if broken != c.begun || !c.begun && w.Code != http.StatusGatewayTimeout {
					t.Errorf("status %d, broken %v", w.Code, broken)
				}
				g.settled(t, "timed out")
				if phase := strings.TrimSuffix(c.code, "_timeout"); !strings.Contains(g.do("GET", "/metrics", "").Body.String(), `gearshift_timeouts_total{phase="`+phase+`"} 1`) {
					t.Errorf("the phase %s is not counted", phase)
				}
			})
		})
	}
}

// A request whose body took nearly all of its time is no fault of the replica's that got
// the rest.
func TestTheTimeOfTheBodyIsNotTheReplicas(t *testing.T) {
	for _, c := range []struct {
		upload time.Duration
		states string
	}{{19 * time.Second, "up up up"}, {0, "ejected/silent up up"}} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, transport(mute), alone, func(o *serving.Options) { o.Config.Timeouts.Total = 20 * time.Second })
			for range config.Default().Health.Failures {
				r := httptest.NewRequest("POST", chat, io.MultiReader(reads(func([]byte) (int, error) {
					time.Sleep(c.upload)
					return 0, io.EOF
				}), strings.NewReader(ask)))
				r.ContentLength = int64(len(ask))
				r.Header.Set("Content-Type", jsonType)
				w := httptest.NewRecorder()
				g.Handler().ServeHTTP(w, r)
				if w.Code != http.StatusGatewayTimeout {
					t.Fatalf("status %d: %s", w.Code, w.Body)
				}
			}
			if got := g.states(); got != c.states {
				t.Errorf("after uploads of %v the replicas are %s, want %s", c.upload, got, c.states)
			}
		})
	}
}

func TestAReplicaMayHaveTimesOfItsOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, transport(mute), alone, func(o *serving.Options) {
			o.Backends[smallOnA].Timeouts.Header = 3 * time.Second
		})
		for _, want := range []time.Duration{3 * time.Second, config.Default().Timeouts.FirstToken} {
			start, body := time.Now(), ask
			if want > 3*time.Second {
				body = askStream // whose first token has the server's own time, a later one
				g.core.Ledger().SetUp(smallOnA, false)
			}
			g.visit(body)
			if took := time.Since(start); took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		}
	})
}

// TestASlowClientIsNoSilentReplica: the clock stands still while the router writes.
func TestASlowClientIsNoSilentReplica(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		event := `data: {"choices":[{"text":"` + strings.Repeat("x", 8<<10) + `","finish_reason":"length"}]}` + "\n\n"
		var sent int
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, breaks{reads(func(p []byte) (int, error) {
				if sent++; sent > 4 {
					return 0, io.EOF
				}
				return copy(p, event), nil
			}), io.EOF}), nil
		}), func(o *serving.Options) { o.Config.Timeouts.Idle = 5 * time.Second })
		l, stop, ended := serve(t, g)
		response, err := l.client().Post("http://router"+chat, jsonType, strings.NewReader(askStream))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		for piece := make([]byte, 4<<10); err == nil; {
			time.Sleep(2 * time.Second)
			_, err = io.ReadFull(response.Body, piece)
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) { // that of ReadFull
			t.Error(err)
		}
		g.settled(t, "completed")
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAnAnswerThatOnlyTheConnectionEnds: without the last event of a stream, or the end
// of an object, its end cannot be told from a cut.
func TestAnAnswerThatOnlyTheConnectionEnds(t *testing.T) {
	huge := long + strings.Repeat("x", 4<<20) // more than is kept of an answer
	for _, c := range []struct {
		name, kind, text string
		whole            bool
	}{
		{"a stream", eventType, token + done, true},
		{"a stream, cut", eventType, token, false},
		{"a long piece", jsonType, long + `","choices":[{"text":"a"}]}`, true},
		{"a long piece, cut", jsonType, long, false},
		{"a huge piece", jsonType, huge + `","choices":[{"text":"a"}]}` + "\n", true},
		{"a huge piece, cut", jsonType, huge, false},
	} {
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			r := reply(http.StatusOK, c.kind, io.NopCloser(strings.NewReader(c.text)))
			r.ProtoMajor, r.ProtoMinor = 1, 0
			return r, nil
		}))
		w, broken := g.visit(askStream)
		if broken == c.whole || !strings.HasPrefix(w.Body.String(), c.text) {
			t.Errorf("%s: broken %v, %d bytes", c.name, broken, w.Body.Len())
		}
		if said := strings.Contains(w.Body.String(), "upstream_broke_off"); said != (!c.whole && c.kind == eventType) {
			t.Errorf("%s: says so: %v", c.name, said)
		}
		g.settled(t, map[bool]string{true: "completed", false: "failed"}[c.whole])
	}
}

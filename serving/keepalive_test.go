package serving_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/serving"
	"gearshift/serving/config"
)

const kept = ": keep-alive\n\n"

// keptAlive has the default interval of comments.
func keptAlive(o *serving.Options) { o.Config.KeepAlive = config.Default().KeepAlive }

// TestStreamsAreKeptAlive: the client of a stream gets the header and a comment in each interval
// without a byte, of any API, and another replica may still answer.
func TestStreamsAreKeptAlive(t *testing.T) {
	const s = time.Second
	for path, c := range map[string]struct{ openings, rest string }{
		chat: {role, word("0", "a") + stopped("0") + done}, completions: {"", token + stopped("0") + done},
		responses: {created + progress, spoken + completed}, messages: {start + aPing + block, piece + turned + stop},
	} {
		for name, x := range map[string]struct {
			first  transport
			hedge  time.Duration
			before int // comments
			asked  int
		}{
			"a header that is late":     {scripted(40*s, eventType, step{0, c.openings}, step{0, c.rest}, step{0, done}), 0, 2, 1},
			"openings, and silence":     {scripted(s, eventType, step{s, c.openings}, step{38 * s, c.rest}, step{0, done}), 0, 2, 1},
			"a replica that breaks":     {broken(40 * s), 0, 2, 2},
			"two replicas side by side": {scripted(40*s, eventType, step{0, c.openings}, step{0, c.rest}, step{0, done}), 20 * s, 1, 2},
		} {
			t.Run(path+" "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var asked []string
					second := scripted(s, eventType, step{0, c.openings}, step{0, c.rest}, step{0, done})
					g := newRig(t, nil, fleetOf(&asked, x.first, second, good), keptAlive, func(o *serving.Options) { o.Config.Retries.HedgeAfter = x.hedge })
					w := g.do("POST", path, asks[path])
					if got, want := w.Body.String(), strings.Repeat(kept, x.before)+c.openings+c.rest; !strings.HasPrefix(got, want) || len(asked) != x.asked {
						t.Errorf("asked %v, the client got %q, want %q", asked, got, want)
					}
					if h := w.Result().Header; h.Get("Content-Type") != eventType || h.Get("X-Accel-Buffering") != "no" || h.Get("X-Gearshift-Replica") != "small@a" {
						t.Errorf("header %v", h)
					}
					g.settled(t, "completed")
				})
			})
		}
	}
}

// broken answers nothing, after a while.
func broken(after time.Duration) transport {
	return func(r *http.Request) (*http.Response, error) {
		sleep(r.Context(), after)
		return cuts(eventType, "")(r)
	}
}

// TestAStreamIsKeptAliveWithinItsAnswer, between its events alone.
func TestAStreamIsKeptAliveWithinItsAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const s = time.Second
		half := len(token) / 2
		g := newRig(t, scripted(0, eventType, step{s, token}, step{20 * s, token[:half]}, step{20 * s, token[half:]}, step{s, done}), keptAlive)
		if w := g.do("POST", chat, askStream); w.Body.String() != token+kept+token+done {
			t.Errorf("the client got %q", w.Body)
		}
		g.settled(t, "completed")
	})
}

// TestWhatIsNotKeptAlive: an answer in one piece, a stream whose bytes come in time, and all
// streams where the setting is off.
func TestWhatIsNotKeptAlive(t *testing.T) {
	const s = time.Second
	slowly := []step{{14 * s, token}, {14 * s, token}, {14 * s, done}}
	for name, c := range map[string]struct {
		ask     string
		every   time.Duration
		backend transport
		want    string
	}{
		"one piece": {ask, 15 * s, scripted(40*s, jsonType, step{0, fine}), fine},
		"in time":   {askStream, 15 * s, scripted(0, eventType, slowly...), token + token + done},
		"off":       {askStream, 0, scripted(40*s, eventType, step{0, token}, step{0, done}), token + done},
	} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, c.backend, func(o *serving.Options) { o.Config.KeepAlive = c.every })
			if w := g.do("POST", chat, c.ask); w.Body.String() != c.want {
				t.Errorf("%s: the client got %q", name, w.Body)
			}
			g.settled(t, "completed")
			g.Close()
		})
	}
}

// TestAStreamThatWaitsInTheQueueIsKeptAlive, and ends with an event if there is no room in time.
func TestAStreamThatWaitsInTheQueueIsKeptAlive(t *testing.T) {
	for _, path := range []string{chat, responses, messages} {
		synctest.Test(t, func(t *testing.T) {
			g := newRig(t, says(http.StatusOK, eventType, word("0", "a")+stopped("0")+done), func(o *serving.Options) {
				o.Config.KeepAlive, o.Config.Overload.MaxWait, o.Config.Overload.WaitShare, o.Config.Overload.Shed = time.Second, time.Minute, 1, "never"
			})
			full := g.fill()
			finished := make(chan *httptest.ResponseRecorder)
			go func() { finished <- g.do("POST", path, asks[path], "X-Gearshift-Deadline-Ms", "60000") }()
			time.Sleep(3500 * time.Millisecond)
			full()
			w := <-finished
			if text := w.Body.String(); !strings.HasPrefix(text, strings.Repeat(kept, 3)+word("0", "a")) || w.Header().Get("Content-Type") != eventType {
				t.Errorf("%s: the client got %d %q", path, w.Code, text)
			}

			defer g.fill()()
			w = g.do("POST", path, asks[path])
			text := strings.TrimLeft(strings.ReplaceAll(w.Body.String(), kept, ""), "\n")
			if w.Code != http.StatusOK || !strings.Contains(text, "data: {") || !strings.Contains(text, `"error":{`) || !strings.Contains(text, "deadline") && !strings.Contains(text, "saturated") {
				t.Errorf("%s: the client got %d %q", path, w.Code, w.Body)
			}
			if named := strings.HasPrefix(text, "event: error\n"); named != slices.Contains([]string{responses, messages}, path) {
				t.Errorf("%s: %q", path, text)
			}
			g.Close()
		})
	}
}

// fill takes all places of the fleet, until the function is called that it returns.
func (g *rig) fill() (empty func()) {
	var ends []func()
	for i := range g.core.Table().Replicas {
		for lease, ok := g.core.Ledger().Begin(i, 0); ok; lease, ok = g.core.Ledger().Begin(i, 0) {
			ends = append(ends, func() { lease.End() })
		}
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// TestAfterTheHeaderAnEventSaysWhatAnEngineRefuses: with the engine's own words.
func TestAfterTheHeaderAnEventSaysWhatAnEngineRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, transport(func(r *http.Request) (*http.Response, error) {
			sleep(r.Context(), 20*time.Second)
			return says(http.StatusBadRequest, jsonType, `{"error":{"message":"no such voice","type":"invalid_request_error","code":null}}`)(r)
		}), keptAlive)
		w := g.do("POST", chat, askStream)
		if text := w.Body.String(); !strings.HasPrefix(text, kept+"\ndata: {") || !strings.Contains(text, "no such voice") || !strings.Contains(text, "invalid_request_error") {
			t.Errorf("the client got %q", text)
		}
		g.settled(t, "refused")
	})
}

package serving_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/work"
)

// fleetOf gives each replica a backend of its own, and notes which were asked.
func fleetOf(asked *[]string, a, b, large transport) func(*serving.Options) {
	var mu sync.Mutex // of hedges that append at once
	return func(o *serving.Options) {
		for i, rt := range []transport{a, b, large} {
			name := []string{"small@a", "small@b", "large@a"}[i]
			o.Backends[i].Transport = transport(func(r *http.Request) (*http.Response, error) {
				mu.Lock()
				*asked = append(*asked, name)
				mu.Unlock()
				return rt(r)
			})
		}
	}
}

func refuses(*http.Request) (*http.Response, error) { return nil, refused() }

var good = says(http.StatusOK, jsonType, fine)

// cuts sends the text and breaks off.
func cuts(kind, text string) transport {
	return func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, kind, breaks{strings.NewReader(text), io.ErrUnexpectedEOF}), nil
	}
}

const theirError = `{"error":{"message":"busy","type":"x","param":null,"code":null}}`

func TestWhatIsTriedAgain(t *testing.T) {
	for _, c := range []struct {
		name   string
		first  transport
		reason string // empty: the first answer stands
		status int
	}{
		{"no connection", refuses, "connect", 200},
		{"no connection in time", neverConnects, "connect", 200},
		{"its name cannot be looked up now", func(*http.Request) (*http.Response, error) { return nil, unnamed() }, "timeout", 200},
		{"broken before the header", func(*http.Request) (*http.Response, error) { return nil, io.EOF }, "broken", 200},
		{"no HTTP", func(*http.Request) (*http.Response, error) { return nil, errors.New("malformed HTTP response") }, "broken", 200},
		{"broken after the header", cuts(eventType, ""), "broken", 200},
		{"silent", mute, "timeout", 200},
		{"silent after the header", scripted(0, eventType), "timeout", 200},
		{"502", says(502, "text/html", "<html>"), "status", 200},
		{"503", says(503, jsonType, theirError), "status", 200},
		{"429", says(429, jsonType, theirError), "busy", 200},
		{"520, of a proxy before it", says(520, "text/html", "<html>"), "status", 200},
		{"524", says(524, "text/html", "<html>"), "status", 200},
		{"530", says(530, jsonType, theirError), "status", 200},
		{"a page in place of an answer", says(200, "text/html", "<html>"), "broken", 200},
		{"no JSON", says(200, jsonType, "Traceback"), "broken", 200},
		{"no JSON, as it says itself", says(200, "text/plain", "Traceback"), "broken", 200},
		{"nothing at all", says(200, jsonType, ""), "broken", 200},
		{"an error within a success, at once", says(200, eventType, `data: {"error":{"message":"engine is dead","code":500}}`+"\n\n"+done), "status", 200},
		{"too busy within a success, at once", says(200, eventType, `data: {"error":{"message":"wait","code":429}}`+"\n\n"+done), "busy", 200},
		{"too busy within a success, its status in quotes", says(200, eventType, `data: {"error":{"message":"wait","type":"throttling_error","param":"None","code":"429"}}`+"\n\n"+done), "busy", 200},
		{"an error in a field of its own", says(200, eventType, `error: {"code":500,"message":"x","type":"server_error"}`+"\n\n"+done), "status", 200},

		{"a fault of the client's within a success", says(200, eventType, `data: {"error":{"message":"no images here","code":400}}`+"\n\n"+done), "", 200},
		{"400", says(400, jsonType, theirError), "", 400},
		{"500", says(500, jsonType, theirError), "", 500},
		{"500, as vLLM says it", says(500, jsonType, `{"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}`), "", 500},
		{"504", says(504, jsonType, theirError), "", 504},
		{"519", says(519, jsonType, theirError), "", 519},
		{"531", says(531, jsonType, theirError), "", 531},
		{"broken within the answer", cuts(eventType, token), "", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, c.first, good, good))
				w, _ := g.visit(askStream)
				want, attempts, replica := []string{"small@a"}, "1", "small@a"
				if c.reason != "" {
					want, attempts, replica = []string{"small@a", "small@b"}, "2", "small@b"
				}
				if !slices.Equal(asked, want) || w.Code != c.status || w.Header().Get("X-Gearshift-Attempts") != attempts || w.Header().Get("X-Gearshift-Replica") != replica {
					t.Errorf("asked %v, status %d, header %v", asked, w.Code, w.Header())
				}
				if c.reason != "" && w.Body.String() != fine {
					t.Errorf("body %s", w.Body)
				}
				var counted []string
				if c.reason != "" {
					counted = []string{`gearshift_retries_total{reason="` + c.reason + `",to="replica"} 1`}
				}
				if got := g.counted("gearshift_retries_total"); !slices.Equal(got, counted) {
					t.Errorf("counted %q, want %q", got, counted)
				}
				if n := g.core.Ledger().InFlight(); n != 0 {
					t.Errorf("%d in flight", n)
				}
			})
		})
	}
}

func TestAnotherVariantTakesOverWhereThePolicyChose(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		wants            int
		asked            []string
		variant          string
		status           int
	}{
		{"auto", chat, ask, small, []string{"small@a", "small@b", "large@a"}, "large", 200},
		{"pinned", chat, `{"model":"small"}`, small, []string{"small@a", "small@b"}, "small", 502},
		// What one model embeds cannot be compared with what another does.
		{"embeddings", embeddings, `{"model":"auto","input":"a"}`, small, []string{"small@a", "small@b"}, "small", 502},
		{"responses", responses, `{"model":"auto","input":"a"}`, small, []string{"small@a", "small@b", "large@a"}, "large", 200},
	} {
		t.Run(c.name, func(t *testing.T) {
			var asked []string
			var model string
			var seen watched
			g := newRig(t, nil, fleetOf(&asked, refuses, refuses, func(r *http.Request) (*http.Response, error) {
				body, _ := io.ReadAll(r.Body)
				model = string(body)
				return good(r)
			}), func(o *serving.Options) { o.Watchers = []serving.Watcher{&seen} })
			w := g.do("POST", c.path, c.body)
			if !slices.Equal(asked, c.asked) || w.Code != c.status {
				t.Fatalf("asked %v, want %v; status %d, %s", asked, c.asked, w.Code, w.Body)
			}
			if h := w.Header(); h.Get("X-Gearshift-Variant") != c.variant || h.Get("X-Gearshift-Attempts") != fmt.Sprint(len(asked)) {
				t.Errorf("header %v", h)
			}
			work := seen.works[0]
			if work.Chosen != small || g.core.Table().Variants[work.Variant].Name != c.variant || work.Attempts != len(asked) {
				t.Errorf("chosen %d, then %d after %d attempts", work.Chosen, work.Variant, work.Attempts)
			}
			if c.status != 200 {
				return
			}
			if !strings.Contains(model, `"model":"large"`) {
				t.Errorf("the large one was asked for %s", model)
			}
			if text := g.do("GET", "/metrics", "").Body.String(); !strings.Contains(text, `gearshift_requests_total{outcome="completed",task="chat",variant="large"} 1`) ||
				!strings.Contains(text, `gearshift_retries_total{reason="connect",to="variant"} 1`) {
				t.Error("counted for another variant, or not as a retry")
			}
		})
	}
}

// TestSmallerVariantsComeFirst: the work has lost time already.
func TestSmallerVariantsComeFirst(t *testing.T) {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "t", Deadline: time.Second, Weight: 1, Quality: []float64{1, 1, 1, 1}}},
		[]fleet.Variant{{Name: "0"}, {Name: "1"}, {Name: "2"}, {Name: "3"}}, []fleet.Host{{Name: "h"}},
		[]fleet.Replica{{Name: "0", Variant: 0}, {Name: "1", Variant: 1}, {Name: "2", Variant: 2}, {Name: "3", Variant: 3}})
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	w, err := begun(work.NewAdapter(core, (&hand{}).clock), fleet.Request{}, 2)
	if err != nil {
		t.Fatal(err)
	}
	tried := []int{w.Replica}
	for w.Move(tried, true) {
		tried = append(tried, w.Replica)
	}
	if !slices.Equal(tried, []int{2, 1, 0, 3}) {
		t.Errorf("tried %v", tried)
	}
}

// TestARetryIsNoArrival: the policy must not take a fleet in trouble for a rush.
func TestARetryIsNoArrival(t *testing.T) {
	h := &hand{}
	rates := map[bool]float64{}
	for _, fails := range []bool{false, true} {
		var asked []string
		first := good
		if fails {
			first = says(503, jsonType, theirError)
		}
		g := newRig(t, nil, fleetOf(&asked, first, good, good), func(o *serving.Options) { o.Clock = h.clock })
		for range 20 {
			h.add(time.Second)
			g.do("POST", chat, ask)
		}
		rates[fails] = g.Status().ArrivalRate
		if retried := len(asked) > 20; retried != fails {
			t.Fatalf("asked %d times", len(asked))
		}
	}
	if rates[true] != rates[false] || rates[true] == 0 {
		t.Errorf("rates %v", rates)
	}
}

func TestRetriesHaveABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		bad := says(502, jsonType, theirError)
		g := newRig(t, nil, fleetOf(&asked, bad, bad, bad), func(o *serving.Options) {
			o.Config.Retries = config.Retries{Max: 5, BudgetPercent: 10, BudgetMin: 3, BudgetWindow: 10 * time.Second}
			o.Config.Health.Failures, o.Config.Health.FailureShare = 0, 0 // all stay up
		})
		further := func(requests int) int {
			asked = nil
			for range requests {
				g.do("POST", chat, ask)
			}
			return len(asked) - requests
		}
		if n := further(10); n != 3 {
			t.Errorf("%d retries of 10 requests, want the minimum of 3", n)
		}
		if n := further(90); n != 7 {
			t.Errorf("%d further retries of 100 requests, want 7: 10 %%", n)
		}
		time.Sleep(5 * time.Second)
		if n := further(1); n != 0 {
			t.Errorf("%d retries while the window holds those before", n)
		}
		time.Sleep(6 * time.Second)
		if n := further(1); n != 2 {
			t.Errorf("%d retries in a new window, want all other replicas", n)
		}
		if text := g.do("GET", "/metrics", "").Body.String(); strings.Contains(text, "gearshift_retries_exhausted_total 0") {
			t.Error("requests that the budget stopped are not counted")
		}
	})
}

// An attempt that found no connection has given the fleet no work.
func TestARetryOfWhatWasNotSentIsFree(t *testing.T) {
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, refuses, good, good), func(o *serving.Options) {
		o.Config.Retries = config.Retries{Max: 2, BudgetWindow: time.Second}
	})
	if w := g.do("POST", chat, ask); w.Code != http.StatusOK || len(asked) != 2 {
		t.Errorf("status %d, asked %v", w.Code, asked)
	}
}

// A refusal has cost an engine no work: as many requests may be tried elsewhere after one as there
// are, each as often as any request.
func TestARetryOfWhatWasRefusedIsFree(t *testing.T) {
	for _, status := range []int{429, 503, 529} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, says(status, jsonType, theirError), good, good), func(o *serving.Options) {
			o.Config.Retries = config.Retries{Max: 2, BudgetWindow: time.Second}
			o.Config.Health.Failures, o.Config.Health.FailureShare = 0, 0
		})
		for range 30 {
			if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
				t.Fatalf("%d: status %d, asked %v", status, w.Code, asked)
			}
		}
		asked = nil
		none := newRig(t, nil, fleetOf(&asked, says(status, jsonType, theirError), says(status, jsonType, theirError), good), func(o *serving.Options) {
			o.Config.Retries = config.Retries{Max: 0, BudgetWindow: time.Second}
		})
		if w := none.do("POST", chat, ask); w.Code == http.StatusOK && len(asked) != 1 {
			t.Errorf("%d: status %d after %v, want one attempt", status, w.Code, asked)
		}
	}
}

func TestWhenNothingIsLeftTheLastAnswerStands(t *testing.T) {
	var asked []string
	busy := func(r *http.Request) (*http.Response, error) {
		answer, err := says(429, jsonType, theirError)(r)
		answer.Header.Set("Retry-After", "7")
		return answer, err
	}
	g := newRig(t, nil, fleetOf(&asked, refuses, busy, refuses))
	w := g.do("POST", chat, `{"model":"small"}`)
	if w.Code != 429 || w.Body.String() != theirError || w.Header().Get("Retry-After") != "7" || len(asked) != 2 {
		t.Errorf("asked %v, status %d, header %v, %s", asked, w.Code, w.Header(), w.Body)
	}
	g.settled(t, "failed")
}

// TestAnAnswerIsNotTriedAgainOnceItHasBegun holds the commit point: nobody gets
// two beginnings.
func TestAnAnswerIsNotTriedAgainOnceItHasBegun(t *testing.T) {
	for name, backend := range map[string]transport{
		"a token": cuts(eventType, token), "one long piece": cuts(jsonType, long),
	} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, backend, good, good))
		if w, broken := g.visit(askStream); !broken || len(asked) != 1 || strings.Contains(w.Body.String(), "a b c d") {
			t.Errorf("%s: broken %v, asked %v, %s", name, broken, asked, w.Body)
		}
		g.settled(t, "failed")
	}
}

// TestAnAnswerInOnePieceIsTriedAgainUntilItHasBegun: while none of it has gone
// out, one that breaks off or turns out to be none gives way to another.
func TestAnAnswerInOnePieceIsTriedAgainUntilItHasBegun(t *testing.T) {
	for name, backend := range map[string]transport{
		"cut": cuts(jsonType, fine[:40]), "cut JSON": says(200, jsonType, fine[:40]), "nothing": says(200, "", ""),
		"garbled events": says(200, eventType, "data: {\"choices\": [{\n\ndata: [DONE]\n\n"),
	} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, backend, good, good))
		if w := g.do("POST", chat, ask); w.Code != http.StatusOK || len(asked) != 2 || !strings.Contains(w.Body.String(), "a b c d") {
			t.Errorf("%s: status %d, asked %v, %s", name, w.Code, asked, w.Body)
		}
		g.settled(t, "completed")
	}
}

// A stream without an event in it is no answer, though it ended in order.
func TestAStreamOfNothingHasFailed(t *testing.T) {
	g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
		r := reply(http.StatusOK, eventType, io.NopCloser(strings.NewReader(": nothing\n\n")))
		r.Header.Set("Content-Length", "11")
		return r, nil
	}))
	w := g.do("POST", chat, askStream)
	if text := w.Body.String(); w.Header().Get("Content-Length") != "" || !strings.HasPrefix(text, ": nothing\n\n") || !strings.Contains(text, `"code":"upstream_error"`) {
		t.Errorf("got %q", text)
	}
	g.settled(t, "failed")
}

// TestTheTimeOfARequestHoldsItsRetries: they share the total.
func TestTheTimeOfARequestHoldsItsRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, mute, mute, mute), func(o *serving.Options) {
			o.Config.Timeouts.FirstToken, o.Config.Timeouts.Total = 20*time.Second, 50*time.Second
		})
		start := time.Now()
		w, _ := g.visit(askStream)
		if took := time.Since(start); took != 50*time.Second || len(asked) != 3 || !strings.Contains(w.Body.String(), "total_timeout") {
			t.Errorf("took %v, asked %v, %s", took, asked, w.Body)
		}
		g.settled(t, "timed out")
	})
}

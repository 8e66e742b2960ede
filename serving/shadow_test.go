package serving_test

import (
	"encoding/json"
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
)

// answering answers with the text, as an engine that states six tokens.
func answering(text string) transport {
	return says(http.StatusOK, jsonType, `{"id":"x","choices":[{"index":0,"message":{"role":"assistant","content":"`+text+`"},"finish_reason":"stop"}],"usage":{"completion_tokens":6}}`)
}

// twice is a rig whose requests are all answered by a second size, too.
type twice struct {
	*rig
	mu     sync.Mutex
	asked  []string // replicas
	bodies []string // that they got
	header []http.Header
	take   func() []string // the scores since the last call, by variant
}

func newTwice(t *testing.T, few, many transport, change ...func(*serving.Options)) *twice {
	g := &twice{}
	sees := func(name string, next transport) transport {
		return func(r *http.Request) (*http.Response, error) {
			body, err := io.ReadAll(r.Body)
			g.mu.Lock()
			g.asked, g.bodies, g.header = append(g.asked, name), append(g.bodies, string(body)), append(g.header, r.Header)
			g.mu.Unlock()
			if err != nil {
				return nil, err
			}
			return next(r)
		}
	}
	g.rig = newRig(t, nil, append([]func(*serving.Options){withFeedback(t, config.DefaultQuality().Feedback), func(o *serving.Options) {
		q := config.DefaultQuality()
		q.Shadow.Share = 1
		o.Predictors.Follow(q)
		for i, rt := range []transport{sees("small", few), sees("small", few), sees("large", many)} {
			o.Backends[i].Transport = rt
		}
		service := o.Feedback
		g.take = func() (list []string) {
			for _, l := range service.Take() {
				if len(l.Sample.IDs) == 0 || !l.Own {
					t.Errorf("score %+v", l)
				}
				score, _ := json.Marshal(l.Score)
				list = append(list, []string{"small", "large"}[l.Variant]+" "+string(score))
			}
			return list
		}
	}}, change...)...)
	return g
}

// outcomes are those of requests that were drawn.
func (g *twice) outcomes() (list []string) {
	for _, line := range g.counted("gearshift_quality_shadow_total") {
		_, outcome, _ := strings.Cut(line, `outcome="`)
		list = append(list, strings.Replace(outcome, `"}`, "", 1))
	}
	return list
}

// check compares what was asked, learned and counted, and checks that nothing is in flight.
func (g *twice) check(t *testing.T, asked, scores, outcomes []string) {
	t.Helper()
	if got := g.take(); !slices.Equal(g.asked, asked) || !slices.Equal(got, scores) || !slices.Equal(g.outcomes(), outcomes) {
		t.Errorf("asked %q, scores %q, outcomes %q; want %q, %q, %q", g.asked, got, g.outcomes(), asked, scores, outcomes)
	}
	if n := g.core.Ledger().InFlight(); n != 0 {
		t.Errorf("%d requests still in flight", n)
	}
}

// settle lets what is under way go on as far as it can.
func settle() {
	time.Sleep(time.Millisecond)
	synctest.Wait()
}

func wants(variant int) func(*serving.Options) {
	return func(o *serving.Options) {
		if err := o.Router.(*router.Core).SetPolicy(chooses(variant)); err != nil {
			panic(err)
		}
	}
}

// The smaller size's answer has the score of its agreement with the largest's, whichever answered the client,
// as JSON or as events.
func TestASecondSizeAnswersToo(t *testing.T) {
	const events = `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":"one "}}]}` + "\n\n" +
		`data: {"choices":[{"index":0,"delta":{"content":"two"},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	streamed := strings.Replace(prompted(greeting), `"auto"`, `"auto","stream":true,"stream_options":{"include_usage":true},"seed":12345678901234567890`, 1)
	for _, c := range []struct {
		name, ask, path string
		few, many       transport
		change          func(*serving.Options)
		asked           []string
		score           string
	}{
		{"small first", prompted(greeting), chat, answering("one two three four"), answering("one two"), wants(small), []string{"small", "large"}, "0.6666666666666666"},
		{"large first", prompted(greeting), chat, answering("The answer is 4."), answering("#### 4"), wants(large), []string{"large", "small"}, "1"},
		{"events", streamed, chat, says(http.StatusOK, eventType, events), answering("one two"), wants(small), []string{"small", "large"}, "1"},
		{"completions", `{"model":"auto","prompt":"hello friend","max_tokens":9}`, "/v1/completions", says(http.StatusOK, jsonType, `{"choices":[{"index":0,"text":"a"}]}`), says(http.StatusOK, jsonType, `{"choices":[{"index":0,"text":"b"}]}`), wants(small), []string{"small", "large"}, "0"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTwice(t, c.few, c.many, c.change)
				if w := g.do("POST", c.path, c.ask, "Authorization", "Bearer secret"); w.Code != http.StatusOK {
					t.Fatalf("status %d, %s", w.Code, w.Body)
				}
				settle()
				g.check(t, c.asked, []string{"small " + c.score, "large 1"}, []string{"labelled 1"})
				var second map[string]json.RawMessage
				if err := json.Unmarshal([]byte(g.bodies[1]), &second); err != nil {
					t.Fatal(err)
				}
				if _, streams := second["stream"]; streams || string(second["model"]) != `"`+c.asked[1]+`"` || g.header[1].Get("Authorization") != "" {
					t.Errorf("the second size was asked %s, %v", g.bodies[1], g.header[1])
				}
				if c.name == "events" && string(second["seed"]) != "12345678901234567890" {
					t.Errorf("the second size was asked %s", g.bodies[1])
				}
				if got := g.counted("gearshift_requests_total"); len(got) != 1 || !strings.HasSuffix(got[0], " 1") {
					t.Errorf("requests counted: %q", got)
				}
				if got := g.counted("gearshift_quality_label_score_sum"); len(got) != 0 {
					t.Errorf("the second answer counts as a client's score: %q", got)
				}
			})
		})
	}
}

func TestRequestsThatOneSizeAnswers(t *testing.T) {
	tools := strings.Replace(prompted(greeting), `"auto"`, `"auto","tools":[{"type":"function","function":{"name":"f"}}]`, 1)
	off := func(o *serving.Options) { o.Predictors.Follow(config.DefaultQuality()) }
	for _, c := range []struct {
		name, ask string
		change    func(*serving.Options)
		outcomes  []string
	}{
		{"by name", strings.Replace(prompted(greeting), "auto", "small", 1), wants(small), nil},
		{"two answers", strings.Replace(prompted(greeting), `"auto"`, `"auto","n":2`, 1), wants(small), nil},
		{"long", prompted(strings.Repeat("hello ", 12_000)), wants(small), nil},
		{"share 0", prompted(greeting), off, nil},
		{"no predictor in charge", prompted(greeting), func(o *serving.Options) { o.Predictors.Charge(nil) }, nil},
		{"tools", tools, wants(small), []string{"unfit 1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTwice(t, answering("one"), answering("one"), c.change)
				if w := g.do("POST", chat, c.ask); w.Code != http.StatusOK {
					t.Fatalf("status %d, %s", w.Code, w.Body)
				}
				settle()
				g.check(t, []string{"small"}, nil, c.outcomes)
			})
		})
	}
}

// A second answer takes no place that clients wait for, nor one of a replica that takes no requests or has none left.
func TestASecondAnswerNeedsRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTwice(t, answering("one"), answering("one"))
		ledger := g.core.Ledger()
		hold := func() (give func()) {
			var leases []fleet.Lease
			for range 2 {
				l, ok := ledger.Begin(largeA, 0)
				if !ok {
					t.Fatal("large@a has no place")
				}
				leases = append(leases, l)
			}
			return func() {
				for _, l := range leases {
					l.End()
				}
			}
		}
		sends := func() { g.do("POST", chat, prompted(greeting)); settle() }
		give := hold()
		sends()
		give()
		g.check(t, []string{"small"}, nil, []string{"no_room 1"})
		ledger.SetUp(largeA, false)
		sends()
		ledger.SetUp(largeA, true)
		g.check(t, []string{"small", "small"}, nil, []string{"no_room 2"})
		g.core.SetGate(noRoomOn(largeA))
		sends()
		g.core.SetGate(nil)
		g.check(t, []string{"small", "small", "small"}, nil, []string{"no_room 3"})
		sends()
		g.check(t, []string{"small", "small", "small", "small", "large"}, []string{"small 1", "large 1"}, []string{"labelled 1", "no_room 3"})
		g.Drain()
		sends()
		g.check(t, []string{"small", "small", "small", "small", "large", "small"}, nil, []string{"labelled 1", "no_room 4"})
	})
}

// noRoomOn is a gate with room on all replicas except one.
type noRoomOn int

func (g noRoomOn) Room(_ *fleet.View, _ *fleet.Request, replica int) bool { return replica != int(g) }

// Requests that wait have the places that get free.
func TestNoSecondAnswerWhileRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTwice(t, lasting(time.Second), lasting(time.Minute), patient)
		c := &crowd{rig: g.rig, answers: map[string]answer{}}
		for _, name := range []string{"first", "second", "third"} { // one waits for large, which has two places
			c.send(t.Context(), name, minQuality, "0.9")
		}
		if c.waiting() != 1 {
			t.Fatalf("%d wait", c.waiting())
		}
		c.send(t.Context(), "any")
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if got := g.outcomes(); !slices.Equal(got, []string{"no_room 1"}) {
			t.Errorf("outcomes %q", got)
		}
		c.all.Wait()
		time.Sleep(time.Hour)
	})
}

// The hour's tokens bound what is asked: an answer is reserved in full, and counts by its own length.
func TestSecondAnswersStayWithinTheHoursTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTwice(t, answering("one"), answering("one"), func(o *serving.Options) {
			q := config.DefaultQuality()
			q.Shadow.Share, q.Shadow.TokensPerHour = 1, 20
			o.Predictors.Follow(q)
		})
		bounded := strings.Replace(prompted(greeting), `"auto"`, `"auto","max_tokens":10`, 1)
		for range 4 {
			g.do("POST", chat, bounded)
			settle()
		}
		if got := g.outcomes(); !slices.Equal(got, []string{"labelled 2", "over_budget 2"}) {
			t.Errorf("outcomes %q", got)
		}
		time.Sleep(time.Hour)
		g.do("POST", chat, bounded)
		settle()
		if got := g.outcomes(); !slices.Equal(got, []string{"labelled 3", "over_budget 2"}) {
			t.Errorf("outcomes %q", got)
		}
	})
}

// A second size that hangs or fails changes nothing for clients, ejects no replica, and gives its place back.
func TestASecondSizeThatFailsHurtsNobody(t *testing.T) {
	for _, c := range []struct {
		name     string
		many     transport
		outcomes []string
	}{
		{"hangs", lasting(24 * time.Hour), []string{"busy 18", "failed 2"}},
		{"refuses connections", refuses, []string{"failed 20"}},
		{"errors", says(http.StatusInternalServerError, jsonType, `{}`), []string{"failed 20"}},
		{"no JSON", says(http.StatusOK, jsonType, `{"choices":[`), []string{"no_text 20"}},
		{"panics", func(*http.Request) (*http.Response, error) { panic("engine") }, []string{"failed 20"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newTwice(t, answering("one"), c.many)
				began := time.Now()
				for range 20 {
					if w := g.do("POST", chat, prompted(greeting)); w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "one") {
						t.Errorf("status %d, %s", w.Code, w.Body)
					}
					settle()
				}
				if took := time.Since(began); took != 20*time.Millisecond { // of settle
					t.Errorf("20 answers took %v", took)
				}
				if s := g.core.Ledger().State(largeA); s != fleet.Up {
					t.Errorf("large@a is %v", s)
				}
				time.Sleep(time.Hour)
				if got := g.outcomes(); !slices.Equal(got, c.outcomes) || len(g.take()) != 0 {
					t.Errorf("outcomes %q, want %q", got, c.outcomes)
				}
				if n := g.core.Ledger().InFlight(); n != 0 {
					t.Errorf("%d requests still in flight", n)
				}
				if got := g.counted("gearshift_requests_total"); len(got) != 1 || !strings.HasSuffix(got[0], " 20") {
					t.Errorf("requests counted: %q", got)
				}
			})
		})
	}
}

// The end of a server does not wait for second answers.
func TestACloseEndsSecondAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newTwice(t, answering("one"), lasting(time.Minute))
		g.do("POST", chat, prompted(greeting))
		settle()
		began := time.Now()
		g.Close()
		if took := time.Since(began); took > 0 || g.core.Ledger().InFlight() != 0 {
			t.Errorf("closed after %v, %d in flight", took, g.core.Ledger().InFlight())
		}
		g.do("POST", chat, prompted(greeting))
		settle()
		g.check(t, []string{"small", "large", "small"}, nil, []string{"failed 1"})
	})
}

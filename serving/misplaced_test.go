package serving_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

// Errors of an engine that has another model, or nothing at the path of its base.
const (
	noModel = "{\"error\":{\"message\":\"The model `small` does not exist.\",\"type\":\"NotFoundError\",\"param\":\"model\",\"code\":404}}"
	noPath  = `{"detail":"Not Found"}`
)

// A replica with another model, or with a wrong base, answers at once and is always empty,
// so that it would draw every request. None of them fails, and it goes.
func TestAReplicaThatLacksWhatItIsAskedForFailsNoRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		status int
		kind   string
		body   string
	}{
		{"another model", 404, jsonType, noModel},
		{"another model, with 400", 400, jsonType, `{"error":{"message":"no such thing","code":"model_not_found"}}`},
		{"a wrong base", 404, jsonType, noPath},
		{"a wrong base with a page", 404, "text/html", "<html>Not Found</html>"},
		{"a wrong base with plain text", 404, "text/plain; charset=utf-8", "404 page not found\n"},
		{"a server of files", 405, "text/html", "<html>Not Allowed</html>"},
		{"a server without the method", 501, "text/html", "<html>Unsupported method</html>"},
	} {
		for _, together := range []int{1, 50} {
			t.Run(fmt.Sprint(c.name, ", ", together, " at a time"), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					wrong := says(c.status, c.kind, c.body)
					g, asked := newCounted(t, wrong)
					var failed atomic.Int32
					for range 100 / together {
						var all sync.WaitGroup
						for range together {
							all.Go(func() {
								if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" {
									failed.Add(1)
								}
							})
						}
						all.Wait()
					}
					if n := failed.Load(); n > 0 {
						t.Errorf("%d of 100 requests failed", n)
					}
					// What is sent while nothing is known, and not after.
					if n := asked.Load(); n > int32(config.Default().Health.Failures+together) {
						t.Errorf("it was asked %d times", n)
					}
					g.wantStates(t, "ejected/failures up")
					if refused := g.counted(`gearshift_requests_total`); len(refused) != 1 || !strings.Contains(refused[0], `outcome="completed"`) {
						t.Errorf("counted %q", refused)
					}
					if log := g.logs.String(); !strings.Contains(log, "it does not have the ") || !strings.Contains(log, "model=small") {
						t.Errorf("the log says %s", log)
					}
				})
			})
		}
	}
}

// newCounted is a rig with two replicas, of which the first answers so, and how often that
// was asked.
func newCounted(t *testing.T, first transport) (*rig, *atomic.Int32) {
	var asked atomic.Int32
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{{Name: "small@a", Host: 0}, {Name: "small@b", Host: 1}})
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: emptiest{}})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, func(o *serving.Options) {
		counted := transport(func(r *http.Request) (*http.Response, error) {
			asked.Add(1)
			return first(r)
		})
		o.Router, o.Backends = core, []serving.Backend{{Transport: counted}, {Transport: takes(10 * time.Millisecond)}}
	})
	return g, &asked
}

// A client's request gets what it asked for, or an error that is about the router's
// engines: its own model is none of them.
func TestWithoutAnotherReplicaTheErrorIsTheRouters(t *testing.T) {
	for _, body := range []string{noModel, noPath} {
		var asked []string
		wrong := says(404, jsonType, body)
		g := newRig(t, nil, fleetOf(&asked, wrong, wrong, wrong))
		w := g.do("POST", chat, ask)
		message, kind, _, code := readError(t, w.Body.Bytes())
		if w.Code != http.StatusBadGateway || kind != "server_error" || code != "upstream_not_found" || strings.Contains(message, "Not Found") {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		if len(asked) != 3 {
			t.Errorf("asked %v", asked)
		}
		g.settled(t, "failed")
	}
}

// What a client named is no failure of the replica: the answer passes as it came.
func TestWhatAClientNamesIsNoFailureOfTheReplica(t *testing.T) {
	const file = `{"error":{"message":"File file-1 not found","type":"invalid_request_error","param":"messages[0].content[0].file_id","code":null}}`
	const previous = `{"error":{"message":"Response with id resp_1 not found.","type":"invalid_request_error","param":"previous_response_id"}}`
	for _, c := range []struct {
		path, request, answer string
		status                int
	}{
		{chat, ask, file, 404},
		{responses, `{"model":"auto","input":"a","previous_response_id":"resp_1"}`, previous, 404},
		{chat, ask, `{"error":{"message":"cannot fetch http://x/ model small not found"}}`, 400},
	} {
		t.Run(c.path+" "+c.answer, func(t *testing.T) {
			var asked []string
			theirs := says(c.status, jsonType, c.answer)
			g := newRig(t, nil, fleetOf(&asked, theirs, theirs, theirs))
			for range 2 * config.Default().Health.Failures {
				if w := g.do("POST", c.path, c.request); w.Code != c.status || w.Body.String() != c.answer {
					t.Fatalf("status %d, %s", w.Code, w.Body)
				}
			}
			if got := g.states(); got != "up up up" {
				t.Errorf("states %s", got)
			}
			if got := g.counted("gearshift_requests_total"); len(got) != 1 || !strings.Contains(got[0], `outcome="refused"`) {
				t.Errorf("counted %q", got)
			}
		})
	}
}

// A missing model is the replica's failure whatever the endpoint.
func TestAMissingModelIsAFailureOnAnyEndpoint(t *testing.T) {
	for path, request := range map[string]string{
		responses: `{"model":"auto","input":"a"}`, embeddings: `{"model":"small","input":"a"}`, chat: `{"model":"small","messages":[]}`,
	} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, says(404, jsonType, noModel), good, good))
		if w := g.do("POST", path, request); w.Code != http.StatusOK || len(asked) != 2 {
			t.Errorf("%s: status %d, asked %v", path, w.Code, asked)
		}
	}
}

// A server that lists other models gets no request until it lists the right one.
func TestAServerWithOtherModelsIsKeptOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		wrong, right := `{"object":"list","data":[{"id":"A"},{"id":"B"}]}`, `{"object":"list","data":[{"id":"A"},{"id":"small"}]}`
		engines[0].models.Store(&wrong)
		time.Sleep(time.Second) // before the first probe, or little after
		g.wantStates(t, "ejected/model up up")
		if got := g.Status().Replicas[smallOnA].Note; got != "server has A, B, not small" {
			t.Errorf("the status says %q", got)
		}
		if log := g.logs.String(); strings.Count(log, "server has A, B, not small") != 1 {
			t.Errorf("the log says %s", log)
		}
		for range 50 {
			if w := g.do("POST", chat, ask); w.Code != http.StatusOK || w.Header().Get("X-Gearshift-Replica") != "small@b" || w.Header().Get("X-Gearshift-Attempts") != "1" {
				t.Fatalf("status %d, %v", w.Code, w.Header())
			}
		}
		time.Sleep(5 * time.Minute)
		g.wantStates(t, "ejected/model up up")
		g.wantMetric(t, `gearshift_ejections_total{reason="model",replica="small@a",variant="small"} 1`)
		engines[0].models.Store(&right)
		time.Sleep(5 * time.Second)
		g.wantStates(t, "half_open/model up up")
		if got := g.Status().Replicas[smallOnA].Note; got != "" {
			t.Errorf("the status says %q", got)
		}
		for range 4 {
			g.do("POST", chat, ask)
		}
		time.Sleep(15 * time.Second)
		g.wantStates(t, "up up up")
	})
}

// All replicas may be kept out: their answers would be errors. Nothing that says nothing of
// models keeps anyone out.
func TestWhatAListSays(t *testing.T) {
	for list, want := range map[string]string{
		`{"data":[{"id":"other"}]}`:                                "ejected/model ejected/model ejected/model",
		`{"data":[{"id":"small"}]}`:                                "up up ejected/model",
		`{"data":[{"id":"small:latest"},{"id":"large:latest"}]}`:   "up up up",
		`{"data":[{"id":"x","aliases":["small"]},{"id":"large"}]}`: "up up up",
		`{"data":[{"id":"/m/x.gguf","owned_by":"llamacpp"}]}`:      "up up up",
		`{"data":[]}`: "up up up",
		`no list`:     "up up up",
		`{}`:          "up up up",
	} {
		synctest.Test(t, func(t *testing.T) {
			g, engines := newEngines(t)
			for _, e := range engines {
				e.models.Store(&list)
			}
			time.Sleep(time.Minute)
			g.wantStates(t, want)
		})
	}
}

// The lists of models are asked for seldom once they are right, and not at all if that is
// switched off.
func TestHowOftenListsAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines, reload := steeredEngines(t)
		time.Sleep(10 * time.Minute)
		if n := engines[0].lists.Load(); n < 10 || n > 30 {
			t.Errorf("asked %d times in ten minutes", n)
		}
		wrong := `{"data":[{"id":"other"}]}`
		engines[0].models.Store(&wrong)
		time.Sleep(time.Minute)
		g.wantStates(t, "ejected/model up up")
		reload(func(c *config.Config) { c.Health.ProbeModels = false })
		before := engines[0].lists.Load()
		time.Sleep(10 * time.Minute)
		if n := engines[0].lists.Load() - before; n != 0 {
			t.Errorf("asked %d times more", n)
		}
		g.wantStates(t, "half_open/model up up")
	})
}

// Probes that get 404 on every path are failed probes. A replica that answers requests all
// the same stays, and one that is out for that comes back when it does.
func TestProbesThatFindNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, engines := newEngines(t)
		engines[0].absent.Store(true)
		time.Sleep(7 * time.Second)
		g.wantStates(t, "ejected/probe up up")
		time.Sleep(5 * time.Minute)
		g.wantStates(t, "half_open/probe up up") // its trials will tell
		if n := strings.Count(g.logs.String(), "replica ejected"); n != 1 {
			t.Errorf("ejected %d times: %s", n, g.logs)
		}
		for range 2 {
			g.do("POST", chat, ask)
		}
		time.Sleep(time.Minute)
		g.wantStates(t, "up up up")
		time.Sleep(time.Hour)
		g.wantStates(t, "up up up")
	})
}

// A client that asks for completions what answers chats alone has nobody ejected.
func TestAServerWithoutCompletionsStaysForChats(t *testing.T) {
	chats := transport(func(r *http.Request) (*http.Response, error) {
		if r.URL.Path == chat {
			return good(r)
		}
		return says(404, jsonType, noPath)(r)
	})
	var asked []string
	g := newRig(t, nil, fleetOf(&asked, chats, chats, chats))
	g.core.Ledger().SetUp(smallOnB, false)
	g.do("POST", chat, ask)
	g.do("POST", chat, `{"model":"large","messages":[]}`)
	for range 2 * config.Default().Health.Failures {
		if w := g.do("POST", "/v1/completions", `{"model":"auto","prompt":"a"}`); w.Code != http.StatusBadGateway {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
	}
	if got := g.states(); got != "up up up" {
		t.Errorf("states %s", got)
	}
}

// An engine that another takes the place of on reload is asked for its models at once.
func TestAReloadOfUpstreamsAsksForTheirModels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		g, engines := newEngines(t, withReloader(w))
		time.Sleep(10 * time.Second)
		wrong := `{"data":[{"id":"other"}]}`
		engines[0].models.Store(&wrong)
		w.change.Applied = []string{"serving.upstreams.small@a"}
		if _, err := g.Reload("test"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		g.wantStates(t, "ejected/model up up")
	})
}

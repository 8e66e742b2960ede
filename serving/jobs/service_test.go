package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/serving/admission/limits"
	"gearshift/serving/config"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/inference"
	"gearshift/serving/openai/proxy"
	routed "gearshift/serving/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a transport that answers lists, and tensors, in the time of the configuration of
// [small].
type engine struct {
	mu     sync.Mutex // protects asked
	asked  []string   // modalities and size of each batch
	fail   func(n int) error
	status int
	body   string
	slow   float64
}

func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	kinds, n, answer := e.read(r, body)
	e.mu.Lock()
	e.asked = append(e.asked, fmt.Sprintf("%s×%d", kinds, n))
	count := len(e.asked)
	e.mu.Unlock()
	if e.fail != nil {
		if err := e.fail(count); err != nil {
			return nil, err
		}
	}
	ms := map[string]float64{"image": 5 + 5*float64(n), "audio": 10 + 10*float64(n), "image+audio": 20 + 20*float64(n)}[kinds] * max(e.slow, 1)
	timer := time.NewTimer(duration(ms))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	response := &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r}
	if e.status != 0 {
		response.StatusCode, answer = e.status, []byte(e.body)
	} else if strings.HasPrefix(r.URL.Path, inference.PathPrefix) {
		a := inference.Answer{Outputs: []inference.Tensor{{Name: "logits", Datatype: "UINT8", Shape: []int64{int64(n)}, Data: answer, Binary: true}}}
		if answer, err = a.Write(response.Header); err != nil {
			return nil, err
		}
	}
	response.Body = io.NopCloser(strings.NewReader(string(answer)))
	return response, nil
}

// read says what is asked, and answers with the inputs' own words.
func (e *engine) read(r *http.Request, body []byte) (kinds string, n int, answer []byte) {
	if strings.HasPrefix(r.URL.Path, inference.PathPrefix) {
		q, err := inference.ReadRequest(r.Header, body)
		if err != nil {
			panic(err)
		}
		var names []string
		for _, t := range q.Inputs {
			names, n, answer = append(names, t.Name), t.Rows(), t.Data
		}
		return strings.Join(names, "+"), n, answer
	}
	var q struct {
		Model  string
		Inputs []struct{ Image, Audio string }
	}
	if err := json.Unmarshal(body, &q); err != nil || r.URL.Path != proxy.ClassifyPath || q.Model != "digits" {
		panic(fmt.Sprint(err, r.URL.Path, string(body)))
	}
	var data []string
	for _, in := range q.Inputs {
		kinds = strings.Trim(strings.Join([]string{kind(in.Image, "image"), kind(in.Audio, "audio")}, "+"), "+")
		data = append(data, fmt.Sprintf(`{"label":%q,"probs":[1]}`, in.Image+in.Audio))
	}
	return kinds, len(q.Inputs), fmt.Appendf(nil, `{"data":[%s],"usage":{"prompt_tokens":%d}}`, strings.Join(data, ","), len(q.Inputs))
}

func kind(value, name string) string {
	if value == "" {
		return ""
	}
	return name
}

// serve makes a service of digits on these engines.
func serve(t *testing.T, c Config, engines ...http.RoundTripper) *Service {
	t.Helper()
	return serveWithin(t, limits.NewAnswers(1<<30), c, engines...)
}

// serveWithin is serve with a budget of answers. Batches go through a proxy to the engines' hosts, of which
// each has a replica of each option.
func serveWithin(t *testing.T, budget *limits.Answers, c Config, engines ...http.RoundTripper) *Service {
	t.Helper()
	c.Models = []Model{small(len(engines))}
	var variants []fleet.Variant
	for _, o := range c.Models[0].Options {
		variants = append(variants, fleet.Variant{Name: o.Variant})
	}
	var hosts []fleet.Host
	var replicas []fleet.Replica
	var backends []config.Backend
	for i, e := range engines {
		hosts = append(hosts, fleet.Host{Name: c.Models[0].Workers[i].Name})
		for v := range variants {
			replicas = append(replicas, fleet.Replica{Name: variants[v].Name + "@" + hosts[i].Name, Variant: v, Host: i})
			backends = append(backends, config.Backend{Transport: e, Model: "digits"})
		}
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "digits", Deadline: time.Second, Weight: 1, Quality: []float64{0.8, 0.88, 0.96}}}, variants, hosts, replicas)
	if err != nil {
		t.Fatal(err)
	}
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: unused{}, Balancer: unused{}})
	if err != nil {
		t.Fatal(err)
	}
	settings, clock, none := config.Default(), routed.WallClock(), reports{}
	adapter := routed.NewAdapter(core, clock)
	p := proxy.New(proxy.Options{
		Table: table, Backends: backends, Settings: func() *config.Config { return &settings }, Clock: clock, Log: slog.New(slog.DiscardHandler),
		Health: none, Metrics: none, Memory: budget, Loads: none, Prompts: adapter.Prompts, Events: adapter.Events,
		Keyed: func(int) bool { return false }, Context: func(int) int { return 0 }, Unlisted: func(int) {},
	})
	s, err := New(c, Options{
		Clock: clock, Memory: budget,
		Takes: func(replica int) bool { return core.Ledger().State(replica) == fleet.Up },
		Host:  func(replica int) string { return hosts[replicas[replica].Host].Name },
		Send: func(ctx context.Context, replica int, _ string, b *proxy.Batch) (Sent, error) {
			w, ok := adapter.Place(fleet.Request{}, replica, "jobs")
			if !ok {
				return Sent{Replica: replica}, ErrDown
			}
			outcome, failed, err := p.Ask(ctx, b, w, clock()+settings.Timeouts.Total)
			w.End(outcome, 0)
			return Sent{w.Replica, failed}, err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// unused is a policy and a balancer, which nothing asks.
type unused struct{}

func (unused) Name() string                                      { return "unused" }
func (unused) Scratch() int                                      { return 0 }
func (unused) Decide(*fleet.View, *fleet.Request, []float32) int { return 0 }
func (unused) Pick(*fleet.View, *fleet.Request, int, uint64) int { return -1 }

// reports is what a proxy reports to, which nobody reads.
type reports struct{}

func (reports) Failed(int, health.Failure, time.Duration) {}
func (reports) Succeeded(int, time.Duration)              {}
func (reports) Erred(int, bool, time.Duration) bool       { return true }
func (reports) Agreed(int, time.Duration)                 {}
func (reports) Doubted(int) bool                          { return false }
func (reports) Busy(int, bool, time.Duration) bool        { return false }
func (reports) Answers(int, time.Duration) bool           { return true }
func (reports) Dispatched(time.Duration)                  {}
func (reports) Retried(string, bool)                      {}
func (reports) Exhausted()                                {}
func (reports) Hedged(string)                             {}
func (reports) TimedOut(config.Phase)                     {}
func (reports) Asks() bool                                { return false }
func (reports) Header(int, http.Header)                   {}
func (reports) Own(gauges.Format) string                  { return "" }

// ask has a job of so many inputs answered, each with an image and a sound named by its number.
func ask(t *testing.T, s *Service, n int, rest string) (*Result, error) {
	t.Helper()
	var inputs []string
	for i := range n {
		inputs = append(inputs, fmt.Sprintf(`{"image":"i%d","audio":"a%d"}`, i, i))
	}
	return send(t.Context(), s, `{"inputs":[`+strings.Join(inputs, ",")+`]`+rest+`}`)
}

func send(ctx context.Context, s *Service, body string) (*Result, error) {
	j, refused := s.Classify(Asked{Task: "digits"}, []byte(body))
	if refused != nil {
		return nil, refused
	}
	return s.Do(ctx, j)
}

// TestAJobIsAnswered: with time for all inputs it gets them; each answer is in its place, with
// what it was answered from.
func TestAJobIsAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		s := serve(t, Config{Policy: "optimized"}, e)
		defer s.Close()
		r, err := ask(t, s, 3, `,"total_ms":1000`)
		if err != nil {
			t.Fatal(err)
		}
		text, err := r.Classification("x")
		if err != nil {
			t.Fatal(err)
		}
		var a struct {
			Data []struct {
				Index      int
				Label      string
				Modalities []string
				Variant    string
			}
			Usage struct {
				Total int `json:"total_tokens"`
			}
			Job Result
		}
		if err := json.Unmarshal(text, &a); err != nil {
			t.Fatalf("%v in %s", err, text)
		}
		for i, d := range a.Data {
			if d.Index != i || d.Label != fmt.Sprintf("i%da%d", i, i) || fmt.Sprint(d.Modalities) != "[image audio]" || d.Variant != "digits-image-audio" {
				t.Errorf("answer %d: %+v", i, d)
			}
		}
		if len(a.Data) != 3 || !a.Job.Kept || a.Job.Quality != 0.96 || a.Job.Promised != 0.96 || a.Job.TookMS != 80 || a.Job.Strategy["digits-image-audio"] != 3 || a.Usage.Total != 3 {
			t.Errorf("%s", text)
		}
	})
}

// TestLittleTimeLittleInput: a job gets what its time allows, mixed so that its floor holds, and
// every answer is that of its own input.
func TestLittleTimeLittleInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		s := serve(t, Config{Policy: "optimized"}, e)
		defer s.Close()
		r, err := ask(t, s, 4, `,"min_quality":0.85,"total_ms":65`)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Kept || r.Quality < 0.85 || r.TookMS > 65 {
			t.Errorf("%+v", r)
		}
		for i, a := range r.job.answered {
			var row struct{ Label string }
			if err := json.Unmarshal(a.row.([]byte), &row); err != nil || !strings.HasSuffix(row.Label, fmt.Sprint(i)) {
				t.Errorf("input %d is answered by %s", i, a.row)
			}
		}
	})
}

// TestJobsThatCannotBeInTime: they are dropped, and the error says so.
func TestJobsThatCannotBeInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, &engine{})
		defer s.Close()
		r, err := ask(t, s, 4, `,"min_quality":0.96,"total_ms":50`)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Code != "job_dropped" || refused.Status != 429 || !refused.Load || r.Outcome != outcomeDropped {
			t.Errorf("%+v, %v", r, err)
		}
	})
}

// TestSlowEnginesAreLearnt: batches that take twice as long leave less time to later plans.
func TestSlowEnginesAreLearnt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{Policy: "optimized"}, &engine{slow: 2})
		defer s.Close()
		for range 40 {
			if _, err := ask(t, s, 1, ""); err != nil {
				t.Fatal(err)
			}
		}
		if q := s.Queues(); len(q) != 1 || q[0].Slowness < 1.9 {
			t.Fatalf("%+v", q)
		}
		if r, err := ask(t, s, 1, `,"total_ms":60`); err != nil || !r.Kept || r.Strategy["digits-audio"] != 1 {
			t.Errorf("%+v, %v; want sound, in time", r, err)
		}
	})
}

// TestAnIdleWorkerHelps: what waits for a worker that takes far longer than planned is answered by one
// that has nothing to do.
func TestAnIdleWorkerHelps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{Policy: "aggressive"}, &engine{slow: 50}, &engine{})
		defer s.Close()
		begin, took := time.Now(), make([]time.Duration, 6)
		workers := make([]string, len(took))
		var all sync.WaitGroup
		for i := range took {
			all.Go(func() {
				r, err := ask(t, s, 1, "")
				if err != nil {
					t.Error(err)
				}
				took[i], workers[i] = time.Since(begin), r.Worker
			})
			synctest.Wait()
		}
		all.Wait()
		slow := 0
		for i, name := range workers {
			if name == "host0" {
				slow++
			} else if took[i] > 60*time.Millisecond { // five of 10 ms
				t.Errorf("job %d took %v", i, took[i])
			}
		}
		if slow != 1 {
			t.Errorf("the slow worker has answered %d of %v; want 1", slow, workers)
		}
	})
}

// TestAnotherWorkerAnswers: where an engine fails, another answers the batch; where none does, the error
// says whose engine failed and why. What is known of a worker's time is that of its own batches.
func TestAnotherWorkerAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := func(int) error { return errors.New("it is on fire") }
		first, second := &engine{fail: broken}, &engine{}
		s := serve(t, Config{Policy: "optimized"}, first, second)
		defer s.Close()
		r, err := ask(t, s, 2, "")
		if err != nil || !r.Kept || r.Worker != "host1" || r.Failures != 1 || r.Batches != 2 || len(r.Busy) != 1 || r.Busy[0].Replica != 5 {
			t.Fatalf("%+v, %v", r, err)
		}
		if q := s.Queues(); q[0].Slowness != 1 || q[1].Slowness != 1 {
			t.Errorf("%+v", q)
		}
		second.fail = broken
		var refused *Refused
		if _, err = ask(t, s, 2, ""); !errors.As(err, &refused) || refused.Status != 502 || refused.Message != "the engine on host1 failed: it is on fire" {
			t.Errorf("both are broken: %v", err)
		}
	})
}

// TestAClientThatLeaves: its job waits no more, and what runs of it ends.
func TestAClientThatLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		s := serve(t, Config{}, e)
		defer s.Close()
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				if r, err := send(ctx, s, `{"inputs":[{"image":"x"}]}`); !errors.Is(err, context.Canceled) || r.Outcome != outcomeLeft {
					t.Errorf("%+v, %v", r, err)
				}
			})
		}
		synctest.Wait()
		leave()
		all.Wait()
		synctest.Wait()
		if q := s.Queues(); q[0].Waiting != 0 || q[0].Running || len(e.asked) != 1 {
			t.Errorf("%+v, asked %v", q, e.asked)
		}
	})
}

// TestPartsOfAJob: inputs that lack some modality are answered from what they have, and the
// others make up for them.
func TestPartsOfAJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{Policy: "aggressive"}, &engine{})
		defer s.Close()
		r, err := send(t.Context(), s, `{"inputs":[{"image":"a"},{"audio":"b"},{"image":"c","audio":"d"}],"min_quality":0.88}`)
		if err != nil || !r.Kept || r.Quality < 0.88 || fmt.Sprint(r.Strategy) != "map[digits-audio:1 digits-image:1 digits-image-audio:1]" {
			t.Errorf("%+v, %v", r, err)
		}
		if _, err := send(t.Context(), s, `{"inputs":[{"image":"a"},{"audio":"b"}],"min_quality":0.85}`); err == nil || !strings.Contains(err.Error(), "the best for these inputs is digits-image and digits-audio with 0.84") {
			t.Errorf("a floor above what the inputs allow: %v", err)
		}
	})
}

// TestBadJobs: each fault is one line with what would be right.
func TestBadJobs(t *testing.T) {
	s := serve(t, Config{}, &engine{})
	defer s.Close()
	for body, want := range map[string]string{
		`{"inputs":[]}`:                                                            "400 inputs: \"inputs\" is empty",
		`{"inputs":{}}`:                                                            "must be a list of objects",
		`{"inputs":[3]}`:                                                           "400 inputs[0]: input 0 must be an object with one or more of image, audio",
		`{"inputs":[{"image":"x"},{}]}`:                                            "input 1 is empty; digits takes image, audio",
		`{"inputs":[{"image":""}]}`:                                                "input 0 is empty",
		`{"inputs":[{"smell":"x"}]}`:                                               `400 inputs[0].smell: input 0: digits takes no "smell"; it takes image, audio`,
		`{"inputs":[{"image":"x","image":"y"}]}`:                                   "its image is there twice",
		`{"inputs":[{"image":"x"}],"inputs":[{"image":"x"}]}`:                      `"inputs" is there twice`,
		`{"inputs":[{"image":"x"}],"image":"x"}`:                                   "one or the other",
		`{"inputs":[{"image":"x"}],"min_quality":"high"}`:                          `400 min_quality: "min_quality" must be a number`,
		`{"inputs":[{"image":"x"}],"min_quality":-1}`:                              "it must be a number of at least 0",
		`{"inputs":[{"image":"x"}],"min_quality":0.9}`:                             "400 min_quality: no strategy reaches a mean quality of 0.9; the best for these inputs is digits-image with 0.8",
		`{"inputs":[{"image":"x","audio":"y"}],"min_quality":1}`:                   "the best for these inputs is digits-image-audio with 0.96",
		`{"inputs":[{"image":"x"}],"total_ms":0}`:                                  `400 total_ms: "total_ms" is 0; it must be a positive number`,
		`{"inputs":[{"image":"x"}],"total_ms":1e300}`:                              "it must be a positive number",
		`{"inputs":[` + strings.Repeat(`{"image":"x"},`, 4) + `{"image":"x"}]}`:    "400 inputs: 5 inputs are too many for one job; at most 4",
		`{"inputs":[` + strings.Repeat(`{"image":"x"},`, 5000) + `{"image":"x"}]}`: "a list of 5001 inputs; at most 4096",
	} {
		_, err := send(t.Context(), s, body)
		var refused *Refused
		if !errors.As(err, &refused) {
			t.Errorf("%.80s: %v", body, err)
			continue
		}
		if got := fmt.Sprintf("%d %s: %s", refused.Status, refused.Param, refused.Message); !strings.Contains(got, want) || strings.Contains(got, "\n") {
			t.Errorf("%.80s: %s; want %s", body, got, want)
		}
	}
	pinned, refused := s.Classify(Asked{Model: "digits-audio", Task: "digits"}, []byte(`{"inputs":[{"image":"x"}]}`))
	if refused == nil || refused.Code != "input_missing" || !strings.Contains(refused.Message, "input 0 has image, which is not enough for any of digits-audio (audio)") {
		t.Errorf("a variant whose input is left out: %v, %v", pinned, refused)
	}
	if _, refused = s.Classify(Asked{Model: "huge"}, []byte(`{"inputs":[{}]}`)); refused == nil || !strings.Contains(refused.Message, `no model "huge" whose inputs are chosen; there are digits`) {
		t.Errorf("%v", refused)
	}
	no := func(string) bool { return false }
	if _, refused = s.Classify(Asked{Task: "digits", May: no}, []byte(`{"inputs":[{"image":"x"}]}`)); refused == nil || refused.Status != 403 {
		t.Errorf("a key that may use nothing: %v", refused)
	}
}

// TestEnginesThatRefuse: an engine's word on an input names it as the job does; nonsense is its
// own failure.
func TestEnginesThatRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{status: 400, body: `{"error":{"message":"\"inputs[0].image\" must be a PNG","param":"inputs[0].image","code":"invalid_value"}}`}
		s := serve(t, Config{Policy: "aggressive"}, e)
		defer s.Close()
		_, err := send(t.Context(), s, `{"inputs":[{"audio":"x"},{"image":"y"}]}`)
		var refused *Refused
		if !errors.As(err, &refused) || refused.Status != 400 || !strings.HasSuffix(string(refused.Param), ".image") || !strings.Contains(refused.Message, `: "image" must be a PNG`) {
			t.Errorf("%+v", err)
		}
		for body, want := range map[string]string{`oops`: "it answered 200", `{"data":[]}`: "0 elements of data for 1 inputs"} {
			e.status, e.body = 200, body
			if body == `oops` {
				e.status, want = 500, "it answered 500: oops"
			}
			if _, err := send(t.Context(), s, `{"inputs":[{"audio":"x"}]}`); !errors.As(err, &refused) || refused.Status != 502 || !strings.Contains(refused.Message, want) {
				t.Errorf("%s: %v; want %s", body, err, want)
			}
		}
	})
}

// TestCloseEndsJobs: those that wait and those that run.
func TestCloseEndsJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{}, &engine{})
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				_, err := ask(t, s, 1, "")
				var refused *Refused
				if !errors.As(err, &refused) || refused.Code != "not_ready" {
					t.Errorf("%v", err)
				}
			})
		}
		synctest.Wait()
		s.Close()
		all.Wait()
		if _, err := ask(t, s, 1, ""); err == nil {
			t.Error("a job after Close is answered")
		}
	})
}

// TestTensors: rows of tensors are sent with some of their modalities, and come back in order.
func TestTensors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := &engine{}
		s := serve(t, Config{Policy: "optimized"}, e)
		defer s.Close()
		q := &inference.Request{ID: "seven", Parameters: map[string]json.RawMessage{"min_quality": json.RawMessage("0.82"), "total_ms": json.RawMessage("45"), "sequence_id": json.RawMessage("7")}}
		for _, name := range []string{"image", "audio"} {
			q.Inputs = append(q.Inputs, inference.Tensor{Name: name, Datatype: "UINT8", Shape: []int64{4}, Data: []byte("abcd"), Binary: true})
		}
		j, refused := s.Infer(Asked{Model: "digits", Task: "digits"}, q)
		if refused != nil {
			t.Fatal(refused)
		}
		r, err := s.Do(t.Context(), j)
		if err != nil || !r.Kept || len(r.Strategy) < 2 {
			t.Fatalf("%+v, %v", r, err)
		}
		h := http.Header{}
		body, err := r.Inference(h)
		if err != nil {
			t.Fatal(err)
		}
		a, err := inference.ReadAnswer(h, body)
		if err != nil || a.ID != "seven" || a.Model != "digits" || string(a.Output("logits").Data) != "abcd" || string(a.Parameters["kept"]) != "true" {
			t.Errorf("%s, %v", body, err)
		}
		for name, change := range map[string]func(*inference.Request){
			`no modality of a tensor "smell"`:                   func(q *inference.Request) { q.Inputs[0].Name = "smell" },
			`input "audio" has 3 rows, and input "image" has 4`: func(q *inference.Request) { q.Inputs[1].Shape, q.Inputs[1].Data = []int64{3}, []byte("abc") },
			`input "audio" has 4 bytes; its shape [9]`:          func(q *inference.Request) { q.Inputs[1].Shape = []int64{9} },
			`"inputs" is empty`:                                 func(q *inference.Request) { q.Inputs = nil },
			`"min_quality" must be a number`: func(q *inference.Request) {
				q.Parameters = map[string]json.RawMessage{"min_quality": json.RawMessage(`"x"`)}
			},
		} {
			bad := *q
			bad.Inputs = append([]inference.Tensor(nil), q.Inputs...)
			change(&bad)
			if _, refused := s.Infer(Asked{Model: "digits", Task: "digits"}, &bad); refused == nil || !strings.Contains(refused.Message, name) {
				t.Errorf("%v; want %s", refused, name)
			}
		}
	})
}

// TestAKeyDoesNotTakeTheQueue: a key whose jobs may wait for an hour fills the queue; the job of another
// is answered, and one of the first key's is refused for it.
func TestAKeyDoesNotTakeTheQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, Config{Policy: "optimized"}, &engine{})
		s.models[0].pool.Most = 3
		defer s.Close()
		var mu sync.Mutex // protects outcomes
		start := func(tenant string, total time.Duration, done func(*Result, error)) {
			j, refused := s.Classify(Asked{Task: "digits", Total: total}, []byte(`{"inputs":[{"image":"x","audio":"y"}]}`))
			if refused != nil {
				t.Fatal(refused)
			}
			j.Tenant = tenant
			go func() {
				r, err := s.Do(t.Context(), j)
				mu.Lock()
				defer mu.Unlock()
				done(r, err)
			}()
			synctest.Wait()
		}
		outcomes := map[string]int{}
		for range 5 { // one runs, three wait, one is refused
			start("many", time.Hour, func(r *Result, err error) { outcomes[r.Outcome]++ })
		}
		start("one", time.Second, func(r *Result, err error) {
			if err != nil || !r.Kept || r.TookMS > 100 {
				t.Errorf("the other key's job: %+v, %v", r, err)
			}
			outcomes["other"]++
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if outcomes[outcomeKept] != 3 || outcomes[outcomeDropped] != 2 || outcomes["other"] != 1 {
			t.Errorf("%v; want 3 of the first key's kept, 2 refused, and the other's job", outcomes)
		}
	})
}

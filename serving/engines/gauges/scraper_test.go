package gauges_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine has a page of metrics, or fails.
type engine struct {
	mu     sync.Mutex
	page   string
	other  string // its page at /prometheus/metrics
	third  string // its page at /v1/metrics
	fourth string // its page at /v1/loads
	err    error
	asked  int
	stats  int // how often for /metrics
}

func (e *engine) Get(_ context.Context, path string) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.asked++
	if e.err != nil {
		return nil, e.err
	}
	page := map[string]string{"/metrics": e.page, "/prometheus/metrics": e.other, "/v1/metrics": e.third, "/v1/loads": e.fourth}[path]
	status := http.StatusOK
	if path == "/metrics" {
		e.stats++
	}
	if page == "" {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(page))}, nil
}

func (e *engine) says(page string, err error) {
	e.mu.Lock()
	e.page, e.err = page, err
	e.mu.Unlock()
}

func (e *engine) saysElsewhere(page string) {
	e.mu.Lock()
	e.other = page
	e.mu.Unlock()
}

func (e *engine) saysLoads(page string) {
	e.mu.Lock()
	e.fourth = page
	e.mu.Unlock()
}

// lost is how often it was asked for /metrics.
func (e *engine) lost() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stats
}

// times is how often it was asked since the last call.
func (e *engine) times() (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	n, e.asked = e.asked, 0
	return n
}

// rig is a scraper of one engine over two replicas, of which the router's own
// counts are set by the test.
type rig struct {
	*gauges.Scraper
	signals *signals.Monitor
	*engine
	ledger  *fleet.Ledger
	stop    context.CancelFunc
	mu      sync.Mutex
	own     [2]int
	reports []string
	loads   []signals.Load
	missed  int
}

// Page implements [gauges.Loads].
func (r *rig) Page(_ int, l signals.Load, _ signals.Count) { r.loads = append(r.loads, l) }

// Missed implements [gauges.Loads].
func (r *rig) Missed(int) { r.missed++ }

func newRig(t *testing.T, replicas ...int) *rig {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}}, []fleet.Host{{Name: "a"}},
		[]fleet.Replica{{Name: "small@a", Variant: 0, Limit: 64, KVTokens: 1000}, {Name: "large@a", Variant: 1}})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{engine: &engine{}, ledger: fleet.NewLedger(table)}
	source := gauges.Source{Server: r.engine, Replicas: replicas, Models: []string{"small", "large"}[:len(replicas)]}
	source.Loaded = func(i int) bool { return r.ledger.Placed(i) == fleet.Up }
	start := time.Now()
	clock := func() time.Duration { return time.Since(start) }
	r.signals = signals.New(r.ledger)
	r.Scraper = gauges.New(gauges.DefaultConfig(), r.signals, []gauges.Source{source}, r.counts, clock, 1, r.note)
	r.Scraper.Loads = r
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	t.Cleanup(func() {
		r.stop()
		r.Wait()
	})
	r.Start(ctx)
	return r
}

func (r *rig) counts(replica int) signals.Count {
	r.mu.Lock()
	defer r.mu.Unlock()
	if replica > 0 {
		return signals.Count{}
	}
	return signals.Count{InFlight: r.own[0], Held: r.own[1]}
}

func (r *rig) has(requests, tokens int) {
	r.mu.Lock()
	r.own = [2]int{requests, tokens}
	r.mu.Unlock()
}

func (r *rig) note(_ gauges.Source, fresh bool, err error) {
	r.mu.Lock()
	r.reports = append(r.reports, fmt.Sprint(fresh, " ", err))
	r.mu.Unlock()
}

func (r *rig) seen() (inFlight, held int32) {
	var v fleet.View
	r.ledger.View(0, &v)
	return v.InFlight[0], v.Held[0]
}

// wait lets two scrapes pass.
func wait() {
	time.Sleep(2500 * time.Millisecond)
	synctest.Wait()
}

func (r *rig) want(t *testing.T, inFlight, held int32) {
	t.Helper()
	if n, tokens := r.seen(); n != inFlight || tokens != held {
		t.Errorf("corrected by %d requests and %d tokens, want %d and %d; %+v", n, tokens, inFlight, held, r.signals.Signals()[0])
	}
}

func TestWorkOfOthersIsAdded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.says("vllm:num_requests_running 10\nvllm:num_requests_waiting 5\nvllm:kv_cache_usage_perc 0.5\n", nil)
		r.has(4, 200)
		wait()
		r.want(t, 11, 300)
		r.has(20, 800) // the router's own explain it all
		wait()
		r.want(t, 0, 0)
		r.says("vllm:num_requests_running 1e6\n", nil) // it can look full, not more
		wait()
		r.want(t, 64, 0)
	})
}

// Gauges lag: what the router itself had a moment ago is nobody else's.
func TestWorkThatHasJustEndedIsNotTakenForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.says("vllm:num_requests_running 40\n", nil)
		r.has(40, 0)
		wait()
		r.has(0, 0)
		time.Sleep(time.Second)
		synctest.Wait()
		r.want(t, 0, 0)
		wait()
		r.want(t, 40, 0) // it is still there: somebody's
	})
}

func TestStaleGaugesCorrectNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.says("vllm:num_requests_running 10\n", nil)
		wait()
		r.want(t, 10, 0)
		r.says("", errors.New("gone"))
		time.Sleep(4 * time.Second)
		synctest.Wait()
		r.want(t, 10, 0)
		time.Sleep(2 * time.Second)
		synctest.Wait()
		r.want(t, 0, 0)
		if g := r.signals.Signals()[0]; !g.Stale || g.Running != 10 {
			t.Errorf("the gauge is %+v, want a stale one of 10", g)
		}
		time.Sleep(time.Minute)
		r.says("vllm:num_requests_running 3\n", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 3, 0)
		if got := fmt.Sprint(r.reports); got != "[true <nil> false gone true <nil>]" {
			t.Errorf("reports %s", got)
		}
	})
}

// An engine without gauges, as Ollama, is said so once, asked ever less, and
// nothing is made of it.
func TestAnEngineWithoutGauges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		r.want(t, 0, 0)
		if got := fmt.Sprint(r.reports); got != "[false it answers /metrics with status 404]" {
			t.Errorf("reports %s", got)
		}
		if r.asked > 40 || r.asked < 15 {
			t.Errorf("asked %d times in ten minutes", r.asked)
		}
	})
}

// TensorRT-LLM's /metrics are what its iterations were, as one line of JSON, which are
// gone when they have been read; its gauges stand elsewhere.
func TestGaugesThatStandElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.says(`[{"gpuMemUsage":1,"numActiveRequests":2,"x":"`+strings.Repeat("x", 100<<10)+`"}]`, nil)
		r.saysElsewhere("trtllm_num_requests_running{engine_type=\"trtllm\",model_name=\"small\"} 2\n")
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 2, 0)
		if stats, all := r.lost(), r.times(); stats != 1 || all < 50 {
			t.Errorf("asked %d times, %d of them for /metrics", all, stats)
		}
		r.says("vllm:num_requests_running 3\n", nil) // another engine takes its place
		r.saysElsewhere("")
		wait()
		r.want(t, 3, 0)
	})
}

func TestAServerOfSeveralReplicasMustSayWhich(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		r.says("vllm:num_requests_running 10\n", nil)
		wait()
		r.want(t, 0, 0)
		r.says("vllm:num_requests_running{model_name=\"small\"} 10\nvllm:num_requests_running{model_name=\"large\"} 3\n", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 10, 0)
		if g := r.signals.Signals()[1]; g.Others.InFlight != 3 {
			t.Errorf("the other is corrected by %d, want 3", g.Others.InFlight)
		}
	})
}

// Adapters have the gauges of the server that names the model which they adapt, whose requests are those
// of all.
func TestAdaptersHaveTheGaugesOfTheirServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		r.has(4, 0)
		r.says("vllm:num_requests_running{model_name=\"small\"} 10\n", nil)
		wait()
		for i, g := range r.signals.Signals() {
			if g.Running != 10 || g.Others.InFlight != 6 {
				t.Errorf("replica %d: %+v, want 10 that run, 6 of them others'", i, g)
			}
		}
	})
}

// Of a model that is not loaded the page says nothing: those of the others count all the
// same, and what it said before is taken back.
func TestAModelThatIsNotLoaded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0, 1)
		r.says("vllm:num_requests_running{model_name=\"small\"} 10\nvllm:num_requests_running{model_name=\"large\"} 3\n", nil)
		wait()
		r.ledger.Place(1, fleet.Cold)
		r.says("vllm:num_requests_running{model_name=\"small\"} 12\n", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 12, 0)
		if g := r.signals.Signals()[1]; g.Others.InFlight != 0 || !g.Stale {
			t.Errorf("the other has %+v, want nothing", g)
		}
		r.ledger.Place(0, fleet.Cold) // and now none is
		r.says("", nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 0, 0)
	})
}

// A scraper that is started again goes on from what was read, as the configuration now
// has it.
func TestAnotherConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		restart := func(change func(*gauges.Config)) {
			r.stop()
			r.Wait()
			c := gauges.DefaultConfig()
			change(&c)
			r.Set(c)
			ctx, stop := context.WithCancel(t.Context())
			r.stop = stop
			r.Start(ctx)
			synctest.Wait()
		}
		asks := func(want int) {
			t.Helper()
			r.times()
			time.Sleep(time.Minute)
			synctest.Wait()
			if n := r.times(); n < want*9/10-1 || n > want*11/10 {
				t.Errorf("asked %d times in a minute, want about %d", n, want)
			}
		}
		r.says("vllm:num_requests_running 10\n", nil)
		wait()
		restart(func(c *gauges.Config) { c.Interval, c.StaleAfter = 10*time.Second, time.Minute })
		r.want(t, 10, 0) // it is not stale
		asks(6)
		r.says("", errors.New("gone"))
		time.Sleep(30 * time.Second)
		synctest.Wait()
		r.want(t, 10, 0)
		restart(func(c *gauges.Config) { c.StaleAfter = 20 * time.Second })
		r.want(t, 0, 0)
		r.says("vllm:num_requests_running 3\n", nil)
		wait()
		r.want(t, 3, 0)
		restart(func(c *gauges.Config) { c.Interval = 0 })
		r.want(t, 0, 0) // nobody would know when it is old
		asks(0)
		restart(func(c *gauges.Config) { c.Path = "/elsewhere" })
		wait()
		r.want(t, 0, 0)
		restart(func(*gauges.Config) {})
		asks(60)
		r.want(t, 3, 0)
	})
}

// A reading that has come while the scraper was being stopped is taken back like any other.
func TestTheLastReadingIsTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		start := func() {
			r.Wait()
			ctx, stop := context.WithCancel(t.Context())
			r.stop = stop
			r.Start(ctx)
		}
		r.stop()
		r.signals.OnCorrect = func(int, signals.Count) { r.stop() }
		start()
		r.says("vllm:num_requests_running 10\n", nil)
		wait()
		r.want(t, 10, 0)
		r.Wait()
		c := gauges.DefaultConfig()
		c.Interval = 0
		r.Set(c)
		start()
		wait()
		r.want(t, 0, 0)
	})
}

func TestFaultsOfTheConfiguration(t *testing.T) {
	err := gauges.Config{Interval: -1, Path: "metrics"}.Validate()
	for _, want := range []string{"scrape_interval: -1ns", "scrape_timeout: 0s", "stale_after: 0s", `path: "metrics" must begin with /`} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %v", want, err)
		}
	}
}

// NVIDIA NIM has its gauges below /v1, and no page at /metrics.
func TestGaugesOfNIM(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.engine.mu.Lock()
		r.third = "num_requests_running{model_name=\"small\"} 3\nnum_requests_waiting{model_name=\"small\"} 1\ngpu_cache_usage_perc{model_name=\"small\"} 0.2\n"
		r.engine.mu.Unlock()
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 4, 200)
		if stats := r.lost(); stats != 1 {
			t.Errorf("asked %d times for /metrics", stats)
		}
	})
}

// endless is an engine that has gauges, and then has ever more to say: at once, or bit by bit.
type endless struct {
	pause time.Duration
	read  atomic.Int64
}

func (e *endless) Get(ctx context.Context, _ string) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(&endlessPage{endless: e, ctx: ctx})}, nil
}

type endlessPage struct {
	*endless
	ctx context.Context
}

func (p *endlessPage) Read(b []byte) (int, error) {
	if p.pause > 0 {
		select {
		case <-time.After(p.pause):
		case <-p.ctx.Done():
			return 0, context.Cause(p.ctx)
		}
	}
	n := copy(b, "vllm:num_requests_running 1\nx 1\n")
	for p.pause == 0 && n < len(b) {
		n += copy(b[n:], "x 1\n")
	}
	p.read.Add(int64(n))
	return n, nil
}

// A server whose page has no end costs a bounded time and buffer each time that it is asked, and
// holds up nobody else's.
func TestAPageWithoutAnEnd(t *testing.T) {
	for name, e := range map[string]*endless{"at once": {}, "bit by bit": {pause: 10 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: 1, Weight: 1, Quality: []float64{1}}},
					[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}, {Name: "b"}},
					[]fleet.Replica{{Name: "small@a", Limit: 64}, {Name: "small@b", Host: 1, Limit: 64}})
				if err != nil {
					t.Fatal(err)
				}
				well := &engine{page: "vllm:num_requests_running 3\n"}
				sources := []gauges.Source{{Server: e, Replicas: []int{0}, Models: []string{"small"}}, {Server: well, Replicas: []int{1}, Models: []string{"small"}}}
				start := time.Now()
				var reports []string
				m := signals.New(fleet.NewLedger(table))
				s := gauges.New(gauges.DefaultConfig(), m, sources, func(int) signals.Count { return signals.Count{} },
					func() time.Duration { return time.Since(start) }, 1, func(s gauges.Source, fresh bool, err error) {
						if s.Replicas[0] == 0 {
							reports = append(reports, fmt.Sprint(fresh, " ", err))
						}
					})
				ctx, stop := context.WithCancel(t.Context())
				s.Start(ctx)
				time.Sleep(10 * time.Second)
				stop()
				s.Wait()
				if g := m.Signals(); g[0].Read || g[1].Others.InFlight != 3 || time.Since(start)-g[1].At > 2*time.Second {
					t.Errorf("the gauges are %+v", g)
				}
				if n := well.times(); n < 9 {
					t.Errorf("the other was asked %d times in 10 s", n)
				}
				if len(reports) != 1 || !strings.HasPrefix(reports[0], "false ") {
					t.Errorf("reports %q", reports)
				}
				if asked := int64(10); e.read.Load() > asked*(9<<20) {
					t.Errorf("%d bytes were read", e.read.Load())
				}
			})
		})
	}
}

// SGLang without --enable-metrics has no metrics, and its loads all the same.
func TestLoadsStandInForMetrics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, 0)
		r.saysLoads(`{"timestamp":"1970-01-01T00:00:00Z","loads":[{"num_running_reqs":4,"num_waiting_reqs":2,"max_total_num_tokens":1000,"token_usage":0.5}]}`)
		time.Sleep(time.Minute)
		synctest.Wait()
		r.want(t, 6, 500)
		if len(r.loads) < 50 || r.loads[0].Requests != 6 || r.loads[0].Waiting != 2 || r.missed != 0 {
			t.Errorf("%d loads are heard, the first %+v; %d missed", len(r.loads), r.loads[:1], r.missed)
		}
		r.saysLoads("")
		r.says("", errors.New("gone"))
		wait()
		if r.missed == 0 {
			t.Error("nobody hears that the engine does not answer")
		}
	})
}

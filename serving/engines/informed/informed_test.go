package informed_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/informed"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a server that says how many requests it has, after a while, or fails.
type engine struct {
	mu       sync.Mutex
	requests int
	takes    time.Duration
	status   int
	asked    int
}

func (e *engine) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	requests, takes, status := e.requests, e.takes, e.status
	e.asked++
	e.mu.Unlock()
	select {
	case <-time.After(takes):
	case <-r.Context().Done():
		return nil, context.Cause(r.Context())
	}
	if status == 0 {
		return nil, errors.New("connection refused")
	}
	text := fmt.Sprintf(`{"loads":[{"num_running_reqs":%d}]}`, requests)
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader(text)), Header: http.Header{}}, nil
}

// questions returns how often it was asked.
func (e *engine) questions() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked
}

func (e *engine) set(requests int, takes time.Duration, status int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.requests, e.takes, e.status = requests, takes, status
}

// rig is a feed with its balancer over three replicas of one variant.
type rig struct {
	lacksMu sync.Mutex // protects lacking
	lacking []int      // replicas without a page
	*informed.Feed
	t        *testing.T
	balancer *informed.Balancer
	ledger   *fleet.Ledger
	engines  [3]*engine
	clock    func() time.Duration
	random   uint64
}

// withRig runs the test in a bubble of its own.
func withRig(t *testing.T, name string, change func(*informed.Config), test func(*rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{1}}},
			[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}},
			[]fleet.Replica{{Name: "small@a", Limit: 100}, {Name: "small@b", Host: 1, Limit: 100}, {Name: "small@c", Host: 2, Limit: 100}})
		if err != nil {
			t.Fatal(err)
		}
		c := informed.DefaultConfig()
		if change != nil {
			change(&c)
		}
		rule, ok, err := informed.RuleNamed(name, c)
		if !ok || err != nil {
			t.Fatalf("%q: %v, %v", name, ok, err)
		}
		start := time.Now()
		r := &rig{t: t, ledger: fleet.NewLedger(table), clock: func() time.Duration { return time.Since(start) }}
		r.balancer = informed.NewBalancer(name, table, rule, nil, c)
		var transports []http.RoundTripper
		for i := range r.engines {
			r.engines[i] = &engine{status: http.StatusOK}
			transports = append(transports, r.engines[i])
		}
		r.Feed = informed.New(informed.Options{
			Lacks: func(replica int) { r.lacksMu.Lock(); r.lacking = append(r.lacking, replica); r.lacksMu.Unlock() },
			Table: table, Models: []string{"small", "small", "small"}, Transports: transports, Balancer: r.balancer, Clock: r.clock, Config: c,
			Own: func(replica int) signals.Count { return signals.Count{InFlight: r.ledger.InFlightOn(replica)} },
		})
		defer r.Close()
		test(r)
	})
}

// picks counts how often each replica is chosen of n times.
func (r *rig) picks(n int) (counts [3]int) {
	for range n {
		var v fleet.View
		r.ledger.View(r.clock(), &v)
		r.random++
		counts[r.balancer.Pick(&v, &fleet.Request{}, 0, r.random*0x9e3779b97f4a7c15)]++
	}
	return counts
}

// says has a replica say with an answer how many requests it has.
func (r *rig) says(replica, requests int) {
	r.Header(replica, http.Header{"Endpoint-Load-Metrics": {fmt.Sprintf("TEXT named_metrics.num_requests_running=%d", requests)}})
}

func TestTheBalancerChoosesByWhatComesWithAnswers(t *testing.T) {
	withRig(t, "sampled:3", nil, func(r *rig) {
		if !r.Asks() {
			t.Error("engines are not asked for their load")
		}
		if got := r.picks(300); got[0] == 0 || got[1] == 0 || got[2] == 0 {
			t.Errorf("while nothing is heard, the replicas get %v of 300", got)
		}
		r.says(0, 5)
		r.says(1, 2)
		r.says(2, 9)
		if got := r.picks(100); got[1] != 100 {
			t.Errorf("the replicas with 5, 2 and 9 requests get %v of 100", got)
		}
		time.Sleep(10 * time.Second) // and it is all too old
		if got := r.picks(300); got[0] == 0 || got[2] == 0 {
			t.Errorf("when what was heard is old, the replicas get %v of 300", got)
		}
	})
}

// A replica whose engine says nothing would look idle beside others that say what they have.
func TestASilentReplicaDoesNotLookIdle(t *testing.T) {
	withRig(t, "sampled:3", nil, func(r *rig) {
		r.says(0, 3)
		r.says(1, 7)
		time.Sleep(time.Second)
		if got := r.picks(100); got[0] != 100 {
			t.Errorf("of replicas with 3 and 7 requests, and one that says nothing, they get %v", got)
		}
		if k := r.Known(2); k.Source != signals.StandIn || k.Counters.Model != 5 {
			t.Errorf("of the silent one %+v is known", k)
		}
	})
}

// A slow answer counts against a replica, whatever it says of itself.
func TestPeakEWMALearnsFromAnswers(t *testing.T) {
	withRig(t, "peak-ewma", nil, func(r *rig) {
		for range 50 {
			r.Answered(0, 10*time.Millisecond)
			r.Answered(1, 10*time.Millisecond)
			r.Answered(2, 500*time.Millisecond)
		}
		if got := r.picks(300); got[2] > 3 || got[0] < 100 {
			t.Errorf("the replicas that take 10, 10 and 500 ms get %v of 300", got)
		}
	})
}

// A host with twice the rate at the same use gets twice the requests.
func TestWeightedRoundRobin(t *testing.T) {
	withRig(t, "weighted", nil, func(r *rig) {
		for range 24 {
			for i, rate := range []int{100, 200, 100} {
				r.Header(i, http.Header{"Endpoint-Load-Metrics": {fmt.Sprintf("application_utilization=0.5,rps_fractional=%d,num_requests_running=1", rate)}})
			}
			time.Sleep(time.Second)
		}
		if got := r.picks(400); got[0] < 95 || got[0] > 105 || got[1] < 195 || got[1] > 205 {
			t.Errorf("the replicas get %v of 400, want 100, 200, 100", got)
		}
	})
}

func TestTheSourceDecidesWhatIsHeard(t *testing.T) {
	l := signals.NewLoad()
	l.Requests = 3
	for source, want := range map[string][3]bool{ // headers, pages, questions
		informed.All: {true, true, false}, informed.Own: {}, informed.Header: {true, false, false},
		informed.Poll: {false, true, false}, informed.Probe: {true, false, true},
	} {
		withRig(t, "sampled:2", func(c *informed.Config) { c.Source = source }, func(r *rig) {
			r.Page(0, l, signals.Count{})
			got := [3]bool{r.Asks(), r.Known(0).Source == signals.Polled, r.Before(r.t.Context(), 0, 1)}
			if got != want {
				t.Errorf("%s: headers, pages, questions %v, want %v", source, got, want)
			}
		})
	}
}

func TestTheCounterChangesByAndBy(t *testing.T) {
	withRig(t, "sampled:3", func(c *informed.Config) { c.ChangeOver = 100 * time.Second; c.StaleAfter = time.Hour }, func(r *rig) {
		say := func(replica, model, host int) {
			r.Header(replica, http.Header{"Endpoint-Load-Metrics": {fmt.Sprintf("num_requests_running=%d,gearshift.host_requests=%d", model, host)}})
		}
		say(0, 1, 16)
		say(1, 3, 3)
		say(2, 9, 9)
		next := informed.DefaultConfig()
		next.Counters, next.ChangeOver, next.StaleAfter = map[string]string{"small": "host"}, 100*time.Second, time.Hour
		if got := r.picks(100); got != [3]int{100, 0, 0} {
			t.Fatalf("by the model's requests the replicas get %v", got)
		}
		r.Set(next)
		time.Sleep(30 * time.Second)
		if got := r.picks(2000); got[1] < 500 || got[1] > 700 || got[0]+got[1] != 2000 {
			t.Errorf("after 30 of 100 s the replicas get %v of 2,000; want 600 by the host's requests", got)
		}
		time.Sleep(70 * time.Second)
		if got := r.picks(100); got != [3]int{0, 100, 0} {
			t.Errorf("at the end the replicas get %v", got)
		}
	})
}

func TestMetrics(t *testing.T) {
	withRig(t, "sampled:3", func(c *informed.Config) { c.Source = informed.Probe }, func(r *rig) {
		r.says(0, 3)
		r.Header(1, http.Header{"Endpoint-Load-Metrics": {"TEXT num_requests_running=inf"}})
		time.Sleep(time.Second)
		registry := prometheus.NewRegistry()
		registry.MustRegister(r.Metrics())
		values := gathered(t, registry)
		for series, want := range map[string]float64{
			`gearshift_signal_age_seconds replica="small@a" variant="small"`:                                          1,
			`gearshift_signal_age_seconds replica="small@c" variant="small"`:                                          1, // of what stands in
			`gearshift_signal_source replica="small@a" source="piggybacked" variant="small"`:                          1,
			`gearshift_signal_source replica="small@b" source="stand_in" variant="small"`:                             1,
			`gearshift_signal_load counter="model" replica="small@b" variant="small"`:                                 3,
			`gearshift_signal_reports_total replica="small@a" source="piggybacked" variant="small"`:                   1,
			`gearshift_signal_faults_total fault="impossible" replica="small@b" source="piggybacked" variant="small"`: 1,
			`gearshift_signal_probes_total replica="small@a" result="answered" variant="small"`:                       0,
			`gearshift_signal_moves_total`:                                   0,
			`gearshift_signal_counter_share counter="model" variant="small"`: 1,
		} {
			if got, ok := values[series]; !ok || got != want {
				t.Errorf("%s: %v, %v; want %v", series, got, ok, want)
			}
		}
	})
}

// gathered returns the values of all series.
func gathered(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := family.GetName()
			for _, label := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%q", label.GetName(), label.GetValue())
			}
			values[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return values
}

func TestConfigurationsThatMakeNoSense(t *testing.T) {
	for want, change := range map[string]func(*informed.Config){
		`source: unknown source "air"; want one of all, own, header, poll, probe`: func(c *informed.Config) { c.Source = "air" },
		`counter: unknown counter "cpu"; want model, host or work`:                func(c *informed.Config) { c.Counter = "cpu" },
		`counters.small: unknown counter ""`:                                      func(c *informed.Config) { c.Counters = map[string]string{"small": ""} },
		"change_over: -1s is negative":                                            func(c *informed.Config) { c.ChangeOver = -time.Second },
		"probes: want 0 to 16 for each request, not 17":                           func(c *informed.Config) { c.Probes = 17 },
		"probe_timeout: want more than 0 and at most 1s, not 2s":                  func(c *informed.Config) { c.ProbeTimeout = 2 * time.Second },
		"stale_after: 0s must be positive":                                        func(c *informed.Config) { c.StaleAfter = 0 },
	} {
		c := informed.DefaultConfig()
		change(&c)
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	if err := informed.DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
	for name, want := range map[string]string{"sampled:0": "want sampled:K with K from 1 to 8", "sampled:": "want sampled:K", "sampled:9": "want sampled:K"} {
		if _, ok, err := informed.RuleNamed(name, informed.DefaultConfig()); !ok || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, %v", name, ok, err)
		}
	}
	header := informed.DefaultConfig()
	header.Source = informed.Header
	for _, name := range []string{"prequal", "probing"} {
		if _, ok, err := informed.RuleNamed(name, header); !ok || err == nil || !strings.Contains(err.Error(), "want serving.signals.source: all or probe") {
			t.Errorf("%s without questions: %v, %v", name, ok, err)
		}
	}
	if _, ok, err := informed.RuleNamed("least-work", informed.DefaultConfig()); ok || err != nil {
		t.Errorf("the name of another balancer: %v, %v", ok, err)
	}
}

// Requests that come faster than reports are spread: those since the last report count.
func TestABurstBetweenReportsIsSpread(t *testing.T) {
	for _, name := range []string{"sampled:2", "probing"} {
		withRig(t, name, nil, func(r *rig) {
			time.Sleep(time.Second)
			for i, requests := range []float64{0, 1, 1} {
				l := signals.NewLoad()
				l.Requests, l.Waiting = requests, 0
				r.Pushed(i, l)
			}
			var counts [3]int
			for range 24 {
				var v fleet.View
				r.ledger.View(r.clock(), &v)
				r.random += 0x9e3779b97f4a7c15
				i := r.balancer.Again(&v, &fleet.Request{}, 0, r.random)
				if _, ok := r.ledger.Begin(i, 0); !ok {
					t.Fatal("no place")
				}
				counts[i]++
			}
			for i, n := range counts {
				if n < 5 || n > 12 {
					t.Errorf("%s: %d of 24 to replica %d, %v", name, n, i, counts)
				}
			}
		})
	}
}

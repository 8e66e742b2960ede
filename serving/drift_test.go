package serving_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/internal/race"
	"gearshift/router/drift"
	"gearshift/router/profile"
	"gearshift/serving"
	"gearshift/serving/backend"
	"gearshift/serving/config"
)

// declared are the profiles of the test fleet's replicas.
func declared() []*profile.Profile {
	p := &profile.Profile{Weights: 8, Growth: 0.05, Token: 0.1, Overhead: 2, Sequence: 0.1}
	return []*profile.Profile{p, p, p}
}

// withDrift compares answers with the declared profiles.
func withDrift(log *slog.Logger) func(*serving.Options) {
	return func(o *serving.Options) {
		o.Drift = drift.New(drift.Config{Table: o.Router.Table(), Profiles: declared(), Log: log})
	}
}

// drifting is a rig before engines that compute by the declared profiles, but for
// the small ones on host a: they take twice as long while slow is set.
type drifting struct {
	*rig
	logs logBuffer
	slow bool
	// broken says that the first of the small ones refuses connections.
	broken bool
}

func newDrifting(t *testing.T, change ...func(*serving.Options)) *drifting {
	t.Helper()
	d := &drifting{}
	keeping, slow := simulatedFleet(t, 1), simulatedFleet(t, 2)
	d.rig = newRig(t, nil, func(o *serving.Options) {
		for i := range o.Backends {
			o.Backends[i].Transport = transport(func(r *http.Request) (*http.Response, error) {
				if d.broken && i == smallOnA {
					return refuses(r)
				}
				if d.slow && i == smallOnA {
					return slow.Replica(i).RoundTrip(r)
				}
				return keeping.Replica(i).RoundTrip(r)
			})
		}
		withDrift(d.logs.logger())(o)
		for _, f := range change {
			f(o)
		}
	})
	return d
}

// simulatedFleet has the test fleet's replicas take so many times as long as declared.
func simulatedFleet(t *testing.T, times float64) *backend.Simulated {
	t.Helper()
	profiles := declared()
	for i, p := range profiles {
		profiles[i] = p.Slower(times)
	}
	return simulatedEngines(t, 30, profiles)
}

// ask sends so many streams to each variant, three at a time.
func (d *drifting) ask(t *testing.T, streams int) {
	t.Helper()
	var all sync.WaitGroup
	for _, variant := range []string{"small", "small", "large"} {
		all.Go(func() {
			for n := range streams {
				w := d.do("POST", chat, fmt.Sprintf(`{"model":%q,"stream":true,"messages":[{"role":"user","content":"why did it rain"}]}`, variant))
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), "[DONE]") {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
				time.Sleep(time.Duration(n%7) * time.Millisecond)
			}
		})
	}
	all.Wait()
}

// figure is the value of a series; NaN if there is none.
func (d *drifting) figure(t *testing.T, series string) float64 {
	t.Helper()
	_, rest, _ := strings.Cut("\n"+d.do("GET", "/metrics", "").Body.String(), "\n"+series+" ")
	line, _, _ := strings.Cut(rest, "\n")
	value, err := strconv.ParseFloat(line, 64)
	if err != nil {
		return math.NaN()
	}
	return value
}

// Streams through the router tell which replica has left its profile, once; those
// whose engines keep to it are left in peace.
func TestDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t)
		const (
			onA     = `gearshift_profile_drift_ratio{replica="small@a",variant="small"}`
			slowOnA = `gearshift_replica_slowdown_ratio{replica="small@a",variant="small"}`
			large   = `gearshift_profile_drift_ratio{replica="large@a",variant="large"}`
		)
		d.ask(t, 20)
		if ratio := d.figure(t, onA); !math.IsNaN(ratio) {
			t.Errorf("a ratio of %v after few answers", ratio)
		}
		if n := d.figure(t, `gearshift_profile_drift_answers_total{replica="large@a",variant="large"}`); n != 20 {
			t.Errorf("%v answers of 20", n)
		}
		d.ask(t, 60)
		for _, line := range []string{onA, large} {
			if ratio := d.figure(t, line); math.Abs(ratio-1) > 0.05 {
				t.Errorf("%s %v", line, ratio)
			}
		}
		if text := d.logs.String(); text != "" {
			t.Errorf("log: %s", text)
		}
		d.slow = true
		d.ask(t, 200)
		if ratio := d.figure(t, onA); math.Abs(ratio-2) > 0.2 {
			t.Errorf("%v of an engine that is twice as slow", ratio)
		}
		if ratio := d.figure(t, large); math.Abs(ratio-1) > 0.1 {
			t.Errorf("%v of an engine that is as it was", ratio)
		}
		if r := d.Status().Replicas[smallOnA]; r.Drift == nil || *r.Drift < 1.8 {
			t.Errorf("status %+v", r)
		}
		if r := d.Status().Replicas[smallOnA]; r.Slowdown == nil || math.Abs(*r.Slowdown-2) > 0.2 || math.Abs(d.figure(t, slowOnA)-*r.Slowdown) > 0.01 {
			t.Errorf("reckoned to be slow by %v, status %+v", d.figure(t, slowOnA), r)
		}
		if text := d.logs.String(); strings.Count(text, "\n") != 2 || strings.Count(text, "level=WARN") != 1 || strings.Count(text, "replica=small@a") != 2 {
			t.Errorf("log: %s", text)
		}
		d.slow = false
		d.ask(t, 300)
		if n := d.figure(t, slowOnA); n != 1 || d.Status().Replicas[smallOnA].Slowdown != nil {
			t.Errorf("reckoned to be slow by %v after it has recovered", n)
		}
		if text := d.logs.String(); strings.Count(text, "\n") != 4 || !strings.Contains(text, "level=INFO msg=\"replica keeps to its profile again\" replica=small@a") {
			t.Errorf("log: %s", text)
		}
	})
}

// A reload leaves forecasts to the profiles, and has them go by what streams tell again.
func TestReloadOfDrift(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &ward{}
		d := newDrifting(t, withReloader(w), func(o *serving.Options) { w.change.Config = o.Config })
		d.slow = true
		for _, correct := range []bool{true, false, true} {
			w.change.Config.Drift.Correct = correct
			if out, err := d.Reload("test"); err != nil {
				t.Fatalf("%+v, %v", out, err)
			}
			d.ask(t, 30)
			if r := d.Status().Replicas[smallOnA]; (r.Slowdown != nil) != correct {
				t.Errorf("correct %v: status %+v", correct, r)
			}
			_, err := d.Reload("test") // of nothing
			if r := d.Status().Replicas[smallOnA]; err != nil || (r.Slowdown != nil) != correct {
				t.Errorf("correct %v, after another reload: %v, status %+v", correct, err, r)
			}
		}
		// Where it has faded, or the engines are others, a reload does not bring it back.
		nobody := func(when string) {
			t.Helper()
			if _, err := d.Reload("test"); err != nil {
				t.Fatal(err)
			}
			if r := d.Status().Replicas[smallOnA]; r.Slowdown != nil {
				t.Errorf("%s: reckoned to be slow by %v", when, *r.Slowdown)
			}
		}
		w.change.Applied = []string{"serving.upstreams.small@a"}
		nobody("elsewhere")
		w.change.Applied = nil
		d.ask(t, 30)
		time.Sleep(20 * time.Minute)
		if r := d.Status().Replicas[smallOnA]; r.Slowdown != nil {
			t.Errorf("still reckoned to be slow by %v after twenty silent minutes", *r.Slowdown)
		}
		nobody("after silence")
	})
}

// Among several routers forecasts are left to the profiles: each sees its own prompts alone.
func TestSlownessIsOneRoutersAffair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t, func(o *serving.Options) { o.Config.Routers = 2 })
		d.slow = true
		d.ask(t, 60)
		if r := d.Status().Replicas[smallOnA]; r.Slowdown != nil || r.Drift == nil {
			t.Errorf("status %+v, want drift told and nothing made of it", r)
		}
	})
}

// Requests that are tried again elsewhere, or end before their answer does, leave
// nothing counted behind: streams after them are judged as on an idle fleet.
func TestDriftAfterTroubledRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDrifting(t)
		whole := strings.Replace(ask, "auto", "small", 1)
		stream := strings.Replace(whole, "{", `{"stream":true,`, 1)
		d.broken = true // small@a, so that requests go on to another
		for range 10 {
			d.do("POST", chat, whole)
			d.do("POST", chat, stream)
		}
		d.broken = false
		for range 10 {
			ctx, leave := context.WithTimeout(t.Context(), 150*time.Millisecond)
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, chat, strings.NewReader(stream))
			func() {
				defer func() { _ = recover() }() // the connection would break
				d.Handler().ServeHTTP(httptest.NewRecorder(), r)
			}()
			leave()
		}
		time.Sleep(time.Minute)
		for range 8 * drift.Enough {
			if w := d.do("POST", chat, stream); w.Code != http.StatusOK {
				t.Fatalf("status %d: %s", w.Code, w.Body)
			}
		}
		for _, replica := range []string{"small@a", "small@b"} {
			line := fmt.Sprintf(`gearshift_profile_drift_ratio{replica=%q,variant="small"}`, replica)
			if ratio := d.figure(t, line); !math.IsNaN(ratio) && math.Abs(ratio-1) > 0.01 {
				t.Errorf("%s %v", line, ratio)
			}
		}
		if ratio := d.figure(t, `gearshift_profile_drift_ratio{replica="small@a",variant="small"}`); math.IsNaN(ratio) {
			t.Error("no ratio of the replica that answered")
		}
	})
}

// says1by1 answers with a stream of so many tokens, each of which takes a read.
func says1by1(tokens int) transport {
	return func(*http.Request) (*http.Response, error) {
		return reply(http.StatusOK, eventType, io.NopCloser(&oneByOne{tokens})), nil
	}
}

type oneByOne struct{ left int }

func (o *oneByOne) Read(p []byte) (int, error) {
	if o.left--; o.left >= 0 {
		return copy(p, token), nil
	}
	return copy(p, done), io.EOF
}

// streaming is a request for a stream of 200 tokens, answered at once by a server
// that holds its pace against a profile, or does not.
func streaming(t testing.TB, compared bool) func() {
	t.Helper()
	core := oneReplica(t)
	o := serving.Options{Config: config.Default(), Router: core, Backends: []serving.Backend{{Transport: says1by1(200)}}}
	if compared {
		o.Drift = drift.New(drift.Config{Table: core.Table(), Profiles: declared()[:1]})
	}
	s, err := serving.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	body := strings.Replace(ask, "{", `{"stream":true,`, 1)
	return func() {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodPost, chat, strings.NewReader(body)))
		if w.Code != http.StatusOK {
			t.Fatal(w.Body)
		}
	}
}

// A request costs no more memory for being compared.
func TestDriftAllocatesNothing(t *testing.T) {
	if race.Enabled {
		t.Skip("pools of buffers forget at random under the race detector")
	}
	want, got := testing.AllocsPerRun(100, streaming(t, false)), testing.AllocsPerRun(100, streaming(t, true))
	if got > want+1 { // pools empty at times
		t.Errorf("%v allocations, %v without a monitor", got, want)
	}
}

// BenchmarkDrift is a stream of 200 tokens through the whole handler:
//
//	go test -run '^$' -bench Drift ./serving
func BenchmarkDrift(b *testing.B) {
	for _, compared := range []bool{false, true} {
		b.Run(fmt.Sprintf("compared=%t", compared), func(b *testing.B) {
			request := streaming(b, compared)
			b.ReportAllocs()
			for b.Loop() {
				request()
			}
		})
	}
}

package engines_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"gearshift/router/health"
	"gearshift/serving/engines"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// engine is a server made of a function from a path to a status or an error.
type engine func(ctx context.Context, path string) (int, error)

func (e engine) Get(ctx context.Context, path string) (*http.Response, error) {
	status, err := e(ctx, path)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(strings.NewReader("body"))}, nil
}

// diary keeps findings with their times.
type diary struct {
	mu       sync.Mutex
	start    time.Time
	findings []health.Finding
	times    []time.Duration
}

func (d *diary) report(_ engines.Target, f health.Finding) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.findings, d.times = append(d.findings, f), append(d.times, time.Since(d.start))
}

// probe runs a Prober of the engines for a while.
func probe(t *testing.T, d time.Duration, during func(*engines.Prober), servers ...engine) *diary {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	diary := &diary{start: time.Now()}
	var targets []engines.Target
	for i, e := range servers {
		targets = append(targets, engines.Target{Server: e, Replicas: []int{i}})
	}
	p := engines.NewProber(health.DefaultConfig(), targets, 1, diary.report)
	p.Start(ctx)
	if during != nil {
		during(p)
	}
	time.Sleep(d)
	stop()
	p.Wait()
	return diary
}

// unnamed is an engine whose name cannot be looked up.
func unnamed(why *net.DNSError) engine {
	return func(context.Context, string) (int, error) { return 0, &net.OpError{Op: "dial", Err: why} }
}

func TestFindings(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	status := func(code int) engine {
		return func(context.Context, string) (int, error) { return code, nil }
	}
	hangs := func(ctx context.Context, _ string) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	for name, c := range map[string]struct {
		engine engine
		want   health.Finding
	}{
		"well":         {status(200), health.Well},
		"no key":       {status(401), health.Well},
		"loading":      {status(503), health.Errored},
		"nothing here": {status(404), health.Absent},
		"refused":      {func(context.Context, string) (int, error) { return 0, dial }, health.Refused},
		"no way there": {func(context.Context, string) (int, error) {
			return 0, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.EHOSTUNREACH)}
		}, health.Unconnected},
		"no connection in time": {func(context.Context, string) (int, error) {
			return 0, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
		}, health.Unconnected},
		"no such name":                     {unnamed(&net.DNSError{IsNotFound: true}), health.Refused},
		"its name cannot be looked up now": {unnamed(&net.DNSError{IsTemporary: true}), health.Late},
		"nor in time":                      {unnamed(&net.DNSError{IsTimeout: true}), health.Late},
		"breaks off":                       {func(context.Context, string) (int, error) { return 0, io.ErrUnexpectedEOF }, health.Errored},
		"never":                            {hangs, health.Unconnected},
		"models alone": {func(_ context.Context, path string) (int, error) {
			return map[string]int{"/health": 404, "/v1/models": 200}[path], nil
		}, health.Well},
		"models fail": {func(_ context.Context, path string) (int, error) {
			return map[string]int{"/health": 405, "/v1/models": 500}[path], nil
		}, health.Errored},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := probe(t, 15*time.Second, nil, c.engine)
				if len(d.findings) < 3 || slices.ContainsFunc(d.findings, func(f health.Finding) bool { return f != c.want }) {
					t.Errorf("found %v, want %v", d.findings, c.want)
				}
			})
		})
	}
}

// A gateway that knew no path for a while hides nothing of the server afterwards.
func TestTheProbePathIsAskedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		d := probe(t, time.Minute, nil, func(_ context.Context, path string) (int, error) {
			switch {
			case time.Since(began) < 5*time.Second:
				return 404, nil
			case path == "/health":
				return 503, nil
			}
			return 200, nil
		})
		if d.findings[0] != health.Absent || d.findings[len(d.findings)-1] != health.Errored {
			t.Errorf("found %v", d.findings)
		}
	})
}

// A server that takes the connection and says nothing is late.
func TestAServerThatHangsIsLate(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // connections wait in its backlog
	c := health.DefaultConfig()
	c.ProbeInterval, c.ProbeTimeout = 10*time.Millisecond, 50*time.Millisecond
	found := make(chan health.Finding, 16)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	p := engines.NewProber(c, []engines.Target{{Server: over{l.Addr().String()}, Replicas: []int{0}}}, 1, func(_ engines.Target, f health.Finding) { found <- f })
	p.Start(ctx)
	if f := <-found; f != health.Late {
		t.Errorf("found %v", f)
	}
	stop()
	p.Wait()
}

// over asks an address by HTTP.
type over struct{ address string }

func (o over) Get(ctx context.Context, path string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+o.address+path, nil)
	if err != nil {
		return nil, err
	}
	return (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
}

func TestProbesDoNotComeAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := func(context.Context, string) (int, error) { return 200, nil }
		d := probe(t, 2*time.Second, nil, well, well, well, well, well, well, well, well)
		if len(d.times) < 8 {
			t.Fatalf("%d probes of 8 servers within an interval", len(d.times))
		}
		for i, at := range d.times[1:] {
			if at-d.times[i] > time.Second {
				t.Errorf("probes at %v", d.times)
			}
		}
		if d.times[7]-d.times[0] < time.Second {
			t.Errorf("probes bunch at %v", d.times)
		}
	})
}

func TestDoubtIsClearedAtOnceAndMakesNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		well := func(context.Context, string) (int, error) { return 200, nil }
		d := probe(t, 0, func(p *engines.Prober) {
			for range 1000 {
				p.Soon(func(i int) bool { return i == 0 })
				time.Sleep(time.Millisecond)
			}
		}, well)
		if len(d.times) < 5 || len(d.times) > 12 || d.times[0] > 0 {
			t.Errorf("probes at %v", d.times)
		}
	})
}

// A lack of sockets here is no word on a server.
func TestNoSocketIsNoFinding(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, short := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.EADDRNOTAVAIL} {
			dial := &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", short)}
			d := probe(t, 10*time.Second, nil, func(context.Context, string) (int, error) { return 0, &url.Error{Op: "Get", Err: dial} })
			if len(d.findings) > 0 {
				t.Errorf("%v: found %v", short, d.findings)
			}
		}
	})
}

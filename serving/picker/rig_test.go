package picker_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
	"gearshift/serving/picker"
	"gearshift/serving/picker/gateway"
	"gearshift/serving/work"
)

// largest chooses the largest variant with room.
type largest struct{}

func (largest) Name() string { return "largest" }
func (largest) Scratch() int { return 0 }
func (largest) Decide(v *fleet.View, _ *fleet.Request, _ []float32) int {
	for i := len(v.Table.Variants) - 1; i >= 0; i-- {
		if v.VariantAvailable(i) {
			return i
		}
	}
	return -1
}

// emptiest is a balancer without randomness.
type emptiest struct{}

func (emptiest) Name() string { return "emptiest" }
func (emptiest) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	for _, i := range v.Table.ReplicasOf(variant) {
		if v.Available(i) && int(v.InFlight[i]) == v.Shortest(variant) {
			return i
		}
	}
	return -1
}

// The replicas of the test's fleet.
const (
	smallA = iota
	smallB
	largeA
	largeB
	replicas
)

// engine is a replica's server, as the gateway and the router know it.
type engine struct {
	http.RoundTripper
	at     string
	bearer string
}

// Prepare implements [proxy.Preparer].
func (e engine) Prepare(r *http.Request) (url.URL, http.Header, bool) {
	h := r.Header.Clone()
	h.Del("Authorization")
	if e.bearer != "" {
		h.Set("Authorization", e.bearer)
	}
	return *r.URL, h, true
}

// rig is a server for a gateway.
type rig struct {
	*serving.Server
	core    *router.Core
	engines [replicas]*httptest.Server
	answer  http.HandlerFunc // of all engines
	conn    *grpc.ClientConn
	client  pb.ExternalProcessorClient
	ended   chan work.Result
	gone    atomic.Int64 // the replica that has left, counted from 1
}

// Ended implements [serving.Watcher].
func (g *rig) Ended(_ *work.Work, r work.Result) { g.ended <- r }

func newRig(t testing.TB, change func(*serving.Options)) *rig {
	t.Helper()
	return newRigOf(t, 2, change)
}

// newRigOf makes a rig whose replicas have this number of places.
func newRigOf(t testing.TB, places int, change func(*serving.Options)) *rig {
	t.Helper()
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{0.5, 1}}},
		[]fleet.Variant{{Name: "small"}, {Name: "large"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}},
		[]fleet.Replica{
			{Name: "small@a", Variant: 0, Host: 0, Limit: places}, {Name: "small@b", Variant: 0, Host: 1, Limit: places},
			{Name: "large@a", Variant: 1, Host: 0, Limit: places}, {Name: "large@b", Variant: 1, Host: 1, Limit: places},
		})
	if err != nil {
		t.Fatal(err)
	}
	g := &rig{answer: whole, ended: make(chan work.Result, 64)}
	if g.core, err = router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: largest{}, Balancer: emptiest{}}); err != nil {
		t.Fatal(err)
	}
	o := serving.Options{Config: config.Default(), Router: g.core, OutputTokens: 8, Log: slog.New(slog.DiscardHandler), Watchers: []serving.Watcher{g}}
	o.Config.Overload.MaxQueue = 0
	for i := range g.engines {
		g.engines[i] = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("X-Engine", table.Replicas[i].Name)
			g.answer(w, r)
		}))
		t.Cleanup(g.engines[i].Close)
		o.Backends = append(o.Backends, serving.Backend{Transport: engine{nil, g.at(i), ""}, Model: "served-" + table.Variants[table.Replicas[i].Variant].Name})
	}
	if change != nil {
		change(&o)
	}
	if g.Server, err = serving.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Server.Close)
	g.listen(t)
	return g
}

// address returns a replica's present address.
func (g *rig) address(i int) string {
	if g.gone.Load() == int64(i+1) {
		return ""
	}
	return g.at(i)
}

// at returns a replica's address.
func (g *rig) at(i int) string { return strings.TrimPrefix(g.engines[i].URL, "http://") }

// listen serves gateways in memory.
func (g *rig) listen(t testing.TB) {
	t.Helper()
	l := bufconn.Listen(1 << 20)
	g.client = g.serve(t, l, func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) })
}

// serve starts a picker for gateways, and returns a client.
func (g *rig) serve(t testing.TB, l net.Listener, dial func(context.Context, string) (net.Conn, error)) pb.ExternalProcessorClient {
	t.Helper()
	p := picker.New(picker.Options{
		Handler: g.Handler(), Replicas: replicas, Address: g.address, Passes: func(path string) bool { return path == "/custom" }, Unready: g.Unready, Log: slog.New(slog.DiscardHandler),
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- p.Serve(ctx, l, func() time.Duration { return 5 * time.Second }) }()
	conn, err := grpc.NewClient("passthrough:///picker", grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithContextDialer(dial))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	g.conn = conn
	return pb.NewExternalProcessorClient(conn)
}

// gateway returns a proxy that asks the rig.
func (g *rig) gateway() *gateway.Gateway {
	return &gateway.Gateway{Picker: g.client, Transport: &http.Transport{DisableKeepAlives: true}}
}

// idle fails unless all places are free in the end.
func (g *rig) idle(t *testing.T) {
	t.Helper()
	for late := time.Now().Add(5 * time.Second); g.core.Ledger().InFlight() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			t.Fatalf("%d requests are in flight, want 0", g.core.Ledger().InFlight())
		}
	}
}

const (
	chat = "/v1/chat/completions"
	ask  = `{"model":"auto","messages":[{"role":"user","content":"hi"}]}`
	fine = `{"id":"x","object":"chat.completion","choices":[{"index":0,"message":{"role":"assistant","content":"a b c d"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":4,"total_tokens":5}}`
)

// whole answers in one piece, with the body that it got.
func whole(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Got-Length", r.Header.Get("Content-Length"))
	w.Header().Set("X-Got", string(body[:min(len(body), 200)]))
	w.Header().Set("X-Got-Authorization", r.Header.Get("Authorization"))
	_, _ = io.WriteString(w, fine)
}

// newRequest returns a client's request with these header fields.
func newRequest(method, path, body string, fields ...string) *http.Request {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, path, in)
	if body == "" {
		r.Body = http.NoBody
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	return r
}

// send sends a request through a gateway.
func send(g http.Handler, method, path, body string, fields ...string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, newRequest(method, path, body, fields...))
	return w
}

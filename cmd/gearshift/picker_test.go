package main

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"gearshift/serving/picker/gateway"
)

// routerForGateways starts an engine and a router without an HTTP port, with more in its serving section. It returns
// the router and a gateway, which connects over TLS.
func routerForGateways(t *testing.T, serving string) (*process, *gateway.Gateway) {
	t.Helper()
	engine := startProcess(t, "engine", "--scenario", "tiny", "--host", "gpu0", "--addr", "127.0.0.1:0")
	_, text, _ := gearshift(t, "scenario", "upstreams", "tiny", "--at", "gpu0=http://"+engine.listens(t))
	text = strings.Replace(text, "serving:\n", "serving:\n  picker: {tls: self-signed}\n"+serving, 1)
	asked := freeAddr(t)
	router := startProcess(t, "serve", "--scenario", write(t, "router.yaml", text), "--addr", "off", "--admin-addr", "off", "--extproc", asked, "--policy", "slackfit")
	if at := router.listens(t); at != "off" {
		t.Errorf("it listens on %s for clients, want off", at)
	}
	conn, err := grpc.NewClient(asked, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{InsecureSkipVerify: true})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return router, &gateway.Gateway{Picker: pb.NewExternalProcessorClient(conn), Transport: http.DefaultTransport}
}

// askGateway asks for an answer of this length.
func askGateway(way http.Handler, model string, tokens int) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r := httptest.NewRequest("POST", "/v1/chat/completions", strings.NewReader(fmt.Sprintf(`{"model":%q,"max_tokens":%d,"ignore_eos":true,"messages":[{"role":"user","content":"hi"}]}`, model, tokens)))
	r.Header.Set("Content-Type", "application/json")
	way.ServeHTTP(w, r)
	return w
}

// TestServeForGateways: a router without an HTTP port picks an endpoint over TLS, and ends in order.
func TestServeForGateways(t *testing.T) {
	router, way := routerForGateways(t, "")
	w := askGateway(way, "auto", 4)
	if got := w.Result().Header.Get("X-Gearshift-Variant"); w.Code != 200 || got == "" || !strings.Contains(w.Body.String(), `"model":"`+got+`"`) {
		t.Errorf("got %d from %q: %s; want a size's answer", w.Code, got, w.Body)
	}
	router.stop(t)
}

// sends is a transport that is called with each request.
type sends func()

// RoundTrip implements [http.RoundTripper].
func (f sends) RoundTrip(r *http.Request) (*http.Response, error) {
	f()
	return http.DefaultTransport.RoundTrip(r)
}

// TestGatewaysAtTheEnd: a router that ends finishes the requests of gateways within drain_timeout, and then ends in
// time without them.
func TestGatewaysAtTheEnd(t *testing.T) {
	for name, c := range map[string]struct {
		serving string
		tokens  int // an answer takes 35 ms for each
		done    bool
	}{"in time": {"  drain_timeout: 30s\n", 40, true}, "cut off": {"  drain_timeout: 200ms\n  ready_grace: 300ms\n", 120, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			router, way := routerForGateways(t, c.serving)
			answered, sent := make(chan int, 1), make(chan struct{})
			way.Transport = sends(func() { close(sent) })
			go func() { answered <- askGateway(way, "large", c.tokens).Code }()
			<-sent
			begun := time.Now()
			router.stop(t)
			if took := time.Since(begun); took > 15*time.Second {
				t.Errorf("it took %v to end", took)
			}
			if status := <-answered; c.done != (status == http.StatusOK) {
				t.Errorf("answered with %d", status)
			}
		})
	}
}

// TestNoGateways: serve refuses engines that a gateway cannot reach, and a router without a port.
func TestNoGateways(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--extproc", "127.0.0.1:0"}, "a gateway cannot reach engines of serving.backend: simulated, which are within the router; want upstream"},
		{[]string{"--addr", "off"}, "--addr off leaves no port for requests; want --extproc ADDR"},
		{[]string{"--extproc", "127.0.0.1:99999"}, `serving.picker.addr: "127.0.0.1:99999" is not an address; want HOST:PORT`},
		{[]string{"--extproc", "here"}, `serving.picker.addr: "here" is not an address; want HOST:PORT`},
	} {
		fail(t, append([]string{"serve", "--scenario", "tiny", "--admin-addr", "off", "--policy", "slackfit"}, c.args...), c.want)
	}
}

// TestNamesForGateways holds that serve and the check refuse a server that a gateway could not reach.
func TestNamesForGateways(t *testing.T) {
	_, text, _ := gearshift(t, "scenario", "upstreams", "tiny", "--at", "gpu0=http://localhost:8000")
	path := write(t, "router.yaml", strings.Replace(text, "serving:\n", "serving:\n  picker: {addr: \"127.0.0.1:0\"}\n", 1))
	const want = `a gateway sends to addresses IP:PORT alone, not to names or sockets, and its engine is at http://localhost:8000/; want http://IP:PORT in serving.upstreams`
	fail(t, []string{"serve", "--scenario", path, "--admin-addr", "off", "--policy", "slackfit"}, want)
	if code, _, stderr := gearshift(t, "scenario", "check", path); code != 1 || !strings.Contains(stderr, want) || !strings.Contains(stderr, "router.yaml:") {
		t.Errorf("the check exits with %d: %s; want 1, a line and %q", code, stderr, want)
	}
}

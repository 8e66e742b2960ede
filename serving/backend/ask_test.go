package backend

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

func TestAServerIsAskedOnANewConnectionEachTime(t *testing.T) {
	t.Setenv("ENGINE_KEY", "secret")
	connections := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		connections[r.RemoteAddr] = true
		_, _ = io.WriteString(w, r.URL.Path+" "+r.Header.Get("Authorization"))
	}))
	defer server.Close()
	u, err := NewUpstream(UpstreamConfig{URL: server.URL + "/llm/v1", Key: "ENGINE_KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	for range 3 {
		response, err := u.Get(t.Context(), "/health")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(response.Body)
		response.Body.Close()
		if err != nil || string(text) != "/llm/health Bearer secret" {
			t.Errorf("got %q, %v", text, err)
		}
	}
	if len(connections) != 3 {
		t.Errorf("%d connections for 3 questions", len(connections))
	}
	if base := u.Base().String(); base != server.URL+"/llm/" {
		t.Errorf("base %s", base)
	}
}

func TestAskingAServerThatIsGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	u, err := NewUpstream(UpstreamConfig{URL: "http://" + l.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	if response, err := u.Get(t.Context(), "/health"); err == nil {
		response.Body.Close()
		t.Error("no error")
	}
}

// An order goes with the server's key, below its root, and as JSON.
func TestAServerIsOrdered(t *testing.T) {
	t.Setenv("ENGINE_KEY", "secret")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, r.Method+" "+r.URL.EscapedPath()+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Content-Type")+" "+string(body))
	}))
	defer server.Close()
	u, err := NewUpstream(UpstreamConfig{URL: server.URL + "/llm/v1", Key: "ENGINE_KEY"})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	response, err := u.Ask(t.Context(), http.MethodPost, "/v2/repository/models/org%2Fsmall/load", nil, []byte("{}"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if want := "POST /llm/v2/repository/models/org%2Fsmall/load Bearer secret application/json {}"; err != nil || string(text) != want {
		t.Errorf("the server got %q, %v; want %q", text, err, want)
	}
}

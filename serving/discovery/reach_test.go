package discovery

import (
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"gearshift/serving/discovery/settings"
)

// listsNothing is an API server without pods that cannot list by a watch.
func listsNothing(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	q := r.URL.Query()
	switch {
	case q.Get("sendInitialEvents") != "":
		w.WriteHeader(http.StatusUnprocessableEntity)
		json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Invalid", "code": http.StatusUnprocessableEntity})
	case q.Get("watch") != "":
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	default:
		io.WriteString(w, `{"kind":"PodList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[]}`)
	}
}

// An API server that dies is reported once, and once more when it answers again.
func TestDeadAPIServer(t *testing.T) {
	listen := func(at string) (*http.Server, string) {
		l, err := net.Listen("tcp", at)
		must(t, err)
		s := &http.Server{Handler: http.HandlerFunc(listsNothing)}
		go s.Serve(l)
		t.Cleanup(func() { s.Close() })
		return s, l.Addr().String()
	}
	server, at := listen("127.0.0.1:0")
	client, err := dynamic.NewForConfig(&rest.Config{Host: at})
	must(t, err)
	config := settings.Default()
	config.Kubernetes = &settings.Kubernetes{}
	var log lockedBuffer
	source := Watching(client, "default", &config, fleetOf(), slog.New(slog.NewTextHandler(&log, nil)))
	m := New(Options{Source: source})
	follow(t, source).want(t)
	if !m.reachable() {
		t.Error("not reachable, although the server answers")
	}
	server.Close()
	log.wait(t, "cannot watch Kubernetes: keeping the known engines", "resource=pods", "connection refused")
	if m.reachable() {
		t.Error("reachable, although the server is dead")
	}
	listen(at)
	log.wait(t, "Kubernetes can be watched again")
	if !m.reachable() {
		t.Error("not reachable, although the server answers again")
	}
	log.mu.Lock()
	if text := log.text.String(); strings.Count(text, "\n") != 2+strings.Count(text, "no pod matches") {
		t.Errorf("want 2 lines on the server:\n%s", text)
	}
	log.mu.Unlock()
}

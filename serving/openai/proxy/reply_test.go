package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gin-gonic/gin"

	"gearshift/serving/config"
	"gearshift/serving/openai/proxy"
	"gearshift/serving/openai/wire"
)

// TestErrors: an error has the shape of the API that was asked, says the request's ID, leaves
// nothing of the answer that it replaces, and closes the connection of a server that ends.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		path, begins string
		ending       bool
	}{
		{"/v1/chat/completions", `{"error":{`, false},
		{"/v1/chat/completions", `{"error":{`, true},
		{"/v1/messages", `{"type":"error"`, false},
		{"/v1/messages/count_tokens", `{"type":"error"`, true},
		{"/v1/messagesx", `{"error":{`, false},
	} {
		settings, code := config.Default(), ""
		w := proxy.Writer{
			Settings: func() *config.Config { return &settings }, Ending: func() bool { return c.ending },
			Failed: func(_ *gin.Context, failed string) { code = failed },
		}
		recorder := httptest.NewRecorder()
		g, _ := gin.CreateTestContext(recorder)
		g.Request = httptest.NewRequest(http.MethodPost, c.path, nil)
		g.Header(proxy.RequestID, "an-id")
		g.Header("Content-Encoding", "gzip")
		w.Fail(g, http.StatusBadGateway, wire.Error{Type: wire.ServerError, Code: "broken", Message: "no " + strings.Repeat("x", 10_000)})
		body, h := recorder.Body.String(), recorder.Header()
		if recorder.Code != http.StatusBadGateway || !strings.HasPrefix(body, c.begins) || !strings.Contains(body, "an-id") || len(body) > 2000 {
			t.Errorf("%s: status %d, %.100q of %d bytes", c.path, recorder.Code, body, len(body))
		}
		if closes := h.Get("Connection") == "close"; closes != c.ending || h.Get("Content-Encoding") != "" || code != "broken" || !g.IsAborted() {
			t.Errorf("%s: header %v, code %q", c.path, h, code)
		}
	}
}

// TestTwoDoNotShareRoom: what is added to one value leaves the other.
func TestTwoDoNotShareRoom(t *testing.T) {
	a, b := proxy.Two("a", "b")
	a = append(a, "c")
	if len(a) != 2 || len(b) != 1 || b[0] != "b" {
		t.Errorf("%v and %v, want [a c] and [b]", a, b)
	}
}

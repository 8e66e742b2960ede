package admin

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/serving/access"
	"gearshift/serving/openai/wire"
)

// A client that goes on with a wrong token, as another router does, gets a line at 1, 2, 4, 8 tries and so on.
func TestWrongTokensDoNotFloodTheLog(t *testing.T) {
	var log bytes.Buffer
	g, err := NewGuard(Options{
		FleetTokenEnv: "FLEET", FleetToken: "the-fleet's-token-of-tests", TokenEnv: "ADMIN",
		Log: slog.New(slog.NewTextHandler(&log, nil)), Clock: func() time.Duration { return 0 },
		Proxies: func() (none access.Proxies) { return none }, Fail: func(*gin.Context, int, wire.Error) {},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // no answer is held back
	for range 100 {
		c, _ := gin.CreateTestContext(httptest.NewRecorder())
		c.Request = httptest.NewRequestWithContext(ctx, http.MethodGet, "/admin/share", nil)
		g.AuthoriseAgent(c)
	}
	if lines := strings.Count(log.String(), "\n"); lines != 7 || !strings.Contains(log.String(), "failed=64") || !strings.Contains(log.String(), "failed=1\n") {
		t.Errorf("100 wrong tokens gave %d lines, want those of 1, 2, 4 up to 64:\n%s", lines, log.String())
	}
}

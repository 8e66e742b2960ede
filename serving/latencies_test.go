package serving_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// hesitant waits before each of its tokens, and longer before the first.
type hesitant struct {
	oneByOne
	first, next time.Duration
}

func (p *hesitant) Read(into []byte) (int, error) {
	time.Sleep(p.first)
	p.first = p.next
	return p.oneByOne.Read(into)
}

// What clients wait for is told apart: until the first token, for each one after
// it, and for all.
func TestLatenciesByTheirConventionalNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, transport(func(*http.Request) (*http.Response, error) {
			return reply(http.StatusOK, eventType, io.NopCloser(&hesitant{oneByOne{11}, 100 * time.Millisecond, 20 * time.Millisecond})), nil
		}))
		g.do("POST", chat, strings.Replace(ask, "{", `{"stream":true,`, 1))
		for name, want := range map[string]string{
			"gen_ai_server_time_to_first_token_seconds":   "0.1",
			"gen_ai_server_time_per_output_token_seconds": "0.022", // the stream's end takes a wait too
			"gen_ai_server_request_duration_seconds":      "0.32",
			"gearshift_time_per_output_token_seconds":     "0.029090909",
		} {
			label := `{gen_ai_response_model="small"} `
			if strings.HasPrefix(name, "gearshift") {
				label = `{variant="small"} `
			}
			if got := g.counted(name + "_sum"); len(got) != 1 || got[0] != name+"_sum"+label+want {
				t.Errorf("%q, want %s%s%s", got, name+"_sum", label, want)
			}
		}
	})
}

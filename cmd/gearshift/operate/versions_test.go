package operate

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"gearshift/internal/output"
	"gearshift/serving/control/rollout"
)

// Who waits for a roll sees each step of it once, on standard error.
func TestRollThatIsWaitedFor(t *testing.T) {
	t.Setenv("GEARSHIFT_ADMIN_TOKEN", "token-token-token-token")
	replica := func(version, doing string) rollout.Location {
		return rollout.Location{Host: "h1", Version: version, Doing: doing}
	}
	answers := [][]rollout.Version{
		{{Model: "large", Version: "2", From: "1", State: "rolling", Waits: "a host is at 91 %", Locations: []rollout.Location{replica("1", "")}}},
		{{Model: "large", Version: "2", From: "1", State: "rolling", Waits: "a host is at 90 %", Locations: []rollout.Location{replica("1", "")}}},
		{{Model: "large", Version: "2", From: "1", State: "rolling", Locations: []rollout.Location{replica("1", "loading")}}},
		{{Model: "large", Version: "2", From: "1", State: "rolling", Locations: []rollout.Location{replica("2", "draining")}}},
		{{Model: "large", Version: "2", State: "steady", Locations: []rollout.Location{replica("2", "")}}},
	}
	asked := 0
	router := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		list := answers[0]
		if r.Method == http.MethodGet {
			list = answers[max(0, asked-10)] // the first is seen until progress is shown
			asked++
			_ = output.JSON(w, list)
			return
		}
		_ = output.JSON(w, list[0])
	})
	synctest.Test(t, func(t *testing.T) {
		previous := http.DefaultTransport
		http.DefaultTransport = local{router}
		defer func() { http.DefaultTransport = previous }()
		var out, watched strings.Builder
		c := newModelRoll()
		c.SetArgs([]string{"large", "--to", "2", "--wait"})
		c.SetOut(&out)
		c.SetErr(&watched)
		if err := c.ExecuteContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := "large to version 2: 0 of 1; waits: a host is at 91 %\n" +
			"large to version 2: 0 of 1 (h1 loading)\nlarge to version 2: 1 of 1 (h1 draining)\n"
		if watched.String() != want {
			t.Errorf("shown meanwhile:\n%s\nwant\n%s", watched.String(), want)
		}
		if !strings.Contains(out.String(), "steady") {
			t.Errorf("printed at the end: %s", out.String())
		}
	})
}

// local answers requests by a handler.
type local struct{ http.Handler }

func (l local) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w.Result(), nil
}

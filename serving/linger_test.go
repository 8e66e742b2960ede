package serving_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const ping = ": ping\n\n"

// Comments tell that the connection stands, and nothing of the answer: that may still come
// from another replica.
func TestCommentsAreNoBeginning(t *testing.T) {
	const s = time.Second
	ill := `data: {"error":{"message":"out of memory","code":500}}` + "\n\n"
	other := scripted(0, eventType, step{s, ": mine\n\n"}, step{0, token}, step{0, done})
	for name, first := range map[string]transport{
		"breaks off":         cuts(eventType, ping),
		"ends":               says(http.StatusOK, eventType, ping),
		"falls silent":       scripted(0, eventType, step{15 * s, ping}),
		"has only an error":  scripted(0, eventType, step{s, ping}, step{s, ill}, step{0, done}),
		"says no data twice": cuts(eventType, "data:\n\n"),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var asked []string
				g := newRig(t, nil, fleetOf(&asked, first, other, good))
				w, broken := g.visit(askStream)
				began := ping
				if strings.Contains(name, "no data") {
					began = "data:\n\n"
				}
				if want := began + ": mine\n\n" + token + done; w.Body.String() != want || broken {
					t.Errorf("got %q, want %q; broken %v", w.Body, want, broken)
				}
				if h := w.Result().Header; !slices.Equal(asked, []string{"small@a", "small@b"}) || h.Get("X-Gearshift-Replica") != "small@a" || h.Get("Content-Type") != eventType {
					t.Errorf("asked %v, header %v", asked, h)
				}
				g.settled(t, "completed")
			})
		})
	}
}

// Once comments have gone out, only an event can say that nothing follows.
func TestAfterCommentsAnEventSaysWhatIsWrong(t *testing.T) {
	for name, c := range map[string]struct {
		others  transport
		code    string
		broken  bool
		outcome string
	}{
		"nobody else answers":     {refuses, "upstream_unavailable", true, "failed"},
		"the others are at fault": {says(500, jsonType, theirError), "upstream_error", false, "failed"},
		"the client is at fault":  {says(400, jsonType, theirError), "upstream_error", false, "refused"},
		"no stream":               {good, "upstream_error", false, "failed"},
	} {
		var asked []string
		g := newRig(t, nil, fleetOf(&asked, cuts(eventType, ping), c.others, c.others))
		w, broken := g.visit(askStream)
		text, ok := strings.CutPrefix(w.Body.String(), ping)
		if !ok || !strings.Contains(text, "data: {") || !strings.Contains(text, `"code":"`+c.code+`"`) || w.Code != http.StatusOK || broken != c.broken {
			t.Errorf("%s: %d %q, broken %v", name, w.Code, w.Body, broken)
		}
		g.settled(t, c.outcome)
	}
}

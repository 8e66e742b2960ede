package serving_test

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/serving"
	"gearshift/serving/config"
)

// remembers is a balancer that notes the sessions that it is shown.
type remembers struct {
	emptiest
	sessions *[]uint64
}

func (b remembers) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	*b.sessions = append(*b.sessions, r.Session)
	return b.emptiest.Pick(v, r, variant, random)
}

// sessionsOf is what the balancer is shown of requests with these headers.
func sessionsOf(t *testing.T, a config.Affinity, path, body string, headers ...[]string) []uint64 {
	t.Helper()
	var seen []uint64
	core, err := router.New(router.Config{
		Ledger: fleet.NewLedger(testTable(t)), Fallback: fallback{}, Balancer: remembers{sessions: &seen},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, says(http.StatusOK, jsonType, fine), func(o *serving.Options) {
		o.Config.Affinity, o.Router = a, core
	})
	for _, h := range headers {
		if w := g.do("POST", path, body, h...); w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
	}
	return seen
}

func TestBalancersSeeSessions(t *testing.T) {
	on := config.Affinity{Header: "x-session-id", Bound: 1.25}
	headers := [][]string{{"X-Session-ID", "anna"}, {"x-session-id", "ben"}, {"x-session-id", "anna"}, {}, {"x-session-id", ""}}
	seen := sessionsOf(t, on, chat, ask, headers...)
	if len(seen) != 5 || seen[0] == 0 || seen[1] == 0 || seen[0] == seen[1] || seen[2] != seen[0] || seen[3] != 0 || seen[4] != 0 {
		t.Errorf("sessions %x", seen)
	}
	// Every router, of any version, must come to the same (FNV-1a's own example).
	if a := sessionsOf(t, on, chat, ask, []string{"x-session-id", "a"}); a[0] != 0xaf63dc4c8601ec8c {
		t.Errorf("the hash of a is %x", a[0])
	}
	if route := sessionsOf(t, on, "/v1/gearshift/route", `{}`, headers[:2]...); !slices.Equal(route, seen[:2]) {
		t.Errorf("of the route endpoint: %x, want %x", route, seen[:2])
	}
	if off := sessionsOf(t, config.Affinity{Bound: 1.25}, chat, ask, headers[:2]...); !slices.Equal(off, []uint64{0, 0}) {
		t.Errorf("without affinity: %x", off)
	}
	if other := sessionsOf(t, config.Affinity{Header: "x-user", Bound: 1.25}, chat, ask, headers[0], []string{"x-user", "anna"}); other[0] != 0 || other[1] != seen[0] {
		t.Errorf("by another header: %x", other)
	}
}

func TestAffinityFaults(t *testing.T) {
	for _, c := range []struct {
		config.Affinity
		want string
	}{
		{config.Affinity{Header: "x session", Bound: 1.25}, `affinity.header: "x session" is not the name of a header`},
		{config.Affinity{Header: "x-session-id:", Bound: 1.25}, "affinity.header:"},
		{config.Affinity{Bound: 0.9}, "affinity.bound: want 1 or more, such as 1.25, not 0.9"},
		{config.Affinity{Bound: math.NaN()}, "affinity.bound:"},
		{config.Affinity{Bound: math.Inf(1)}, "affinity.bound:"},
	} {
		if err := c.Validate(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.Affinity, err, c.want)
		}
	}
}

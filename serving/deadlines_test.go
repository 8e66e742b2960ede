package serving_test

import (
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/admission"
	"gearshift/router/fleet"
	"gearshift/router/profile"
	"gearshift/serving"
)

// paced is a crowd before one replica whose steps take 10 ms for each sequence, and
// whose forecasts say so.
func paced(t *testing.T) *crowd {
	table, err := fleet.NewTable(
		[]fleet.Task{{Name: "chat", Deadline: 40 * time.Millisecond, Weight: 1, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "small"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "small@a"}},
	)
	if err != nil {
		t.Fatal(err)
	}
	profiles := []*profile.Profile{{Sequence: 10}}
	core, err := router.New(router.Config{
		Ledger: fleet.NewLedger(table), Fallback: chooses(small), Balancer: emptiest{},
		Forecaster: profile.NewForecaster(profiles), Gate: admission.Rule{Pace: 1, KV: 1, Output: 100, Profiles: profiles},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, patient, func(o *serving.Options) {
		o.Router, o.Backends = core, []serving.Backend{{Transport: lasting(time.Second)}}
	})
	g.core = core
	return &crowd{rig: g, answers: map[string]answer{}}
}

// GIE #1323, #1922: a deadline of the request's own says when the fleet is full.
func TestRoomGoesByTheDeadlinesOfRequests(t *testing.T) {
	const tpot, loose, tight, impossible = "x-llm-d-slo-tpot-ms", "100", "30", "1"
	for name, c := range map[string]struct {
		there, come []string
		want        int // in flight
	}{
		"as many as hold the task's deadline":                  {[]string{""}, []string{"", "", "", ""}, 3},
		"more where all have time":                             {[]string{loose}, []string{loose, loose, loose, loose, loose, loose, loose, loose, loose}, 9},
		"fewer where they have not":                            {[]string{tight}, []string{tight, tight, tight}, 2},
		"those with time take none of that of others":          {[]string{""}, []string{loose, loose, loose, loose}, 3},
		"those without join what is still quick":               {[]string{loose}, []string{tight, tight, tight}, 2},
		"a deadline that nothing can hold takes nobody's room": {[]string{impossible}, []string{"", "", "", ""}, 3},
		"nor is it held once others are there":                 {[]string{""}, []string{impossible, impossible}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := paced(t)
				for i, deadline := range append(c.there, c.come...) {
					g.send(t.Context(), fmt.Sprint(i), tpot, deadline)
				}
				// A prefill counts 0.1 ms a sequence, so a batch of n takes a little more
				// than 10·n ms: three fit into 40 ms.
				if got := g.core.Ledger().InFlight(); got != c.want {
					t.Errorf("%d in flight, want %d", got, c.want)
				}
				g.all.Wait()
				if a := g.answer("0"); a.status != http.StatusOK {
					t.Errorf("status %d", a.status)
				}
			})
		})
	}
}

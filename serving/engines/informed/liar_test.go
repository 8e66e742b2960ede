package informed_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"gearshift/router/fleet"
)

// liars say something else than how many requests they have, at their n-th report.
var liars = map[string]func(n, has int) string{
	"the truth":           func(_, has int) string { return fmt.Sprintf("num_requests_running=%d", has) },
	"nothing, ever":       func(int, int) string { return "num_requests_running=0" },
	"always the same":     func(int, int) string { return "num_requests_running=1" },
	"a million, at times": func(n, has int) string { return fmt.Sprintf("num_requests_running=%d", has+n%2*1_000_000) },
	"no number":           func(int, int) string { return "num_requests_running=NaN" },
	"less than nothing":   func(int, int) string { return "num_requests_running=-5" },
	"more than a number":  func(int, int) string { return "num_requests_running=1e999" },
	"what another has":    func(int, int) string { return "num_requests_running=0,gearshift.model_id=1" },
	"garbage":             func(int, int) string { return "JSON {" },
	"it answered ever less": func(n, has int) string {
		return fmt.Sprintf("num_requests_running=%d,gearshift.requests_answered=%d", has, 100_000-n)
	},
}

// Whatever one of three replicas says of itself, it neither gets everything nor starves: what the
// router has there itself bounds what it believes.
func TestALiarNeitherGetsAllNorStarves(t *testing.T) {
	for name, lie := range liars {
		t.Run(name, func(t *testing.T) {
			withRig(t, "sampled:2", nil, func(r *rig) {
				const held, requests = 24, 3000
				var under []fleet.Lease
				var on []int
				got, most, reports := [3]int{}, 0, 0
				for range requests {
					replica := r.once()
					lease, ok := r.ledger.Begin(replica, 0)
					if !ok {
						t.Fatal("the replica is full")
					}
					under, on = append(under, lease), append(on, replica)
					got[replica]++
					most = max(most, r.ledger.InFlightOn(0))
					if len(under) > held {
						under[0].End()
						says := liars["the truth"]
						if on[0] == 0 {
							says = lie
							reports++
						}
						r.Header(on[0], http.Header{"Endpoint-Load-Metrics": {says(reports, r.ledger.InFlightOn(on[0]))}})
						under, on = under[1:], on[1:]
					}
					time.Sleep(5 * time.Millisecond)
				}
				for _, lease := range under {
					lease.End()
				}
				t.Logf("it gets %d of %d requests, at most %d of %d at a time", got[0], requests, most, held)
				if got[0] > requests/2 || most > 5*held/6 {
					t.Errorf("it gets %d of %d requests, at most %d of %d at a time", got[0], requests, most, held)
				}
				if got[0] < requests/10 {
					t.Errorf("it gets %d of %d requests", got[0], requests)
				}
			})
		})
	}
}

// once returns the replica of one choice.
func (r *rig) once() int {
	for i, n := range r.picks(1) {
		if n > 0 {
			return i
		}
	}
	panic("no replica is chosen")
}

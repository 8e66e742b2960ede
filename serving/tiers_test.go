package serving_test

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gearshift/router"
	"gearshift/router/fleet"
	"gearshift/router/tiers"
	"gearshift/serving"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
)

// tiered is an engine that can be asked for its load, and notes that it was.
type tiered struct {
	transport
	host  int
	calls *tieredCalls
}

// tieredCalls are the hosts that were asked for their load, and those that got a request.
type tieredCalls struct {
	mu           sync.Mutex // protects all below
	asked, given []int
	all          int // that were asked
}

func (e *tiered) RoundTrip(r *http.Request) (*http.Response, error) {
	e.calls.mu.Lock()
	defer e.calls.mu.Unlock()
	if r.URL.Path == gauges.LoadsPath {
		e.calls.asked = append(e.calls.asked, e.host)
		e.calls.all++
		return says(http.StatusOK, jsonType, fmt.Sprintf(`{"loads":[{"num_running_reqs":%d}]}`, e.calls.all*7%19))(r)
	}
	e.calls.given = append(e.calls.given, e.host)
	return e.transport(r)
}

// Base implements [engines.Server].
func (e *tiered) Base() *url.URL { return &url.URL{Scheme: "http", Host: "h"} }

// Get implements [engines.Server].
func (e *tiered) Get(context.Context, string) (*http.Response, error) {
	return says(http.StatusOK, jsonType, "{}")(nil)
}

// tieredRig is a server of one model on eight hosts, the first three of which are a tier. Its balancer,
// of the name, asks engines for their load.
func tieredRig(t *testing.T, name string) (*rig, *tieredCalls) {
	t.Helper()
	const hosts, first = 8, 3
	var names []fleet.Host
	var replicas []fleet.Replica
	var members []tiers.Membership
	calls, backends := &tieredCalls{}, []serving.Backend{}
	for i := range hosts {
		h := fmt.Sprintf("h%d", i)
		names, replicas = append(names, fleet.Host{Name: h}), append(replicas, fleet.Replica{Name: "small@" + h, Host: i})
		members = append(members, tiers.Membership{Tier: min(1, i/first), Compute: 1})
		backends = append(backends, serving.Backend{Transport: &tiered{says(http.StatusOK, jsonType, fine), i, calls}})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: 1, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "small"}}, names, replicas)
	if err != nil {
		t.Fatal(err)
	}
	config := openConfig()
	config.Signals.Source, config.Signals.Probes = informed.Probe, 2
	rule, _, err := informed.RuleNamed(name, config.Signals)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range members {
		rule.Tiers = append(rule.Tiers, m.Tier)
	}
	b := informed.NewBalancer(name, table, rule, nil, config.Signals)
	divides := tiers.NewBalancer(b, members, []tiers.Tier{{Name: "a", Compute: first}, {Name: "b", Compute: hosts - first}})
	divides.Weigh([]float64{.6, .4})
	core, err := router.New(router.Config{Ledger: fleet.NewLedger(table), Fallback: fallback{}, Balancer: divides})
	if err != nil {
		t.Fatal(err)
	}
	g := newRig(t, nil, func(o *serving.Options) {
		o.Config, o.Router, o.Backends, o.Balancer = config, core, backends, b
	})
	return g, calls
}

// TestPollsStayInTheTier: what is asked for the sake of a request, and the replica that is chosen then,
// are of the tier that was drawn for it, and tiers get their shares.
func TestPollsStayInTheTier(t *testing.T) {
	for _, name := range []string{"sampled:2", "probing", "prequal"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, calls := tieredRig(t, name)
				const requests = 1000
				inFirst, used := 0, map[int]bool{}
				for n := range requests {
					if w := g.do("POST", chat, ask); w.Code != http.StatusOK {
						t.Fatalf("status %d, %s", w.Code, w.Body)
					}
					time.Sleep(50 * time.Millisecond) // what is known gets old
					synctest.Wait()                   // for the answers that nothing waits for
					calls.mu.Lock()
					of := func(host int) bool { return host < 3 }
					if len(calls.given) != 1 || slices.ContainsFunc(calls.asked, func(i int) bool { return of(i) != of(calls.given[0]) }) {
						t.Fatalf("request %d: %v are asked and %v get it; the tiers are 0 to 2 and 3 to 7", n, calls.asked, calls.given)
					}
					if used[calls.given[0]] = true; of(calls.given[0]) {
						inFirst++
					}
					calls.asked, calls.given = nil, nil
					calls.mu.Unlock()
				}
				if part := float64(inFirst) / requests; math.Abs(part-.6) > .05 || len(used) != 8 || calls.all < requests/4 {
					t.Errorf("%.3f of the requests in the first tier, want .6; hosts used %v; %d questions", part, used, calls.all)
				}
				g.Close()
			})
		})
	}
}

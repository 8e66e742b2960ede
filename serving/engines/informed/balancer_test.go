package informed_test

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/engines/informed"
)

// names are those of all balancers of the package.
var names = []string{"peak-ewma", "weighted", "prequal", "probing", "sampled:2", "sampled:8"}

// made makes the balancer of a name, with a feed that has heard all replicas.
func made(t testing.TB, name string, table *fleet.Table, clock func() time.Duration) (*informed.Balancer, *informed.Feed) {
	t.Helper()
	c := informed.DefaultConfig()
	c.StaleAfter = time.Hour
	rule, ok, err := informed.RuleNamed(name, c)
	if !ok || err != nil {
		t.Fatalf("%q: %v, %v", name, ok, err)
	}
	b := informed.NewBalancer(name, table, rule, nil, c)
	models := make([]string, len(table.Replicas))
	f := informed.New(informed.Options{
		Table: table, Models: models, Balancer: b, Clock: clock, Config: c,
		Own: func(int) signals.Count { return signals.Count{} },
	})
	t.Cleanup(f.Close)
	for i := range table.Replicas {
		f.Header(i, http.Header{gauges.MetricsHeader: {fmt.Sprintf("num_requests_running=%d,gearshift.host_requests=%d", i%7, i%5)}})
	}
	return b, f
}

// Weighted round robin is left out: it goes round, so that a pick depends on those before.
func TestBalancersConform(t *testing.T) {
	for _, name := range names {
		if name == "weighted" {
			continue
		}
		for table, fleet := range map[string]*fleet.Table{"whole": conformance.Fleet(4), "with gaps": conformance.FleetWithGaps(4)} {
			t.Run(name+", "+table, func(t *testing.T) {
				b, _ := made(t, name, fleet, func() time.Duration { return 0 })
				conformance.Balancer(t, fleet, b)
			})
		}
	}
}

// BenchmarkPick is the choice among so many replicas by what they have said, beside two choices by
// the requests in flight:
//
//	go test -run '^$' -bench Pick -benchmem ./serving/engines/informed
func BenchmarkPick(b *testing.B) {
	for _, replicas := range []int{12, 1024} {
		table := alike(b, replicas)
		var v fleet.View
		fleet.NewLedger(table).View(time.Second, &v)
		list := map[string]interface {
			Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int
		}{"power-of-two": balance.PowerOfK{K: 2}}
		for _, name := range names {
			x, _ := made(b, name, table, func() time.Duration { return time.Second })
			list[name] = chosen{x}
		}
		for _, name := range append([]string{"power-of-two"}, names...) {
			b.Run(fmt.Sprintf("replicas=%d/%s", replicas, name), func(b *testing.B) {
				b.ReportAllocs()
				var r fleet.Request
				random := uint64(1)
				for b.Loop() {
					random = random*6364136223846793005 + 1442695040888963407
					list[name].Pick(&v, &r, 0, random)
				}
			})
		}
	}
}

// chosen picks as a router does that has asked whom it wants.
type chosen struct{ *informed.Balancer }

func (c chosen) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	return c.Again(v, r, v.Table.ReplicasOf(variant)[0], random)
}

// BenchmarkHeader is what it takes to hear a replica's load with an answer.
func BenchmarkHeader(b *testing.B) {
	l := signals.Load{Requests: 3, Waiting: 1, Host: 5, Examples: 5, Work: 0.125, Cores: 8, KVUse: 0.5, KVTokens: 1000, CPU: 0.25, Utilization: 0.5, Rate: 120, Errors: 0.5, Answered: 1234, Instance: 99}
	_, f := made(b, "sampled:2", alike(b, 12), func() time.Duration { return time.Second })
	h := http.Header{gauges.MetricsHeader: {gauges.WriteLoad(gauges.Text, &l)}}
	b.ReportAllocs()
	for b.Loop() {
		f.Header(3, h)
	}
}

// alike is a fleet of one variant on so many hosts.
func alike(t testing.TB, replicas int) *fleet.Table {
	t.Helper()
	var hosts []fleet.Host
	var list []fleet.Replica
	for i := range replicas {
		name := fmt.Sprintf("h%d", i)
		hosts, list = append(hosts, fleet.Host{Name: name}), append(list, fleet.Replica{Name: "small@" + name, Host: i})
	}
	table, err := fleet.NewTable([]fleet.Task{{Name: "task", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "small"}}, hosts, list)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

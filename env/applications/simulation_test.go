package applications_test

import (
	"reflect"
	"testing"
	"time"

	"gearshift/env"
	"gearshift/env/applications"
	"gearshift/router/failover"
	"gearshift/workloads"
)

// drawn is a system of hosts on three sites.
func drawn(t *testing.T, number, hosts int) *failover.Problem {
	t.Helper()
	s, err := applications.Draw(applications.Drawing{Applications: number, Hosts: hosts, Sites: 3, Utilisation: 0.5, Families: workloads.TorchvisionFamilies(), BoundMS: 100, Critical: 0.5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t *testing.T, c applications.Config) *applications.Result {
	t.Helper()
	c.Check = true
	r, err := applications.Run(c)
	if err != nil {
		t.Fatal(err)
	}
	if n := r.Requests; n.Sent != n.Answered+n.Lost+n.Open {
		t.Errorf("%d requests were sent, and %d answered, %d lost, %d open", n.Sent, n.Answered, n.Lost, n.Open)
	}
	return r
}

// TestALoss: a host is lost for a while. Each policy finds it after two heartbeats, recovers
// what it can, and loses no request whose application it recovers in time.
func TestALoss(t *testing.T) {
	s := drawn(t, 46, 6)
	for _, policy := range failover.Policies {
		o := failover.DefaultOptions()
		o.Policy = policy
		c := applications.Config{Problem: s, Options: o, Losses: []env.HostLoss{{Host: 2, From: 60 * time.Second, To: 120 * time.Second, Silent: true}}, Length: 180 * time.Second, Seed: 3, Switch: 50 * time.Millisecond}
		r := run(t, c)
		if len(r.Failovers) != 1 || r.Losses != 1 {
			t.Fatalf("%s: %d failovers of %d losses", policy, len(r.Failovers), r.Losses)
		}
		f := r.Failovers[0]
		recovered := 0
		for _, a := range f.Affected {
			if a.Recovered {
				recovered++
			}
			if a.Recovered == (a.Why != "") {
				t.Errorf("%s: %+v", policy, a)
			}
		}
		if f.After < 20*time.Millisecond || f.After > 41*time.Millisecond || len(f.Affected) == 0 {
			t.Errorf("%s: found after %v, %d affected", policy, f.After, len(f.Affected))
		}
		t.Logf("%-12s affected %d recovered %d, exposed %d, requests %+v, outages %d, counts %+v", policy, len(f.Affected), recovered, r.Exposed, r.Requests, len(r.Outages), r.Counts)
		if again := run(t, c); !reflect.DeepEqual(r, again) {
			t.Errorf("%s: two runs differ", policy)
		}
	}
}

// TestStalls: a host that stands still for up to 40 ms, again and again, is suspected, and not lost,
// where losses are confirmed. One that stands still for good is lost within 70 ms.
func TestStalls(t *testing.T) {
	for _, confirm := range []time.Duration{0, 30 * time.Millisecond} {
		o := failover.DefaultOptions()
		o.Confirm = confirm
		c := applications.Config{Problem: drawn(t, 46, 6), Options: o, Length: 11 * time.Minute, Seed: 3, Traffic: true}
		for i := range 100 {
			from := time.Duration(i)*time.Second + time.Duration(i*7)*time.Millisecond
			c.Losses = append(c.Losses, env.HostLoss{Host: i % 6, From: from, To: from + time.Duration(i%40+1)*time.Millisecond, Silent: true})
		}
		c.Losses = append(c.Losses, env.HostLoss{Host: 1, From: 10 * time.Minute, Silent: true})
		r := run(t, c)
		if alarms := r.Counts.FalseAlarms; (alarms == 0) != (confirm > 0) || confirm > 0 && r.Counts.Suspicions < 10 {
			t.Errorf("confirmed for %v: %d false alarms, %d suspicions", confirm, alarms, r.Counts.Suspicions)
		}
		last := r.Failovers[len(r.Failovers)-1]
		if most := 41*time.Millisecond + confirm; last.After > most || last.After < most-20*time.Millisecond {
			t.Errorf("confirmed for %v: lost after %v, want %v at most", confirm, last.After, most)
		}
	}
}

func BenchmarkDay(b *testing.B) {
	s, err := applications.Draw(applications.Drawing{Applications: 46, Hosts: 6, Sites: 3, Utilisation: 0.5, Families: workloads.TorchvisionFamilies(), BoundMS: 100, Critical: 0.5, Seed: 1})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := applications.Run(applications.Config{Problem: s, Options: failover.DefaultOptions(), Length: 24 * time.Hour, Losses: []env.HostLoss{{Host: 1, From: time.Hour, To: 2 * time.Hour}}}); err != nil {
			b.Fatal(err)
		}
	}
}

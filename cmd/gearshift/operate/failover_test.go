package operate

import (
	"strings"
	"testing"

	"gearshift/serving/control/failover"
)

// The situation is printed with what needs attention in words.
func TestFailoverIsPrinted(t *testing.T) {
	s := failover.Situation{
		Policy: "gearshift", Term: 7, Unprotected: 1,
		Counts: failover.Counts{Failovers: 2, Affected: 3, Recovered: 3, MeanMS: 1.5, FalseAlarms: 1, Suspicions: 5},
		Hosts:  []failover.HostStatus{{Name: "h1", Site: "a", State: "lost", Drill: true, Used: map[string]float64{"memory": 0.5, "compute": 0.25}}, {Name: "h2", State: "up", Loaded: 2, Agent: &failover.Agent{Version: "1.2", HeardMS: 12}, Trouble: "small@h2: the engine answers 409"}},
		Applications: []failover.Application{
			{Name: "door", Primary: "h1", Active: "small@h2", Quality: 0.9, Full: 1, Critical: true, Unprotected: "no host is left"},
			{Name: "yard", Primary: "h2", Unrecovered: "small is loading on h2", Full: 1, Backups: []string{"small@h1"}},
		},
		Last: &failover.Failover{Number: 2, Host: "h1", TookMS: 200, Steps: []failover.Notice{
			{Kind: "lost", Host: "h1", Reason: "it is a drill"}, {AtMS: 0.4, Kind: "activated", Application: "door", Variant: "small", Host: "h2"},
		}},
	}
	var b strings.Builder
	if err := writeFailover(&b, s); err != nil {
		t.Fatal(err)
	}
	var dark strings.Builder
	if err := writeFailover(&dark, failover.Situation{Counts: failover.Counts{Failovers: 1, Affected: 3}, Last: &failover.Failover{Number: 1, Host: "h1", Unrecovered: 3}}); err != nil {
		t.Fatal(err)
	}
	var second strings.Builder
	if err := writeFailover(&second, failover.Situation{StandsBy: true, StateFile: "etcd://h:1/g"}); err != nil {
		t.Fatal(err)
	}
	if text := second.String(); !strings.Contains(text, "stands by, state in etcd://h:1/g") || strings.Contains(text, "unprotected") || strings.Contains(text, "term") {
		t.Errorf("of a router that stands by: %s", text)
	}
	for _, want := range []string{"1 failovers, 0 of 3 recoveries, ", "last failover: 1, of h1, nothing answers 3 of the applications"} {
		if !strings.Contains(dark.String(), want) {
			t.Errorf("no %q in\n%s", want, dark.String())
		}
	}
	text := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{
		"policy gearshift, term 7, state in no file; 2 applications, 0 without an answer, 1 unprotected",
		"2 failovers, 3 of 3 recoveries after 1.5 ms in the mean, 1 false alarms of 5 suspicions",
		"h1 a lost (drill) compute 25 %, memory 50 % 0 none -", "h2 - up 2 1.2, heard 12 ms ago small@h2: the engine answers 409",
		"door h1 small@h2 0.9 of 1 - critical; unprotected: no host is left",
		"yard h2 nothing 0 of 1 small@h1 no answer: small is loading on h2",
		"last failover: 2, of h1, over after 200.0 ms", "0.0 ms lost - h1 it is a drill", "0.4 ms activated door small@h2",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

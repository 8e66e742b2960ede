package applications_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"gearshift/env/applications"
	"gearshift/router/failover"
)

func event(machine string, at float64, kind string) string {
	return fmt.Sprintf(`{"node_id": %q, "event_time": %v, "event_type": %q, "fault_type": {"Level": "Hardware Failure"}}`, machine, at, kind)
}

// TestReadFaults: pairs of events, in any order; a fault that ends as it begins is none.
func TestReadFaults(t *testing.T) {
	text := "[" + strings.Join([]string{event("a", 2, "fault_end"), event("a", 1, "fault_start"), event("b", 3, "fault_start"), event("b", 3, "fault_end"), event("b", 3, "fault_start"), event("b", 4, "fault_end"), event("c", 9, "fault_start")}, ",") + "]"
	faults, err := applications.ReadFaults([]byte(text))
	if err != nil || fmt.Sprint(faults) != "[{a 1 2} {b 3 4}]" {
		t.Errorf("%v, %v", faults, err)
	}
	for text, want := range map[string]string{
		"{}":                               "want a JSON list of events",
		"[" + event("", 1, "x") + "]":      `event 0: node_id "" at 1`,
		"[" + event("a", 1, "x") + "]":     `event 0: event_type "x"; want fault_start or fault_end`,
		`[{"node_id": "a", "event_time":-`: "want a JSON list of events",
	} {
		if _, err := applications.ReadFaults([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// made are faults of machines as often and as long as those recorded: 584 of 231 of 400 in 348 days.
func made(seed uint64) (faults []applications.Fault) {
	random := rand.New(rand.NewPCG(seed, 1))
	for range 584 {
		from := 348 * random.Float64()
		faults = append(faults, applications.Fault{Machine: fmt.Sprint(random.IntN(231)), From: from, To: from + 0.85*random.ExpFloat64()})
	}
	return faults
}

// TestADayOfFaults: through a day of faults, those that fall on each other included, with every policy: no
// assignment is loaded twice, no host holds more than it has, epochs rise, an application that is not answered is
// listed with a reason (all of which the simulation checks), and each request is accounted for.
func TestADayOfFaults(t *testing.T) {
	for k, policy := range failover.Policies {
		losses, err := applications.Fold(made(uint64(k)), 400, 4, 6, 348, uint64(k))
		if err != nil {
			t.Fatal(err)
		}
		o := failover.DefaultOptions()
		o.Policy = policy
		r := run(t, applications.Config{Problem: drawn(t, 46, 6), Options: o, Losses: losses, Length: 24 * time.Hour, Seed: uint64(k), Switch: 50 * time.Millisecond, Traffic: k%2 == 0})
		if r.Losses < 20 || r.Requests.Sent < 1e7 {
			t.Errorf("%s: %d losses, %d requests", policy, r.Losses, r.Requests.Sent)
		}
		t.Logf("%s: %d losses, %+v, %+v", policy, r.Losses, r.Requests, r.Counts)
	}
}

// TestFold: as many machines as asked for, time divided.
func TestFold(t *testing.T) {
	losses, err := applications.Fold([]applications.Fault{{Machine: "a", From: 10, To: 20}}, 4, 2, 2, 10, 7)
	if err != nil || len(losses) != 1 || losses[0].From != 24*time.Hour || losses[0].To != 48*time.Hour {
		t.Errorf("%v, %v", losses, err)
	}
	if _, err := applications.Fold(nil, 4, 2, 3, 1, 7); err == nil {
		t.Error("six machines of four")
	}
}

package operate

import (
	"encoding/json"
	"strings"
	"testing"

	"gearshift/env/applications"
)

func simulate(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return execute(t, newFailoverSimulate(), "", args...)
}

// TestSimulate: FL-22 on the testbed, each host lost once. Ours and the paper's recover all; full variants held
// warm do not fit; full ones loaded after the loss take longest.
func TestSimulate(t *testing.T) {
	out, err := simulate(t, "--scenario", "faillite-testbed", "--policy", "all", "--json", "--heartbeats-only")
	if err != nil {
		t.Fatal(err)
	}
	var rows []simulatedRow
	if err := json.Unmarshal([]byte(out), &rows); err != nil {
		t.Fatal(err)
	}
	by := map[string]applications.Summary{}
	for _, r := range rows {
		by[r.Policy] = r.Summary
		x := by[r.Policy]
		x.MTTR, x.AccuracyLost = *r.MTTR, *r.AccuracyLost
		by[r.Policy] = x
		if r.Runs != 6 || r.Failovers != 6 || r.Affected != 46 || r.Requests.Sent != r.Requests.Answered+r.Requests.Lost+r.Requests.Open {
			t.Errorf("%+v", r)
		}
		if r.Detection < 20 || r.Detection > 140 {
			t.Errorf("%s: detection after %.1f ms, FL-9 has 20 to 140", r.Policy, r.Detection)
		}
	}
	ours, paper, warm, cold, warmK := by["gearshift"], by["faillite"], by["full-warm"], by["full-cold"], by["full-warm-k"]
	if ours.Recovery != 1 || ours.MTTR > 60 || ours.AccuracyLost >= paper.AccuracyLost || ours.Requests.Lost != 0 {
		t.Errorf("ours: %+v, the paper's %+v", ours, paper)
	}
	if paper.Recovery != 1 || !(warm.Recovery < warmK.Recovery && warmK.Recovery < paper.Recovery) {
		t.Errorf("recovery: faillite %.3f, full-warm-k %.3f, full-warm %.3f", paper.Recovery, warmK.Recovery, warm.Recovery)
	}
	if !(warm.MTTR < paper.MTTR && paper.MTTR < warmK.MTTR && warmK.MTTR < cold.MTTR) || cold.MTTR < 10*warm.MTTR {
		t.Errorf("MTTR: full-warm %.0f, faillite %.0f, full-warm-k %.0f, full-cold %.0f ms", warm.MTTR, paper.MTTR, warmK.MTTR, cold.MTTR)
	}
}

// TestSimulateALossOfASite: --fail names a host or a site, as a workload does.
func TestSimulateALossOfASite(t *testing.T) {
	out, err := simulate(t, "--scenario", "faillite-testbed", "--fail", "+lost:a@60-", "--fail", "s6@60s-90s", "--silent")
	if err != nil || !strings.Contains(out, "faillite-testbed: 1 runs, ") || !strings.Contains(out, "\ngearshift ") {
		t.Errorf("%s %v", out, err)
	}
	for arg, want := range map[string]string{
		"--fail=s7@60-":      `--fail: s7@60-: there is no host or site "s7"; `,
		"--fail=s1@60":       `"s1@60" is not a loss such as`,
		"--policy=failite":   `--policy: unknown policy "failite"; want all, or some of gearshift`,
		"--seeds=0":          "--seeds: 0 must be from 1 to 10000",
		"--faults=none.json": "cannot read --faults: open none.json",
		"--scenario=tiny":    "tiny.yaml:1: there is no section failover",
	} {
		if _, err := simulate(t, "--scenario", "faillite-testbed", arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", arg, err, want)
		}
	}
}

// TestSimulateTheLossOfEverything: where nothing is recovered there is no time in which it was, and what clients see
// does not end.
func TestSimulateTheLossOfEverything(t *testing.T) {
	lose := []string{"--scenario", "faillite-testbed"}
	for _, s := range []string{"s1", "s2", "s3", "s4", "s5", "s6"} {
		lose = append(lose, "--fail", s+"@60-")
	}
	out, err := simulate(t, lose...)
	row := strings.Fields(out[strings.LastIndex(out, "\ngearshift")+1:])
	if err != nil || strings.Join(row[2:6], " ") != "0.0 % 0.0 %" || row[6] != "-" || row[8] != "-" || !strings.Contains(out, "none ends: 46 to the end") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err = simulate(t, append(lose, "--json")...); err != nil || !strings.Contains(out, `"mttr_ms": null`) || !strings.Contains(out, `"open": 46`) {
		t.Errorf("%v\n%s", err, out)
	}
}

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"gearshift/env/evaluation"
	"gearshift/router/balance"
	"gearshift/router/signals"
)

// tailScheme is a way to choose replicas, on a placement of the models.
type tailScheme struct {
	name    string
	chooser balance.Chooser
	placed  tailPlacement
}

// tailSchemes lists what is compared. The first is where the text begins: two choices by counters of
// the host that come with answers.
func tailSchemes() []tailScheme {
	sampled := func(by signals.Counter, poll bool) balance.Chooser {
		return balance.Sampled{K: 2, Counter: by, Poll: poll}
	}
	return []tailScheme{
		{"header, host", sampled(signals.ByHost, false), byCapacity},
		{"header, model", sampled(signals.ByModel, false), byCapacity},
		{"poll, host", sampled(signals.ByHost, true), byCapacity},
		{"poll, model", sampled(signals.ByModel, true), byCapacity},
		{"poll, work", sampled(signals.ByWork, true), byCapacity},
		{"poll, work, placed by number", sampled(signals.ByWork, true), byNumber},
		{"probing, .4 a request", balance.Probing{Budget: .4, Look: 4, Relax: time.Second, Rounds: 2, Counter: signals.ByWork}, byCapacity},
		{"random", balance.Sampled{K: 1}, byCapacity},
	}
}

// TestTailForReal has clients, each with a view of its own, load eight engine processes that compute
// models by ONNX Runtime, each process held to its share of a processor by the kernel (CPU quotas of
// control groups). The load grows from a third of what the processes can compute to more than all
// of it; what is carried is where more than a hundredth of the requests have timed out. The same is
// simulated with the costs that were measured at the start.
//
//	GEARSHIFT_TAIL=5 go test -tags onnx -count=1 -v -timeout 90m -run '^TestTailForReal$' ./cmd/gearshift
func TestTailForReal(t *testing.T) {
	rounds, _ := strconv.Atoi(os.Getenv("GEARSHIFT_TAIL"))
	if rounds < 1 {
		t.Skip("set GEARSHIFT_TAIL to the number of rounds; it takes minutes for each")
	}
	ramp := 60 * time.Second
	schemes := tailSchemes()
	if text := os.Getenv("GEARSHIFT_TAIL_RAMP"); text != "" {
		var err error
		if ramp, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	if text := os.Getenv("GEARSHIFT_TAIL_ONLY"); text != "" { // some of them, by their indices: 0,4
		all := schemes
		schemes = nil
		for part := range strings.SplitSeq(text, ",") {
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(all) {
				t.Fatalf("GEARSHIFT_TAIL_ONLY=%q: want numbers from 0 to %d", text, len(all)-1)
			}
			schemes = append(schemes, all[i])
		}
	}
	x := startTailTier(t)
	t.Logf("%d processes of %v processors; on one processor %s", len(x.hosts), tailCores, x.costs())
	measured, simulated := make([]tailRuns, len(schemes)), make([]tailRuns, len(schemes))
	for round := range rounds {
		for n := range schemes {
			i := (n + round) % len(schemes)
			run := x.ramp(t, &schemes[i], ramp, uint64(round))
			measured[i].add(run)
			t.Logf("round %d: %s: carried %.3f, p99 %v below .7, %.2f polls a request of %v", round+1, schemes[i].name, run.carried, run.p99, run.polls, run.pollTook)
		}
	}
	for i := range schemes {
		for seed := range uint64(max(5, rounds)) {
			simulated[i].add(x.simulate(t, &schemes[i], measured[i].pollTook(), ramp, seed))
		}
	}
	for i := range schemes {
		t.Log(tailRow(schemes[i].name, &measured[i], &simulated[i]))
	}
	if rounds >= 5 {
		judgeTail(t, schemes, measured, simulated)
	}
}

// tailRow says what one scheme carried: interquartile means, since other work on the machine may
// disturb a round.
func tailRow(name string, measured, simulated *tailRuns) string {
	r, s := evaluation.InterquartileMean(measured.carried), evaluation.InterquartileMean(simulated.carried)
	p := evaluation.InterquartileMean(measured.p99)
	return fmt.Sprintf("%-30s carried %.3f [%.3f, %.3f], simulated %.3f (%+.0f %%); p99 below .7 %.0f ms [%.0f, %.0f]",
		name, r.Mean, r.Lo, r.Hi, s.Mean, 100*(s.Mean/r.Mean-1), p.Mean, p.Lo, p.Hi)
}

// judgeTail holds the rounds against what is to be shown: polling carries more than headers, placement
// by capacity more than by number, and the simulator is near what was carried.
func judgeTail(t *testing.T, schemes []tailScheme, measured, simulated []tailRuns) {
	at := map[string]int{}
	for i, s := range schemes {
		at[s.name] = i
		real := evaluation.InterquartileMean(measured[i].carried).Mean
		if off := evaluation.InterquartileMean(simulated[i].carried).Mean/real - 1; off > 0.15 || off < -0.15 {
			t.Errorf("%s: %.3f is carried, and %+.0f %% of that when simulated", s.name, real, 100*off)
		}
	}
	for _, pair := range []struct {
		better, worse string
		must          bool
	}{
		{"poll, host", "header, host", true},
		{"poll, model", "header, model", true},
		{"poll, work", "poll, work, placed by number", true},
		{"header, model", "header, host", false},
		{"poll, model", "poll, host", false},
		{"poll, work", "poll, host", false},
		{"probing, .4 a request", "poll, work", false},
	} {
		b, there := at[pair.better]
		w, both := at[pair.worse]
		if !there || !both {
			continue
		}
		d := make([]float64, len(measured[b].carried))
		for n := range d {
			d[n] = measured[b].carried[n] - measured[w].carried[n]
		}
		x := evaluation.InterquartileMean(d)
		t.Logf("%s carries %+.3f [%+.3f, %+.3f] more than %s", pair.better, x.Mean, x.Lo, x.Hi, pair.worse)
		if pair.must && x.Lo <= 0 {
			t.Errorf("%s carries no more than %s", pair.better, pair.worse)
		}
	}
}

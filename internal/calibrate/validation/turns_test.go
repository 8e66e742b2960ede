package validation

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/workloads"
)

// inTurnsOf validates the engines of tiny in turns, from profiles that are far off.
func inTurnsOf(t *testing.T, turns int, observers ...func(string)) *validator {
	t.Helper()
	l, err := newValidator(Options{
		Scenario: "tiny", Upstreams: "http://127.0.0.1", Loads: []float64{0.3, 0.9}, What: []string{Alone, CoResident}, Tries: 1,
		Turns: turns, Batches: []int{1, 4, 8}, Prompts: []int{16, 64, 256}, Time: 20 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range l.scenario.Models {
		l.scenario.Models[i].Weights *= 3
		l.scenario.Models[i].Contention = 0
	}
	for _, f := range observers {
		l.progress = f
	}
	validateInProcess(t, l)
	return l
}

// What is judged are the profiles that the turns measure, whatever the scenario has: the
// simulator predicts what it simulates.
func TestInTurnsTheProfilesAreMeasuredAnew(t *testing.T) {
	l := inTurnsOf(t, 2)
	if len(l.out.Runs) != 2*2+2*2 || len(l.out.Profiles) != 2 {
		t.Fatalf("%d runs, %d profiles", len(l.out.Runs), len(l.out.Profiles))
	}
	for _, r := range l.out.Runs {
		if math.Abs(r.EndToEnd.off()) > 0.05 || math.Abs(r.TPOT.off()) > 0.05 || len(r.Turns) != 2 || r.Refused > 0 ||
			math.Abs(r.Slowness.TPOT.off()) > 0.05 || r.Slowness.Least < 0.95 || r.Slowness.Most > 1.05 {
			t.Errorf("%+v", r)
		}
	}
	var table strings.Builder
	if err := l.out.Table(&table); err != nil || !strings.Contains(table.String(), " % ± ") {
		t.Errorf("%v\n%s", err, &table)
	}
}

// What is measured beside others is measured right before they are loaded together, a part of
// it before each load, and every turn another part before the first: a machine's moods pass.
func TestInTurnsMeasuringIsNextToItsLoads(t *testing.T) {
	var order []string
	inTurnsOf(t, 2, func(words string) {
		for _, w := range []string{"small next to", "large next to", "measuring small", "measuring large", "small, load", "large, load", "co-resident"} {
			if strings.Contains(words, w) {
				order = append(order, w)
				break
			}
		}
	})
	want := []string{
		"measuring small", "small, load", "small, load", "measuring large", "large, load", "large, load",
		"small next to", "co-resident", "large next to", "co-resident",
		"measuring small", "small, load", "small, load", "measuring large", "large, load", "large, load",
		"large next to", "co-resident", "small next to", "co-resident",
	}
	if !slices.Equal(order, want) {
		t.Errorf("%q", order)
	}
}

// A turn is predicted as slow as its measuring found each variant, too, beside what all
// turns together say.
func TestTurnsAreSlowAsMeasured(t *testing.T) {
	l, err := newValidator(Options{Scenario: "tiny"})
	if err != nil {
		t.Fatal(err)
	}
	small, large := 0, 1 // replicas
	l.slowByTurn = map[string][]float64{"small": {0.8, 1.2}, "large": {0.5, 2}}
	arrivals := []workloads.Arrival{{PromptTokens: 16, OutputTokens: 20}}
	alone := []*sent{{arrivals: arrivals, replicas: []int{large}}, {arrivals: arrivals, replicas: []int{large}}}
	both := []*sent{{replicas: []int{small, large}}, {replicas: []int{small, large}}}
	l.noteSlowness([][]*sent{alone, both})
	if got := *slownessOf(small, both); got.Least != 0.8 || got.Most != 1.2 {
		t.Errorf("small: %+v", got)
	}
	if slownessOf(small, alone) != nil {
		t.Error("the slowness of one that was not loaded is reported")
	}
	var turns comparison
	for _, s := range alone {
		predicted, err := simulatedRun(l.fleet, arrivals, &pinned{replicas: s.replicas})
		if err != nil {
			t.Fatal(err)
		}
		s.measured = predicted // the engine runs as the profile says
		c, err := l.compared(s)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, c)
	}
	for turn, want := range []float64{0.5, 2} {
		if p, _ := turns[turn:turn+1].mean(true, nil, tpot); math.Abs(p.Predicted/p.Measured-want) > 1e-3 {
			t.Errorf("turn %d is predicted to take %v times as long, not %v", turn, p.Predicted/p.Measured, want)
		}
	}
}

// A load's turns in which others had the processors are left out where there are better
// ones, and are all there is where there are not.
func TestDisturbedTurnsAreLeftOut(t *testing.T) {
	calm, disturbed := &sent{stolen: 0.01}, &sent{stolen: 0.5}
	for _, c := range []struct{ turns, want []*sent }{
		{[]*sent{calm, disturbed, calm}, []*sent{calm, calm}},
		{[]*sent{disturbed, disturbed}, []*sent{disturbed, disturbed}},
	} {
		if got := quiet(c.turns); !slices.Equal(got, c.want) {
			t.Errorf("of %v: %v", c.turns, got)
		}
	}
}

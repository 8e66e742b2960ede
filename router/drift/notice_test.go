package drift

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// A belief that comes and goes every three seconds is said once; then how often, at a low
// rate; and that it is over once it has been for a minute.
func TestABeliefThatFlaps(t *testing.T) {
	var n notice
	var said []saying
	counts := map[saying]int{}
	see := func(now time.Duration, holds bool) {
		if what, times := n.see(now, holds); what != nothing {
			said = append(said, what)
			counts[what] = times
		}
	}
	const flap, last = 3 * time.Second, 25 * time.Minute
	for now := time.Duration(0); now < last; now += time.Second {
		see(now, now/flap%2 == 0)
	}
	if len(said) != 3 || said[0] != began || said[1] != goesOn || said[2] != goesOn || counts[goesOn] < 90 || counts[goesOn] > 110 {
		t.Errorf("said %v, %v", said, counts)
	}
	for now := last; now < last+2*calm; now += time.Second {
		see(now, false)
	}
	if len(said) != 4 || said[3] != over {
		t.Errorf("said %v", said)
	}
	see(time.Hour, true)
	see(2*time.Hour, true)
	if len(said) != 5 || said[4] != began {
		t.Errorf("said %v of another", said)
	}
}

// The lines of a replica that is slow and no longer slow in turns, and what is shown of it
// meanwhile. What forecasts reckon with follows it, as before.
func TestAReplicaThatIsSlowOffAndOn(t *testing.T) {
	table, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: time.Second, Quality: []float64{1}}},
		[]fleet.Variant{{Name: "v"}}, []fleet.Host{{Name: "a"}}, []fleet.Replica{{Name: "v@a"}})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	m := New(Config{Table: table, Profiles: []*profile.Profile{{Weights: 10}}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	var factors []float64
	m.OnSlow = func(_ int, factor float64) { factors = append(factors, factor) }
	now := time.Duration(0)
	shown := map[bool]int{}
	for turn := range 20 {
		for range 30 {
			now += 100 * time.Millisecond
			predicted := 100 * time.Millisecond
			measured := predicted
			if turn%2 == 0 {
				measured *= 3
			}
			m.slow(0, now, measured, predicted)
			shown[m.Shown(0) > 1]++
		}
	}
	turns := 0
	for i := 1; i < len(factors); i++ {
		if (factors[i] > 1) != (factors[i-1] > 1) {
			turns++
		}
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || turns < 10 {
		t.Errorf("%d lines of %d turns:\n%s", lines, turns, &log)
	}
	if shown[false] > 12 {
		t.Errorf("it is shown as not slow %d times after it was", shown[false])
	}
	now += 2 * calm
	m.Fade(now - calm)
	m.Fade(now)
	if text := log.String(); strings.Count(text, "\n") != 2 || !strings.Contains(text, "no longer so slow") || m.Shown(0) != 1 {
		t.Errorf("shown %v:\n%s", m.Shown(0), text)
	}
}

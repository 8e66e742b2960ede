package evalcmd

import (
	"context"
	"io"
	"slices"
	"strings"
	"testing"

	"gearshift/internal/league"
	"gearshift/internal/scenario"
)

func TestSeedsOfFleets(t *testing.T) {
	for text, want := range map[string][]uint64{"3": {3}, "1-4": {1, 2, 3, 4}, "9, 2-3": {9, 2, 3}} {
		if got, err := seedsOf(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "1-", "5-3", "-2", "1-20000", "one"} {
		if got, err := seedsOf(text); err == nil || !strings.Contains(err.Error(), "--seeds") {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

// What cannot be played is refused before anything is.
func TestLeagueRefuses(t *testing.T) {
	trainer := func(context.Context, league.Training, string, *scenario.Scenario, string) (string, error) {
		t.Error("a policy is trained")
		return "", nil
	}
	for _, test := range []struct {
		train league.Trainer
		args  string
		want  string
	}{
		{trainer, "--seeds 1048570-1048580", "fleet 1048576 is one that policies may be trained on"},
		{trainer, "--seeds 1,1", "twice"},
		{trainer, "--trials 0", "--trials 0"},
		{trainer, "--train quick", "want --out"},
		{trainer, "--no-advice", "without --train"},
		{nil, "--train quick --out " + t.TempDir(), "not in this build"},
	} {
		c := NewLeagueCommand(test.train)
		c.SetArgs(append(strings.Fields(test.args), "--store", "none.db"))
		c.SetOut(io.Discard)
		c.SetErr(io.Discard)
		if err := c.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("league %s: %v, want %q", test.args, err, test.want)
		}
	}
}

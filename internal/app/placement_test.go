package app

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"

	"gearshift/internal/scenario"
	"gearshift/internal/scenario/placing"
)

// Where the policy that serving.placement names cannot be used, the rule decides, and the log says so.
func TestTheRuleDecidesWithoutThePolicy(t *testing.T) {
	s, err := scenario.Load("../../docs/scenarios/titan-rtx-shifting.yaml")
	if err != nil {
		t.Fatal(err)
	}
	scenario.Of[placing.Section](s).Policy = "gears"
	var log bytes.Buffer
	on, rule := placeByStored(s, filepath.Join(t.TempDir(), "store.db"), slog.New(slog.NewTextHandler(&log, nil)))
	if on.Chooser != nil || rule != scenario.Of[placing.Section](s).Rule {
		t.Errorf("%q decides", rule)
	}
	if !strings.Contains(log.String(), "level=WARN") || !strings.Contains(log.String(), "gears") {
		t.Errorf("the log is %q", log.String())
	}
}

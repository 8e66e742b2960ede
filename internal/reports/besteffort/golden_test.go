package besteffort

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/pflag"

	"gearshift/internal/reports"
)

// redrawn makes the report of the points in a file.
func redrawn(t *testing.T, points, out string, stdout io.Writer) error {
	t.Helper()
	set := pflag.NewFlagSet("best-effort", pflag.ContinueOnError)
	r := Report()
	write := r.Declare(&reports.Flags{FlagSet: set, Scenario: func(*string) {}, Store: func(*string) {}, Refuse: func(string, ...string) error { return nil }})
	if err := set.Parse([]string{"--points", points, "--out", out}); err != nil {
		return err
	}
	return write(t.Context(), reports.Program{}, stdout, t.Output())
}

// A report's files are the same bytes whatever becomes of the code that lays them out: these
// are the sums of what testdata/frontier.json was drawn as when it was played.
func TestTheFrontierIsDrawnAsEver(t *testing.T) {
	out := t.TempDir()
	if err := redrawn(t, filepath.Join("testdata", frontierFile), out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"report.html":              "bdfc6aa7e16d34cc6be359e3c3333b177b479ae10fe57239c6af204f65541727",
		"report.json":              "2399d740903a4c097b4f66065eaa5a80eaaa183cfc39d8be985878cb6428054d",
		"frontier.json":            "fe2c9fa0126ed34a3befddf567f1fa98d172405707896cec2a34805c6510e177",
		"frontier.svg":             "fa7adb404acb2fed816aaaa28ca26dd17e40c6bdd81c77d27e9b84e001621de7",
		"csv/frontier-figure.csv":  "4a96c14463a9e2185bbee279b548ea0a4da868bcc4266da1426cd08b41513d91",
		"csv/frontier-points.csv":  "dde473992078b4dc5542d6458b8b2ad66669d96b167b4be17626014d1ad2e3bd",
		"csv/frontier-windows.csv": "a475c1653115e97bb110e64f9fc95f56765b995e7db24cf8668108e98ba8afb5",
	} {
		content, err := os.ReadFile(filepath.Join(out, name))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != want {
			t.Errorf("%s is drawn in another way: sum %x, want %s", name, sum, want)
		}
	}
}

//go:build !openblas && amd64

package training

import (
	"bytes"
	"strings"
	"testing"

	"gearshift/checkpoints"
)

// A policy for mean utility is the same as before there were other objectives, byte for byte,
// with its results on validation seeds and beside the rules. (OpenBLAS and other processors
// round in another way.)
func TestAPolicyForUtilityIsAsItWas(t *testing.T) {
	store := storePath(t)
	var out, log bytes.Buffer
	if err := Train(t.Context(), Options{Scenario: "tiny", Preset: "quick", Store: store, Name: "before", Seed: 1, Steps: 3000}, &out, &log); err != nil {
		t.Fatal(err, log.String())
	}
	entry, err := (&checkpoints.Store{Path: store}).Lookup(checkpoints.Ref{Name: "before", Version: 1})
	if err != nil {
		t.Fatal(err)
	}
	const want = "afcd4debbd6ef3472506dee7f88b8562838ae26e39a4c58dc1719d817488652d"
	if entry.Digest != want {
		t.Errorf("sha256 %s, want %s", entry.Digest, want)
	}
	if said := "over the best rule, "; !strings.Contains(out.String(), said) {
		t.Errorf("not compared: %s", out.String())
	}
}

package rl_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"runtime"
	"testing"

	"gearshift/rl"
	"gearshift/rl/rltest"
)

// A run of one environment is the same as before there could be several, byte for
// byte, and so is what it stores: stored runs of old go on. (Other processors than
// those of the digests may round in another way.)
func TestRunOfOneEnvironmentIsAsItWas(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("the digests are of amd64")
	}
	plain, prioritised := rltest.Config(), rltest.Config()
	plain.CentreRewards, plain.WeightAverage, plain.NStep = false, 0, 3
	prioritised.Priority = &rl.Priority{Exponent: 0.6, Correction: 0.4}
	for _, c := range []struct {
		name         string
		config       rl.Config
		midway, last string // digests of the progress
	}{
		{"centred and averaged", rltest.Config(),
			"3111e523e9ef05170107d3cb9c83d08ef6b030ff7d7617dd67b8716c10466ba8",
			"33920b3a4d70f8805291a01514f5ae20e3df4b3145b1a26dd39f99fa1b612a5b"},
		{"plain, of three steps", plain,
			"ea37a5a46578027f5f9d482bdf2f3c2b6501c0d69997af05c71d5fe3e687303a",
			"2da3993dd11b872faedbc633c64a39976d4f1736d3a4aebd0d8c104f044e037f"},
		{"prioritised", prioritised,
			"34cbfe08033e7510043a0e560728ed297f189ec1787e2406af67248fb1d9bb55",
			"a789a30b8c0f2d1bd06e1aa5aed05cff615a8fd3054d5aebadf8f9cd99bdaa5d"},
	} {
		for stop, want := range map[int]string{717: c.midway, 1500: c.last} {
			r := chainRunOf(t, c.config)
			var s saved
			r.Stop, r.Save = stop, s.save
			if _, err := rl.Train(context.Background(), r, nil); err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(s.data); hex.EncodeToString(sum[:]) != want {
				t.Errorf("%s: the progress after %d decisions has digest %x, not %s", c.name, stop, sum, want)
			}
		}
	}
}

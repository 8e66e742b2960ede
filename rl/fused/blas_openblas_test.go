//go:build openblas

package fused

import (
	"strings"
	"testing"
)

func TestKernelsCanBeChosenAgain(t *testing.T) {
	before := core()
	t.Cleanup(func() { chooseCore(before) })
	for _, name := range []string{"Prescott", "Haswell"} {
		if betterCore("Prescott") == "" {
			return // this processor has neither AVX2 nor AVX-512
		}
		chooseCore(name)
		if !strings.EqualFold(core(), name) {
			t.Errorf("kernels are %s, not %s", core(), name)
		}
		if BLAS() != "openblas "+core() {
			t.Errorf("BLAS() is %q", BLAS())
		}
		holdForward(t)
	}
	for _, name := range []string{"", "SkylakeX", "Cooperlake"} {
		if better := betterCore(name); better != "" {
			t.Errorf("%s for %q", better, name)
		}
	}
}

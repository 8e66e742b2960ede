package workloads

import (
	"math"
	"slices"
	"testing"
)

// TestTable: FL-16 and FL-17 have 27 models in five families, and 69 in sixteen.
func TestTable(t *testing.T) {
	all, five := ImageFamilies(), TorchvisionFamilies()
	models := func(list []Family) (n int) {
		for i := range list {
			n += len(list[i].Models)
		}
		return n
	}
	if len(all) != 16 || models(all) != 69 || len(five) != 5 || models(five) != 27 {
		t.Errorf("%d families of %d models, %d of torchvision with %d", len(all), models(all), len(five), models(five))
	}
	names := map[string]bool{}
	for _, f := range all {
		if !slices.IsSortedFunc(f.Models, func(a, b ImageModel) int { return int(math.Copysign(1, a.Params-b.Params)) }) {
			t.Errorf("%s: the models are not in order of their sizes", f.Name)
		}
		for _, m := range f.Models {
			if names[m.Name] || m.Top1 < 55 || m.Top1 > 90 || m.GMACs <= 0 {
				t.Errorf("%+v", m)
			}
			names[m.Name] = true
		}
	}
}

// TestDerived: FL-18 and FL-19 for ConvNeXt, within what the estimate of memory is off.
func TestDerived(t *testing.T) {
	for _, f := range TorchvisionFamilies() {
		if f.Name != "convnext" {
			continue
		}
		for i, want := range []struct{ mb, load float64 }{{158, 594}, {241, 812}, {388, 1197}, {806, 2294}} {
			m := &f.Models[i]
			if math.Abs(m.MemoryMB()-want.mb) > 2 || math.Abs(m.LoadMS()-want.load) > 6 {
				t.Errorf("%s: %.1f MB and %.0f ms, the paper has %v and %v", m.Name, m.MemoryMB(), m.LoadMS(), want.mb, want.load)
			}
		}
	}
}

// TestClasses: the paper has MobileNet small and ConvNeXt large (FL-25).
func TestClasses(t *testing.T) {
	of := map[string]string{}
	counts := map[string]int{}
	for _, f := range ImageFamilies() {
		of[f.Name] = f.Class(100)
		counts[of[f.Name]]++
	}
	if of["mobilenet"] != SmallFamily || of["convnext"] != LargeFamily || of["efficientnet"] != MediumFamily || of["regnet_y"] != LargeFamily {
		t.Errorf("classes: %v", of)
	}
	for _, class := range []string{SmallFamily, MediumFamily, LargeFamily} {
		if counts[class] < 3 {
			t.Errorf("%d families are %s", counts[class], class)
		}
	}
}

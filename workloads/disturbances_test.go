package workloads

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/fleet"
)

func fourHosts(t *testing.T) *fleet.Table {
	t.Helper()
	table, err := fleet.NewTable([]fleet.Task{{Name: "t", Deadline: 1, Quality: []float64{1}}}, []fleet.Variant{{Name: "v"}},
		[]fleet.Host{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}},
		[]fleet.Replica{{Name: "v@a"}, {Name: "v@b", Host: 1}, {Name: "v@c", Host: 2}, {Name: "v@d", Host: 3}})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// A share of the episodes is disturbed, each seed in its own way, by all kinds on all hosts
// and with the means asked for.
func TestDisturbances(t *testing.T) {
	d, table := Disturbances{Share: 0.4, Calm: 60, Lasts: 30}, fourHosts(t)
	loads := make([]time.Duration, 4)
	var disturbed, losses, steps, n int
	var lasts float64
	hosts := map[int]int{}
	for seed := range uint64(500) {
		l, s := d.Draw(table, loads, seed)
		again, sameSteps := d.Draw(table, loads, seed)
		if !reflect.DeepEqual(l, again) || !slices.Equal(s, sameSteps) {
			t.Fatalf("seed %d repeats in another way", seed)
		}
		if len(l)+len(s) == 0 {
			continue
		}
		disturbed++
		losses, steps = losses+len(l), steps+len(s)
		for _, x := range l {
			hosts[x.Host]++
			lasts += (x.To - x.From).Seconds()
			n++
		}
		if !slices.IsSortedFunc(s, func(a, b Step) int { return int(a.At - b.At) }) {
			t.Fatalf("seed %d: steps out of order", seed)
		}
	}
	if share := float64(disturbed) / 500; math.Abs(share-0.4) > 0.07 {
		t.Errorf("a share of %.2f is disturbed", share)
	}
	if one := float64(losses) / float64(losses+steps/2); math.Abs(one-1./3) > 0.02 || len(hosts) != 4 {
		t.Errorf("a share of %.3f are losses, on hosts %v", one, hosts)
	}
	if mean := lasts / float64(n); math.Abs(mean-31) > 1 {
		t.Errorf("they last %.1f s", mean)
	}
	if l, s := (Disturbances{}).Draw(table, loads, 3); len(l)+len(s) > 0 {
		t.Error("none are asked for")
	}
}

func TestDisturbancesThatCannotBe(t *testing.T) {
	load := Load{MinRate: 1, MaxRate: 2, MinPhase: 5, MaxPhase: 9, Disturbances: Disturbances{Share: 2, Calm: 0, Lasts: math.NaN()}}
	err := load.Validate()
	for _, want := range []string{"disturbances.share: 2 is not a share", "disturbances.calm_s: 0 is not", "disturbances.lasts_s: NaN is not"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

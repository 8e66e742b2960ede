package fleet

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// large is a fleet of a small variant on every host and a large one on the last
// alone.
func large(t testing.TB, hosts int) *Table {
	t.Helper()
	var list []Host
	var replicas []Replica
	for h := range hosts {
		list = append(list, Host{Name: fmt.Sprint(h)})
		replicas = append(replicas, Replica{Name: fmt.Sprint("small@", h), Host: h})
	}
	replicas = append(replicas, Replica{Name: "large", Variant: 1, Host: hosts - 1})
	built, err := NewTable([]Task{{Name: "task", Deadline: time.Millisecond, Weight: 1, Quality: []float64{0.5, 1}}},
		[]Variant{{Name: "small"}, {Name: "large"}}, list, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return built
}

func TestSampleOfASmallFleetIsTheFleet(t *testing.T) {
	var v View
	v.Sample(large(t, SampleHosts), 1)
	if v.Sampled() || len(v.Hosts()) != SampleHosts || len(v.Replicas()) != SampleHosts+1 {
		t.Errorf("hosts %v and replicas %v of %d hosts", v.Hosts(), v.Replicas(), SampleHosts)
	}
}

func TestSample(t *testing.T) {
	const hosts, draws = 40, 20_000
	table := large(t, hosts)
	var v, again View
	drawn := make([]int, hosts)
	for i := range uint64(draws) {
		v.Sample(table, i)
		again.Sample(table, i)
		if !slices.Equal(v.Hosts(), again.Hosts()) {
			t.Fatalf("equal numbers draw %v and %v", v.Hosts(), again.Hosts())
		}
		got := slices.Clone(v.Hosts())
		slices.Sort(got)
		if len(slices.Compact(got)) != len(v.Hosts()) || len(got) < SampleHosts || len(got) > SampleHosts+1 {
			t.Fatalf("hosts %v", v.Hosts())
		}
		if len(v.ReplicasOf(0)) != len(v.Hosts()) || len(v.ReplicasOf(1)) != 1 || len(v.Replicas()) != len(v.Hosts())+1 {
			t.Fatalf("replicas %v, of each variant %v and %v", v.Replicas(), v.ReplicasOf(0), v.ReplicasOf(1))
		}
		for _, h := range v.Hosts() {
			drawn[h]++
		}
	}
	// 16 of 40: 8,000 each, with a standard deviation of 69. The last always comes,
	// for its large replica.
	for h, n := range drawn[:hosts-1] {
		if n < 7700 || n > 8300 {
			t.Errorf("host %d was drawn %d times of %d, want about 8,000", h, n, draws)
		}
	}
	if drawn[hosts-1] != draws {
		t.Errorf("the one host of the large variant was drawn %d times of %d", drawn[hosts-1], draws)
	}
	v.Whole()
	if v.Sampled() || len(v.Replicas()) != hosts+1 {
		t.Errorf("of the whole fleet %v", v.Replicas())
	}
}

func TestSampleStandsForTheFleet(t *testing.T) {
	table := large(t, 90)
	l := NewLedger(table)
	for i := range table.Replicas {
		for range 3 {
			l.Begin(i, 0)
		}
	}
	var v View
	l.View(0, &v)
	v.Sample(table, 7)
	if n := v.VariantInFlight(0); n != 3*90 {
		t.Errorf("%d in flight, want %d", n, 3*90)
	}
	var c View
	c.CopyFrom(&v)
	v.Sample(table, 8)
	if slices.Equal(c.Hosts(), v.Hosts()) || c.VariantInFlight(0) != 3*90 {
		t.Errorf("the copy follows its original: %v", c.Hosts())
	}
	if n := testing.AllocsPerRun(100, func() { v.Sample(table, 9) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

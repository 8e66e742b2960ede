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

// In a pool with slots for 40, few of them with an engine, samples are drawn from those.
func TestSampleOfWhatIsPresent(t *testing.T) {
	const hosts = 40
	table := large(t, hosts)
	for name, absent := range map[string]func(l *Ledger, replica int){
		"failed":     func(l *Ledger, i int) { l.SetUp(i, false) },
		"not loaded": func(l *Ledger, i int) { l.Place(i, Cold) },
		"absent":     func(l *Ledger, i int) { l.SetPresence(i, Vacant) },
	} {
		l := NewLedger(table)
		present := []int{3, 7, 20, hosts - 1}
		for i, r := range table.Replicas {
			if !slices.Contains(present, r.Host) {
				absent(l, i)
			}
		}
		for _, h := range present {
			l.Begin(h, 0)
		}
		var v, c View
		for i := range uint64(50) {
			l.View(0, &v)
			v.SampleOf(l, i)
			if !slices.Equal(v.Hosts(), present) || v.PresentHosts() != 4 || v.PresentOf(0) != 4 || v.VariantInFlight(0) != 4 {
				t.Fatalf("%s: hosts %v of %d, %d in flight on %d replicas", name, v.Hosts(), v.PresentHosts(), v.VariantInFlight(0), v.PresentOf(0))
			}
		}
		c.CopyFrom(&v)
		logged := View{Facts: c.Facts, InFlight: c.InFlight}
		logged.Only(table, present)
		if c.VariantInFlight(0) != 4 || logged.VariantInFlight(0) != 4 {
			t.Errorf("%s: a copy has %d in flight, a logged view %d", name, c.VariantInFlight(0), logged.VariantInFlight(0))
		}
		// 20 are present: 16 of them are drawn, and stand for 20.
		for h := range 20 {
			l.SetUp(h, true)
			l.Place(h, Up)
			l.SetPresence(h, Present)
		}
		for i := range uint64(200) {
			v.SampleOf(l, i)
			if got := v.PresentHosts(); got != 22 || len(v.ReplicasOf(1)) != 1 || slices.ContainsFunc(v.Hosts(), func(h int) bool { return h > 20 && h != hosts-1 }) {
				t.Fatalf("%s: hosts %v of %d", name, v.Hosts(), got)
			}
		}
		l2 := new(Ledger)
		l2.CopyFrom(l)
		var of View
		of.SampleOf(l2, 7)
		if v.SampleOf(l, 7); !slices.Equal(of.Hosts(), v.Hosts()) {
			t.Errorf("%s: a copied ledger is sampled as %v, want %v", name, of.Hosts(), v.Hosts())
		}
		if n := testing.AllocsPerRun(100, func() { v.SampleOf(l, 9) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

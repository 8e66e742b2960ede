package observation_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/observation"
)

// facts are features of what views show besides load.
func facts() []observation.Feature {
	return []observation.Feature{
		{Kind: observation.States},
		{Kind: observation.ReadyIn, Scale: []float64{1, 2, 4}},
		{Kind: observation.NewVersion},
		{Kind: observation.HostBusy, Scale: []float64{1, 0.5, 1}},
	}
}

// measured is the paper's fleet, with four places on each replica, whose hosts somebody measures.
func measured() *fleet.Table {
	table := conformance.Fleet(4)
	table.Measured = true
	return table
}

// changing is a view of it while hosts and models change: one host a line, 125M, 1.3B, 6.7B.
func changing(table *fleet.Table) *fleet.View {
	const now = 10 * time.Second
	v := &fleet.View{Table: table, Now: now, Held: make([]int32, 12), Down: make([]bool, 12), InFlight: []int32{
		0, 0, 0,
		0, 0, 0,
		0, 0, 0,
		4, 0, 4}}
	v.Facts = fleet.Facts{
		States: []fleet.State{
			fleet.Up, fleet.Loading, fleet.Down,
			fleet.Up, fleet.Up, fleet.Loading,
			fleet.Cold, fleet.Draining, fleet.Loading,
			fleet.Up, fleet.Up, fleet.Up},
		Ready: []time.Duration{
			0, now - time.Second, 0, // overdue
			0, 0, now + 6*time.Second,
			0, 0, now + 2*time.Second,
			0, 0, 0},
		Newer: []bool{
			true, false, false,
			false, true, false,
			true, false, false, // not up: it answers nothing
			true, false, false},
		Busy: []float32{0.75, 0.5, 0.25, 0.125},
	}
	for i, s := range v.States {
		v.Down[i] = s != fleet.Up
	}
	return v
}

func TestEncodeFacts(t *testing.T) {
	table := measured()
	e := encoder(t, table, facts())
	v, r, got := changing(table), new(fleet.Request), make([]float32, 15)
	if e.Dim() != len(got) {
		t.Fatalf("%d numbers, want %d", e.Dim(), len(got))
	}
	for _, test := range []struct {
		name string
		v    *fleet.View
		want []float32
	}{
		{"changing", v, []float32{
			3. / 4, 0, 2. / 4, 1. / 4, 1. / 4, 2. / 4, // up and on the way, by size
			observation.Bound, 0, 2. / 4, // none is on its way; overdue; the first of two
			2. / 3, 1. / 2, 0,
			0.5, 0.125 / 0.5, observation.Bound, // the least busy has no place left; the only one has none
		}},
		{"as at rest", &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}, []float32{
			1, 0, 1, 0, 1, 0,
			observation.Bound, observation.Bound, observation.Bound,
			0, 0, 0,
			0, 0, 0,
		}},
	} {
		if e.Encode(got, test.v, r); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
	if n := testing.AllocsPerRun(100, func() { e.Encode(got, v, r) }); n != 0 {
		t.Errorf("Encode allocates %v times", n)
	}
}

// A request that may not have a replica leaves the replica's state as it is.
func TestStatesAreNotOfTheRequest(t *testing.T) {
	table := measured()
	e := encoder(t, table, facts()[:1])
	v := &fleet.View{Table: table, InFlight: make([]int32, 12), Held: make([]int32, 12), Down: make([]bool, 12)}
	r := &fleet.Request{Without: []int{0, 3, 6, 9}}
	v.Restrict(r)
	got := make([]float32, e.Dim())
	if e.Encode(got, v, r); v.VariantAvailable(0) || got[0] != 1 {
		t.Errorf("available %v, and %v are up", v.VariantAvailable(0), got[0])
	}
}

func TestEncodeCandidateFacts(t *testing.T) {
	table := measured()
	s, err := observation.NewSpec(table, []observation.Feature{hostRate()},
		observation.Feature{Kind: observation.NewVersion}, observation.Feature{Kind: observation.HostBusy, Scale: []float64{0.5}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := observation.NewEncoder(s, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	v, r, got := changing(table), new(fleet.Request), make([]float32, s.Own())
	for replica, want := range map[int][]float32{0: {1, 1, 1.5}, 3: {1, 0, 1}, 4: {1, 1, 1}, 9: {0, 1, 0.25}, 10: {1, 0, 0.25}} {
		rows := e.Candidates(v, r)
		if rows.Encode(got, replica); !slices.Equal(got, want) {
			t.Errorf("replica %d: %v, want %v", replica, got, want)
		}
	}
	rows := e.Candidates(v, r)
	if n := testing.AllocsPerRun(100, func() { rows.Encode(got, 4) }); n != 0 {
		t.Errorf("Encode allocates %v times", n)
	}
}

// A Spec is refused for a fleet whose views do not have what it reads.
func TestFactsThatViewsDoNotHave(t *testing.T) {
	unknown := conformance.Fleet(0)
	bare := measured()
	bare.Bare = true
	slow := measured()
	slow.Models = []fleet.Model{{Name: "tiny", Load: time.Second}, {Name: "big"}}
	slow.Variants = slices.Clone(slow.Variants)
	slow.Variants[0].Model, slow.Variants[1].Model, slow.Variants[2].Model = 0, -1, 1
	for _, test := range []struct {
		table   *fleet.Table
		feature observation.Feature
		want    string
	}{
		{unknown, facts()[3], "host-busy: nothing measures how busy hosts are; want it in training.observation"},
		{unknown, facts()[0], ""},
		{bare, facts()[0], "states: the log does not have the states and versions of replicas"},
		{bare, facts()[1], "ready-in: the log does not have"},
		{bare, facts()[2], "new-version: the log does not have"},
		{bare, facts()[3], ""},
		{slow, facts()[1], `ready-in: model "big" does not say how long a load takes; want its load_ms`},
		{slow, facts()[0], ""},
	} {
		s := spec(t, measured(), []observation.Feature{test.feature})
		if err := s.Match(test.table); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: error %v, want %q", test.feature.Kind, err, test.want)
		}
		if _, err := observation.NewSpec(test.table, []observation.Feature{test.feature}); (err == nil) != (test.want == "") {
			t.Errorf("%v: a Spec of it: %v", test.feature.Kind, err)
		}
	}
	if _, err := observation.NewSpec(unknown, []observation.Feature{hostRate()}, observation.Feature{Kind: observation.HostBusy, Scale: []float64{1}}); err == nil {
		t.Error("a candidate's host is not measured, and accepted")
	}
}

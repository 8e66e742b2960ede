package layouts_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"gearshift/router/fleet"
	"gearshift/router/placement/layouts"
)

// sized holds a replica's name, its variant and its share of a host of 100 bytes.
type sized struct {
	name    string
	variant int
	memory  int64
	initial fleet.State
}

// three lists the sizes of a fleet of which two sizes are there at two shares.
var three = []sized{{"tiny", 0, 5, fleet.Up}, {"small", 1, 20, fleet.Up}, {"large", 2, 75, fleet.Up}, {"small-large", 1, 75, fleet.Warm}}

// table returns a table with these replicas on each of so many hosts.
func table(t *testing.T, hosts int, list []sized) *fleet.Table {
	t.Helper()
	var machines []fleet.Host
	var replicas []fleet.Replica
	for _, x := range list {
		for h := range hosts {
			replicas = append(replicas, fleet.Replica{Name: fmt.Sprintf("%s@h%d", x.name, h), Variant: x.variant, Host: h, Memory: x.memory, Initial: x.initial})
		}
	}
	for h := range hosts {
		machines = append(machines, fleet.Host{Name: fmt.Sprint("h", h), Memory: 100})
	}
	made, err := fleet.NewTable([]fleet.Task{{Name: "chat", Deadline: 1, Weight: 1, Quality: []float64{0.5, 0.8, 1}}},
		[]fleet.Variant{{Name: "tiny"}, {Name: "small"}, {Name: "large"}}, machines, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// named writes layouts by the names of their replicas.
func named(t *fleet.Table, list []layouts.Layout) (names []string) {
	for _, l := range list {
		var up []string
		for _, r := range l.Up {
			name, _, _ := strings.Cut(t.Replicas[r].Name, "@")
			up = append(up, name)
		}
		names = append(names, strings.Join(up, "+"))
	}
	slices.Sort(names)
	return names
}

func TestLayoutsOfAHost(t *testing.T) {
	whole := append(slices.Clone(three), sized{"alone", 2, 95, fleet.Warm}, sized{"smaller", 2, 70, fleet.Warm})
	for _, x := range []struct {
		about  string
		list   []sized
		limits layouts.Limits
		want   []string
	}{
		{"two shares of one size", three, layouts.Limits{}, []string{"tiny+small+large", "tiny+small-large"}},
		{"a larger share of the large size, and a smaller one that is never better", whole, layouts.Limits{}, []string{"tiny+alone", "tiny+small+large", "tiny+small-large"}},
		{"the large size pinned", three, layouts.Limits{Pinned: func(r int) bool { return r == 2 }}, []string{"tiny+small+large"}},
		{"the small size is not decided, and keeps its memory", three, layouts.Limits{Decided: func(r int) bool { return r != 1 }}, []string{"tiny+large", "tiny+small-large"}},
	} {
		fleet := table(t, 1, x.list)
		list, err := layouts.List(fleet, 0, x.limits)
		if err != nil || !slices.Equal(named(fleet, list), x.want) {
			t.Errorf("%s: %v and %v, want %v", x.about, named(fleet, list), err, x.want)
		}
	}
}

func TestTooManyLayouts(t *testing.T) {
	var list []sized
	for v := range 3 {
		for n := range 14 { // of 2,744 sets 147 take all of the memory
			list = append(list, sized{fmt.Sprint("m", v, "-", n), v, int64(20 + 2*n), fleet.Warm})
		}
	}
	_, err := layouts.List(table(t, 1, list), 0, layouts.Limits{})
	if err == nil || !strings.Contains(err.Error(), "host h0 has more than 64 layouts") {
		t.Errorf("the error is %v", err)
	}
	for n := range 60 { // 3 variants of 34 sizes each: more sets than are looked through
		list = append(list, sized{fmt.Sprint("m", n%3, "-", 14+n), n % 3, int64(20 + n), fleet.Warm})
	}
	if _, err = layouts.List(table(t, 1, list), 0, layouts.Limits{}); err == nil || !strings.Contains(err.Error(), "more than 64 layouts") {
		t.Errorf("of sets without number the error is %v", err)
	}
	_, err = layouts.List(table(t, 1, three), 0, layouts.Limits{Pinned: func(r int) bool { return r == 2 || r == 3 }})
	if err == nil || !strings.Contains(err.Error(), "host h0 has no room for what is pinned there") {
		t.Errorf("the error is %v", err)
	}
}

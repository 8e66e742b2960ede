package besteffort

import (
	"bytes"
	"encoding/csv"
	"strings"
	"testing"

	"gearshift/internal/training/policies"
)

// A surface is a full grid for each policy, in the layout of notebooks/README.md.
func TestSurface(t *testing.T) {
	s := load(t, "tiny")
	list, err := policies.Contestants(s, nil, []string{"threshold"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g := newSurface(s)
	g.rates, g.inFlight = []float64{1, 8}, []int{0, 3, 500}
	var out bytes.Buffer
	if err := g.encode(&out, list); err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(&out).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(rows[0], ","), "policy,task,rate,in_flight_small,in_flight_large,choice,q_small,q_large"; got != want {
		t.Errorf("header %s, want %s", got, want)
	}
	if got, want := len(rows)-1, len(s.Tasks)*2*3*3; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
	first, last := rows[1], rows[len(rows)-1]
	if first[5] != "large" || last[5] != "small" || first[6] != "" {
		t.Errorf("an idle fleet gives %v, a full one %v: want the large and the small size, and no values of a rule", first, last)
	}
}

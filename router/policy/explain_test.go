package policy_test

import (
	"math"
	"strings"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/policy"
)

// best is the variant of the highest value that is available.
func best(v *fleet.View, values []float32) int {
	at := -1
	for m, q := range values {
		if v.VariantAvailable(m) && (at < 0 || q > values[at]) {
			at = m
		}
	}
	return at
}

// What a learned policy explains is what it decides by.
func TestExplanationsAgreeWithDecisions(t *testing.T) {
	table := hosts(t, 4)
	for name, p := range map[string]interface {
		policy.Network
		Explain(v *fleet.View, r *fleet.Request, scratch []float32) ([]float32, string)
	}{"learned": learned(t, table, 5), "placing": placing(t, table, 3)} {
		scratch := make([]float32, p.Scratch())
		for seed := range uint64(100) {
			v := busyHosts(table, seed)
			down(v, int(seed%3))
			r := &fleet.Request{Task: int(seed % 4)}
			want := p.Decide(v, r, scratch)
			values, why := p.Explain(v, r, scratch)
			if len(values) != 3 || why != "the highest value" || best(v, values) != want {
				t.Fatalf("%s, seed %d: values %v (%s), chose %d", name, seed, values, why, want)
			}
		}
	}
}

func TestPlacingHasNoValueOfWhatIsDown(t *testing.T) {
	table := hosts(t, 2)
	p := placing(t, table, 3)
	values, _ := p.Explain(down(busyHosts(table, 1), 1), &fleet.Request{}, make([]float32, p.Scratch()))
	if !math.IsNaN(float64(values[1])) || math.IsNaN(float64(values[0])) || math.IsNaN(float64(values[2])) {
		t.Errorf("values %v, want none of the second alone", values)
	}
}

func TestExplanationsTellOfDamage(t *testing.T) {
	table := conformance.Fleet(0)
	p, err := (&policy.Maker{Table: table}).Learned("test@1", spec(t, table), linear(t, 1, float32(math.Inf(1)), 2), policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if _, why := p.Explain(idle(table), &fleet.Request{}, make([]float32, p.Scratch())); !strings.Contains(why, "damaged") {
		t.Errorf("says %q", why)
	}
}

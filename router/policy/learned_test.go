package policy_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/nn"
	"gearshift/router/observation"
	"gearshift/router/policy"
)

func spec(t testing.TB, table *fleet.Table) observation.Spec {
	t.Helper()
	s, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.TaskOneHot},
		{Kind: observation.InFlight, Scale: []float64{25, 25, 5}},
		{Kind: observation.Rate, Scale: []float64{24}},
		{Kind: observation.LogRate, Scale: []float64{4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func learned(t testing.TB, table *fleet.Table, seed uint64) *policy.Learned {
	t.Helper()
	net, err := nn.New(9, 128, 128, 3)
	if err != nil {
		t.Fatal(err)
	}
	net.Randomise(rand.New(rand.NewPCG(seed, 0)))
	p, err := (&policy.Maker{Table: table}).Learned("test@1", spec(t, table), net, policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// linear is a network whose outputs are its biases.
func linear(t *testing.T, biases ...float32) *nn.MLP {
	t.Helper()
	net, err := nn.New(9, 3)
	if err != nil {
		t.Fatal(err)
	}
	copy(net.Biases[0], biases)
	return net
}

// Beyond what training has seen, the rule chooses, not the network; where its
// choice is not available, any that is.
func TestLearnedTakesAdviceBeyondItsTraining(t *testing.T) {
	table := conformance.Fleet(4)
	s, err := observation.NewSpec(table, []observation.Feature{
		{Kind: observation.Advice, Rule: "threshold:2,4"},
		{Kind: observation.Rate, Scale: []float64{1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	net, err := nn.New(s.Dim(), 3)
	if err != nil {
		t.Fatal(err)
	}
	copy(net.Biases[0], []float32{0, 5, 0}) // always the middle one
	p, err := (&policy.Maker{Table: table}).Learned("test@1", s, net, policy.Trust{Seen: []float32{1, 1, 1, 4}})
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, p.Scratch())
	for _, test := range []struct {
		rate float64
		view *fleet.View
		want int
	}{
		{4, idle(table), 1},
		{4.5, idle(table), 2},
		{4.5, load(idle(table), 2, 1), 0},
		{4.5, down(idle(table), 2), 1},
	} {
		test.view.Rate = test.rate
		if got := p.Decide(test.view, &fleet.Request{}, scratch); got != test.want {
			t.Errorf("at rate %v chose %d, want %d", test.rate, got, test.want)
		}
		if _, why := p.Explain(test.view, &fleet.Request{}, scratch); strings.Contains(why, "advice") != (test.rate > 4) {
			t.Errorf("at rate %v says %q", test.rate, why)
		}
	}
	if _, err := (&policy.Maker{Table: table}).Learned("test@1", s, net, policy.Trust{Seen: []float32{1}}); err == nil {
		t.Error("the range of one input stands for four")
	}
}

// Without advice nothing could stand in, whatever the range of what training has seen.
func TestLearnedWithoutAdviceKnowsNoRange(t *testing.T) {
	table := conformance.Fleet(4)
	p, err := (&policy.Maker{Table: table}).Learned("test@1", spec(t, table), linear(t, 0, 5, 0), policy.Trust{Seen: make([]float32, 9), Caution: 1})
	if err != nil {
		t.Fatal(err)
	}
	view, scratch := load(idle(table), 0, 3), make([]float32, p.Scratch())
	if got := p.Decide(view, &fleet.Request{}, scratch); got != 1 {
		t.Errorf("chose %d, want the highest value", got)
	}
}

// What several networks disagree by counts against what is not advised, so often as
// there is caution.
func TestLearnedDepartsWhereItsNetworksAgree(t *testing.T) {
	table := conformance.Fleet(4)
	s, err := observation.NewSpec(table, []observation.Feature{{Kind: observation.Advice, Rule: "threshold:2,4"}})
	if err != nil {
		t.Fatal(err)
	}
	var both []*nn.MLP
	for _, biases := range [][]float32{{0, 5, 1}, {0, 2, 1}} {
		net, err := nn.New(s.Dim(), 3)
		if err != nil {
			t.Fatal(err)
		}
		copy(net.Biases[0], biases)
		both = append(both, net)
	}
	stack, err := nn.Stack(both...)
	if err != nil {
		t.Fatal(err)
	}
	// The largest is advised; the middle one leads by 4 and by 1.
	for caution, want := range map[float64][]float32{0: {0, 3.5, 1}, 1: {0, 2, 1}, 2: {0, 0.5, 1}} {
		p, err := (&policy.Maker{Table: table}).Learned("test@1", s, stack, policy.Trust{Caution: caution})
		if err != nil {
			t.Fatal(err)
		}
		scratch := make([]float32, p.Scratch())
		if got := p.Values(idle(table), &fleet.Request{}, scratch); !slices.Equal(got, want) {
			t.Errorf("caution %v: %v, want %v", caution, got, want)
		}
		if got := p.Decide(idle(table), &fleet.Request{}, scratch); (got == 1) != (want[1] > want[2]) {
			t.Errorf("caution %v: chose %d", caution, got)
		}
	}
	// Beyond what training has seen the values of several decide no more than those of one.
	narrow, err := (&policy.Maker{Table: table}).Learned("test@1", s, stack, policy.Trust{Seen: make([]float32, 3), Caution: 1})
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, narrow.Scratch())
	_, why := narrow.Explain(idle(table), &fleet.Request{}, scratch)
	if got := narrow.Decide(idle(table), &fleet.Request{}, scratch); got != 2 || !strings.Contains(why, "advice") {
		t.Errorf("chose %d (%s), want what is advised", got, why)
	}
	both[1].Biases[0][2] = float32(math.NaN())
	if stack, err = nn.Stack(both...); err != nil {
		t.Fatal(err)
	}
	p, err := (&policy.Maker{Table: table}).Learned("test@1", s, stack, policy.Trust{Caution: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Decide(idle(table), &fleet.Request{}, make([]float32, p.Scratch())); got != -1 {
		t.Errorf("chose %d by what is no number", got)
	}
}

// Networks that agree leave nothing to caution, also where the machine could round a
// product and a difference at once: the square of their lead is no float64.
func TestCautionIsTheSameOnEveryMachine(t *testing.T) {
	table := conformance.Fleet(4)
	s, err := observation.NewSpec(table, []observation.Feature{{Kind: observation.Advice, Rule: "threshold:2,4"}})
	if err != nil {
		t.Fatal(err)
	}
	net, err := nn.New(s.Dim(), 3)
	if err != nil {
		t.Fatal(err)
	}
	const little = 3. / (1 << 28)
	copy(net.Biases[0], []float32{-little, 0, 1}) // the largest is advised
	stack, err := nn.Stack(net, net)
	if err != nil {
		t.Fatal(err)
	}
	p, err := (&policy.Maker{Table: table}).Learned("test@1", s, stack, policy.Trust{Caution: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Values(idle(table), &fleet.Request{}, make([]float32, p.Scratch())); got[0] != -little {
		t.Errorf("worth %v, want %v", got[0], -little)
	}
}

func TestLearnedTakesTheBestThatIsAvailable(t *testing.T) {
	table := conformance.Fleet(4)
	p, err := (&policy.Maker{Table: table}).Learned("test@1", spec(t, table), linear(t, -3, 5, 2), policy.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	scratch := make([]float32, p.Scratch())
	for _, test := range []struct {
		view *fleet.View
		want int
	}{
		{idle(table), 1},
		{down(idle(table), 1), 2},
		{load(idle(table), 1, 4), 2},
		{down(idle(table), 1, 2), 0}, // a negative value is better than none
		{down(idle(table), 0, 1, 2), -1},
	} {
		if got := p.Decide(test.view, &fleet.Request{}, scratch); got != test.want {
			t.Errorf("chose %d, want %d", got, test.want)
		}
	}
}

func TestLearnedDistrustsDamagedWeights(t *testing.T) {
	table := conformance.Fleet(0)
	for _, bad := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		for at := range 3 {
			biases := []float32{1, 2, 3}
			biases[at] = float32(bad)
			p, err := (&policy.Maker{Table: table}).Learned("test@1", spec(t, table), linear(t, biases...), policy.Trust{})
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Decide(idle(table), &fleet.Request{}, make([]float32, p.Scratch())); got != -1 {
				t.Errorf("values %v: chose %d, want -1", biases, got)
			}
		}
	}
}

func TestLearnedRefusesOtherShapes(t *testing.T) {
	table := conformance.Fleet(0)
	s := spec(t, table)
	small, err := nn.New(5, 3)
	if err != nil {
		t.Fatal(err)
	}
	_, err = (&policy.Maker{Table: table}).Learned("paper@2", s, small, policy.Trust{})
	want := `cannot load policy "paper@2": the network maps 5 inputs to 3 outputs, its observation has 9 numbers for 3 variants`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	s.Variants = []string{"opt-125m", "opt-1.3b", "opt-13b"}
	_, err = (&policy.Maker{Table: table}).Learned("paper@2", s, linear(t), policy.Trust{})
	want = `cannot load policy "paper@2": the policy was trained for variants [opt-125m opt-1.3b opt-13b], the scenario has [opt-125m opt-1.3b opt-6.7b]`
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

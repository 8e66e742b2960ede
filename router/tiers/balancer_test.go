package tiers_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gearshift/router/balance"
	"gearshift/router/conformance"
	"gearshift/router/fleet"
	"gearshift/router/tiers"
)

// view is of one variant on n hosts, half of which are in each of two tiers.
func view(n int) (v *fleet.View, of []tiers.Membership) {
	t := &fleet.Table{Variants: []fleet.Variant{{Name: "m"}}, Tasks: []fleet.Task{{Name: "t", Deadline: time.Second, Weight: 1, Quality: []float64{1}}}}
	var hosts []fleet.Host
	var replicas []fleet.Replica
	for i := range n {
		hosts, replicas, of = append(hosts, fleet.Host{Name: string(rune('a' + i))}), append(replicas, fleet.Replica{Name: "m@" + string(rune('a'+i)), Host: i}), append(of, tiers.Membership{Tier: i * 2 / n, Compute: 1})
	}
	table, err := fleet.NewTable(t.Tasks, t.Variants, hosts, replicas)
	if err != nil {
		panic(err)
	}
	v = &fleet.View{}
	fleet.NewLedger(table).View(0, v)
	return v, of
}

// halves are two tiers of n hosts of one unit of compute each.
func halves(n int) []tiers.Tier {
	return []tiers.Tier{{Name: "a", Compute: float64(n) / 2}, {Name: "b", Compute: float64(n) / 2}}
}

// TestAModelDividesByItsReplicas: a model with one replica in a tier that computes much, and four in one
// that computes little, is divided by the hosts that have it, corrected as all traffic is.
func TestAModelDividesByItsReplicas(t *testing.T) {
	v, of := view(5)
	for i := range of {
		of[i] = tiers.Membership{Tier: min(i, 1), Compute: 2}
	}
	list := []tiers.Tier{{Name: "large", Compute: 40}, {Name: "small", Compute: 8}}
	for name, c := range map[string]struct{ shares, want []float64 }{
		"as computed": {tiers.Shares(list), []float64{0.2, 0.2}},
		"corrected":   {[]float64{10. / 14, 4. / 14}, []float64{1. / 9, 2. / 9}}, // twice as much for each unit of the small tier
	} {
		b := tiers.NewBalancer(balance.SmallestBatch{}, of, list)
		b.Weigh(c.shares)
		random, counts := rand.New(rand.NewPCG(1, 2)), make([]float64, 5)
		const n = 50_000
		for range n {
			counts[b.Pick(v, &fleet.Request{}, 0, random.Uint64())]++
		}
		for i, x := range counts {
			if want := c.want[min(i, 1)]; math.Abs(x/n-want) > 0.01 {
				t.Errorf("%s: replica %d gets %.4f of the requests, want %.4f", name, i, x/n, want)
			}
		}
	}
}

// TestRequestsDivideByShares: the first tier gets its share, each replica of a tier as much as the
// others, and the view is as it was.
func TestRequestsDivideByShares(t *testing.T) {
	v, of := view(6)
	b := tiers.NewBalancer(balance.PowerOfK{K: 2}, of, halves(6))
	b.Weigh([]float64{0.75, 0.25})
	random, counts := rand.New(rand.NewPCG(1, 2)), make([]float64, 6)
	const n = 60_000
	for range n {
		counts[b.Pick(v, &fleet.Request{}, 0, random.Uint64())]++
	}
	for i, c := range counts {
		want := []float64{0.25, 0.25 / 3}[of[i].Tier]
		if math.Abs(c/n/want-1) > 0.05 {
			t.Errorf("replica %d of tier %d gets %.4f of the requests, want %.4f", i, of[i].Tier, c/n, want)
		}
	}
	if slices.Contains(v.Down, true) {
		t.Errorf("replicas are left hidden: %v", v.Down)
	}
	if b.Name() != (balance.PowerOfK{K: 2}).Name() {
		t.Errorf("it is called %q", b.Name())
	}
	r := &fleet.Request{}
	if n := testing.AllocsPerRun(100, func() { b.Pick(v, r, 0, 7) }); n != 0 {
		t.Errorf("%v allocations for a choice", n)
	}
}

// TestATierThatIsDownGetsNothing: its share goes to the others, also where those have none.
func TestATierThatIsDownGetsNothing(t *testing.T) {
	v, of := view(4)
	b := tiers.NewBalancer(balance.SmallestBatch{}, of, halves(4))
	b.Weigh([]float64{1, 0})
	v.Down[0], v.Down[1] = true, true
	for random := range uint64(100) {
		if i := b.Pick(v, &fleet.Request{}, 0, random<<58); i < 2 {
			t.Fatalf("replica %d is picked", i)
		}
	}
	v.Down[2], v.Down[3] = true, true
	if i := b.Pick(v, &fleet.Request{}, 0, 1); i != -1 {
		t.Errorf("replica %d is picked, of none that is up", i)
	}
}

// TestConformance holds the balancer to the contract, also with shares that are all in one tier.
func TestConformance(t *testing.T) {
	for _, table := range []*fleet.Table{conformance.Fleet(0), conformance.Fleet(8), conformance.FleetOf(25, 8)} {
		of := make([]tiers.Membership, len(table.Replicas))
		for i := range of {
			of[i] = tiers.Membership{Tier: table.Replicas[i].Host % 2, Compute: 1}
		}
		for _, shares := range [][]float64{{0.5, 0.5}, {1, 0}} {
			b := tiers.NewBalancer(balance.PowerOfK{K: 2}, of, halves(len(table.Hosts)))
			b.Weigh(shares)
			conformance.Balancer(t, table, b)
		}
	}
}

// TestOtherTiersAreNotDown: a balancer that remembers what was down is shown the drawn tier alone, and
// nothing of the others as down.
func TestOtherTiersAreNotDown(t *testing.T) {
	v, of := view(6)
	v.Down[1] = true
	seen := looks{t: t, of: of}
	b := tiers.NewBalancer(&seen, of, halves(6))
	for random := range uint64(100) {
		b.Pick(v, &fleet.Request{}, 0, random*(1<<64/100))
	}
	if seen.by != [2]int{41, 59} {
		t.Errorf("the tiers were seen %v times; want about 2 to 3, as they have replicas that are up", seen.by)
	}
}

// looks is a balancer that notes which replicas it is shown.
type looks struct {
	balance.SmallestBatch
	t  *testing.T
	of []tiers.Membership
	by [2]int // by tier
}

func (l *looks) Pick(v *fleet.View, _ *fleet.Request, variant int, _ uint64) int {
	list := v.ReplicasOf(variant)
	tier := l.of[list[0]].Tier
	if want := [][]int{{0, 1, 2}, {3, 4, 5}}[tier]; !slices.Equal(list, want) || !slices.Equal(v.Down, []bool{false, true, false, false, false, false}) {
		l.t.Errorf("it is shown %v with %v down", list, v.Down)
	}
	l.by[tier]++
	return list[0]
}

package layouts

import (
	"fmt"
	"math"
	"time"

	"gearshift/router/nn"
)

// LearnedVersion numbers what a [Learned] observes. A network of another version decides nothing.
const LearnedVersion = 2

// LearnedInputs counts the numbers that the network of a [Learned] maps to LearnedOutputs, a load and a margin for
// changes to more capacity and for those to less.
const (
	LearnedInputs  = 9
	LearnedOutputs = 4
)

// LearnedHorizon is the time over which a [Learned] expects loads, and LearnedStay the least for which a layout stays.
const (
	LearnedHorizon = 4 * time.Second
	LearnedStay    = 5 * time.Second
)

// averages are the times over which a [Learned] averages loads, besides its horizon, from the shortest.
var averages = [...]time.Duration{12 * time.Second, 40 * time.Second, 2 * time.Minute}

// Learned is [Worth] with parameters that follow the situation: for each change, a network says at which load layouts
// are valued, and what a request must gain. A network of zeros decides like the rule with nothing missed. What it sees
// has no unit, so that it fits any fleet. It allocates nothing.
type Learned struct {
	network  *nn.MLP
	averages [len(averages)]float64
	spread   float64 // mean square of the logarithm of the load as a share of its longest average
	last     time.Duration
	in       [LearnedInputs]float32
	out      [LearnedOutputs]float32
	scratch  []float32
}

// NewLearned returns a [Learned] by a network, with its times.
func NewLearned(network *nn.MLP) (Rule, error) {
	if network.Inputs() != LearnedInputs || network.Outputs() != LearnedOutputs {
		return Rule{}, fmt.Errorf("the network maps %d inputs to %d outputs; want %d to %d", network.Inputs(), network.Outputs(), LearnedInputs, LearnedOutputs)
	}
	l := &Learned{network: network, scratch: make([]float32, network.Scratch())}
	return By(l), nil
}

// By returns a rule of the chooser with the times of a [Learned].
func By(c Chooser) Rule { return Rule{c, LearnedHorizon, LearnedStay, headroom} }

// Choose implements [Chooser].
func (l *Learned) Choose(s *Situation) Change {
	expected := s.Expected()
	if expected <= 0 {
		return None("no request is expected")
	}
	l.follow(expected, s.Now)
	each := s.Worth / float64(len(s.Hosts)) / s.Valued
	c := s.best(func(host, layout int) float64 {
		h := &s.Hosts[host]
		load, factor := l.judge(s, h, layout, expected)
		return s.Gain(host, layout, load) - factor*(margin+each*cost(h.Takes[layout], LearnedStay))
	})
	c.Reason = "the policy values this layout most"
	if c.Host < 0 {
		c.Reason = "the policy values no other layout more"
	}
	return c
}

// follow follows the load.
func (l *Learned) follow(rate float64, now time.Duration) {
	if l.averages[0] == 0 {
		for i := range l.averages {
			l.averages[i] = rate
		}
	}
	keep := func(over time.Duration) float64 { return math.Exp(-(now - l.last).Seconds() / over.Seconds()) }
	for i, over := range averages {
		l.averages[i] = rate + keep(over)*(l.averages[i]-rate)
	}
	off := ratio(rate, l.averages[len(averages)-1])
	l.spread = off*off + keep(2*averages[len(averages)-1])*(l.spread-off*off)
	l.last = now
}

// ratio returns the logarithm of how much more one rate is than another, of those that matter.
func ratio(a, b float64) float64 { return math.Log((a + 0.1) / (b + 0.1)) }

// judge returns the load at which a change is valued, and the factor of what a request must gain by it.
func (l *Learned) judge(s *Situation, h *HostState, layout int, expected float64) (load, factor float64) {
	capacity := 0.0
	for i := range s.Hosts {
		if x := &s.Hosts[i]; x.Present >= 0 {
			capacity += x.Capacity[x.Present]
		}
	}
	for i, x := range [LearnedInputs]float64{
		ratio(l.averages[0], expected), ratio(l.averages[1], expected), ratio(l.averages[len(averages)-1], expected), math.Sqrt(l.spread),
		ratio(expected, capacity), h.Busy - 0.5,
		math.Log1p(h.Takes[layout].Seconds()) - 1.5, math.Log1p(h.First[layout].Seconds()) - 0.5, math.Log1p((s.Now-h.Since).Seconds())/2 - 2,
	} {
		l.in[i] = bounded(x, 3)
	}
	l.network.Forward(l.out[:], l.in[:], l.scratch)
	out := l.out[:2]
	if h.Capacity[layout] > h.Capacity[h.Present] {
		out = l.out[2:]
	}
	return headroom * expected * math.Exp(float64(bounded(float64(out[0]), 4))), math.Exp(float64(bounded(float64(out[1]), 4)))
}

// bounded returns a number within a bound on either side.
func bounded(x, bound float64) float32 {
	if !(x < bound) { // also what is no number
		x = bound
	}
	return float32(max(-bound, x))
}

package modality

import (
	"fmt"
	"math"
)

// Conditions are what the caution of a plan is chosen by. All are relative, so that they mean the
// same of models of any speed.
type Conditions [conditionCount]float64

// The conditions, by index.
const (
	ConditionLoad        = iota // the work that comes per unit of time, at the fastest
	ConditionRecent             // the same of late
	ConditionFull               // the work that comes if each job gets its best strategy
	ConditionFluctuation        // standard deviation of the work that comes in a patience, in patiences
	ConditionLargest            // the work of the largest job, in patiences
	ConditionJob                // mean work of a job, each weighted by its work, in patiences
	ConditionSpread             // that of the times of batches, relative to what is expected
	ConditionStake              // quality of a request at its best strategy less that at its fastest
	conditionCount
)

// conditionNames are those that people read, by index.
var conditionNames = [conditionCount]string{"load", "recent load", "load at the best", "fluctuation", "largest job", "mean job", "spread of batch times", "quality at stake"}

// Conditions are what the arrivals say. They are zero where none has come yet.
func (a *Arrivals) Conditions() (c Conditions) {
	if !(a.Rate > 0 && a.Patience > 0) {
		return c
	}
	return Conditions{
		ConditionLoad:        a.Rate,
		ConditionRecent:      a.Recent,
		ConditionFull:        a.Full,
		ConditionFluctuation: math.Sqrt(a.Variance*a.Patience) / a.Patience,
		ConditionLargest:     a.Largest / a.Patience,
		ConditionJob:         a.Variance / a.Rate / a.Patience,
		ConditionSpread:      a.Spread,
		ConditionStake:       a.Stake,
	}
}

// Cautions choose the caution of a plan by the conditions: a tree of comparisons whose leaves are
// cautions. A tree, and not a network, because people can read it, and it says nothing beyond
// what its leaves have. Without a node the plan is that of the jobs at hand.
type Cautions []CautionNode

// CautionNode is a comparison, or a leaf, which has no branches. The first node is the root.
type CautionNode struct {
	// Condition is the one that is compared, by index. Where it is at most Bound the node of index
	// Low goes on, else that of High. Both come after the node itself, and are 0 in a leaf.
	Condition int     `json:"condition,omitempty"`
	Bound     float64 `json:"bound,omitempty"`
	Low       int     `json:"low,omitempty"`
	High      int     `json:"high,omitempty"`
	// Caution is that of a leaf. [Unforeseeing] plans the jobs at hand alone.
	Caution float64 `json:"caution"`
}

// Unforeseeing is the caution of a plan that leaves no room for jobs to come: that of [Planner].
const Unforeseeing = -1

// Always is one caution under all conditions.
func Always(caution float64) Cautions { return Cautions{{Caution: caution}} }

// Validate reports what makes them no tree.
func (t Cautions) Validate() error {
	for i, n := range t {
		leaf := n.Low == 0 && n.High == 0
		switch {
		case leaf && !(n.Caution == Unforeseeing || n.Caution >= 0 && n.Caution <= Largest):
			return fmt.Errorf("cautions[%d]: %v; want %d, or a number of at least 0", i, n.Caution, Unforeseeing)
		case !leaf && (n.Low <= i || n.High <= i || n.Low >= len(t) || n.High >= len(t)):
			return fmt.Errorf("cautions[%d]: branches %d and %d; want nodes after it, up to %d", i, n.Low, n.High, len(t)-1)
		case !leaf && (n.Condition < 0 || n.Condition >= conditionCount || math.IsNaN(n.Bound)):
			return fmt.Errorf("cautions[%d]: condition %d, bound %v; want one of %d conditions, and a number", i, n.Condition, n.Bound, conditionCount)
		}
	}
	return nil
}

// At is the caution under the conditions.
func (t Cautions) At(c Conditions) float64 {
	if len(t) == 0 {
		return Unforeseeing
	}
	n := &t[0]
	for n.Low > 0 {
		if c[n.Condition] <= n.Bound {
			n = &t[n.Low]
		} else {
			n = &t[n.High]
		}
	}
	return n.Caution
}

// String says it in words.
func (t Cautions) String() string {
	if len(t) == 0 {
		return t.word(Unforeseeing)
	}
	return t.words(0)
}

func (t Cautions) words(at int) string {
	n := &t[at]
	if n.Low == 0 {
		return t.word(n.Caution)
	}
	low, high := t.words(n.Low), t.words(n.High)
	if t[n.Low].Low > 0 {
		low = "(" + low + ")"
	}
	return fmt.Sprintf("%s at most %.3g: %s, else %s", conditionNames[n.Condition], n.Bound, low, high)
}

func (t Cautions) word(caution float64) string {
	if caution == Unforeseeing {
		return "none"
	}
	return fmt.Sprintf("%g", caution)
}

// Range is the least and the greatest caution of the leaves.
func (t Cautions) Range() (least, most float64) {
	least, most = math.Inf(1), math.Inf(-1)
	for _, n := range t {
		if n.Low == 0 {
			least, most = min(least, n.Caution), max(most, n.Caution)
		}
	}
	return least, most
}

package policy

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"gearshift/router/fleet"
)

// Threshold steps down as the fleet fills: with limits a < b, the largest
// variant while fewer than a requests are in flight, else the middle one while
// fewer than b are, else the smallest. Requests are counted over the whole
// fleet, all variants together. While the variant is unavailable, the nearest
// smaller one stands in, then the nearest larger. Where a smaller variant is predicted
// to be as good for the request, that answers.
type Threshold struct {
	limits []int
	named
}

// DefaultLimits are the limits for so many variants: 8, 100, 1250, … (each
// 12.5 times the last), one fewer than there are variants. The first two suit
// three variants on four hosts; other fleets do well to state their own.
func DefaultLimits(variants int) []int {
	limits := make([]int, max(0, variants-1))
	for i := range limits {
		limits[i] = int(8 * math.Pow(12.5, float64(i)))
	}
	return limits
}

// NewThreshold makes the rule for the variants of t. Limits are positive,
// ascend, and are one fewer than the variants; none at all stand for
// [DefaultLimits].
func NewThreshold(t *fleet.Table, limits ...int) (*Threshold, error) {
	if len(limits) == 0 {
		limits = DefaultLimits(len(t.Variants))
	}
	if want := len(t.Variants) - 1; len(limits) != want {
		return nil, fmt.Errorf("a threshold policy for %d variants takes %d limits, not %d", len(t.Variants), want, len(limits))
	}
	p := &Threshold{}
	words := make([]string, len(limits))
	for i, limit := range limits {
		if limit <= 0 || i > 0 && limit <= limits[i-1] {
			return nil, errors.New("the limits of a threshold policy must be positive and ascend")
		}
		words[i] = strconv.Itoa(limit)
		p.limits = append(p.limits, limit)
	}
	p.named = named(strings.TrimSuffix("threshold:"+strings.Join(words, ","), ":"))
	return p, nil
}

// Match checks the number of variants.
func (p *Threshold) Match(t *fleet.Table) error { return matchVariants(t, len(p.limits)+1) }

// Decide implements router.Policy.
func (p *Threshold) Decide(v *fleet.View, r *fleet.Request, _ []float32) int {
	var total int
	for _, n := range v.InFlight {
		total += int(n)
	}
	variant := len(p.limits)
	for _, limit := range p.limits {
		if total < limit {
			break
		}
		variant--
	}
	return noLarger(v, r, nearest(v, variant))
}

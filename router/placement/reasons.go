package placement

import (
	"fmt"
	"math"
	"slices"

	"gearshift/router/fleet"
)

// Why says why the application has no backup in the plan.
func (p *Problem) Why(x *Plan, application int) string {
	return p.why(p.ledger(), p.left(x), application)
}

// Reasons returns what says of each application without a backup in the plan why it has none,
// like [Problem.Why]; asked for many, it takes less time.
func (p *Problem) Reasons(x *Plan) func(application int) string {
	var empty, left *ledger
	return func(i int) string {
		if empty == nil {
			empty, left = p.ledger(), p.left(x)
		}
		return p.why(empty, left, i)
	}
}

// left is the ledger with all backups of the plan.
func (p *Problem) left(x *Plan) *ledger {
	l := p.ledger()
	for i, choice := range x.Choices {
		if choice != none {
			l.add(i, choice.Variant, choice.Bin)
		}
	}
	return l
}

// why says why the application has no backup, by what is free without any and what is left.
func (p *Problem) why(empty, left *ledger, application int) string {
	a := &p.Items[application]
	if !slices.ContainsFunc(a.Variants, func(v Alternative) bool { return a.quick(&v) }) {
		return fmt.Sprintf("no variant answers within %v ms", math.Round(10*fleet.Milliseconds(a.MaxLatency))/10)
	}
	ever, now, bin := false, false, false
	for s := range p.Bins {
		if !p.May(a, s) {
			continue
		}
		bin = true
		for v := range a.Variants {
			if a.quick(&a.Variants[v]) {
				ever = ever || empty.has(application, v, s)
				now = now || left.fitsBin(left.cost(application, v, s), s)
			}
		}
	}
	switch {
	case !bin && p.SiteIndependent && a.Site != "":
		return fmt.Sprintf("no host is on another site than %s", a.Site)
	case !bin && len(a.Excluded) > 0:
		return "every host is its primary's or excluded"
	case !bin:
		return "no host is left but its primary's"
	case !ever:
		return "no variant fits what any host has free without other backups"
	case now:
		return fmt.Sprintf("what is left of all free capacity is kept for loads after a failure (alpha %v)", p.Alpha)
	}
	return "backups of others take the room"
}

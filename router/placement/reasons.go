package placement

import (
	"fmt"
	"slices"
)

// Why says why the application has no backup in the plan.
func (p *Problem) Why(x *Plan, application int) string {
	return p.why(p.ledger(), p.left(x), application)
}

// Reasons say of each application without a backup in the plan why it has none; they are empty
// for the others.
func (p *Problem) Reasons(x *Plan) []string {
	list := make([]string, len(p.Applications))
	var empty, left *ledger
	for i, spot := range x.Spots {
		if spot != none {
			continue
		}
		if empty == nil {
			empty, left = p.ledger(), p.left(x)
		}
		list[i] = p.why(empty, left, i)
	}
	return list
}

// left is the ledger with all backups of the plan.
func (p *Problem) left(x *Plan) *ledger {
	l := p.ledger()
	for i, spot := range x.Spots {
		if spot != none {
			l.take(p.Applications[i].Variants[spot.Variant].Demand, spot.Server, 1)
		}
	}
	return l
}

// why says why the application has no backup, by what is free without any and what is left.
func (p *Problem) why(empty, left *ledger, application int) string {
	a := &p.Applications[application]
	if !slices.ContainsFunc(a.Variants, func(v Alternative) bool { return a.quick(&v) }) {
		return fmt.Sprintf("no variant answers within %v ms", a.MaxLatencyMS)
	}
	ever, now, server := false, false, false
	for s := range p.Servers {
		if !p.May(a, s) {
			continue
		}
		server = true
		for v := range a.Variants {
			if w := &a.Variants[v]; a.quick(w) {
				ever = ever || empty.fits(w.Demand, s)
				now = now || left.fitsServer(w.Demand, s)
			}
		}
	}
	switch {
	case !server && p.SiteIndependent && a.Site != "":
		return fmt.Sprintf("no server is on another site than %s", a.Site)
	case !server && len(a.Excluded) > 0:
		return "every server is its primary's or excluded"
	case !server:
		return "no server is left but its primary's"
	case !ever:
		return "no variant fits any server, were it empty"
	case now:
		return fmt.Sprintf("what is left of all free capacity is kept for loads after a failure (alpha %v)", p.Alpha)
	}
	return "backups of others take the room"
}

package placement

import "slices"

// Of returns the plan with these choices.
func (p *Problem) Of(chosen []Choice) *Plan { return p.plan(chosen) }

// Moves makes the moves from one plan to another for which there is room while each backup stays until its successor
// is there: those that fit at once, then, round by round, those that fit once the ones that were replaced have gone. It
// returns the applications that move in the first round, and the plan that is reached. Where the other plan has no backup the
// present one stays. Alpha is not kept on the way.
func (p *Problem) Moves(from, to []Choice) (first []int, reached *Plan) {
	l, chosen := p.ledger(), slices.Clone(from)
	for i, s := range from {
		if s != none {
			l.add(i, s.Variant, s.Bin)
		}
	}
	for round := 0; ; round++ {
		var moved []int
		for i, s := range to {
			if s != none && s != chosen[i] && l.fitsBin(l.cost(i, s.Variant, s.Bin), s.Bin) {
				l.add(i, s.Variant, s.Bin)
				moved = append(moved, i)
			}
		}
		for _, i := range moved {
			if chosen[i] != none {
				l.drop(i, chosen[i].Variant, chosen[i].Bin)
			}
			chosen[i] = to[i]
		}
		if round == 0 {
			first = moved
		}
		if len(moved) == 0 {
			return first, p.plan(chosen)
		}
	}
}

package placement

import "slices"

// share improves a plan where memory is shared: applications join models that others have
// loaded, and those that share a model change to a better one together, until nothing is
// gained.
func (g *greedy) share() {
	for again, rounds := true, 0; again && rounds < 5; rounds++ {
		again = false
		for i := range g.spots {
			if len(g.choices[i]) > 0 {
				again = g.join(i) || again
			}
		}
		for s := range g.on {
			again = g.exchange(s) || again
		}
	}
}

// join gives the application the best variant for which there is room anywhere, if that is
// better than what it has.
func (g *greedy) join(i int) bool {
	if g.spots[i] == none {
		for level := range g.choices[i] {
			if s := g.roomiest(i, level); s >= 0 {
				g.put(i, level, s)
				return true
			}
		}
		return false
	}
	for level := len(g.choices[i]) - 1; level >= 0; level-- {
		if g.worth(i, level) > g.worth(i, g.level[i]) && g.raise(i, level) {
			return true
		}
	}
	return false
}

// exchange has the applications that share a model on the server change to another that all of
// them have, where that is worth more and fits.
func (g *greedy) exchange(s int) bool {
	groups := map[string][]int{}
	var models []string
	for _, i := range g.on[s] {
		if m := g.variant(i, g.level[i]).Model; m != "" {
			if groups[m] == nil {
				models = append(models, m)
			}
			groups[m] = append(groups[m], i)
		}
	}
	changed := false
	for _, m := range models {
		group := groups[m]
		for level := range g.choices[group[0]] {
			changed = changed || g.exchangeFor(s, group, g.variant(group[0], level).Model)
		}
	}
	return changed
}

// exchangeFor changes the group to the model, and reports whether it did.
func (g *greedy) exchangeFor(s int, group []int, model string) bool {
	levels, before, gain := make([]int, len(group)), make([]int, len(group)), 0.0
	for k, i := range group {
		before[k] = g.level[i]
		levels[k] = slices.IndexFunc(g.choices[i], func(v int) bool { return g.p.Applications[i].Variants[v].Model == model })
		if levels[k] < 0 || g.spots[i].Server != s {
			return false
		}
		gain += g.worth(i, levels[k]) - g.worth(i, before[k])
	}
	if gain <= 1e-12 {
		return false
	}
	for _, i := range group {
		g.remove(i)
	}
	for k, i := range group {
		if g.has(g.variant(i, levels[k]), s) {
			g.put(i, levels[k], s)
			continue
		}
		for _, j := range group[:k] {
			g.remove(j)
		}
		for l, j := range group {
			g.put(j, before[l], s)
		}
		return false
	}
	return true
}

package online

import (
	"math"
	"slices"
	"time"

	"gearshift/router/quality"
)

// The settings of what one key may teach.
const (
	leastVoters = 3   // keys with enough scores before any is held against the others
	manyVoters  = 25  // other keys that judge one whose scores have their full weight
	leastVotes  = 20  // scores that are enough
	mostVotes   = 200 // scores of a key that are kept
	mostVoters  = 64  // keys whose scores are kept
	mostJudged  = 1000
	eager       = 3    // weight of the scores of a key that is tried
	harmless    = 0.01 // mean square error that chance adds
	leastTrust  = 0.1  // below which a score teaches nothing
)

// vote is the score of a column's answer to a prompt.
type vote struct {
	owner  string
	column int
	score  float64
	sample *quality.Sample
}

// crowd holds the scores of each key against those of the others. What a key's last scores would
// teach, in large steps, is tried on the others' last scores: a key after which most of the others are
// predicted worse, compared with what the median key does, counts the less the more it harms. One
// that lies grossly changes next to nothing. Lies too small to be told from chance remain: the
// fewer keys judge, the less each score weighs, and no key teaches more than the median key does in
// an hour.
type crowd struct {
	owners map[string]*voter
	trusts func(owner string) bool
	at     time.Duration
}

// voter is the record of a key.
type voter struct {
	last            []vote // a ring
	next            int
	scored, teaches float64 // scores of about the last hour, and those of them that were learned from
	harm            float64 // by which the others are predicted worse after its scores
	tried           bool
}

func newCrowd(trusts func(owner string) bool) *crowd {
	return &crowd{owners: map[string]*voter{}, trusts: trusts}
}

// weigh returns the weight of each vote, from 0 to 1, after it has noted them all. Alone says that
// one key sends all requests: nobody else can be harmed by its scores.
func (c *crowd) weigh(m *quality.Regression, votes []vote, alone bool, now time.Duration) []float64 {
	c.pass(now)
	for _, v := range votes {
		c.of(v.owner).note(v)
	}
	weights, trust := make([]float64, len(votes)), c.trust(m, votes)
	for i, v := range votes {
		if alone || c.trusts(v.owner) {
			weights[i] = 1
		} else if trust[v.owner] >= leastTrust {
			weights[i] = trust[v.owner] * min(1, float64(len(trust)-1)/manyVoters)
		}
	}
	if !alone {
		c.limit(votes, weights)
	}
	return weights
}

// pass has what was counted of the last hour fade, and forgets keys that have not scored for long.
func (c *crowd) pass(now time.Duration) {
	fade := math.Exp(-(now - c.at).Hours())
	c.at = now
	for owner, v := range c.owners {
		v.scored *= fade
		v.teaches *= fade
		if v.scored < 1e-9 { // in about a day
			delete(c.owners, owner)
		}
	}
}

// of returns the record of a key, in place of that of the one that scored least lately if there are
// too many.
func (c *crowd) of(owner string) *voter {
	v := c.owners[owner]
	if v != nil {
		return v
	}
	if len(c.owners) >= mostVoters {
		var least string
		for name, v := range c.owners {
			if o := c.owners[least]; o == nil || v.scored < o.scored || v.scored == o.scored && name < least {
				least = name
			}
		}
		delete(c.owners, least)
	}
	v = &voter{}
	c.owners[owner] = v
	return v
}

// note adds a vote to the key's record, in place of its oldest.
func (v *voter) note(n vote) {
	v.scored++
	v.tried = false
	if len(v.last) < mostVotes {
		v.last = append(v.last, n)
		return
	}
	v.last[v.next] = n
	v.next = (v.next + 1) % mostVotes
}

// judges returns the keys with enough scores, by name.
func (c *crowd) judges() (names []string) {
	for owner, v := range c.owners {
		if len(v.last) >= leastVotes {
			names = append(names, owner)
		}
	}
	slices.Sort(names)
	return names
}

// trust returns how far each key may teach, from 0 to 1, of those with enough scores, if they are enough
// keys.
func (c *crowd) trust(m *quality.Regression, votes []vote) map[string]float64 {
	names := c.judges()
	if len(names) < leastVoters {
		return nil
	}
	errors := map[string][]float64{}
	for _, name := range names {
		errors[name] = c.errors(m, name, len(names))
	}
	var harms []float64
	for _, name := range names {
		if v := c.owners[name]; !v.tried {
			v.harm, v.tried = c.try(m, name, names, errors), true
		}
		harms = append(harms, c.owners[name].harm)
	}
	usual, trust := median(harms), map[string]float64{}
	for _, name := range names {
		trust[name] = 1
		if harm := c.owners[name].harm - usual; harm > harmless {
			trust[name] = harmless * harmless / (harm * harm)
		}
	}
	return trust
}

// try returns by how much the median of the other keys' scores are predicted worse by a model that has
// learned from the key's. Errors are those of the model.
func (c *crowd) try(m *quality.Regression, name string, names []string, errors map[string][]float64) float64 {
	l := quality.NewLearner(m)
	for _, v := range c.owners[name].last {
		l.Learn(v.sample, v.column, v.score, eager)
	}
	learned := l.Regression()
	var worse []float64
	for _, other := range names {
		if other == name {
			continue
		}
		var sum float64
		before := errors[other]
		for i, after := range c.errors(learned, other, len(names)) {
			sum += after - before[i]
		}
		worse = append(worse, sum/float64(len(before)))
	}
	return median(worse)
}

// errors returns the squared errors of the model for the last scores of a key, one of so many.
func (c *crowd) errors(m *quality.Regression, name string, names int) (list []float64) {
	var scores [quality.MostColumns]float64
	last := c.owners[name].last
	for _, v := range last[:min(len(last), max(leastVotes, mostJudged/names))] {
		m.Predict(v.sample, scores[:])
		list = append(list, squared(scores[v.column]-v.score))
	}
	return list
}

// limit leaves each key as many votes with a weight as it may still teach by, spread evenly.
func (c *crowd) limit(votes []vote, weights []float64) {
	var counts []float64
	for _, name := range c.judges() {
		counts = append(counts, c.owners[name].scored)
	}
	allowed, given, seen := median(counts), map[string]int{}, map[string]int{}
	for i, v := range votes {
		if weights[i] > 0 {
			given[v.owner]++
		}
	}
	for i, v := range votes {
		if weights[i] == 0 || c.trusts(v.owner) {
			continue
		}
		n, k := given[v.owner], seen[v.owner]
		seen[v.owner]++
		room := int(max(0, math.Round(allowed-c.owners[v.owner].teaches)))
		if room < n && k*room/n == (k+1)*room/n {
			weights[i] = 0
		}
	}
	for i, v := range votes {
		if weights[i] > 0 {
			c.owners[v.owner].teaches++
		}
	}
}

// median returns the middle of the numbers, which it sorts; 0 of none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return (list[(len(list)-1)/2] + list[len(list)/2]) / 2
}

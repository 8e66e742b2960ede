package balance

import (
	"math"
	"math/rand/v2"
	"time"

	"gearshift/router/signals"
)

// Probing decides for each request whether it is worth its cost to ask a replica for its load
// first. Of each host it believes what it heard last, of whatever model, the less the longer ago
// that was: a load returns to the mean M of all in the time Relax, so that one of v, heard a ago,
// is expected to be M + (v−M)·exp(−a/Relax), with a variance that grows to that of all loads.
// Asking is worth how much less the load of the chosen replica is expected to be for it, times the
// work of the request. Replicas are asked one at a time, the one of most worth first, until none
// is worth the price: the search of Weitzman ("Optimal search for the best alternative", 1979).
// The price follows from the budget.
type Probing struct {
	// Budget is how many replicas it asks for each request, on average.
	Budget float64
	// Look is how many replicas it chooses among, drawn for each request; 8 at most.
	Look int
	// Relax is in what time a load returns to the mean of all, to 1/e of the difference.
	Relax time.Duration
	// Rounds is how many replicas it asks for one request at most, one after the other.
	Rounds int
	// Counter is what it asks about.
	Counter signals.Counter
}

// search is what Probing keeps, across models.
type search struct {
	beliefs beliefs
	budget  budget
	begun   bool
	drawn   []int              // replicas that the request is chosen among
	order   [mostDrawn]float64 // by drawn replica, lower for what comes first of equals
}

// unitOfWork is what a request is assumed to take where that is unknown.
const unitOfWork = 10 * time.Millisecond

// Memory implements [Rememberer].
func (p Probing) Memory(k *Knowledge) any {
	if k.Client.memory == nil {
		k.Client.memory = &search{beliefs: newBeliefs(k.Client.Hosts, p.unit(k.Mean)), drawn: make([]int, 0, mostDrawn)}
	}
	return k.Client.memory
}

// Heard implements [Listener].
func (p Probing) Heard(k *Knowledge, replica int, c *signals.Counters, _ Source, now time.Duration) {
	b := &k.memory.(*search).beliefs
	if b.ignorant() && p.Counter == signals.ByWork && c.Host > 0 && c.Work > 0 {
		b.assume(float64(c.Work) / float64(c.Host)) // what a request is there
	}
	b.hear(k.Hosts[replica], p.Counter.Load(c), c.Cores, now)
}

// begin draws the replicas that a request is chosen among, and an order of equals, in which any
// comes first in proportion to its power.
func (p Probing) begin(k *Knowledge, s *search, random *rand.Rand) {
	s.drawn, s.begun = k.draw(min(p.Look, mostDrawn), random, s.drawn[:0]), true
	for n, i := range s.drawn {
		s.order[n] = random.ExpFloat64()
		if k.Power != nil {
			s.order[n] /= k.Power[i]
		}
	}
	s.budget.request(p.Budget, float64(k.Mean), random.Float64())
}

// Polled implements [Chooser].
func (p Probing) Polled(k *Knowledge, now time.Duration, random *rand.Rand, polled []int) []int {
	s := k.memory.(*search)
	if len(polled) == 0 {
		p.begin(k, s, random)
	}
	wanted := len(polled)
	if wanted < p.Rounds && len(s.drawn) > 1 {
		if replica, worth := p.best(k, s, now); s.budget.buys(worth, float64(k.Mean)) {
			wanted++
			if s.budget.pay() {
				return append(polled, replica)
			}
		}
	}
	s.budget.settle(p.Budget, wanted)
	return polled
}

// cost is the expected load of the n-th replica drawn, in deviations of all loads, and the
// deviation of it. Differences that are small compared with these leave the order to chance.
func (p Probing) cost(k *Knowledge, s *search, n int, now time.Duration) (mean, deviation float64) {
	scale := math.Sqrt(s.beliefs.variance)
	if scale == 0 {
		return s.order[n], 0
	}
	mean, deviation = s.beliefs.expect(k.Hosts[s.drawn[n]], p.Relax, now)
	return mean/scale + slack*s.order[n], deviation / scale
}

// slack is how large a difference is small, in deviations of all loads.
const slack = 0.02

// best is the replica that it is of most worth to ask, and how much: how much lower the cost of
// the chosen one is expected to be.
func (p Probing) best(k *Knowledge, s *search, now time.Duration) (replica int, worth float64) {
	var means, deviations [mostDrawn]float64
	first, second := -1, -1
	for n := range s.drawn {
		means[n], deviations[n] = p.cost(k, s, n, now)
		switch {
		case first < 0 || means[n] < means[first]:
			first, second = n, first
		case second < 0 || means[n] < means[second]:
			second = n
		}
	}
	worth = -1
	for n, i := range s.drawn {
		better := means[first] - means[n]
		if n == first { // what it may be worse than the second
			better = means[first] - means[second]
		}
		if w := gain(better, deviations[n]); w > worth {
			replica, worth = i, w
		}
	}
	return replica, worth
}

// Choose implements [Chooser].
func (p Probing) Choose(k *Knowledge, _ []int, now time.Duration, random *rand.Rand) int {
	s := k.memory.(*search)
	if !s.begun {
		p.begin(k, s, random)
	}
	chosen := p.least(k, s, now)
	if chosen < 0 { // those drawn may not be chosen any more
		p.begin(k, s, random)
		chosen = p.least(k, s, now)
	}
	s.begun = false
	s.beliefs.add(k.Hosts[chosen], p.unit(k.Mean))
	return chosen
}

// Counted implements [Follower].
func (p Probing) Counted(k *Knowledge, replica, more int) {
	k.memory.(*search).beliefs.add(k.Hosts[replica], float64(more)*p.unit(k.Mean))
}

// unit is the load that a request adds on one core.
func (p Probing) unit(mean time.Duration) float64 {
	switch {
	case p.Counter != signals.ByWork:
		return 1
	case mean > 0:
		return float64(mean)
	}
	return float64(unitOfWork)
}

// least is the replica of the least cost among those drawn; −1 if none may be chosen.
func (p Probing) least(k *Knowledge, s *search, now time.Duration) int {
	chosen, lowest := -1, 0.0
	for n, i := range s.drawn {
		if !k.Allowed(i) {
			continue
		}
		if cost, _ := p.cost(k, s, n, now); chosen < 0 || cost < lowest {
			chosen, lowest = i, cost
		}
	}
	return chosen
}

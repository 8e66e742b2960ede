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
// Asking is worth how much sooner the request, and those behind it, are expected to be done if
// the choice can follow the answer. It asks one replica at a time, the one of most worth, until
// none is worth the price: the search of Weitzman ("Optimal search for the best alternative",
// 1979). The price follows from the budget.
type Probing struct {
	// Budget is how many replicas it asks for each request, on average.
	Budget float64
	// Look is how many replicas it chooses among, drawn for each request.
	Look int
	// Relax is in what time a load returns to the mean of all, to 1/e of the difference.
	Relax time.Duration
	// Rounds is how many replicas it asks for one request at most, one after the other.
	Rounds int
	// Counter is what it asks about.
	Counter signals.Counter
}

// belief is what a client knows of a host's load.
type belief struct {
	load, cores float64
	at          time.Duration // it was heard; below zero if it was not
}

// market is what Probing knows across models.
type market struct {
	hosts     []belief
	mean      float64 // of the loads that were heard
	variance  float64
	heard     float64
	price     float64 // logarithm of the least worth of a question
	may       float64 // questions that the budget has left
	requests  float64
	work      float64 // mean of the estimates of requests
	drawn     []int   // replicas that the request is chosen among
	undecided bool
}

// loadMemory is how many loads the mean and the variance are of.
const loadMemory = 200

// Memory implements [Rememberer].
func (p Probing) Memory(k *Knowledge) any {
	if k.Client.memory == nil {
		m := &market{hosts: make([]belief, k.Client.Hosts), price: math.Log(0.1), drawn: make([]int, 0, 2*mostDrawn)}
		for i := range m.hosts {
			m.hosts[i].at = -1
		}
		k.Client.memory = m
	}
	return k.Client.memory
}

// Heard implements [Listener].
func (p Probing) Heard(k *Knowledge, replica int, c *signals.Counters, _ Source, now time.Duration) {
	m, load := k.memory.(*market), p.Counter.Load(c)
	m.hosts[k.Hosts[replica]] = belief{load: load, cores: max(1, c.Cores), at: now}
	m.heard = min(loadMemory, m.heard+1)
	off := load - m.mean
	m.mean += off / m.heard
	m.variance += (off*off*(1-1/m.heard) - m.variance) / m.heard
}

// expect is the mean and deviation of the replica's load.
func (p Probing) expect(k *Knowledge, m *market, replica int, now time.Duration) (mean, deviation float64) {
	b := &m.hosts[k.Hosts[replica]]
	if b.at < 0 {
		return m.mean, math.Sqrt(m.variance)
	}
	left := math.Exp(-float64(max(0, now-b.at)) / float64(p.Relax))
	return m.mean + (b.load-m.mean)*left, math.Sqrt(m.variance * (1 - left*left))
}

// begin draws the replicas that a request is chosen among.
func (p Probing) begin(k *Knowledge, m *market, random *rand.Rand) {
	m.drawn, m.undecided = k.draw(min(p.Look, mostDrawn), random, m.drawn[:0]), true
	if m.requests == 0 { // so that clients do not all ask with their first requests
		m.may = random.Float64() * min(1, 2*p.Budget)
	}
	m.requests++
	m.may = min(saved, m.may+p.Budget)
	m.work += (float64(k.Mean) - m.work) / m.requests
}

// Polled implements [Chooser].
func (p Probing) Polled(k *Knowledge, now time.Duration, random *rand.Rand, polled []int) []int {
	m := k.memory.(*market)
	if len(polled) == 0 {
		p.begin(k, m, random)
	}
	asked := len(polled)
	if asked < p.Rounds && len(m.drawn) > 1 {
		if replica, worth := p.best(k, m, now); worth > m.scale(k)*math.Exp(m.price) {
			if asked++; m.may >= 1 {
				m.may--
				return append(polled, replica)
			}
		}
	}
	step := max(priceStep, 1/(4+m.requests))
	m.price = min(2, max(-12, m.price+step*(float64(asked)-p.Budget)))
	return polled
}

const (
	// priceStep is by how much the logarithm of the price changes with a question that was
	// wanted beyond the budget.
	priceStep = 0.05
	// saved bounds how many questions are saved up.
	saved = 4
)

// scale is what worth is measured by: the deviation of all loads, for a request of average work.
func (m *market) scale(k *Knowledge) float64 {
	s := math.Sqrt(m.variance)
	if k.Mean > 0 {
		s *= m.work / float64(k.Mean)
	}
	return s
}

// best is the replica that it is of most worth to ask about, and how much: how much less the
// load of the chosen one is expected to be.
func (p Probing) best(k *Knowledge, m *market, now time.Duration) (replica int, worth float64) {
	var means, deviations [mostDrawn]float64
	first, second := -1, -1
	for n, i := range m.drawn {
		means[n], deviations[n] = p.expect(k, m, i, now)
		switch {
		case first < 0 || means[n] < means[first]:
			first, second = n, first
		case second < 0 || means[n] < means[second]:
			second = n
		}
	}
	replica, worth = -1, -1
	for n, i := range m.drawn {
		difference := means[first] - means[n]
		if n == first {
			difference = means[first] - means[second]
		}
		if w := gain(difference, deviations[n]); w > worth {
			replica, worth = i, w
		}
	}
	return replica, worth
}

// gain is the mean of what a normal variable of the mean and deviation has above zero.
func gain(mean, deviation float64) float64 {
	if deviation <= 0 {
		return max(0, mean)
	}
	z := mean / deviation
	return deviation * (math.Exp(-z*z/2)/math.Sqrt(2*math.Pi) + z*0.5*math.Erfc(-z/math.Sqrt2))
}

// Choose implements [Chooser].
func (p Probing) Choose(k *Knowledge, polled []int, now time.Duration, random *rand.Rand) int {
	m := k.memory.(*market)
	if !m.undecided {
		p.begin(k, m, random)
	}
	m.undecided = false
	chosen := least(m.drawn, random, func(i int) float64 {
		mean, _ := p.expect(k, m, i, now)
		return mean
	})
	if b := &m.hosts[k.Hosts[chosen]]; b.at >= 0 {
		b.load += float64(k.Mean) / b.cores
	}
	return chosen
}

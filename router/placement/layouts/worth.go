package layouts

import (
	"encoding/binary"
	"math"
	"slices"

	"gearshift/router/fleet"
	"gearshift/router/solve"
)

// Work describes what replicas can do.
type Work struct {
	// Rate returns the requests per second of a task that a replica answers in time if it answers nothing else, while
	// its neighbours load the host by so much: 1 is all of the time of one.
	Rate func(replica, task int, neighbours float64) float64
	// Duty returns the share of its time for which the replica loads the host while it is busy.
	Duty func(replica int) float64
}

// neighbours are the loads at which rates are known. Between them they are interpolated.
var neighbours = [...]float64{0, 0.5, 1, 1.5, 2, 3}

// class describes replicas that have equal rates and load their hosts equally.
type class struct {
	variant int
	duty    float64
	rates   [][len(neighbours)]float64 // by task
}

func (c *class) rate(task int, load float64) float64 {
	known := &c.rates[task]
	for i := 1; i < len(neighbours); i++ {
		if load < neighbours[i] {
			part := (load - neighbours[i-1]) / (neighbours[i] - neighbours[i-1])
			return known[i-1] + part*(known[i]-known[i-1])
		}
	}
	return known[len(known)-1]
}

// Estimator estimates what a fleet earns at steady loads: requests are a flow, each replica answers as many in time as
// its profile says, slowed by the duty of its neighbours, and each task's flow is divided among sizes so that the sum
// of utilities is greatest. Chance is left out, so that estimates are too high near the capacity.
type Estimator struct {
	table   *fleet.Table
	classes []class
	of      []int       // by replica, its class
	sets    [][]int     // classes of the replicas of a host
	values  [][]float64 // by task and variant
	linear  solve.Linear
	groups  []group
	x       []float64
	known   map[string]float64
	key     []byte
	counts  []int
}

// group is the replicas of one class on the hosts that have a set.
type group struct {
	set, hosts  int
	class       *class
	slows, used float64 // by the duty of neighbours; the share of its time
}

// NewEstimator returns an estimator of the table's replicas.
func NewEstimator(t *fleet.Table, w Work) *Estimator {
	e := &Estimator{table: t, known: map[string]float64{}}
	for i := range t.Replicas {
		c := class{variant: t.Replicas[i].Variant, duty: w.Duty(i)}
		for task := range t.Tasks {
			var known [len(neighbours)]float64
			if t.Answers(task, c.variant) {
				for k, load := range neighbours {
					known[k] = w.Rate(i, task, load)
				}
			}
			c.rates = append(c.rates, known)
		}
		at := slices.IndexFunc(e.classes, func(o class) bool {
			return o.variant == c.variant && o.duty == c.duty && slices.Equal(o.rates, c.rates)
		})
		if at < 0 {
			at = len(e.classes)
			e.classes = append(e.classes, c)
		}
		e.of = append(e.of, at)
	}
	for i := range t.Tasks {
		task := &t.Tasks[i]
		var values []float64
		for _, q := range task.Quality {
			values = append(values, task.Weight*q)
		}
		e.values = append(e.values, values)
	}
	return e
}

// Set returns the number of a set of replicas that are up on a host. Sets of replicas that answer alike have the same.
func (e *Estimator) Set(up []int) int {
	var classes []int
	for _, r := range up {
		classes = append(classes, e.of[r])
	}
	slices.Sort(classes)
	for i, set := range e.sets {
		if slices.Equal(set, classes) {
			return i
		}
	}
	e.sets = append(e.sets, classes)
	return len(e.sets) - 1
}

// most bounds the worths that are remembered.
const most = 100_000

// Worth returns the utility per second of hosts with these sets, at so many requests per second of each task.
func (e *Estimator) Worth(sets []int, rates []float64) float64 {
	e.counts = slices.Grow(e.counts[:0], len(e.sets))[:len(e.sets)]
	clear(e.counts)
	for _, s := range sets {
		e.counts[s]++
	}
	e.key = e.key[:0]
	for s, n := range e.counts {
		if n > 0 {
			e.key = binary.AppendUvarint(binary.AppendUvarint(e.key, uint64(s)), uint64(n))
		}
	}
	for _, r := range rates {
		e.key = binary.LittleEndian.AppendUint64(e.key, math.Float64bits(r))
	}
	if worth, ok := e.known[string(e.key)]; ok {
		return worth
	}
	if len(e.known) >= most {
		clear(e.known)
	}
	worth := e.solve(rates)
	e.known[string(e.key)] = worth
	return worth
}

// rounds counts the divisions of the flow, each with neighbours as busy as in the one before.
const rounds = 3

// solve divides the flow among the hosts that are counted.
func (e *Estimator) solve(rates []float64) (worth float64) {
	e.groups = e.groups[:0]
	for s, n := range e.counts {
		if n == 0 {
			continue
		}
		for _, c := range e.sets[s] {
			e.groups = append(e.groups, group{set: s, hosts: n, class: &e.classes[c]})
		}
	}
	tasks := len(rates)
	e.x = slices.Grow(e.x[:0], tasks*len(e.groups))[:tasks*len(e.groups)]
	limits := slices.Clone(rates)
	for _, g := range e.groups {
		limits = append(limits, float64(g.hosts))
	}
	for range rounds {
		e.linear.Begin(len(e.x), limits)
		for i := range e.groups {
			g := &e.groups[i]
			for t := range rates {
				if rate := g.class.rate(t, g.slows); rate > 0 {
					e.linear.Value(i*tasks+t, e.values[t][g.class.variant])
					e.linear.Use(t, i*tasks+t, 1)
					e.linear.Use(tasks+i, i*tasks+t, 1/rate)
				}
			}
		}
		worth = e.linear.Solve(e.x)
		e.slow(tasks)
	}
	return worth
}

// slow slows each group by its neighbours as busy as they are, in the mean of this division and the ones before.
func (e *Estimator) slow(tasks int) {
	for i := range e.groups {
		g, used := &e.groups[i], 0.0
		for t := range tasks {
			if n := e.x[i*tasks+t]; n > 0 {
				used += n / g.class.rate(t, g.slows)
			}
		}
		g.used = (g.used + used/float64(g.hosts)) / 2
	}
	for i := range e.groups {
		g := &e.groups[i]
		g.slows = 0
		for j := range e.groups {
			if o := &e.groups[j]; j != i && o.set == g.set {
				g.slows += o.class.duty * o.used
			}
		}
	}
}

// Capacity returns the requests per second that a host with the set answers in time, all replicas busy, and their mean
// utility if each is answered by the best size, with tasks in these shares.
func (e *Estimator) Capacity(set int, shares []float64) (rate, quality float64) {
	duty := 0.0
	for _, c := range e.sets[set] {
		duty += e.classes[c].duty
	}
	best := make([]float64, len(shares))
	for _, n := range e.sets[set] {
		c, takes, answers := &e.classes[n], 0.0, 0.0
		for t, share := range shares {
			if each := c.rate(t, duty-c.duty); each > 0 {
				takes, answers = takes+share/each, answers+share
				best[t] = max(best[t], e.values[t][c.variant])
			}
		}
		if takes > 0 {
			rate += answers * answers / takes
		}
	}
	for t, share := range shares {
		quality += share * best[t]
	}
	return rate, quality
}

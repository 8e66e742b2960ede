package modality

import (
	"fmt"
	"math"
	"slices"
	"sync"

	"gearshift/router/solve"
)

// Mixing says whether the requests of one job may use different combinations.
type Mixing string

// The ways to mix. Mixed is the default; uniform is what the paper's limitations describe
// (MOSEL-17).
const (
	Mixed   Mixing = "mixed"
	Uniform Mixing = "uniform"
)

// Table is, for each size of a job, all strategies that are worth considering: of each
// the time and the sum of the requests' qualities. A strategy splits a job into batches,
// each of another combination, which run one after the other (MOSEL-5, 6). It is made
// once, before requests come, and is safe for concurrent use.
type Table struct {
	options []Option
	mixing  Mixing
	fronts  []solve.Front // by size
	// levels[k] are the nodes of strategies of the first k+1 options, by size. A node of a
	// front is one of the last level.
	levels [][][]node
	// allowed has the bits of the options that strategies use; 0 is all.
	allowed uint64

	mu     sync.RWMutex // protects within
	within map[uint64]*Table
}

// node is a strategy: what it adds to one of fewer options.
type node struct {
	cost, value float64
	from        int32 // index of that among the nodes of the level below and the remaining size
	batch       int32 // requests of the level's option
}

// NewTable makes the table for jobs of 1 to size requests. A size above the longest batch
// is an error.
func NewTable(options []Option, mixing Mixing, size int) (*Table, error) {
	if err := validate(options); err != nil {
		return nil, fmt.Errorf("cannot make table of strategies: %w", err)
	}
	if mixing != Mixed && mixing != Uniform {
		return nil, fmt.Errorf("cannot make table of strategies: mixing %q; want %q or %q", mixing, Mixed, Uniform)
	}
	t := &Table{options: options, mixing: mixing}
	if most := t.Longest(); size > most {
		return nil, fmt.Errorf("cannot make table of strategies: a size of %d is above the longest batch, %d", size, most)
	}
	if err := t.build(size, mostNodes); err != nil {
		return nil, fmt.Errorf("cannot make table of strategies: %w", err)
	}
	return t, nil
}

// Within returns the table of the strategies that use only options with a bit in allowed; 0 is
// all of them. Options keep their indices. The table is made at the first call, and kept.
func (t *Table) Within(allowed uint64) *Table {
	if allowed == t.allowed || allowed == 0 || t.allowed == 0 && allowed == t.all() {
		return t
	}
	t.mu.RLock()
	sub := t.within[allowed]
	t.mu.RUnlock()
	if sub != nil {
		return sub
	}
	sub = &Table{options: t.options, mixing: t.mixing, allowed: allowed}
	_ = sub.build(t.Sizes(), math.MaxInt) // which is bounded by the whole table
	t.mu.Lock()
	defer t.mu.Unlock()
	if known := t.within[allowed]; known != nil {
		return known
	}
	if t.within == nil {
		t.within = map[uint64]*Table{}
	}
	t.within[allowed] = sub
	return sub
}

// of returns the table of the strategies that the job may use.
func (t *Table) of(j *Job) *Table {
	if j.Allowed == 0 {
		return t
	}
	return t.Within(j.Allowed)
}

// front returns the strategies that the job may use.
func (t *Table) front(j *Job) solve.Front { return t.of(j).fronts[j.Size] }

// all has the bits of all options.
func (t *Table) all() uint64 { return 1<<len(t.options) - 1 }

func (t *Table) allows(option int) bool { return t.allowed == 0 || t.allowed>>option&1 == 1 }

// Longest is the size of the longest batch of any option that is allowed.
func (t *Table) Longest() (most int) {
	for i := range t.options {
		if t.allows(i) {
			most = max(most, len(t.options[i].Latency))
		}
	}
	return most
}

// Splits returns how many strategies there are for jobs of a size, of which the front has those that
// are worth considering: the ways to split the requests among the options, C(n+k-1, k-1) of them
// (MOSEL-4), or one for each option where a job may not mix. It is exact up to 2^53.
func (t *Table) Splits(size int) float64 {
	options := 0
	for i := range t.options {
		if t.allows(i) {
			options++
		}
	}
	if t.mixing == Uniform {
		return float64(options)
	}
	n := 1.0
	for k := 1; k < options; k++ {
		n = n * float64(size+k) / float64(k)
	}
	return math.Round(n)
}

// Sizes is the largest size that the table has strategies for.
func (t *Table) Sizes() int { return len(t.fronts) - 1 }

// Options are those of the table, which must not be changed.
func (t *Table) Options() []Option { return t.options }

// Front returns the strategies for a job of so many requests, by rising time, with the sum
// of qualities as value. It must not be changed, and is empty only where no combination of
// batches has that size.
func (t *Table) Front(size int) solve.Front { return t.fronts[size] }

// Batches writes into dst how many requests of the job each option answers under a
// strategy of [Table.Front], and returns it.
func (t *Table) Batches(size, strategy int, dst []int) []int {
	dst = slices.Grow(dst[:0], len(t.options))[:len(t.options)]
	at := int32(strategy)
	for k := len(t.options) - 1; k >= 0; k-- {
		n := t.levels[k][size][at]
		dst[k], at = int(n.batch), n.from
		size -= int(n.batch)
	}
	return dst
}

// build works out the fronts by dynamic programming over the options: a strategy of k
// options is one of the first k−1 for fewer requests, and a batch of the k-th. What is
// slower and no better than another one of its level and size leads nowhere.
func (t *Table) build(size, most int) error {
	below := make([][]node, size+1)
	below[0] = []node{{}}
	var m merger
	nodes := 0
	for k := range t.options {
		level := make([][]node, size+1)
		for n := range level {
			level[n] = slices.Clone(m.level(t.batches(k), t.options[k].Quality, below, n, t.mixing))
			if nodes += len(level[n]); nodes > most {
				return fmt.Errorf("%d options and jobs of %d requests have more than %d strategies; use fewer options or smaller jobs", len(t.options), size, most)
			}
		}
		t.levels = append(t.levels, level)
		below = level
	}
	t.summarise()
	return nil
}

// summarise takes the fronts from the last level.
func (t *Table) summarise() {
	last := t.levels[len(t.levels)-1]
	t.fronts = make([]solve.Front, len(last))
	for n, nodes := range last {
		for _, p := range nodes {
			t.fronts[n] = append(t.fronts[n], solve.Point{Cost: p.cost, Value: p.value})
		}
	}
}

// batches are the times of the option's batches; none if it is not allowed.
func (t *Table) batches(option int) []float64 {
	if !t.allows(option) {
		return nil
	}
	return t.options[option].Latency
}

// merger makes one level of one size.
type merger struct{ merged, spare []node }

// level returns the strategies for n requests once the option is there too. It is valid
// until the next call.
func (m *merger) level(latency []float64, quality float64, below [][]node, n int, mixing Mixing) []node {
	m.merged = append(m.merged[:0], below[n]...)
	for i := range m.merged {
		m.merged[i].from, m.merged[i].batch = int32(i), 0
	}
	for batch := 1; batch <= min(n, len(latency)); batch++ {
		if mixing == Uniform && batch < n {
			continue
		}
		m.add(below[n-batch], latency[batch-1], quality*float64(batch), int32(batch))
	}
	return m.merged
}

// add merges what a batch makes of the nodes into those merged so far.
func (m *merger) add(nodes []node, cost, value float64, batch int32) {
	old, out := m.merged, m.spare[:0]
	for i, j := 0, 0; i < len(old) || j < len(nodes); {
		var p node
		if j == len(nodes) || i < len(old) && old[i].cost <= nodes[j].cost+cost {
			p = old[i]
			i++
		} else {
			p = node{nodes[j].cost + cost, nodes[j].value + value, int32(j), batch}
			j++
		}
		switch last := len(out) - 1; {
		case last < 0 || p.value > out[last].value+solve.Same && p.cost > out[last].cost+solve.Same:
			out = append(out, p)
		case p.value > out[last].value+solve.Same: // in the same time
			out[last] = p
		}
	}
	m.merged, m.spare = out, old
}

package bands

import "math"

// planner is a plan in the making.
type planner struct {
	p       *Problem
	o       *Options
	use     []float64 // by host and resource, after the moves so far
	reserve []float64 // of held resources: with what moves still take where they come from
	above   []float64 // by host and resource: the most that is within band and limit
	weight  []float64 // by resource: 1 ÷ what all hosts have
	mean    []float64 // by resource, of all hosts together
	host    []int     // by replica
	moved   []bool
	on      [][]int // replicas, by host
	there   map[[2]int]bool
}

// Plan returns moves that bring hosts within bands and limits, the most helpful first. It
// takes one move after the other that brings down most what hosts use beyond, and where none
// helps, two together. In problems of up to [thorough] pairs of a host and a replica it also
// tries other first moves, and keeps the best plan. The problem must be valid.
func (p *Problem) Plan(o *Options) []Transfer {
	x := p.planner(o)
	moves, left := x.greedy(nil)
	if left <= rounding || len(p.Bins)*len(p.Items) > thorough {
		return moves
	}
	for _, first := range p.planner(o).firsts() {
		other, beyond := p.planner(o).greedy([]Transfer{first})
		if cost, best := beyond+o.Gain*float64(len(other)), left+o.Gain*float64(len(moves)); cost < best-rounding {
			moves, left = other, beyond
		}
	}
	return moves
}

// thorough is up to how many pairs of a host and a replica plans are made in several ways.
const thorough = 200

// greedy makes the plan that begins with the moves, and returns what it leaves beyond.
func (x *planner) greedy(moves []Transfer) (list []Transfer, beyond float64) {
	for _, m := range moves {
		x.apply(m)
	}
	most := x.o.Moves
	if most == 0 {
		most = len(x.p.Items)
	}
	for len(moves) < most {
		best, gain := x.single()
		if gain < max(x.o.Gain, 2*rounding) {
			two, both := x.pair(most - len(moves))
			if both < max(2*x.o.Gain, 2*rounding) {
				break
			}
			x.apply(two[0])
			x.apply(two[1])
			moves = append(moves, two[0], two[1])
			continue
		}
		x.apply(best)
		moves = append(moves, best)
	}
	for h := range x.p.Bins {
		beyond += x.excess(h, nil, nil)
	}
	return moves, beyond
}

// rounding is a gain that is none.
const rounding = 1e-12

// Excess is how much hosts use beyond bands and limits after the moves: the sum over the
// resources, each relative to what all hosts have of it.
func (p *Problem) Excess(o *Options, moves []Transfer) (sum float64) {
	x := p.planner(o)
	for _, m := range moves {
		x.apply(m)
	}
	for h := range p.Bins {
		sum += x.excess(h, nil, nil)
	}
	return sum
}

func (p *Problem) planner(o *Options) *planner {
	n := len(o.Resources)
	x := &planner{p: p, o: o, use: make([]float64, n*len(p.Bins)), above: make([]float64, n*len(p.Bins)), weight: make([]float64, n), mean: make([]float64, n),
		host: make([]int, len(p.Items)), moved: make([]bool, len(p.Items)), on: make([][]int, len(p.Bins)), there: map[[2]int]bool{}}
	for h := range p.Bins {
		copy(x.use[h*n:], p.Bins[h].Other)
	}
	for i := range p.Items {
		r := &p.Items[i]
		x.host[i] = r.Host
		x.on[r.Host] = append(x.on[r.Host], i)
		x.there[[2]int{r.Model, r.Host}] = true
		for k, u := range r.Use {
			x.use[r.Host*n+k] += u
		}
	}
	x.reserve = append(x.reserve, x.use...)
	for k := range o.Resources {
		x.limits(k)
	}
	return x
}

// limits works out what is within band and limit of a resource.
func (x *planner) limits(k int) {
	n, r := len(x.o.Resources), &x.o.Resources[k]
	var used, all float64
	for h := range x.p.Bins {
		if c := x.p.Bins[h].Capacity[k]; c > 0 {
			used, all = used+x.use[h*n+k], all+c
		}
	}
	if all > 0 {
		x.weight[k], x.mean[k] = 1/all, used/all
	}
	for h := range x.p.Bins {
		c := x.p.Bins[h].Capacity[k]
		switch {
		case c == 0:
			x.above[h*n+k] = math.Inf(1)
		case r.Held:
			x.above[h*n+k] = c * r.Limit
		case r.Even: // where all hosts together are above the limit, not all can be below it
			x.above[h*n+k] = c * max(x.mean[k], min(r.Limit, x.mean[k]*(1+x.o.Band)))
		default:
			x.above[h*n+k] = c * max(x.mean[k], r.Limit)
		}
	}
}

// excess is what a host uses beyond band and limits with one replica more and one less, each
// of which may be nil.
func (x *planner) excess(h int, more, less []float64) (sum float64) {
	n := len(x.o.Resources)
	for k := range n {
		if x.o.Resources[k].Held {
			continue
		}
		u := x.use[h*n+k]
		if more != nil {
			u += more[k]
		}
		if less != nil {
			u -= less[k]
		}
		sum += x.weight[k] * max(0, u-x.above[h*n+k])
	}
	return sum
}

// spread is how uneven the use of a host is, by which moves are compared that gain the same.
func (x *planner) spread(h int, more, less []float64) (sum float64) {
	n := len(x.o.Resources)
	for k := range n {
		c := x.p.Bins[h].Capacity[k]
		if c == 0 || x.o.Resources[k].Held {
			continue
		}
		u := x.use[h*n+k]
		if more != nil {
			u += more[k]
		}
		if less != nil {
			u -= less[k]
		}
		d := u/c - x.mean[k]
		sum += c * x.weight[k] * d * d
	}
	return sum
}

// fits reports whether the host has room for the replica, as it is while replicas that leave it
// are there still.
func (x *planner) fits(replica, to int) bool {
	r := &x.p.Items[replica]
	if x.there[[2]int{r.Model, to}] || x.p.May != nil && !x.p.May(r.Model, to) {
		return false
	}
	n := len(x.o.Resources)
	for k := range n {
		if x.o.Resources[k].Held && x.reserve[to*n+k]+r.Use[k] > x.above[to*n+k]*(1+1e-12) {
			return false
		}
	}
	return true
}

// apply does a move.
func (x *planner) apply(m Transfer) {
	n, r, from := len(x.o.Resources), &x.p.Items[m.Replica], x.host[m.Replica]
	for k, u := range r.Use {
		x.use[from*n+k] -= u
		x.use[m.To*n+k] += u
		x.reserve[m.To*n+k] += u
	}
	for at, i := range x.on[from] {
		if i == m.Replica {
			x.on[from] = append(x.on[from][:at], x.on[from][at+1:]...)
			break
		}
	}
	x.on[m.To], x.host[m.Replica], x.moved[m.Replica] = append(x.on[m.To], m.Replica), m.To, true
	x.there[[2]int{r.Model, m.To}] = true // and where it comes from, until it is unloaded
}

package planner

import "math"

// program is the linear program of [Fluid] at one rate: maximise the worth of
// the columns, each at least zero, within the limits of the rows.
type program struct {
	columns []column
	limits  []float64 // by row
}

type column struct {
	worth   float64
	entries []entry
	// answers says that the column is requests of the task per second that the
	// variant answers.
	answers       bool
	task, variant int
}

type entry struct {
	row   int
	value float64
}

// ease is by how much a limit is raised. Limits of zero make vertices that fall
// together, among which the simplex algorithm may turn for ever. Raised a little,
// each by another amount, they part, and the bound stays one.
const ease = 1e-7

func (p *program) row(limit float64) int {
	_, part := math.Modf(float64(len(p.limits)) * math.Phi)
	p.limits = append(p.limits, limit+ease*(1+part))
	return len(p.limits) - 1
}

func (f *Fluid) program(rate float64) *program {
	p := new(program)
	rows := make([]int, len(f.flows))
	for i := range f.flows {
		rows[i] = p.row(rate * f.flows[i].share)
	}
	load := f.load
	load.rate = rate
	list := classes(&f.config, load)
	for i := range list {
		c := &list[i]
		capacity, time := make([]int, len(c.replicas)), make([]int, len(c.replicas))
		for r := range c.replicas {
			// What is answered is at most what leaves the replica, and what is in
			// flight on average at most what the deadlines allow to be.
			capacity[r], time[r] = p.row(0), p.row(0)
			f.addAnswers(p, c.replicas[r].variant, rows, capacity[r], time[r])
		}
		c.addPatterns(p, capacity, time)
	}
	return p
}

// addAnswers adds a column for each flow and tier that the replica may answer.
func (f *Fluid) addAnswers(p *program, variant int, rows []int, capacity, time int) {
	for i, row := range rows {
		task := &f.flows[i].task
		for _, tier := range f.tiers[i] {
			worth := task.Weight * task.Quality[variant] * tier.factor
			if worth <= 0 || f.flows[i].share == 0 {
				continue
			}
			p.columns = append(p.columns, column{
				worth: worth, answers: true, task: f.flows[i].index, variant: variant,
				entries: []entry{{row, 1}, {capacity, 1}, {time, -tier.allowed * f.load.output}},
			})
		}
	}
}

// addPatterns adds a column for each pattern, in hosts, and for each batch size
// of each replica that is busy in it.
func (c *class) addPatterns(p *program, capacity, time []int) {
	whole := p.row(c.hosts)
	for _, throughputs := range c.patterns {
		pattern := column{entries: []entry{{whole, 1}}}
		for r, throughput := range throughputs {
			if throughput == nil {
				continue
			}
			busy := p.row(0) // the replica is busy no longer than the pattern lasts
			pattern.entries = append(pattern.entries, entry{busy, -1})
			for i, requests := range throughput {
				p.columns = append(p.columns, column{entries: []entry{
					{busy, 1}, {capacity[r], -requests}, {time[r], float64(i + 1)},
				}})
			}
		}
		p.columns = append(p.columns, pattern)
	}
}

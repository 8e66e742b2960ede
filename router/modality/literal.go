package modality

import (
	"math"

	"gearshift/router/solve"
)

// literal plans as [Literal] describes.
func (p *Planner) literal(jobs []Job, plan *Plan) {
	chosen := p.chosen[:0]
	var finish float64 // of those kept, as chosen
	for _, i := range p.order {
		if !p.add(i, &jobs[i], math.Inf(1)) {
			plan.Dropped = append(plan.Dropped, i)
			continue
		}
		last := len(p.items) - 1
		front := p.items[last].Front
		chosen = append(chosen, len(front)-1)
		budget := p.budget(&jobs[i])
		if finish+front[len(front)-1].Cost <= budget+solve.Tolerance {
			finish += front[len(front)-1].Cost
			continue
		}
		p.items[last].Budget = budget
		if !p.solve() {
			p.drop(plan)
			chosen = chosen[:last]
			continue
		}
		p.items[last].Budget = math.Inf(1)
		copy(chosen, p.picks)
		finish = 0
		for k, pick := range chosen {
			finish += p.items[k].Front[pick].Cost
		}
	}
	p.picks = append(p.picks[:0], chosen...)
	p.chosen = chosen
}

package policy

import (
	"math"

	"gearshift/router/fleet"
)

// occupancy is a replica of the host at hand, and what runs there.
type occupancy struct {
	replica, variant int
	batch            batch
	slow             float64 // how many times as long as by its profile a step takes
	now, soon        float64 // its duty at present, and as it will be at least
	times            float64 // by which the requests counted by task are multiplied; 0: none is
	output           float64 // tokens that its requests are expected to have in all
	stalls           float64 // ms of each step, for the prompts of those that replace its requests
	earns            float64 // what its requests are expected to earn
}

// occupancies appends the replicas of the host.
func (p *Universal) occupancies(list []occupancy, v *fleet.View, host int, rate float64) []occupancy {
	var duties float64
	for _, i := range v.Table.ReplicasOn(host) {
		s := occupancy{replica: i, variant: v.Table.Replicas[i].Variant, batch: running(v, i), slow: v.Slowdown(i)}
		s.now = p.duty(i, s.batch, 0)
		if s.soon = s.now; !v.Down[i] {
			s.soon = max(s.soon, p.alone[i]*(1-math.Exp(-p.busy[i]*rate)))
		}
		duties += s.now
		p.count(&s, v)
		list = append(list, s)
	}
	for k := range list {
		if s := &list[k]; s.batch.requests > 0 {
			s.earns = p.earned(v, s, s.runs(), duties-s.now, slowing{})
		}
	}
	return list
}

// count sums up the requests on the replica. Those whose task the view does not know are likely to be
// of tasks that come often.
func (p *Universal) count(s *occupancy, v *fleet.View) {
	if s.batch.requests == 0 {
		return
	}
	var known int32
	if len(v.ByTask) > 0 {
		for _, n := range v.ByTask[s.replica*len(p.tasks):][:len(p.tasks)] {
			known += n
		}
	}
	if known > 0 {
		s.times = float64(s.batch.requests) / float64(known)
	}
	for t := range p.tasks {
		n := p.of(v, s, t)
		s.output += n * p.tasks[t].output
		s.stalls += n * p.stall[s.replica][t] / p.tasks[t].output
	}
}

// of returns the number of the task's requests on the replica.
func (p *Universal) of(v *fleet.View, s *occupancy, task int) float64 {
	if s.times == 0 {
		return float64(s.batch.requests) * p.tasks[task].share
	}
	return s.times * float64(v.ByTask[s.replica*len(p.tasks)+task])
}

// filling is a batch of a replica, with the tokens that its requests are expected to have in all.
type filling struct {
	batch
	output float64
}

func (s *occupancy) runs() filling { return filling{s.batch, s.output} }

// joinedBy returns the batch with the request, which holds its prompt and half of its answer.
func (s *occupancy) joinedBy(r *fleet.Request, e *expected) filling {
	b := s.batch.joinedBy(r)
	b.held += int(e.output / 2)
	return filling{b, s.output + e.output}
}

// step is the time of a step of the batch in ms or, where batches run to their end, that of an answer
// for each of its tokens.
func (p *Universal) step(s *occupancy, b batch, neighbours float64) float64 {
	if b.requests == 0 {
		return 0
	}
	if p.profiles[s.replica].Batches != nil {
		return p.profiles[s.replica].Answer(0, b.requests-1, neighbours) / max(1, p.lengths.Output) * s.slow
	}
	ms, _ := p.profiles[s.replica].Step(b.requests, b.requests, b.held, neighbours)
	return ms * s.slow
}

// slowing is what a request does to another while both run.
type slowing struct {
	by    float64 // ms per token
	lasts float64 // tokens that it runs for, or ms if inMS
	inMS  bool
	stop  float64 // ms, once
}

// earned is what the requests that run on the replica are expected to earn while it runs the batch b
// and they are slowed.
func (p *Universal) earned(v *fleet.View, s *occupancy, b filling, neighbours float64, x slowing) (sum float64) {
	longer := p.profiles[s.replica].Interference(neighbours) * s.slow
	step := p.step(s, s.batch, neighbours)
	time := step + s.stalls*longer
	wait := step/2 + p.waits(v, s, b, time)
	for t := range p.tasks {
		n := p.of(v, s, t)
		if n == 0 {
			continue
		}
		task, e := &v.Table.Tasks[t], &p.tasks[t]
		slowed := time + x.stop/e.output
		if x.by > 0 {
			its := e.output
			if x.inMS {
				its *= time
			}
			slowed += x.by * x.lasts / (x.lasts + its)
		}
		in := p.inTime(slowed, wait+p.stall[s.replica][t]*longer, e.output, e.deadline)
		sum += n * task.Weight * task.Quality[s.variant] * in
	}
	return sum
}

// worth is what the request is expected to earn on the k-th replica of a host, less what others lose.
func (p *Universal) worth(v *fleet.View, r *fleet.Request, on []occupancy, k int) float64 {
	s, task, e := &on[k], &v.Table.Tasks[r.Task], &p.tasks[r.Task]
	neighbours := expectedBeside(on, k)
	joined := s.joinedBy(r, e)
	step, after := p.step(s, s.batch, neighbours), p.step(s, joined.batch, neighbours)
	prompt := p.profiles[s.replica].Prefill(r.PromptTokens, neighbours) * s.slow
	time := after + s.stalls*p.profiles[s.replica].Interference(neighbours)*s.slow
	deadline := e.deadline
	if r.Deadline > 0 {
		deadline = due(task, r)
	}
	in := p.inTime(p.pressed(v, r, s.replica, s.batch, time, neighbours),
		prompt+step/2+p.waits(v, s, joined, time), e.output, deadline)
	var lost float64
	if s.batch.requests > 0 {
		lost = p.earned(v, s, s.runs(), neighbours, slowing{}) -
			p.earned(v, s, joined, neighbours, slowing{by: after - step, lasts: e.output, stop: prompt})
	}
	more := p.duty(s.replica, joined.batch, neighbours) - s.now
	for j := range on {
		if j != k && on[j].batch.requests > 0 {
			lost += p.slows(v, on, j, more, time*e.output)
		}
	}
	return task.Weight*v.Table.Quality(r, s.variant)*in - p.others*lost
}

// expectedBeside is the duty of the host's replicas other than the k-th, where those of smaller
// variants are as busy as they will be.
func expectedBeside(on []occupancy, k int) (duty float64) {
	for j := range on {
		switch {
		case j == k:
		case on[j].variant < on[k].variant:
			duty += on[j].soon
		default:
			duty += on[j].now
		}
	}
	return duty
}

// slows is what the requests of the j-th replica lose by so much more duty of another for so many ms.
func (p *Universal) slows(v *fleet.View, on []occupancy, j int, more, ms float64) float64 {
	s := &on[j]
	var neighbours float64
	for k := range on {
		if k != j {
			neighbours += on[k].now
		}
	}
	by := p.step(s, s.batch, neighbours+more) - p.step(s, s.batch, neighbours)
	if by <= 0 {
		return 0
	}
	return s.earns - p.earned(v, s, s.runs(), neighbours, slowing{by: by, lasts: ms, inMS: true})
}

// waits is how long a request of the batch waits until the KV cache has room, in ms: until the tokens
// beyond it, at their expected peak, are released.
func (p *Universal) waits(v *fleet.View, s *occupancy, b filling, time float64) float64 {
	size := v.Table.Replicas[s.replica].KVTokens
	if size == 0 {
		return 0
	}
	surplus := peakOf(float64(b.held), b.output)/float64(size) - 1
	switch low := surplus + p.looseness; {
	case low <= 0:
		return 0
	case low < 2*p.looseness:
		surplus = low * low / (4 * p.looseness)
	}
	return surplus * time * b.output / float64(b.requests)
}

// inTime is the probability that a request which waits so many ms for its first token, and then takes
// so many for each, keeps the deadline per token.
func (p *Universal) inTime(time, wait, output, deadline float64) float64 {
	x := (1 - time/deadline) / p.spread
	switch {
	case x < -20:
		return 0
	case x > 20:
		return math.Exp(-wait / ((deadline - time) * output))
	}
	e := math.Exp(-x)
	room := deadline * p.spread * (x + math.Log1p(e))
	return math.Exp(-wait/(room*output)) / (1 + e)
}

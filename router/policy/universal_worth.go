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
	beside           float64 // duty of the others on the host at present
	earns            float64 // what its requests are expected to earn, NaN until that is asked for
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
		list[k].beside, list[k].earns = duties-list[k].now, math.NaN()
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

// slowing measures the delay that a request causes another while both run.
type slowing struct {
	by    float64 // ms per token
	lasts float64 // tokens that it runs for, or ms if inMS
	inMS  bool
	stop  float64 // ms, once
}

// earned returns the utility that the requests on the replica are expected to earn while it runs the batch b
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
		prompt := p.stall[s.replica][t] * longer * (1 + queued*(1-step/time))
		in := p.inTime(s, slowed, wait+prompt, e.output, e.deadline)
		sum += n * task.Weight * task.Quality[s.variant] * in
	}
	return sum
}

// joining is a request that joins the k-th replica of a host.
type joining struct {
	k, task    int
	neighbours float64 // duty of the host's other replicas, as it is expected
	batch      filling // with the request
	step       float64 // ms, without it
	slower     float64 // ms by which a step is longer with it
	time       float64 // ms per token, with the prompts of others in between
	prompts    float64 // share of that time which those take
	prompt     float64 // ms
	output     float64 // tokens
}

// join returns what follows from the request's joining the k-th replica.
func (p *Universal) join(v *fleet.View, r *fleet.Request, on []occupancy, k int) joining {
	s, e := &on[k], &p.tasks[r.Task]
	j := joining{k: k, task: r.Task, neighbours: expectedBeside(on, k), batch: s.joinedBy(r, e), output: e.output}
	j.step = p.step(s, s.batch, j.neighbours)
	after := p.step(s, j.batch.batch, j.neighbours)
	j.slower = after - j.step
	j.time = after + s.stalls*p.profiles[s.replica].Interference(j.neighbours)*s.slow
	j.prompts = 1 - after/j.time
	j.prompt = p.profiles[s.replica].Prefill(r.PromptTokens, j.neighbours) * s.slow
	return j
}

// earns returns the utility that the request is expected to earn.
func (p *Universal) earns(v *fleet.View, r *fleet.Request, on []occupancy, j *joining) float64 {
	return v.Table.Tasks[r.Task].Weight * v.Table.Quality(r, on[j.k].variant) * p.chance(v, r, on, j).inTime
}

// chance is a request's probability to be in time, and what that follows from, in ms.
type chance struct{ inTime, time, wait, deadline float64 }

func (p *Universal) chance(v *fleet.View, r *fleet.Request, on []occupancy, j *joining) chance {
	s, c := &on[j.k], chance{deadline: p.tasks[r.Task].deadline}
	if r.Deadline > 0 {
		c.deadline = due(&v.Table.Tasks[r.Task], r)
	}
	c.time = p.pressed(v, r, s.replica, s.batch, j.time, j.neighbours)
	c.wait = j.prompt*(1+queued*j.prompts) + j.step/2 + p.waits(v, s, j.batch, j.time)
	c.inTime = p.inTime(s, c.time, c.wait, j.output, c.deadline)
	return c
}

// lost returns the utility that the requests on the host are expected to lose by the request.
func (p *Universal) lost(v *fleet.View, on []occupancy, j *joining) (sum float64) {
	s := &on[j.k]
	if s.batch.requests > 0 {
		sum = p.earned(v, s, s.runs(), j.neighbours, slowing{}) -
			p.earned(v, s, j.batch, j.neighbours, slowing{by: j.slower, lasts: j.output, stop: j.prompt})
	}
	more := p.duty(s.replica, j.batch.batch, j.neighbours) - s.now
	for k := range on {
		if k != j.k && on[k].batch.requests > 0 {
			sum += p.slowed(v, &on[k], more, j.time*j.output)
		}
	}
	return sum
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

// slowed returns the utility that the requests of a replica lose by so much more duty of another for so many ms.
func (p *Universal) slowed(v *fleet.View, s *occupancy, more, ms float64) float64 {
	by := p.step(s, s.batch, s.beside+more) - p.step(s, s.batch, s.beside)
	if by <= 0 {
		return 0
	}
	if math.IsNaN(s.earns) {
		s.earns = p.earned(v, s, s.runs(), s.beside, slowing{})
	}
	return s.earns - p.earned(v, s, s.runs(), s.beside, slowing{by: by, lasts: ms, inMS: true})
}

// waits returns the time in ms until the KV cache has room for a request of the batch: until the tokens
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

// Measured in simulations: how far predicted times differ from what happens later.
const (
	gone   = 0.1 // of what other requests add to a token's time: they end, and not all are replaced
	queued = 3   // prompts that a first token waits for in addition if prompts take all of the time: they come in bursts
)

// inTime is the probability that a request which waits so many ms for its first token, and then takes
// so many for each of the others, keeps the deadline per token. The first token's own time makes up
// for the wait.
func (p *Universal) inTime(s *occupancy, time, wait, output, deadline float64) float64 {
	more := max(0, time-p.least[s.replica]*s.slow)
	spread := p.near + p.spread*more/deadline
	time -= gone * more
	x := (1 - time/deadline) / spread
	wait -= time
	switch room := deadline * spread * output; {
	case x > 20 && wait > 0:
		return math.Exp(-wait / (room * x))
	case x > 20:
		return 1
	case x < -20 && wait > 0:
		return 0
	case x < -20:
		return 1 - math.Exp(-wait/(room*x))
	default:
		e := math.Exp(-x)
		quick := 1 / (1 + e)
		if wait > 0 {
			return quick * math.Exp(-wait/(room*math.Log1p(1/e)))
		}
		return 1 - (1-quick)*math.Exp(wait/(room*math.Log1p(e)))
	}
}

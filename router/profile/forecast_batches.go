package profile

import "gearshift/router/fleet"

// Answer is the time until a request of that kind is answered where batches run to their
// end, in milliseconds, if so many others of it are there already; see ahead.
func (p *Profile) Answer(kind, others int, neighbours float64) float64 {
	gpu, batches, _ := p.ahead(kind, others)
	return batches * p.beside(gpu, 1, neighbours)
}

// ahead is what lies between a request and its answer where batches run to their end, if
// so many others are there: how many batches, and the GPU part of one of them in the mean.
// Of its own batch, together waited before it came.
//
// What is there is not known by its parts. The batch under way is taken to be as large as
// it can be, and half done; what is left waits, and runs in full batches but for the last,
// which the request joins.
func (p *Profile) ahead(kind, others int) (gpu, batches float64, together int) {
	if others == 0 {
		return p.batchGPU(kind, 1), 1, 0
	}
	most := p.Batches.Most(kind)
	running := min(others, most)
	full := (others - running) / most
	together = (others - running) % most
	gpu = p.batchGPU(kind, running)/2 + float64(full)*p.batchGPU(kind, most) + p.batchGPU(kind, together+1)
	batches = 1.5 + float64(full)
	return gpu / batches, batches, together
}

// batchGPU is the uncontended GPU part of a batch of n.
func (p *Profile) batchGPU(kind, n int) float64 {
	return max(0, p.Batches.Time(kind, n)-p.Overhead)
}

// batched fills in a load whose batches run to their end, of so many requests. A step is
// then a batch, and slow counts those that an answer takes, for each of its tokens.
func (l *load) batched(a *asked, inFlight int) {
	kind := l.profile.kindOf(a)
	gpu, batches, _ := l.profile.ahead(kind, max(0, inFlight-1))
	l.gpu, l.n = gpu, max(1, inFlight)
	l.slow *= batches / max(1, a.output)
	if l.weight = float64(inFlight); inFlight == 0 {
		l.weight = idleWeight
		return
	}
	if ms := l.profile.beside(gpu, 1, 0); ms > 0 {
		l.duty = gpu / ms
	}
}

// kindOf is the kind of input that a table has times of; of one that it has none of, as
// the variant does not answer it, another's.
func (p *Profile) kindOf(a *asked) int { return max(0, p.Batches.Kind(a.kind)) }

// joinBatches is join on a replica whose batches run to their end. Only those that share
// the request's batch are slowed by it.
func joinBatches(loads []load, k, inFlight int, slowdown, duties float64, crowded bool, a *asked) fleet.Forecast {
	l := &loads[k]
	p := l.profile
	kind := p.kindOf(a)
	gpu, batches, together := p.ahead(kind, inFlight)
	duty := 0.0
	if ms := p.beside(gpu, 1, 0); ms > 0 {
		duty = gpu / ms
	}
	if crowded {
		its := l.gpu
		l.gpu = gpu
		duties = settled(loads, k)
		l.gpu, duty = its, l.duty
	}
	neighbours, per := duties-l.duty, slowdown*a.perDeadline/max(1, a.output)
	pace := batches * p.beside(gpu, 1, neighbours) * per
	own := miss(pace)
	misses := own
	if together > 0 {
		longer := (p.batchGPU(kind, together+1) - p.batchGPU(kind, together)) * p.Interference(neighbours)
		misses += float64(together) * (own - miss(pace-longer*per))
	}
	for j := range loads {
		if o := &loads[j]; j != k {
			misses += o.weight * (o.missing(duties-o.duty+duty-l.duty, a.perDeadline) - o.misses)
		}
	}
	return fleet.Forecast{Pace: pace, Misses: misses}
}

// beginBatches is begin where answers are in one piece: its first token and its end are
// the same moment, and it misses its deadlines if it misses the tightest.
func beginBatches(f *fleet.Forecast, a *asked) {
	takes := a.waited + f.Pace/a.perDeadline*max(1, a.output)
	f.First, f.Total = takes*a.perFirst, takes*a.perTotal
	worst := max(f.First, f.Total)
	if a.output >= 1 || a.perTotal == 0 { // else the one to the end stands for that per token
		worst = max(worst, f.Pace)
	}
	f.Misses += miss(worst) - miss(f.Pace)
}

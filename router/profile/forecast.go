package profile

import (
	"math"

	"gearshift/router/fleet"
)

// Forecaster reckons what a further request would do on each replica of a
// fleet, from the replicas' profiles and what a view shows of their load. It
// holds no state but its parameters: goroutines may share it.
//
// A batch of n sequences that hold so many tokens, beside busy neighbours, takes
// a step of a known time, which is the pace of all its sequences. A pace p
// against a deadline d counts as a miss with the probability
//
//	1 / (1 + exp(−(p/d − centre)/spread))
//
// since a request's own pace wavers around that of the present step, and the
// prefills of others interrupt it. Of a replica that has been found slower than its
// profile says, all times are so many times as long. The misses that a request adds are its own,
// those of the batch it joins, and those of the batches on the same host that
// it slows. A replica that is idle counts as a fraction of a request: to keep
// it quick is worth something to those to come.
//
// Where the request has a deadline to its first token or to the end of its answer, these
// times are forecast too ([Profile.First], [Total]), its wait so far included, and its own
// misses are those of any of its deadlines, each with that probability, as if they had
// nothing to do with one another.
//
// Where batches run to their end, the pace is by the time until the answer is there: what is
// left of the batch under way, the batches before its own, and its own ([Profile.Answer]).
type Forecaster struct {
	profiles []*Profile
	output   []float64 // mean lengths of answers by task; nil if they are not known
}

const (
	missCentre = 0.95
	missSpread = 0.04
	idleWeight = 0.2
	// idleContext is the context of the request that an idle replica might get.
	idleContext = 200
)

// NewForecaster makes a forecaster of profiles by replica index.
func NewForecaster(profiles []*Profile) *Forecaster { return &Forecaster{profiles: profiles} }

// Expecting is the same forecaster for tasks whose answers have these mean lengths, in
// tokens, by task.
func (f *Forecaster) Expecting(output []float64) *Forecaster {
	return &Forecaster{profiles: f.profiles, output: output}
}

// asked is what the hosts' forecasts are for.
type asked struct {
	prompt int
	kind   string  // of input
	output float64 // mean length of an answer; 0 if not known
	waited float64 // ms since the arrival
	// Of what is allowed per token, to the first token and in all, the inverses in ms; the
	// last two are 0 where there is no such deadline.
	perDeadline, perFirst, perTotal float64
}

func (f *Forecaster) asked(v *fleet.View, r *fleet.Request) asked {
	task := &v.Table.Tasks[r.Task]
	a := asked{prompt: r.PromptTokens, kind: task.Kind, perDeadline: 1 / fleet.Milliseconds(task.Allowed(r.Deadline))}
	d := task.Deadlines(r)
	if r.Task < len(f.output) {
		a.output = f.output[r.Task]
	}
	if !d.More() {
		return a
	}
	a.waited = fleet.Milliseconds(max(0, v.Now-r.Arrival))
	if d.FirstToken > 0 {
		a.perFirst = 1 / fleet.Milliseconds(d.FirstToken)
	}
	if d.Total > 0 {
		a.perTotal = 1 / fleet.Milliseconds(d.Total)
	}
	return a
}

// Forecast writes the forecasts for r into v.Forecasts, reusing its memory. Those
// of replicas that v is not a view of mean nothing.
func (f *Forecaster) Forecast(v *fleet.View, r *fleet.Request) {
	t := v.Table
	if len(v.Forecasts) != len(t.Replicas) {
		v.Forecasts = make([]fleet.Forecast, len(t.Replicas))
	}
	a := f.asked(v, r)
	for _, h := range v.Hosts() {
		f.host(v, t.ReplicasOn(h), &a)
	}
}

// load is what a replica's batch is now. One that is idle has, for the harm that
// others may do it, a single sequence.
type load struct {
	profile *Profile
	n, held int
	weight  float64 // requests
	gpu     float64 // the GPU part of a step
	duty    float64 // the share of a step in which the batch loads the GPU
	slow    float64 // how many times as long as by its profile a step takes
	misses  float64 // probability for each of its requests, as things are
}

// missing is the probability that one of the batch's requests misses its deadline
// beside neighbours.
func (l *load) missing(neighbours, perDeadline float64) float64 {
	return miss(l.profile.beside(l.gpu, l.n, neighbours) * l.slow * perDeadline)
}

// host fills in the forecasts of the replicas of one host. Duties are those of
// engines alone, but for hosts where engines take turns.
func (f *Forecaster) host(v *fleet.View, on []int, a *asked) {
	var room [8]load // more replicas on one host would allocate; to clear it costs time
	loads := room[:0]
	var duties float64
	crowded := false
	for _, i := range on {
		l := load{profile: f.profiles[i], n: int(v.InFlight[i]), held: int(v.Held[i]), weight: float64(v.InFlight[i]), slow: v.Slowdown(i)}
		if l.profile.Batches != nil {
			l.batched(a, l.n)
		} else if l.n > 0 {
			l.gpu, l.duty = l.profile.alone(l.n, l.held)
		} else {
			l.n, l.held, l.weight = 1, idleContext, idleWeight
			l.gpu = l.profile.GPU(l.n, l.held)
		}
		if v.InFlight[i] == 0 && !v.State(i).Loaded() { // none is to come soon
			l.weight = 0
		}
		duties += l.duty
		crowded = crowded || l.profile.Crowding > 0
		loads = append(loads, l)
	}
	if crowded {
		duties = settled(loads, -1)
	}
	for k := range loads {
		l := &loads[k]
		l.misses = l.missing(duties-l.duty, a.perDeadline)
	}
	for k, i := range on {
		if loads[k].profile.Batches != nil {
			v.Forecasts[i] = joinBatches(loads, k, int(v.InFlight[i]), v.Slowdown(i), duties, crowded, a)
			if a.perFirst > 0 || a.perTotal > 0 {
				beginBatches(&v.Forecasts[i], a)
			}
			continue
		}
		v.Forecasts[i] = join(loads, k, a.prompt, duties, crowded, a.perDeadline)
		if a.perFirst > 0 || a.perTotal > 0 {
			neighbours := duties - loads[k].duty
			if crowded { // join has them settle again, with the request
				neighbours = beside(loads, k)
			}
			loads[k].begin(&v.Forecasts[i], a, v.Table.Replicas[i].KVTokens, neighbours)
		}
	}
}

// beside is the sum of the duties of the loads other than k.
func beside(loads []load, k int) (duties float64) {
	for j := range loads {
		if j != k {
			duties += loads[j].duty
		}
	}
	return duties
}

// settled works out the duties of the loads where engines take turns, and their sum.
// The joined one, if any, is busy whether it was or not.
func settled(loads []load, joined int) (duties float64) {
	var room [8]Batch
	batches := room[:0]
	for k := range loads {
		l := &loads[k]
		batches = append(batches, Batch{Profile: l.profile, Sequences: l.n, GPU: l.gpu, idle: l.weight < 1 && k != joined})
	}
	duties = Settle(batches)
	for k := range loads {
		loads[k].duty = batches[k].Duty
	}
	return duties
}

// join is the forecast for a request on the k-th replica of a host. Where engines
// take turns it settles the duties anew.
func join(loads []load, k, prompt int, duties float64, crowded bool, perDeadline float64) fleet.Forecast {
	l := &loads[k]
	n, held := l.n+1, l.held+prompt
	if l.weight < 1 { // idle
		n, held = 1, prompt
	}
	gpu, duty := l.profile.alone(n, held)
	if crowded {
		before, its := l.n, l.gpu
		l.n, l.gpu = n, gpu
		duties = settled(loads, k)
		l.n, l.gpu, duty = before, its, l.duty
	}
	pace := l.profile.beside(gpu, n, duties-l.duty) * l.slow * perDeadline
	own := miss(pace)
	misses := own
	if n > 1 {
		misses += l.weight * (own - l.misses)
	}
	for j := range loads {
		if o := &loads[j]; j != k {
			misses += o.weight * (o.missing(duties-o.duty+duty-l.duty, perDeadline) - o.misses)
		}
	}
	return fleet.Forecast{Pace: pace, Misses: misses}
}

// begin adds the forecasts of the first token and of the end on a replica whose cache holds
// so many tokens, and their misses.
func (l *load) begin(f *fleet.Forecast, a *asked, kvTokens int, neighbours float64) {
	j := Joining{Prompt: a.prompt, KVTokens: kvTokens, Output: a.output, Neighbours: neighbours}
	if l.weight >= 1 { // not idle
		j.Sequences, j.Held = l.n, l.held
	}
	first := a.waited + l.profile.First(j)*l.slow
	own := miss(f.Pace)
	in := 1 - own // the probability of being in time
	if a.perFirst > 0 {
		f.First = first * a.perFirst
		in *= 1 - miss(f.First)
	}
	if a.perTotal > 0 {
		f.Total = Total(first, f.Pace/a.perDeadline, a.output) * a.perTotal
		in *= 1 - miss(f.Total)
	}
	f.Misses += 1 - in - own
}

// miss is the probability of a miss at a pace relative to the deadline. Most
// paces are far from it on either side, and cost no exponential.
func miss(pace float64) float64 {
	switch x := (missCentre - pace) / missSpread; {
	case x > 12:
		return 0
	case x < -12:
		return 1
	default:
		return 1 / (1 + math.Exp(x))
	}
}

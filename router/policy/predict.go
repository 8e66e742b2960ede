package policy

import (
	"fmt"
	"math"
	"slices"

	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// predictor predicts latencies from a view and the profiles, for the rules
// that price them. Its times are in milliseconds, or in milliseconds per output
// token.
type predictor struct {
	rule     string             // for errors, "a slack-fit policy"
	profiles []*profile.Profile // by replica
	lengths  Lengths
	balancer Balancer

	// How busy each replica will be, from the arguments of foresee; by replica.
	busy  []float64 // −log(1 − its busy share) per arrival a second
	alone []float64 // its duty with one sequence

	crowded []bool // by host: engines take turns on it
}

func (m *Maker) predictor(rule string) (predictor, error) {
	p := predictor{rule: rule, profiles: m.Profiles, lengths: m.Lengths, balancer: m.Balancer}
	if !(m.Lengths.Context >= 0 && m.Lengths.Output >= 0) {
		return p, fmt.Errorf("%s needs lengths that are not negative, has %+v", rule, m.Lengths)
	}
	if err := p.Match(m.Table); err != nil {
		return p, err
	}
	if i := slices.Index(p.profiles, nil); i >= 0 {
		return p, fmt.Errorf("%s needs a profile of replica %q", rule, m.Table.Replicas[i].Name)
	}
	if p.balancer == nil {
		return p, fmt.Errorf("%s needs a balancer", rule)
	}
	p.crowded = make([]bool, len(m.Table.Hosts))
	for i, r := range m.Table.Replicas {
		p.crowded[r.Host] = p.crowded[r.Host] || p.profiles[i].Crowding > 0
	}
	return p, nil
}

// Match checks the number of replicas.
func (p *predictor) Match(t *fleet.Table) error {
	if len(p.profiles) != len(t.Replicas) {
		return fmt.Errorf("%s with %d profiles does not fit %d replicas", p.rule, len(p.profiles), len(t.Replicas))
	}
	return nil
}

// picked is the mean of f over the replicas of an available variant that the
// balancer would pick, for four random numbers. They are spread evenly: balancers
// draw by the high bits, so few numbers come nearer to the mean than chance would.
func (p *predictor) picked(v *fleet.View, r *fleet.Request, variant int, f func(replica int) float64) float64 {
	picks := pickSpread(p.balancer, v, r, variant)
	if i := picks[0]; i >= 0 && picks == [4]int{i, i, i, i} {
		return f(i)
	}
	var sum, last float64
	before := -1
	for _, i := range picks {
		if i < 0 {
			i = v.ReplicasOf(variant)[0]
		}
		if i != before {
			before, last = i, f(i)
		}
		sum += last
	}
	return sum / float64(len(picks))
}

// batch is what a replica runs, or would run.
type batch struct {
	requests int
	held     int // tokens
}

func running(v *fleet.View, replica int) batch {
	return batch{int(v.InFlight[replica]), int(v.Held[replica])}
}

func (b batch) joinedBy(r *fleet.Request) batch {
	return batch{b.requests + 1, b.held + r.PromptTokens}
}

// duty is the share of a step of the replica that loads its host's GPU while
// nothing slows it, or where engines take turns, next to neighbours; 0 if it is idle.
func (p *predictor) duty(replica int, b batch, neighbours float64) float64 {
	if b.requests == 0 {
		return 0
	}
	if p.profiles[replica].Crowding == 0 {
		neighbours = 0
	}
	_, duty := p.profiles[replica].Step(b.requests, b.requests, b.held, neighbours)
	return duty
}

// settled appends to list the duties of the replicas of a host where engines take
// turns, in the order of ReplicasOn, while each runs what of says. The one in question
// counts as one sequence at least: it is asked what happens when it runs.
func (p *predictor) settled(list []float64, t *fleet.Table, replica int, of func(replica int) batch) []float64 {
	var room [8]profile.Batch // more replicas on one host would allocate
	batches := room[:0]
	for _, i := range t.ReplicasOn(t.Replicas[replica].Host) {
		b := of(i)
		if i == replica && b.requests == 0 {
			b = batch{1, int(p.lengths.Context)}
		}
		batches = append(batches, profile.NewBatch(p.profiles[i], b.requests, b.held))
	}
	profile.Settle(batches)
	for k := range batches {
		list = append(list, batches[k].Duty)
	}
	return list
}

// foresee prepares [predictor.neighbours] to look ahead by a factor b: 0 is not
// at all.
func (p *predictor) foresee(t *fleet.Table, b float64) {
	for i := range t.Replicas {
		ms, duty := p.profiles[i].Step(1, 1, int(p.lengths.Context), 0)
		alone := p.lengths.Output * ms / 1000 // seconds that a request takes
		if p.profiles[i].Batches != nil {
			alone = ms / 1000
		}
		p.busy = append(p.busy, b*alone/float64(t.Places(t.Replicas[i].Variant)))
		p.alone = append(p.alone, duty)
	}
}

// neighbours is the duty of the host's other replicas. The one of the next
// smaller variant is taken to be at least as busy as it will be if it gets what
// this variant refuses: idle with probability exp(−b·rate·T/replicas), where T
// is the time that a request takes there alone, else with the duty of one
// sequence.
//
// A neighbour that happens to be idle will not be for long at a moderate rate,
// and a batch that keeps its deadline next to an idle one may miss it next to a
// busy one.
func (p *predictor) neighbours(v *fleet.View, replica int, rate float64) float64 {
	next, host := v.Table.Replicas[replica].Variant-1, v.Table.Replicas[replica].Host
	var room [8]float64
	var settled []float64
	if p.crowded[host] {
		settled = p.settled(room[:0], v.Table, replica, func(i int) batch { return running(v, i) })
	}
	var sum float64
	for k, i := range v.Table.ReplicasOn(host) {
		if i == replica {
			continue
		}
		var duty float64
		if settled != nil {
			duty = settled[k]
		} else {
			duty = p.duty(i, running(v, i), 0)
		}
		if p.busy != nil && v.Table.Replicas[i].Variant == next && !v.Down[i] {
			duty = max(duty, p.alone[i]*(1-math.Exp(-p.busy[i]*rate)))
		}
		sum += duty
	}
	return sum
}

// tokenTime is the time per output token of a batch: a decode step, and the
// share in it of the prefills, each as long as the prompt's, by which the batch
// renews itself once in Output steps. An empty batch takes no time. Where batches run to
// their end it is the time until the last of the requests is answered, of the first kind of
// input, for each token.
func (p *predictor) tokenTime(v *fleet.View, replica int, b batch, prompt int, neighbours float64) float64 {
	if b.requests == 0 {
		return 0
	}
	if p.profiles[replica].Batches != nil {
		return p.profiles[replica].Answer(0, b.requests-1, neighbours) / max(1, p.lengths.Output) * v.Slowdown(replica)
	}
	ms, _ := p.profiles[replica].Step(b.requests, b.requests, b.held, neighbours)
	if p.lengths.Output > 0 {
		ms += float64(b.requests) * p.profiles[replica].Prefill(prompt, neighbours) / p.lengths.Output
	}
	return ms * v.Slowdown(replica)
}

// peak is the largest number of tokens that the batch is expected to hold if
// nothing joins it.
//
// With geometric lengths of mean L, exp(−t/L) of the requests are left after t
// steps, each t tokens longer: (held + requests·t)·exp(−t/L) tokens, which is
// largest at t = L − held/requests.
func (p *predictor) peak(b batch) float64 {
	return peakOf(float64(b.held), float64(b.requests)*p.lengths.Output)
}

// peakOf is the peak of a batch whose requests have so many output tokens in all.
func peakOf(held, output float64) float64 {
	if held >= output {
		return held
	}
	return output * math.Exp(held/output-1)
}

// kvPeak is the share of the replica's KV cache that the peak fills; 0 if the
// cache's size is unknown.
func (p *predictor) kvPeak(v *fleet.View, replica int, b batch) float64 {
	if size := v.Table.Replicas[replica].KVTokens; size > 0 {
		return p.peak(b) / float64(size)
	}
	return 0
}

// mostSequences bounds [predictor.full] where neither latency nor memory does.
const mostSequences = 1024

// full is the largest batch of sequences of mean context that keeps the
// deadline and the KV cache, at least one sequence.
func (p *predictor) full(t *fleet.Table, replica int, deadline, neighbours float64) int {
	most := mostSequences
	if size := t.Replicas[replica].KVTokens; size > 0 && p.lengths.Context > 0 {
		most = min(most, int(float64(size)/p.lengths.Context))
	}
	if p.profiles[replica].Batches != nil {
		most = p.profiles[replica].Most(0)
	}
	fits, not := 1, most+1 // the largest known to fit, or one; the smallest known not to
	for fits+1 < not {
		n := (fits + not) / 2
		if p.step(replica, n, neighbours) <= deadline {
			fits = n
		} else {
			not = n
		}
	}
	return fits
}

// share is a request's share of the time per token of a full batch.
func (p *predictor) share(t *fleet.Table, replica int, deadline, neighbours float64) float64 {
	n := p.full(t, replica, deadline, neighbours)
	return p.step(replica, n, neighbours) / float64(n)
}

// step is the time per output token of a batch of n sequences of mean context.
func (p *predictor) step(replica, n int, neighbours float64) float64 {
	ms, _ := p.profiles[replica].Step(n, n, int(float64(n)*p.lengths.Context), neighbours)
	if p.profiles[replica].Batches != nil {
		ms /= max(1, p.lengths.Output)
	}
	return ms
}

// allowed is the request's deadline in milliseconds per output token.
func allowed(v *fleet.View, r *fleet.Request) float64 {
	return fleet.Milliseconds(v.Table.Tasks[r.Task].Allowed(r.Deadline))
}

package balance

import (
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// LeastWork picks the available replica with the least outstanding work, the request
// included: the time that the tokens still to come take at the speed of a full batch
// there, by the profile of the variant,
//
//	outstanding tokens · step(N) / N
//
// where N requests fill the KV cache and busy neighbours on the host slow the step.
// Work is counted on each replica and priced by its own variant's profile: a host
// with many requests of a small model may still have the least of a large one's.
//
// Nobody knows how long answers get. Each request is expected to produce the mean
// output, less what the tokens held tell has come of it already, and never less
// than a fourth: what is long over the mean is still going to go on.
//
// Without profiles it is [SmallestFitting].
type LeastWork struct {
	// Profiles are by replica index.
	Profiles []*profile.Profile
	// Prompt and Output are the mean lengths of requests in tokens. Without an
	// output each request counts as one unit of work.
	Prompt, Output float64
}

// Name is "least-work".
func (LeastWork) Name() string { return "least-work" }

// Pick implements router.Balancer. Of equals, any by the random number.
func (b LeastWork) Pick(v *fleet.View, r *fleet.Request, variant int, random uint64) int {
	if len(b.Profiles) != len(v.Table.Replicas) {
		return SmallestFitting{}.Pick(v, r, variant, random)
	}
	best, least, ties := -1, 0.0, 0
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) {
			continue
		}
		switch work := b.work(v, i); {
		case best < 0 || work < least:
			best, least, ties = i, work, 1
		case work == least:
			ties++
		}
	}
	if ties < 2 {
		return best
	}
	n := below(random, ties)
	for _, i := range v.ReplicasOf(variant) {
		if !v.Available(i) || b.work(v, i) != least {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return best
}

const (
	// leastLeft is the share of the mean output below which no request is expected
	// to have left.
	leastLeft = 0.25
	// fullBatch is the batch of a replica whose KV cache is of unknown size.
	fullBatch = 64
)

// work is the time in milliseconds for what the replica has and a further request.
func (b LeastWork) work(v *fleet.View, replica int) float64 {
	n := float64(v.InFlight[replica])
	outstanding := n + 1
	if b.Output > 0 {
		left := n*(b.Prompt+b.Output) - float64(v.Held[replica])
		outstanding = max(left, n*leastLeft*b.Output) + b.Output
	}
	batch, context := fullBatch, b.Prompt+b.Output/2 // of each
	if size := v.Table.Replicas[replica].KVTokens; size > 0 && context > 0 {
		batch = max(1, int(float64(size)/context))
	}
	step, _ := b.Profiles[replica].Step(batch, batch, int(float64(batch)*context), b.neighbours(v, replica))
	return outstanding * step / float64(batch)
}

// neighbours is the sum of the duties of the host's other busy engines.
func (b LeastWork) neighbours(v *fleet.View, replica int) float64 {
	var sum float64
	for _, i := range v.Table.ReplicasOn(v.Table.Replicas[replica].Host) {
		if n := int(v.InFlight[i]); i != replica && n > 0 {
			_, duty := b.Profiles[i].Step(n, n, int(v.Held[i]), 0)
			sum += duty
		}
	}
	return sum
}

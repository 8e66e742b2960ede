package fleet

import (
	"slices"
	"time"
)

// View is what a policy may know at one moment. The buffers belong to the
// caller of [Ledger.View]; policies only read it.
type View struct {
	Table *Table
	Now   time.Duration
	// InFlight counts the requests on each replica, waiting and running, including those of
	// other routers where they are known.
	InFlight []int32
	// ByTask counts the router's own of them, by replica and, within that, by task; empty
	// where they are not counted.
	ByTask []int32
	// Held counts the tokens that the requests on each replica hold there: their prompts
	// and what they have generated so far. A waiting request counts too.
	Held []int32
	// Down marks the replicas that may not be chosen: failed, drained, not loaded, or
	// unable to answer the request ([View.Restrict]). Full ones are not marked.
	Down []bool
	// Elsewhere is, by replica, how many of InFlight are not the router's own
	// ([Ledger.Correct]); empty where all are.
	Elsewhere []int32
	// Caps is, by replica, how many requests of its own the router may have there
	// for now ([Ledger.SetCap]). Zero is no cap, [Closed] lets in none; empty where no
	// replica has one.
	Caps []int32
	// Excess is, by replica, by how much its times exceed those of its profile, as a
	// multiple of these ([Ledger.SlowDown]); empty where all keep to theirs.
	Excess []float32
	Facts
	// Forecasts estimate, by replica, how the request to be routed would fare there; empty
	// without a forecaster.
	Forecasts []Forecast
	// Rate of arrivals per second: declared, or the unbiased estimate over the
	// last [RateWindow] gaps, which goes down while nothing arrives.
	Rate float64
	// Smoothed are the arrival rates, smoothed over [RateHorizons], or the declared rate for
	// each.
	Smoothed SmoothedRates
	// Recent is by how much the router's own latest requests fell short of their peaks, the
	// latest first ([Lease.Settle]); 0 where there are not so many.
	Recent Shortfalls

	taken    uint64 // the ledger's, when the view was
	tightest []time.Duration
	sample   sample
}

// Tightest returns the least latency per output token at which some request on the replica
// loses all its utility; 0 where none is known. The gate uses it to protect these requests.
// Policies must not: logs of views do not contain it.
func (v *View) Tightest(replica int) time.Duration {
	if len(v.tightest) == 0 {
		return 0
	}
	return v.tightest[replica]
}

// First names the variant that a class's requests get first once the fleet is loaded, where it has room.
type First struct {
	Variant int
	// From is the least load ([View.Load]) at which they get it.
	From float64
}

// Load returns the mean of [Facts.BusyShare] over the hosts that have a replica up for the request; zero where no
// load is measured.
func (v *View) Load() float64 {
	var sum float64
	var n int
	for _, h := range v.Hosts() {
		for _, r := range v.Table.ReplicasOn(h) {
			if !v.Down[r] {
				sum, n = sum+v.BusyShare(h), n+1
				break
			}
		}
	}
	return sum / float64(max(1, n))
}

// Forecast is how a further request is expected to fare on a replica.
type Forecast struct {
	// Pace is the time per output token of the batch that it would join, as a
	// multiple of what [Task.Allowed] allows the request.
	Pace float64
	// First is the time from its arrival to its first token, and Total that to the end
	// of an answer of mean length, each as a multiple of the request's deadline for it;
	// 0 where it has none.
	First, Total float64
	// Misses is the number of missed deadlines that it would add: its own, and those of the
	// requests that it slows.
	Misses float64
}

// Available reports whether the replica may be chosen: it is up and has a free place for the
// router's own requests. It is the only predicate of eligibility, for all policies.
func (v *View) Available(replica int) bool {
	return available(v.Table, int32(v.Own(replica)), v.Down, v.Caps, replica)
}

// Uncapped reports whether the replica is up and has no cap, full or not.
func (v *View) Uncapped(replica int) bool {
	return !v.Down[replica] && (len(v.Caps) == 0 || v.Caps[replica] == 0)
}

// Restrict makes v the view of a decision about the request: it marks as down the replicas
// in [Request.Without], and those of variants that do not answer its task. The ledger's next
// View resets that.
func (v *View) Restrict(r *Request) {
	for _, i := range r.Without {
		v.Down[i] = true
	}
	if !v.Table.gaps || v.Table.Tasks[r.Task].Without == 0 {
		return
	}
	for i := range v.Down {
		if !v.Table.Answers(r.Task, v.Table.Replicas[i].Variant) {
			v.Down[i] = true
		}
	}
}

func available(t *Table, own int32, down []bool, caps []int32, replica int) bool {
	limit := t.Replicas[replica].Limit
	return !down[replica] && (limit == 0 || int(own) < limit) &&
		(len(caps) == 0 || caps[replica] == 0 || own < caps[replica])
}

// VariantAvailable reports whether any replica of the variant is available, of those in the
// sample if there is one.
func (v *View) VariantAvailable(variant int) bool {
	return slices.ContainsFunc(v.ReplicasOf(variant), v.Available)
}

// VariantInFlight returns the requests on all replicas of a variant. Of a sample it
// extrapolates.
func (v *View) VariantInFlight(variant int) int {
	var sum int
	seen := v.ReplicasOf(variant)
	for _, r := range seen {
		sum += int(v.InFlight[r])
	}
	if all := v.PresentOf(variant); v.sample.drawn && all > len(seen) {
		sum = (sum*all + len(seen)/2) / len(seen)
	}
	return sum
}

// TaskInFlight returns the router's own requests of the task on all replicas of a variant,
// of those in the sample if there is one.
func (v *View) TaskInFlight(variant, task int) int {
	if len(v.ByTask) == 0 {
		return 0
	}
	var sum int
	for _, r := range v.ReplicasOf(variant) {
		sum += int(v.ByTask[r*len(v.Table.Tasks)+task])
	}
	return sum
}

// KVUse returns the share of a replica's KV cache that its requests fill, above 1 if some
// must wait; 0 if the cache's size is unknown.
func (v *View) KVUse(replica int) float64 {
	if size := v.Table.Replicas[replica].KVTokens; size > 0 {
		return float64(v.Held[replica]) / float64(size)
	}
	return 0
}

// RecentRate returns the arrival rate per second over the last seconds: the highest of the
// smoothed rates, so that a burst counts at once and is remembered for a while.
func (v *View) RecentRate() float64 { return slices.Max(v.Smoothed[:]) }

// Shortest returns the fewest requests in flight on an available replica of the variant, or
// −1 if none is available.
func (v *View) Shortest(variant int) int {
	shortest := -1
	for _, r := range v.ReplicasOf(variant) {
		if n := int(v.InFlight[r]); v.Available(r) && (shortest < 0 || n < shortest) {
			shortest = n
		}
	}
	return shortest
}

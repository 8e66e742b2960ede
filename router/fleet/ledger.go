package fleet

import (
	"slices"
	"sync"
	"time"
)

// Request is one unit of work as a router may know it: its output length is
// not part of it.
type Request struct {
	ID           uint64
	Task         int
	PromptTokens int
	// Deadline per output token; zero stands for the task's own.
	Deadline time.Duration
	Arrival  time.Duration
}

// Ledger turns events (a request arrived, a lease began or ended, a replica
// went down) into the counters that policies see. The simulator and the live
// router move the same ledger, so a policy sees bit-equal views in both.
//
// Its methods may be called from any goroutine. Choices that others make between
// View and Begin are not on the view; BeginOn refuses to begin then.
type Ledger struct {
	table *Table

	mu       sync.Mutex // protects all below
	inFlight []int32
	held     []int32 // tokens
	down     []bool
	rate     rateEstimator
	declared float64
	slots    []slot
	free     []uint32
	taken    uint64 // places so far, and turns of replicas up or down
}

// slot is the place of one lease; its generation makes old leases inert.
type slot struct {
	generation uint32
	replica    int32
}

// NewLedger starts with every replica up and nothing in flight.
func NewLedger(t *Table) *Ledger {
	return &Ledger{
		table:    t,
		inFlight: make([]int32, len(t.Replicas)),
		held:     make([]int32, len(t.Replicas)),
		down:     make([]bool, len(t.Replicas)),
	}
}

// Table is the fleet that the ledger counts.
func (l *Ledger) Table() *Table { return l.table }

// Arrive notes that a request arrived, which moves the rate estimate.
func (l *Ledger) Arrive(now time.Duration) {
	l.mu.Lock()
	l.rate.arrive(now)
	l.mu.Unlock()
}

// DeclareRate replaces the estimated arrival rate by a known one, in requests
// per second, as the paper's stable workload does (LBE-19). Zero goes back to
// the estimate.
func (l *Ledger) DeclareRate(perSecond float64) {
	l.mu.Lock()
	l.declared = perSecond
	l.mu.Unlock()
}

// Hold replaces the number of tokens that the requests on a replica hold there:
// their prompts and what they have generated so far.
func (l *Ledger) Hold(replica, tokens int) {
	l.mu.Lock()
	l.held[replica] = int32(tokens)
	l.mu.Unlock()
}

// SetUp marks a replica as able, or unable, to take new requests.
func (l *Ledger) SetUp(replica int, up bool) {
	l.mu.Lock()
	l.down[replica] = !up
	l.taken++
	l.mu.Unlock()
}

// View copies what a policy may know into v, reusing its slices.
func (l *Ledger) View(now time.Duration, v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Table, v.Now, v.taken = l.table, now, l.taken
	v.InFlight = append(v.InFlight[:0], l.inFlight...)
	v.Held = append(v.Held[:0], l.held...)
	v.Down = append(v.Down[:0], l.down...)
	if l.declared > 0 {
		v.Rate = l.declared
		for i := range v.Smoothed {
			v.Smoothed[i] = l.declared
		}
		return
	}
	v.Rate, v.Smoothed = l.rate.perSecond(), l.rate.smoothed
}

// Begin takes a place on the replica. It reports false, and takes nothing, if
// the replica is down or full.
func (l *Ledger) Begin(replica int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.begin(replica)
}

// BeginOn is Begin for a choice made on the view v. It also reports false if a
// place has been taken since then, or a replica has gone down or come up.
func (l *Ledger) BeginOn(v *View, replica int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.taken != v.taken {
		return Lease{}, false
	}
	return l.begin(replica)
}

func (l *Ledger) begin(replica int) (Lease, bool) {
	if !available(l.table, l.inFlight, l.down, replica) {
		return Lease{}, false
	}
	l.inFlight[replica]++
	l.taken++
	var n uint32
	if last := len(l.free) - 1; last >= 0 {
		n, l.free = l.free[last], l.free[:last]
	} else {
		n = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	l.slots[n].replica = int32(replica)
	return Lease{ledger: l, slot: n, generation: l.slots[n].generation}, true
}

// InFlight is the number of leases on all replicas.
func (l *Ledger) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum int
	for _, n := range l.inFlight {
		sum += int(n)
	}
	return sum
}

// Lease is what the router holds from the choice until the work ends. It is a
// small value: copies stand for the same lease.
type Lease struct {
	ledger           *Ledger
	slot, generation uint32
}

// End gives the place back. The first call returns true; later ones, on any
// copy, do nothing and return false.
func (x Lease) End() bool {
	if x.ledger == nil {
		return false
	}
	l := x.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.slots[x.slot]
	if s.generation != x.generation {
		return false
	}
	s.generation++
	l.inFlight[s.replica]--
	l.free = append(l.free, x.slot)
	return true
}

// View is what a policy may know at one moment. The buffers belong to the
// caller of [Ledger.View]; policies only read it.
type View struct {
	Table *Table
	Now   time.Duration
	// InFlight counts the requests on each replica, waiting and running.
	InFlight []int32
	// Held is the tokens that the requests on each replica hold there: their
	// prompts and what they have generated so far. A waiting request counts too.
	Held []int32
	Down []bool
	// Forecasts are, by replica, what the request to be routed would do there;
	// empty where nobody forecasts.
	Forecasts []Forecast
	// Rate of arrivals per second: declared, or the unbiased estimate over the
	// last [RateWindow] gaps.
	Rate float64
	// Smoothed is the rates of arrivals as remembered over [RateHorizons], or the
	// declared one for each.
	Smoothed SmoothedRates

	taken uint64 // the ledger's, when the view was
}

// Forecast is what a further request is expected to do on a replica.
type Forecast struct {
	// Pace is the time per output token of the batch that it would join, as a
	// multiple of the request's deadline.
	Pace float64
	// Misses is the number of missed deadlines that it would add, its own and
	// those of the requests that it slows.
	Misses float64
}

// Available is the one predicate of eligibility: the replica is up and has a
// place left.
func (v *View) Available(replica int) bool {
	return available(v.Table, v.InFlight, v.Down, replica)
}

func available(t *Table, inFlight []int32, down []bool, replica int) bool {
	limit := t.Replicas[replica].Limit
	return !down[replica] && (limit == 0 || int(inFlight[replica]) < limit)
}

// VariantAvailable says whether any replica of the variant is available.
func (v *View) VariantAvailable(variant int) bool {
	return slices.ContainsFunc(v.Table.ReplicasOf(variant), v.Available)
}

// VariantInFlight sums the requests on all replicas of a variant.
func (v *View) VariantInFlight(variant int) int {
	var sum int
	for _, r := range v.Table.ReplicasOf(variant) {
		sum += int(v.InFlight[r])
	}
	return sum
}

// KVUse is the share of a replica's KV cache that its requests fill, above 1
// if some must wait; 0 if the cache's size is unknown.
func (v *View) KVUse(replica int) float64 {
	if size := v.Table.Replicas[replica].KVTokens; size > 0 {
		return float64(v.Held[replica]) / float64(size)
	}
	return 0
}

// LeastKVUse is the smallest [View.KVUse] of the variant's available replicas,
// or −1 if none is available.
func (v *View) LeastKVUse(variant int) float64 {
	least := -1.0
	for _, r := range v.Table.ReplicasOf(variant) {
		if use := v.KVUse(r); v.Available(r) && (least < 0 || use < least) {
			least = use
		}
	}
	return least
}

// Shortest is the fewest requests in flight on an available replica of the
// variant, or −1 if none is available.
func (v *View) Shortest(variant int) int {
	shortest := -1
	for _, r := range v.Table.ReplicasOf(variant) {
		if n := int(v.InFlight[r]); v.Available(r) && (shortest < 0 || n < shortest) {
			shortest = n
		}
	}
	return shortest
}

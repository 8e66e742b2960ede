package fleet

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Request is one unit of work as a router may know it, so without its output length.
type Request struct {
	ID           uint64
	Task         int
	PromptTokens int
	// Deadline is per output token; zero stands for the task's own.
	Deadline time.Duration
	// FirstToken is the deadline of the answer's first token and Total that of its end,
	// since arrival; zero stands for the task's own.
	FirstToken, Total time.Duration
	Arrival           time.Duration
	// MinQuality is the least quality that the answer may have. Zero allows any.
	MinQuality float64
	// Answers is how many answers to the prompt are generated at once. Zero is one.
	Answers int
	// Variants has a bit for each variant that may answer, by index. Zero is all of them.
	Variants uint64
	// Holding has a bit for each variant whose context can hold the prompt, as far as that
	// is known. Zero is all of them.
	Holding uint64
	// Session is a hash of the session that the request is part of; zero is none. Balancers
	// may use it, so a router decides such a request on the whole fleet.
	Session uint64
	// Only is one more than the index of the only replica that can answer it, which is of
	// the variant that it is pinned to; zero where any can.
	Only int
	// Without lists replicas that cannot answer it, whatever their variants: to a decision
	// about it they are down. The list is read-only.
	Without []int
	// Held reports whether it has waited for a replica to be loaded or woken. The gate then ignores deadlines
	// that count from its arrival, by which it would never begin.
	Held bool
	// Prompt identifies its prompt to a simulation, which values answers by it. Zero is none,
	// and no decision looks at it.
	Prompt int32
	// First, if not nil, is the variant that its class gets first under load. It is read-only.
	First *First
	// Predicted is the quality of its answers as far as its prompt shows it.
	Predicted Prediction
}

// Ledger turns events (a request arrived, a lease began or ended, a replica went down) into
// the counters that policies see. The simulator and the server use the same ledger, so a
// policy sees bit-equal views in both.
//
// Its methods may be called from any goroutine. A view does not show the leases that others
// begin after it; BeginOn refuses to begin if there are such on the same host.
type Ledger struct {
	table   *Table
	present atomic.Pointer[roster] // see [View.SampleOf]

	mu       sync.Mutex // protects all below
	inFlight []int32
	byTask   []int32 // in flight, by replica and task
	held     []int32 // tokens
	down     []bool  // vacant, ending, failed, drained, or not placed Up
	failed   []bool
	drained  []bool
	rate     rateEstimator
	arrived  uint64
	begun    []uint64 // requests begun, by task
	declared float64
	routers  float64 // that share the fleet; 0 is one
	others   *Rates  // of the other routers; nil: unknown
	slots    []slot
	free     []uint32
	recent   recent
	taken    uint64   // places so far, and turns of replicas up or down
	last     []uint64 // by host, the last of the places there, and of all turns
	// The lists below are empty while all are zero; see SetCap, Correct and SlowDown.
	caps, elsewhere, heldElsewhere []int32
	excess                         []float32
	facts                          Facts
	tightest                       []time.Duration
	onRoom                         []func()
	placement                      placement
	presence                       []Presence // by replica; empty while all are Present
	awaited                        []int32    // by variant; empty while nothing has been held
}

// slot is the entry of one lease. Its generation makes old leases inert.
type slot struct {
	generation    uint32
	replica, task int32
}

// NewLedger makes a ledger with nothing in flight. Replicas are up, unless the table sets
// another initial state.
func NewLedger(t *Table) *Ledger {
	l := &Ledger{
		table:    t,
		inFlight: make([]int32, len(t.Replicas)),
		byTask:   make([]int32, len(t.Replicas)*len(t.Tasks)),
		held:     make([]int32, len(t.Replicas)),
		down:     make([]bool, len(t.Replicas)),
		failed:   make([]bool, len(t.Replicas)),
		drained:  make([]bool, len(t.Replicas)),
		tightest: make([]time.Duration, len(t.Replicas)),
		last:     make([]uint64, len(t.Hosts)),
		recent:   newRecent(t),
		begun:    make([]uint64, len(t.Tasks)),

		placement: newPlacement(t),
	}
	for i, placed := range l.placement.state {
		l.down[i] = placed != Up
		l.facts.turn(len(t.Replicas), i, placed)
	}
	l.present.Store(present(t, l.state))
	return l
}

// Table returns the fleet that the ledger counts.
func (l *Ledger) Table() *Table { return l.table }

// Arrive counts the arrival of a request, which moves the rate estimate.
func (l *Ledger) Arrive(now time.Duration) {
	l.mu.Lock()
	l.rate.arrive(now)
	l.arrived++
	l.mu.Unlock()
}

// Arrivals appends the number of requests of each task that have been begun to begun. It returns the number that
// have arrived, refused ones included, and the declared rate; 0 if none is declared.
func (l *Ledger) Arrivals(begun []uint64) (tasks []uint64, arrived uint64, declared float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append(begun, l.begun...), l.arrived, l.declared
}

// DeclareRate replaces the estimated arrival rate by a known one, in requests per second, as
// in the paper's stable workload (LBE-19). Zero goes back to the estimate.
func (l *Ledger) DeclareRate(perSecond float64) {
	l.mu.Lock()
	l.declared = perSecond
	l.mu.Unlock()
}

// HoldEach sets how many tokens the requests on each of the replicas hold there: their
// prompts and what they have generated so far. If the holder is a [Bounder], it also sets
// their tightest deadlines.
func (l *Ledger) HoldEach(replicas []int, tokens Holder) {
	bounds, _ := tokens.(Bounder)
	l.mu.Lock()
	for _, r := range replicas {
		l.held[r] = int32(min(tokens.Held(r), math.MaxInt32))
		if bounds != nil {
			l.tightest[r] = bounds.Tightest(r)
		}
	}
	l.mu.Unlock()
}

// Holder knows how many tokens the requests on a replica hold there.
type Holder interface{ Held(replica int) int }

// Bounder is implemented by a [Holder] that knows the deadlines of those requests too; see
// [View.Tightest].
type Bounder interface {
	Tightest(replica int) time.Duration
}

// SetUp marks a replica as able, or unable, to take new requests.
func (l *Ledger) SetUp(replica int, up bool) {
	l.mu.Lock()
	l.failed[replica] = !up
	l.turn(replica)
	l.mu.Unlock()
	l.notifyRoom()
}

// OnRoom adds f to the functions that are called whenever there may be more room than
// before, or none any more: when a lease has ended, when a replica goes up or down, and when
// its cap, its correction or its slowdown changes. The goroutine that causes the change
// calls f, under no lock of the ledger; f must not wait.
func (l *Ledger) OnRoom(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.onRoom = append(slices.Clip(l.onRoom), f)
}

func (l *Ledger) notifyRoom() {
	l.mu.Lock()
	list := l.onRoom
	l.mu.Unlock()
	for _, f := range list {
		f()
	}
}

// turn updates the replica's state in views, and whether it is down: it is if that is not Up.
// The lock is held.
func (l *Ledger) turn(replica int) {
	s := l.state(replica)
	l.down[replica] = s != Up
	l.facts.turn(len(l.table.Replicas), replica, s)
	l.present.Store(present(l.table, l.state))
	l.taken++
	for host := range l.last {
		l.last[host] = l.taken
	}
}

// View copies what a policy may know into v, reusing its slices.
func (l *Ledger) View(now time.Duration, v *View) {
	l.mu.Lock()
	defer l.mu.Unlock()
	v.Table, v.Now, v.taken = l.table, now, l.taken
	v.InFlight = append(v.InFlight[:0], l.inFlight...)
	v.ByTask = append(v.ByTask[:0], l.byTask...)
	v.Held = append(v.Held[:0], l.held...)
	v.tightest = append(v.tightest[:0], l.tightest...)
	v.Down = append(v.Down[:0], l.down...)
	l.recent.copyTo(&v.Recent)
	l.copyCorrections(v)
	if l.declared > 0 {
		v.Rate = l.declared
		for i := range v.Smoothed {
			v.Smoothed[i] = l.declared
		}
		return
	}
	v.Rate, v.Smoothed = l.ofAll(l.rate.at(now))
}

// Begin takes a place on the replica for a request of the task, and counts the request as
// the latest of the recent ones. It reports false, and changes nothing, if the replica is
// down or full.
func (l *Ledger) Begin(replica, task int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.begin(replica, task)
	return l.count(x, ok, task)
}

// count makes the request of a new lease the latest of the recent ones. The lock is held.
func (l *Ledger) count(x Lease, ok bool, task int) (Lease, bool) {
	if ok {
		x.number = l.recent.begin(task, l.table.Replicas[l.slots[x.slot].replica].Variant)
		l.begun[task]++
	}
	return x, ok
}

// BeginOn is Begin for a choice made on the view v. It also reports false if a place has
// been taken on the replica's host since then, or any replica has gone down or come up.
// Places on other hosts do not matter: they do not make this choice worse.
func (l *Ledger) BeginOn(v *View, replica, task int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.beginOn(v, replica, task)
	return l.count(x, ok, task)
}

// BeginAgain is BeginOn for a request that holds a lease already: it takes another place
// without counting another recent request.
func (l *Ledger) BeginAgain(v *View, held Lease, replica, task int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, ok := l.beginOn(v, replica, task)
	x.number = held.number
	return x, ok
}

// BeginOver is BeginAgain for a request that lost its place and finds no other: the replica's
// limit does not hold it back, so that it waits in the engine. A cap does, since what has one
// recovers, or has refused requests.
func (l *Ledger) BeginOver(v *View, held Lease, replica, task int) (Lease, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last[l.table.Replicas[replica].Host] > v.taken || l.down[replica] || len(l.caps) > 0 && l.caps[replica] != 0 {
		return Lease{}, false
	}
	x := l.enter(replica, task)
	x.number = held.number
	return x, true
}

func (l *Ledger) beginOn(v *View, replica, task int) (Lease, bool) {
	if l.last[l.table.Replicas[replica].Host] > v.taken {
		return Lease{}, false
	}
	return l.begin(replica, task)
}

func (l *Ledger) begin(replica, task int) (Lease, bool) {
	if !available(l.table, l.inFlight[replica], l.down, l.caps, replica) {
		return Lease{}, false
	}
	return l.enter(replica, task), true
}

// enter takes a place for a request of the task. The lock is held.
func (l *Ledger) enter(replica, task int) Lease {
	l.inFlight[replica]++
	l.byTask[replica*len(l.table.Tasks)+task]++
	l.taken++
	l.last[l.table.Replicas[replica].Host] = l.taken
	var n uint32
	if last := len(l.free) - 1; last >= 0 {
		n, l.free = l.free[last], l.free[:last]
	} else {
		n = uint32(len(l.slots))
		l.slots = append(l.slots, slot{})
	}
	l.slots[n].replica, l.slots[n].task = int32(replica), int32(task)
	return Lease{ledger: l, slot: n, generation: l.slots[n].generation}
}

// InFlight returns the number of leases on all replicas.
func (l *Ledger) InFlight() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	var sum int
	for _, n := range l.inFlight {
		sum += int(n)
	}
	return sum
}

// InFlightOn returns the number of leases on one replica.
func (l *Ledger) InFlightOn(replica int) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return int(l.inFlight[replica])
}

// Lease is a place on a replica, which the router holds from the choice until the work ends.
// It is a small value: copies stand for the same lease.
type Lease struct {
	ledger           *Ledger
	slot, generation uint32
	number           uint64 // of the request, counted from 1
}

// Settle sets by how much the request fell short of its peak ([Task.Shortfall]). Until then
// it counts like an answer in time by its variant. For a request that is no longer recent
// Settle does nothing.
func (x Lease) Settle(shortfall float32) {
	if x.ledger == nil {
		return
	}
	x.ledger.mu.Lock()
	x.ledger.recent.settle(x.number, shortfall)
	x.ledger.mu.Unlock()
}

// End gives the place back. The first call returns true; later ones, on any copy, do nothing
// and return false, so that every way out may call it.
func (x Lease) End() bool {
	if x.ledger == nil {
		return false
	}
	callbacks, ended := x.ledger.end(x)
	for _, f := range callbacks {
		f()
	}
	return ended
}

// end is End without the calls: it returns the functions to call once the lock is free.
func (l *Ledger) end(x Lease) (callbacks []func(), ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := &l.slots[x.slot]
	if s.generation != x.generation {
		return nil, false
	}
	s.generation++
	l.inFlight[s.replica]--
	l.byTask[int(s.replica)*len(l.table.Tasks)+int(s.task)]--
	l.free = append(l.free, x.slot)
	return l.onRoom, true
}

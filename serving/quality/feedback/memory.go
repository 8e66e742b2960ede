package feedback

import (
	"errors"
	"hash/maphash"
	"sync"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/quality"
)

// The bounds of what is remembered of requests, unless others are given.
const (
	DefaultEntries = 10_000
	DefaultBytes   = 32 << 20
)

// Why a score is refused.
var (
	ErrUnknown = errors.New("no answer with this id is remembered for the caller's key: it was not asked for, or too long ago")
	ErrLate    = errors.New("the answer is too old to be scored")
	ErrTwice   = errors.New("the answer has been scored already")
)

// Request describes a request before it is answered.
type Request struct {
	// Owner is on whose behalf it came, and ID the one in its header X-Request-Id.
	Owner, ID string
	Task      int
	// Predicted has the qualities that it was routed by.
	Predicted *fleet.Prediction
	// Sample is of its prompt. It is copied.
	Sample *quality.Sample
}

// Answer describes a request once its answer has begun.
type Answer struct {
	Variant int
	Arm     Arm
	// Candidate says that the predictor on trial had predicted its quality.
	Candidate bool
	// ID is the answer's; nil if it has none, or none yet.
	ID []byte
}

// Memory remembers requests for some time after their answers, so that these can be scored by
// their owners: by the ID of the answer, or that of the request. It holds no text. A new request
// replaces the oldest where there is no room. Its methods may be called from any goroutine.
type Memory struct {
	clock  func() time.Duration
	within func() time.Duration
	seed   maphash.Seed
	most   uint64

	mu      sync.Mutex // protects all below
	entries []entry    // a ring by ticket; see at
	byID    map[uint64]uint64
	oldest  uint64         // ticket
	last    uint64         // ticket
	expired uint64         // ticket up to which samples are cleared
	owners  map[string]int // how many of their entries have not expired
	samples arena
}

// entry is one request.
type entry struct {
	owner     string
	task      int
	answer    Answer // without its ID
	answered  bool
	scored    bool
	predicted fleet.Prediction
	ids       [2]uint64     // hashes of the request's ID and the answer's
	since     time.Duration // the last that happened to it
	sample    stored
}

// NewMemory returns an empty memory of so many requests and bytes of samples. Within returns how
// long after its end an answer may be scored.
func NewMemory(entries, bytes int, within, clock func() time.Duration) *Memory {
	return &Memory{
		clock: clock, within: within, seed: maphash.MakeSeed(), most: uint64(entries),
		byID: map[uint64]uint64{}, oldest: 1, owners: map[string]int{}, samples: newArena(bytes),
	}
}

// Begin remembers a request and returns its ticket. That is 0 if its sample is too large.
func (m *Memory) Begin(r *Request) (ticket uint64) {
	now, id := m.clock(), m.hash(r.Owner, r.ID)
	m.mu.Lock()
	defer m.mu.Unlock()
	until, ok := m.samples.reserve(r.Sample)
	if !ok {
		return 0
	}
	for m.oldest <= m.last && (m.last-m.oldest+1 >= m.most || m.at(m.oldest).sample.start < until) {
		m.drop()
	}
	m.last++
	if uint64(len(m.entries)) < m.most {
		m.entries = append(m.entries, entry{})
	}
	e := m.at(m.last)
	*e = entry{owner: r.Owner, task: r.Task, since: now, sample: m.samples.put(r.Sample)}
	if r.Predicted != nil {
		e.predicted = *r.Predicted
	}
	m.owners[r.Owner]++
	m.name(m.last, 0, id)
	m.expire(now)
	return m.last
}

// Answered notes that the answer to a request has begun, and once more when its ID is known.
func (m *Memory) Answered(ticket uint64, a Answer) {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(ticket)
	if e == nil {
		return
	}
	if a.ID != nil {
		m.name(ticket, 1, m.hashBytes(e.owner, a.ID))
		a.ID = nil // the caller's
	}
	e.answered, e.answer, e.since = true, a, now
}

// Ended notes that the request is over. What is no answer, whole or broken off by its client, can
// not be scored.
func (m *Memory) Ended(ticket uint64, answer bool) {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(ticket)
	switch {
	case e == nil:
	case answer && e.answered:
		e.since = now
	default:
		m.forget(ticket)
	}
}

// Score takes the score of an answer, whose ID or whose request's is given, and returns it with what
// is remembered of the request.
func (m *Memory) Score(owner, id string, score float64) (Label, error) {
	now, hash := m.clock(), m.hash(owner, id)
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.find(m.byID[hash])
	switch {
	case e == nil || !e.answered:
		return Label{}, ErrUnknown
	case e.scored:
		return Label{}, ErrTwice
	case now-e.since > m.within():
		return Label{}, ErrLate
	}
	e.scored = true
	l := Label{Owner: owner, Task: e.task, Variant: e.answer.Variant, Arm: e.answer.Arm, Candidate: e.answer.Candidate, Score: score, Sample: m.samples.get(e.sample)}
	if e.predicted.Known {
		l.Known, l.Predicted = true, float64(e.predicted.Quality[l.Variant])
	}
	return l, nil
}

// Expire clears the samples of answers that may no longer be scored.
func (m *Memory) Expire() {
	now := m.clock()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire(now)
}

// Len returns how many requests are remembered.
func (m *Memory) Len() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return int(m.last - m.oldest + 1)
}

// Alone reports whether all requests whose answers can be scored are of one owner.
func (m *Memory) Alone() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.owners) <= 1
}

// drop forgets the oldest entry.
func (m *Memory) drop() {
	if m.oldest > m.expired {
		m.leave(m.at(m.oldest).owner)
	}
	m.forget(m.oldest)
	m.oldest++
}

// leave notes that an owner has one entry less that can be scored.
func (m *Memory) leave(owner string) {
	if m.owners[owner]--; m.owners[owner] == 0 {
		delete(m.owners, owner)
	}
}

// expire clears what is older than may be scored. The IDs stay, so that a late score is told apart
// from an unknown one.
func (m *Memory) expire(now time.Duration) {
	within := m.within()
	for m.expired = max(m.expired, m.oldest-1); m.expired < m.last; m.expired++ {
		e := m.at(m.expired + 1)
		if now-e.since <= within {
			return
		}
		m.samples.clear(e.sample)
		m.leave(e.owner)
	}
}

// at returns the entry of a ticket that is remembered.
func (m *Memory) at(ticket uint64) *entry { return &m.entries[(ticket-1)%m.most] }

// find returns the entry of a ticket; nil if it is no longer remembered.
func (m *Memory) find(ticket uint64) *entry {
	if ticket < m.oldest || ticket > m.last {
		return nil
	}
	return m.at(ticket)
}

// name has the entry found by the hash of an ID, instead of an earlier one.
func (m *Memory) name(ticket uint64, which int, hash uint64) {
	m.at(ticket).ids[which] = hash
	m.byID[hash] = ticket
}

// forget has the entry no longer found.
func (m *Memory) forget(ticket uint64) {
	e := m.at(ticket)
	for _, id := range e.ids {
		if m.byID[id] == ticket {
			delete(m.byID, id)
		}
	}
	m.samples.clear(e.sample)
	e.answered = false
}

// hash returns that of an ID of the owner's. Those of two owners differ.
func (m *Memory) hash(owner, id string) uint64 {
	var h maphash.Hash
	m.begin(&h, owner)
	_, _ = h.WriteString(id)
	return h.Sum64()
}

func (m *Memory) hashBytes(owner string, id []byte) uint64 {
	var h maphash.Hash
	m.begin(&h, owner)
	_, _ = h.Write(id)
	return h.Sum64()
}

func (m *Memory) begin(h *maphash.Hash, owner string) {
	h.SetSeed(m.seed)
	_, _ = h.WriteString(owner)
	_ = h.WriteByte(0)
}

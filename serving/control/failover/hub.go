package failover

import (
	"encoding/json"
	"sync"
	"time"
)

// Notice is a step of a failover as subscribers and operators see it. What does not apply is left
// out.
type Notice struct {
	// ID rises by one with each notice of this run of the router, and is higher than those of the
	// runs before.
	ID uint64 `json:"id,omitempty"`
	// Time is when it happened.
	Time time.Time `json:"time,omitzero"`
	// Term is the number of the controller's run.
	Term uint64 `json:"term,omitempty"`
	// Failover is the number of the failover that it is of; 0 before the first.
	Failover int `json:"failover"`
	// AtMS is when it happened, since the failover began, in milliseconds.
	AtMS float64 `json:"at_ms"`
	// Kind is one of the kinds of steps, such as lost, activated or loaded.
	Kind        string `json:"kind"`
	Host        string `json:"server,omitempty"`
	Application string `json:"application,omitempty"`
	Variant     string `json:"variant,omitempty"`
	// Quality is that of the variant, and Full that of the application's full one.
	Quality float64 `json:"quality,omitempty"`
	Full    float64 `json:"full,omitempty"`
	// TookMS is the time since the loss was detected, of notified and swapped, how long a load took,
	// or how long a host was silent of which the alarm was false.
	TookMS float64 `json:"took_ms,omitempty"`
	Reason string  `json:"reason,omitempty"`
}

// kept is how many notices those who come late, or read slowly, can have.
const kept = 1024

// eachTerm counts the IDs that a run of the router has.
const eachTerm = 1_000_000

// hub hands notices to all who read them. A slow reader holds up no other: one that is more than kept
// notices behind misses the oldest.
type hub struct {
	mu     sync.Mutex // protects what follows
	before uint64     // all IDs are higher
	last   uint64     // ID of the newest
	ring   [kept]message
	turn   chan struct{} // closed when there is another
}

// message is a notice, encoded once for all readers.
type message struct {
	id   uint64
	kind string
	text []byte
}

// newHub makes the hub of a run of the router.
func newHub(term uint64) *hub {
	return &hub{before: term * eachTerm, last: term * eachTerm, turn: make(chan struct{})}
}

// begin starts a new term for the notices.
func (h *hub) begin(term uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.before, h.last = term*eachTerm, term*eachTerm
}

// publish hands the notice out.
func (h *hub) publish(n Notice) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last++
	n.ID = h.last
	text, err := json.Marshal(n)
	if err != nil { // a quality that is no number, which systems do not have
		text = []byte("{}")
	}
	h.ring[n.ID%kept] = message{n.ID, n.Kind, text}
	close(h.turn)
	h.turn = make(chan struct{})
}

// newest is the ID of the newest notice.
func (h *hub) newest() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// after has the notices that come after the one of the ID, as far as they are kept, and what is
// closed when there are more.
func (h *hub) after(id uint64) (list []message, more <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if id > h.last { // of another run of the router, whose clock was ahead
		id = 0
	}
	for n := max(id, h.before, h.last-min(h.last, kept)) + 1; n <= h.last; n++ {
		list = append(list, h.ring[n%kept])
	}
	return list, h.turn
}

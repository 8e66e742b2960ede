package work

import "time"

// Outcome is how work ended.
type Outcome uint8

// The outcomes.
const (
	// Panicked is the zero value: work that was given no other outcome.
	Panicked Outcome = iota
	// Completed: the answer went out whole.
	Completed
	// Refused: the upstream found fault with the request (4xx).
	Refused
	// Failed: the upstream failed, or could not be reached.
	Failed
	// TimedOut: the upstream took too long.
	TimedOut
	// Cancelled: the client left.
	Cancelled
	// Expired: the holder of a lease never came back.
	Expired
)

// Outcomes are the names of the outcomes, as metrics and logs have them.
var Outcomes = [...]string{"panicked", "completed", "refused", "failed", "timed out", "cancelled", "expired"}

// String is the outcome as metrics and logs have it.
func (o Outcome) String() string { return Outcomes[o] }

// Result is what ended work was worth.
type Result struct {
	Outcome Outcome
	// Tokens is the length of the answer, as far as it came; zero if unknown.
	Tokens int
	// Latency is from arrival to finish, PerToken the same divided by the
	// output tokens; zero unless completed with a known number of tokens.
	Latency, PerToken time.Duration
	// Judged says that the deadline was met or missed. A client's own doing
	// (a faulty request, a cancel) and an unknown length are not judged; an
	// answer that never came is a miss.
	Judged, Met bool
	// Utility is zero unless completed.
	Utility float64
	// Reported says that the router saw none of the answer: the end and its length are
	// what the holder of a lease said of them.
	Reported bool
}

// Fine reports whether the router and its replicas did their part.
func (o Outcome) Fine() bool { return o == Completed || o == Refused || o == Cancelled || o == Expired }

package proxy

// The header fields of requests and answers that several rooms read or write.
const (
	RequestID = "X-Request-Id"
	Variant   = "X-Gearshift-Variant"
	Replica   = "X-Gearshift-Replica"
	Overhead  = "X-Gearshift-Overhead-Us"
	Attempts  = "X-Gearshift-Attempts"
	// Modalities names the kinds of parts of the messages that the replica was sent.
	Modalities = "X-Gearshift-Modalities"
	// ForwardedFor names the addresses that a request came through, the client's first.
	ForwardedFor = "X-Forwarded-For"
)

// Two are the values of two header fields, for one allocation.
func Two(a, b string) (first, second []string) {
	both := []string{a, b}
	return both[:1:1], both[1:]
}

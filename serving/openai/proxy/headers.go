package proxy

import "strconv"

// The header fields of requests and answers that several rooms read or write.
const (
	RequestID = "X-Request-Id"
	Variant   = "X-Gearshift-Variant"
	Replica   = "X-Gearshift-Replica"
	Overhead  = "X-Gearshift-Overhead-Us"
	Attempts  = "X-Gearshift-Attempts"
	// Modalities names the kinds of parts of the messages that the replica was sent.
	Modalities = "X-Gearshift-Modalities"
	// Quality is what was predicted of the variant that answered, QualityBest of the best one, and
	// QualitySure how sure that is.
	Quality     = "X-Gearshift-Quality"
	QualityBest = "X-Gearshift-Quality-Best"
	QualitySure = "X-Gearshift-Quality-Sure"
	// ForwardedFor names the addresses that a request came through, the client's first.
	ForwardedFor = "X-Forwarded-For"
)

// Two are the values of two header fields, for one allocation.
func Two(a, b string) (first, second []string) {
	both := []string{a, b}
	return both[:1:1], both[1:]
}

// shares are the values of header fields from 0 to 1. They are shared, and read-only.
var shares = func() (all [1001][]string) {
	for i := range all {
		all[i] = []string{strconv.FormatFloat(float64(i)/1000, 'f', 3, 64)}
	}
	return all
}()

// share returns the value of a field that is from 0 to 1.
func share(x float32) []string {
	return shares[max(0, min(len(shares)-1, int(x*1000+0.5)))]
}

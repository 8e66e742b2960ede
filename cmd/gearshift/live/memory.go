package live

import "os"

// ballast is memory that is never touched, so that it takes none of the
// machine's. Garbage is collected when the heap has doubled: with it a router,
// whose heap is small, collects an order of magnitude less often, and yet not
// in proportion to what requests hold when there are many. More of it would be
// better for throughput, and worse for the slowest requests: while the runtime
// sweeps what it has collected, a lone processor does not look at the network.
//
//lint:ignore U1000 to be held is all its use
var ballast []byte

// ballastBytes also bounds, roughly, the garbage that may lie about.
const ballastBytes = 32 << 20

// easeCollector is for long-running servers. Whoever sets the collector's own
// variables means what they say.
func easeCollector() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		ballast = make([]byte, ballastBytes)
	}
}

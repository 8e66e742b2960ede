package app

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

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

// easeCollector is for long-running servers. A user who sets the collector's own
// variables means what they say.
func easeCollector() {
	if os.Getenv("GOGC") == "" && os.Getenv("GOMEMLIMIT") == "" {
		ballast = make([]byte, ballastBytes)
	}
}

// collectorShare is the part of a container's memory at which the collector works
// harder. The rest is for what is not its own: stacks of the kernel, sockets, the file
// cache, and garbage that comes faster than it is collected.
const collectorShare = 0.85

// memoryLimit returns what the process may use, in bytes, and who says so: GOMEMLIMIT, the
// cgroup, or the machine's memory. Where the cgroup alone has a limit, the collector
// gets a share of that as its own.
func memoryLimit(log *slog.Logger) int64 {
	group, err := memlimit.FromCgroup()
	if err != nil {
		group = 0
	}
	soft := debug.SetMemoryLimit(-1)
	if group > 0 && soft == math.MaxInt64 && os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(float64(group) * collectorShare))
	}
	machine, err := memlimit.FromSystem()
	if err != nil {
		machine = 0
	}
	limit, from := smallestLimit(soft, int64(min(group, math.MaxInt64)), int64(min(machine, math.MaxInt64)))
	log.Debug("memory limit", "bytes", limit, "from", from)
	return limit
}

// smallestLimit returns the limit that holds of a soft one, which is math.MaxInt64 if there is
// none, a container's, and the machine's memory, which are zero if they are unknown. The
// machine's counts where nothing else does.
func smallestLimit(soft, group, machine int64) (limit int64, from string) {
	if soft != math.MaxInt64 && soft > 0 {
		limit, from = soft, "GOMEMLIMIT"
	}
	if group > 0 && (limit == 0 || group < limit) {
		limit, from = group, "cgroup"
	}
	if machine > 0 && (limit == 0 || machine < limit) {
		limit, from = machine, "machine"
	}
	return limit, from
}

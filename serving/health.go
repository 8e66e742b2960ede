package serving

import (
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/serving/probes"
	"gearshift/serving/wire"
)

// failure is how a replica failed a request.
type failure = health.Failure

// The failures. What a client did, by leaving or by asking for something
// impossible, is none.
const (
	failedConnect = health.Connect
	failedBroken  = health.Broken
	failedStatus  = health.ServerError
	failedTimeout = health.Timeout
)

// listens is in how many parts the time is cut after which a silence counts.
const listens = 10

// keeper moves the health monitor by what happens and by the clock, and tells of
// its changes.
type keeper struct {
	monitor *health.Monitor
	prober  *probes.Prober // nil if no backend can be probed
	clock   Clock
	tell    func(health.Change)
	// waiting fills in how many requests the replicas owe an answer to, and how many
	// more are held by callers.
	waiting  func(work, held []int)
	siblings [][]int // by replica: those of its host, itself among them

	mu      sync.Mutex // protects all below
	timer   *time.Timer
	ear     *time.Timer
	silence time.Duration // that is listened for; zero is none
	heard   time.Duration
	closed  bool
}

// set changes what the replicas are watched by.
func (k *keeper) set(c health.Config) {
	k.monitor.Set(c)
	k.hark(c.SilentAfter)
	k.advance()
}

// hark listens for silences of that length from now on.
func (k *keeper) hark(silence time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed || k.silence == silence {
		return
	}
	if k.silence, k.heard = silence, k.clock(); k.ear != nil {
		k.ear.Stop()
	}
	if silence > 0 {
		k.ear = time.AfterFunc(silence/listens, k.listen)
	}
}

// failed is told of each request that the replica failed, as soon as that is
// known, and when it was sent; by any goroutine.
func (k *keeper) failed(replica int, why failure, sent time.Duration) {
	k.changed(k.monitor.Failed(replica, why, sent, k.clock()))
	if why == failedConnect || why == failedBroken {
		k.doubt(replica)
	}
}

// busy is told of each request that the replica refused for want of room, while it is
// counted there. It reports whether that was the reason; see [health.Monitor.Busy].
func (k *keeper) busy(replica int, sure bool, spare time.Duration) bool {
	ok := k.monitor.Busy(replica, sure, spare, k.clock())
	if ok {
		k.advance()
	}
	return ok
}

// succeeded is told of each request whose answer has come whole from the
// replica and is no server error, and when it was sent; by any goroutine.
func (k *keeper) succeeded(replica int, sent time.Duration) {
	k.changed(k.monitor.Succeeded(replica, sent, k.clock()))
}

// probed takes in what a probe found.
func (k *keeper) probed(replicas []int, f health.Finding) {
	for _, i := range replicas {
		k.changed(k.monitor.Probed(i, f, k.clock()))
	}
}

// listed takes in whether a server has the replica's model.
func (k *keeper) listed(replica int, note string) {
	k.changed(k.monitor.Listed(replica, note, k.clock()))
}

// unlisted has the replica's server asked for its models: it lacks what it was asked for.
func (k *keeper) unlisted(replica int) {
	if k.prober != nil {
		k.prober.Soon(func(i int) bool { return i == replica })
	}
}

// recheck has every server probed and asked for its models: some are others now.
func (k *keeper) recheck() {
	if k.prober != nil {
		k.prober.Soon(func(int) bool { return true })
	}
}

// doubt has the replica's host probed: its servers may have gone together.
func (k *keeper) doubt(replica int) {
	if k.prober != nil {
		k.prober.Soon(func(i int) bool { return slices.Contains(k.siblings[replica], i) })
	}
}

// changed tells of the changes, and sees to it that what follows from them
// happens on time.
func (k *keeper) changed(changes []health.Change) {
	if len(changes) == 0 {
		return
	}
	for _, c := range changes {
		k.tell(c)
		if c.Ejects() && c.Why == health.Unreachable {
			k.doubt(c.Replica)
		}
	}
	k.advance()
}

// advance does what is due, and comes back for the rest.
func (k *keeper) advance() {
	for _, c := range k.step() {
		k.tell(c)
	}
}

// step does what is due and sets the timer to what is next, both under the lock: what
// was next before another's change must not put its timer off.
func (k *keeper) step() []health.Change {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	changes, next, more := k.monitor.Advance(now)
	if k.closed || !more {
		return changes
	}
	if k.timer == nil {
		k.timer = time.AfterFunc(next-now, k.advance)
	} else {
		k.timer.Reset(next - now)
	}
	return changes
}

// listen looks for replicas that keep work and answer nothing.
func (k *keeper) listen() {
	work, held := make([]int, len(k.siblings)), make([]int, len(k.siblings))
	k.waiting(work, held)
	k.mu.Lock()
	if k.closed || k.silence == 0 {
		k.mu.Unlock()
		return
	}
	now := k.clock()
	elapsed := min(now-k.heard, 2*k.silence/listens) // a pause of this process is nobody's silence
	k.heard = now
	k.ear.Reset(k.silence / listens)
	k.mu.Unlock()
	k.changed(k.monitor.CheckSilence(work, held, now, elapsed))
}

func (k *keeper) close() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	for _, timer := range []*time.Timer{k.timer, k.ear} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// alive says that the process answers.
func (s *Server) alive(c *gin.Context) { c.JSON(http.StatusOK, gin.H{"status": "ok"}) }

// ready says whether requests should be sent here: not while shutting down,
// nor while every replica is down. A full fleet is ready; it asks for patience.
func (s *Server) ready(c *gin.Context) {
	switch {
	case s.draining.Load():
		s.notReady(c, "shutting down")
	case !s.anyUp():
		s.notReady(c, "no replica is up")
	default:
		c.JSON(http.StatusOK, gin.H{"status": "ready"})
	}
}

func (s *Server) notReady(c *gin.Context, why string) {
	s.fail(c, http.StatusServiceUnavailable, wire.Error{Type: wire.ServerError, Code: "not_ready", Message: why})
}

func (s *Server) anyUp() bool {
	var v fleet.View
	s.router.Ledger().View(s.clock(), &v)
	for _, down := range v.Down {
		if !down {
			return true
		}
	}
	return false
}

package engines

import (
	"slices"
	"sync"
	"time"

	"gearshift/router/control"
	"gearshift/router/health"
)

// silenceChecks is how often silences are looked for within the time after which one counts.
const silenceChecks = 10

// Controller is the health controller: it moves the health monitor by what happens and by
// the clock, and reports its changes. Its methods may be called from any goroutine.
type Controller struct {
	monitor *health.Monitor
	prober  *Prober // nil if no backend can be probed
	clock   func() time.Duration
	report  func(health.Change)
	// waiting fills in how many requests the replicas owe an answer to, and how many
	// more are held by callers.
	waiting  func(work, held []int)
	siblings [][]int // by replica: those of its host, itself among them
	// evidence takes in what requests and probes have shown of a replica's host, for controllers
	// that have joined; began is when the request or probe was sent.
	evidence func(kind control.Kind, replica int, began time.Duration)
	// failed, if set, is called with each request that a replica failed.
	failed func(replica int)

	mu           sync.Mutex // protects all below
	timer        *time.Timer
	silenceTimer *time.Timer
	silence      time.Duration // after which it counts; zero is never
	checked      time.Duration
	closed       bool
}

// set changes what the replicas are watched by.
func (c *Controller) set(config health.Config) {
	c.monitor.Set(config)
	c.watchSilence(config.SilentAfter)
	c.advance()
}

// watchSilence looks for silences of that length from now on.
func (c *Controller) watchSilence(silence time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.silence == silence {
		return
	}
	if c.silence, c.checked = silence, c.clock(); c.silenceTimer != nil {
		c.silenceTimer.Stop()
	}
	if silence > 0 {
		c.silenceTimer = time.AfterFunc(silence/silenceChecks, c.checkSilence)
	}
}

// Failed takes in a request that the replica failed, as soon as that is
// known, and when it was sent.
func (c *Controller) Failed(replica int, why health.Failure, sent time.Duration) {
	c.changed(c.monitor.Failed(replica, why, sent, c.clock()))
	if c.failed != nil {
		c.failed(replica)
	}
	switch why {
	case health.Connect:
		c.evidence(control.Refused, replica, sent)
		c.doubt(replica)
	case health.Broken:
		c.evidence(control.Broken, replica, sent)
		c.doubt(replica)
	}
}

// Busy takes in a request that the replica refused for want of room, while it is
// counted there. It reports whether that was the reason; see [health.Monitor.Busy].
func (c *Controller) Busy(replica int, sure bool, spare time.Duration) bool {
	ok := c.monitor.Busy(replica, sure, spare, c.clock())
	if ok {
		c.advance()
	}
	return ok
}

// Succeeded takes in a request whose answer has come whole from the
// replica and is no server error, and when it was sent.
func (c *Controller) Succeeded(replica int, sent time.Duration) {
	c.changed(c.monitor.Succeeded(replica, sent, c.clock()))
}

// Unseen takes in that a request is over by estimate whose answer does not pass through the router, and when it was sent.
func (c *Controller) Unseen(replica int, sent time.Duration) {
	c.changed(c.monitor.Unseen(replica, sent, c.clock()))
}

// Erred takes in an error of the replica that was compared with no other's, and reports whether it
// counts as a failure; see [health.Monitor.Erred].
func (c *Controller) Erred(replica int, fault bool, sent time.Duration) bool {
	changes, counted := c.monitor.Erred(replica, fault, sent, c.clock())
	c.changed(changes)
	if fault && c.failed != nil {
		c.failed(replica)
	}
	return counted
}

// Agreed takes in an error of the replica that another gave, too; see [health.Monitor.Agreed].
func (c *Controller) Agreed(replica int, sent time.Duration) {
	c.changed(c.monitor.Agreed(replica, sent, c.clock()))
}

// Doubted reports whether an error of the replica is worth comparing; see [health.Monitor.Doubted].
func (c *Controller) Doubted(replica int) bool { return c.monitor.Doubted(replica) }

// probed takes in what a probe found.
func (c *Controller) probed(replicas []int, f health.Finding) {
	for _, i := range replicas {
		c.changed(c.monitor.Probed(i, f, c.clock()))
	}
	switch f {
	case health.Well:
		c.evidence(control.ProbePassed, replicas[0], c.clock())
	case health.Refused:
		c.evidence(control.Refused, replicas[0], c.clock())
	case health.Unconnected, health.Late, health.Errored:
		c.evidence(control.ProbeFailed, replicas[0], c.clock())
	}
}

// leave takes out the replicas of a host that is lost; see [health.Monitor.Leave]. All of them are
// out before any is reported: what moves from one must not go to another.
func (c *Controller) leave(replicas []int) {
	var changes []health.Change
	for _, i := range replicas {
		changes = append(changes, c.monitor.Leave(i, c.clock())...)
	}
	c.changed(changes)
}

// back gives them their full shares again; see [health.Monitor.Return].
func (c *Controller) back(replicas []int) {
	for _, i := range replicas {
		c.changed(c.monitor.Return(i, c.clock()))
	}
}

// listed takes in whether a server has the replica's model.
func (c *Controller) listed(replica int, note string) {
	c.changed(c.monitor.Listed(replica, note, c.clock()))
}

// unlisted has the replica's server asked for its models: it lacks what it was asked for.
func (c *Controller) unlisted(replica int) {
	if c.prober != nil {
		c.prober.Soon(func(i int) bool { return i == replica })
	}
}

// recheck has every server probed and asked for its models: some are others now.
func (c *Controller) recheck() {
	if c.prober != nil {
		c.prober.Soon(func(int) bool { return true })
	}
}

// doubt has the replica's host probed: its servers may have gone together.
func (c *Controller) doubt(replica int) {
	if c.prober != nil {
		c.prober.Soon(func(i int) bool { return slices.Contains(c.siblings[replica], i) })
	}
}

// changed reports the changes, and sees to it that what follows from them
// happens on time.
func (c *Controller) changed(changes []health.Change) {
	if len(changes) == 0 {
		return
	}
	for _, change := range changes {
		c.report(change)
		if change.Ejects() && change.Why == health.Unreachable {
			c.doubt(change.Replica)
		}
	}
	c.advance()
}

// advance does what is due, and comes back for the rest.
func (c *Controller) advance() {
	for _, change := range c.step() {
		c.report(change)
	}
}

// step does what is due and sets the timer to what is next, both under the lock: what
// was next before another's change must not put its timer off.
func (c *Controller) step() []health.Change {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock()
	changes, next, more := c.monitor.Advance(now)
	if c.closed || !more {
		return changes
	}
	if c.timer == nil {
		c.timer = time.AfterFunc(next-now, c.advance)
	} else {
		c.timer.Reset(next - now)
	}
	return changes
}

// checkSilence looks for replicas that keep work and answer nothing.
func (c *Controller) checkSilence() {
	work, held := make([]int, len(c.siblings)), make([]int, len(c.siblings))
	c.waiting(work, held)
	c.mu.Lock()
	if c.closed || c.silence == 0 {
		c.mu.Unlock()
		return
	}
	now := c.clock()
	elapsed := min(now-c.checked, 2*c.silence/silenceChecks) // a pause of this process is no silence
	c.checked = now
	c.silenceTimer.Reset(c.silence / silenceChecks)
	c.mu.Unlock()
	c.changed(c.monitor.CheckSilence(work, held, now, elapsed))
}

func (c *Controller) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, timer := range []*time.Timer{c.timer, c.silenceTimer} {
		if timer != nil {
			timer.Stop()
		}
	}
}

// Answers reports whether the replica's server has answered lately; see [health.Monitor.Answers].
func (c *Controller) Answers(replica int, now time.Duration) bool {
	return c.monitor.Answers(replica, now)
}

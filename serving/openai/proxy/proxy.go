// Package proxy sends a routed request to a replica, and to others as long as none has begun
// to answer, and passes the answer on to the client as it comes. It chooses no replica by
// itself and counts nothing: it moves the work, and reports what happens.
package proxy

import (
	"log/slog"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"gearshift/router/fleet"
	"gearshift/router/health"
	"gearshift/serving/config"
	"gearshift/serving/engines/gauges"
	"gearshift/serving/openai/wire"
	"gearshift/serving/work"
)

// Health receives how replicas answer. Times are of when an attempt was sent.
type Health interface {
	Failed(replica int, why health.Failure, sent time.Duration)
	Succeeded(replica int, sent time.Duration)
	// Erred is called with an error that was compared with no other replica's answer; fault says
	// that the replica failed, and not the request. It reports whether that counts as a failure.
	Erred(replica int, fault bool, sent time.Duration) (counted bool)
	// Agreed is called with an error that another replica gave, too.
	Agreed(replica int, sent time.Duration)
	// Doubted reports whether an error of the replica is worth asking another for the same.
	Doubted(replica int) bool
	// Busy reports whether the replica refused for want of room. Sure says that no other
	// reason is possible, spare for how long the replica asks to be spared.
	Busy(replica int, sure bool, spare time.Duration) bool
	// Answers reports whether the replica has answered lately.
	Answers(replica int, now time.Duration) bool
}

// Metrics counts what happens on the way to an answer, each event once.
type Metrics interface {
	// Dispatched counts a first attempt, and how long the router took for it.
	Dispatched(overhead time.Duration)
	// Retried counts a further attempt, by a reason among [Reasons].
	Retried(reason string, sameVariant bool)
	// Exhausted counts a further attempt that the budget did not allow.
	Exhausted()
	// Hedged counts a second replica that was asked: it won, lost, or both failed.
	Hedged(result string)
	TimedOut(phase config.Phase)
}

// Loads hears what replicas say of their load, and says the router's.
type Loads interface {
	// Asks reports whether replicas are to be asked for their load with each answer.
	Asks() bool
	// Header is called with the header of each answer of a replica, a stream's at its beginning.
	Header(replica int, h http.Header)
	// Own returns the router's load as the value of a header.
	Own(f gauges.Format) string
}

// Memory is the budget of what is kept of answers: by meters, and of answers to batches.
type Memory interface {
	wire.Budget
	// Take charges bytes, and reports false if there is no room for them. Give gives them back.
	Take(n int64) bool
	Give(n int64)
}

// Options are what a [Proxy] needs of the server around it. All of them are required. The
// functions are called from any goroutine.
type Options struct {
	Table *fleet.Table
	// Backends of the replicas, in the table's order.
	Backends []config.Backend
	// Ways are their transports, before others were put around them.
	Ways []http.RoundTripper
	// ShowsQuality reports whether answers say what was predicted of their quality.
	ShowsQuality func() bool
	// Settings are those in force.
	Settings func() *config.Config
	Clock    work.Clock
	Log      *slog.Logger
	Reply    *Writer
	Health   Health
	Metrics  Metrics
	// Memory bounds what is kept of answers.
	Memory Memory
	// Prompts learns the lengths of prompts, by task, and Events how many tokens events
	// hold, by replica.
	Prompts work.Prompts
	Events  []work.Events
	Loads   Loads
	// Keyed reports whether the replica sees the router's own key, or none, in place of the
	// client's.
	Keyed func(replica int) bool
	// Context is how many tokens a prompt and its answer may have on the replica; zero if
	// that is not known.
	Context func(replica int) int
	// Unlisted has the replica asked for its models: it lacks the one it was asked for.
	Unlisted func(replica int)
	// Keep remembers that the replica keeps the response, for its owner to come back for.
	Keep func(id string, replica int, owner string)
	// Answered is called with work that has a ticket when its answer begins, and again once the answer's
	// ID is known, before either has gone out. The ID is nil until then.
	Answered func(w *work.Work, id []byte)
	// Trusts reports whether a connection from the address is a proxy's that may say whom
	// it asks for.
	Trusts func(addr string) bool
}

// Proxy sends calls to replicas. Its methods may be called from any goroutine.
type Proxy struct {
	Options
	abilities *Abilities         // which endpoints replicas lack
	budget    *budget            // of further attempts
	failures  *config.LogLimiter // lines about attempts that failed
	pending   []pending          // by replica
	sparings  sparings
	cuts      bool // a variant leaves something out of messages
}

// New makes a Proxy.
func New(o Options) *Proxy {
	return &Proxy{
		Options: o, abilities: NewAbilities(len(Endpoints)), budget: newBudget(o.Settings().Retries),
		failures: config.NewLogLimiter(), pending: make([]pending, len(o.Backends)),
		sparings: sparings{replicas: make([]atomic.Int64, len(o.Backends))},
		cuts:     slices.ContainsFunc(o.Backends, func(b config.Backend) bool { return b.Cut != (wire.Cut{}) }),
	}
}

// Follow takes over the settings in force.
func (p *Proxy) Follow() { p.budget.set(p.Settings().Retries, p.Clock()) }

// Lost ends the attempts at the replica of whose answers no client has got anything, so that
// they are made elsewhere at once, and returns how many they are. The replica's host is lost, and
// the replica takes no requests. Answers that have begun end once nothing more of them comes
// for a second, unless [Proxy.Found] is called before.
func (p *Proxy) Lost(replica int) int { return p.pending[replica].lose(p.Clock()) }

// Refused says that nothing listens where the replica was, and that it takes no requests. What
// broke there is tried elsewhere as after a loss.
func (p *Proxy) Refused(replica int) { p.pending[replica].refuse() }

// Found says that the replica takes requests again.
func (p *Proxy) Found(replica int) { p.pending[replica].found() }

// Forget drops which endpoints the replica lacks: its engine may be another one.
func (p *Proxy) Forget(replica int) { p.abilities.Forget(replica) }

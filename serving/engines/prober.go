package engines

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"gearshift/router/health"
)

// modelsPath is asked for the list of models, and where there is no probe path: every
// OpenAI-compatible server lists its models.
const modelsPath = "/v1/models"

// soonest is the least time between two probes of a server.
const soonest = 100 * time.Millisecond

// Getter is what a Prober asks.
type Getter interface {
	// Get asks for a path of the server's own. The caller closes the body.
	Get(ctx context.Context, path string) (*http.Response, error)
}

// Target is one server of a Prober, with the replicas that it answers for.
type Target struct {
	Server   Getter
	Replicas []int
	// Models are the names by which it knows the replicas' variants. Without them it is
	// not asked for a list.
	Models []string
	// Named returns the name of the model that the replica of an index has now, where that
	// changes; empty if it has none. It is called from any goroutine. Nil: the names are Models.
	Named func(n int) string
	// Engine identifies the present engine, see [Slot]; zero means none, and nothing is probed. Nil: it never changes.
	Engine func() uint64

	asked uint64 // the engine that the present probe asks
}

// begin records which engine is about to be asked, and reports whether there is one.
func (t *Target) begin() bool {
	if t.Engine == nil {
		return true
	}
	t.asked = t.Engine()
	return t.asked != 0
}

// still reports whether the engine that was asked is still the present one.
func (t *Target) still() bool { return t.Engine == nil || t.Engine() == t.asked }

// name is that of the replica of an index now.
func (t *Target) name(n int) string {
	if t.Named != nil {
		return t.Named(n)
	}
	return t.Models[n]
}

// Prober probes servers, each at its own times.
type Prober struct {
	// OnList, if set before Start, is called with what each server says of its models, as often
	// as it is asked: notes of those that it has not, see [health.Monitor.Listed], and the contexts
	// that it reports, by the Target's replicas.
	OnList func(t Target, notes []string, contexts []int)

	config health.Config
	report func(Target, health.Finding)
	rounds []round
	ended  sync.WaitGroup
}

// round is the probing of one server.
type round struct {
	Target
	soon chan struct{}
	rand *rand.Rand // of its goroutine
	list schedule   // of its list of models
}

// NewProber makes a Prober of the servers. Each finding is reported, by any
// goroutine. The seed is that of the jitter.
func NewProber(c health.Config, targets []Target, seed uint64, report func(Target, health.Finding)) *Prober {
	p := &Prober{config: c, report: report, rounds: make([]round, len(targets))}
	for i, t := range targets {
		p.rounds[i] = round{Target: t, soon: make(chan struct{}, 1), rand: rand.New(rand.NewPCG(seed, uint64(i)))}
	}
	return p
}

// Start begins the probes. They go on until the context ends; [Prober.Wait]
// waits for that.
func (p *Prober) Start(ctx context.Context) {
	if p.config.ProbeInterval == 0 {
		return
	}
	for i := range p.rounds {
		p.ended.Go(func() { p.round(ctx, &p.rounds[i]) })
	}
}

// Set changes the configuration of a Prober that does not run.
func (p *Prober) Set(c health.Config) { p.config = c }

// Wait returns once the probes have ended. It may be started again then.
func (p *Prober) Wait() { p.ended.Wait() }

// Soon has the servers of these replicas probed at once: there is doubt of them.
func (p *Prober) Soon(replica func(int) bool) {
	for i := range p.rounds {
		w := &p.rounds[i]
		for _, r := range w.Replicas {
			if replica(r) {
				select {
				case w.soon <- struct{}{}:
				default: // it is to be already
				}
				break
			}
		}
	}
}

// round probes one server until the context ends: first within one interval, so
// that the servers are not all asked at once, then at intervals that differ by up
// to a tenth.
func (p *Prober) round(ctx context.Context, w *round) {
	wait := time.Duration(w.rand.Float64() * float64(p.config.ProbeInterval))
	timer := time.NewTimer(wait)
	defer timer.Stop()
	// Requests come at once, so the list is asked for before the first probe.
	list := time.NewTimer(soonest + wait/8)
	defer list.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-list.C:
			p.askList(ctx, w)
			continue
		case <-timer.C:
		case <-w.soon:
			w.list.due()
		}
		finding, found := p.ask(ctx, w)
		if ctx.Err() != nil {
			return
		}
		if found {
			p.report(w.Target, finding)
		}
		if w.list.next(finding, found) {
			p.askList(ctx, w)
		}
		select { // so that doubts do not make a storm
		case <-ctx.Done():
			return
		case <-time.After(min(soonest, p.config.ProbeInterval)):
		}
		timer.Reset(time.Duration((0.9 + 0.2*w.rand.Float64()) * float64(p.config.ProbeInterval)))
	}
}

// NoSocket says that an attempt failed for lack of a socket on this machine: that is no
// word on the server.
func NoSocket(err error) bool {
	return errors.Is(err, syscall.EMFILE) || errors.Is(err, syscall.ENFILE) || errors.Is(err, syscall.ENOBUFS) || errors.Is(err, syscall.EADDRNOTAVAIL)
}

// LookupFailed says that an attempt failed because the server's name could not be looked up for now:
// that is a word on who knows the names, and connections that stand may work on. A name that
// there is not is none of these.
func LookupFailed(err error) bool {
	var lookup *net.DNSError
	return errors.As(err, &lookup) && lookup.Temporary()
}

// ask probes the server once, if it can.
func (p *Prober) ask(ctx context.Context, w *round) (f health.Finding, found bool) {
	if !w.begin() {
		return 0, false
	}
	ctx, cancel := context.WithTimeout(ctx, p.config.ProbeTimeout)
	defer cancel()
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	status, err := get(ctx, w.Server, p.config.ProbePath)
	if err == nil && p.config.ProbePath != modelsPath && missing(status) {
		status, err = get(ctx, w.Server, modelsPath)
	}
	var op *net.OpError
	var timeout interface{ Timeout() bool }
	switch {
	case NoSocket(err):
		return 0, false
	case err == nil && missing(status):
		return health.Absent, true
	case err == nil && status < http.StatusInternalServerError:
		return health.Well, true
	case err == nil:
		return health.Errored, true
	case LookupFailed(err):
		return health.Late, true
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return health.Unconnected, true
	case errors.As(err, &op) && op.Op == "dial":
		return health.Refused, true
	case ctx.Err() != nil && !connected.Load():
		return health.Unconnected, true
	case ctx.Err() != nil, errors.As(err, &timeout) && timeout.Timeout():
		return health.Late, true
	}
	return health.Errored, true
}

// missing says that the server has no such path.
func missing(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented
}

func get(ctx context.Context, s Getter, path string) (status int, err error) {
	response, err := s.Get(ctx, path)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	// Read to its end, the connection can be used again.
	_, err = io.Copy(io.Discard, io.LimitReader(response.Body, 1<<20))
	return response.StatusCode, err
}

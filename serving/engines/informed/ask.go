package informed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"gearshift/router/balance"
	"gearshift/router/signals"
	"gearshift/serving/engines/gauges"
)

const (
	// patience is how long an answer about a load is waited for at most.
	patience = time.Second
	// biggest is the most that is read of one.
	biggest = 1 << 20
	// lacksFor is how long a server that has no such page is not asked.
	lacksFor = time.Minute
	// mostAsked is how many replicas are asked before one choice at most.
	mostAsked = 16
)

// asking is the state of the questions to one replica. There is one at a time: an engine that is
// slow to answer gets no more of them.
type asking struct {
	lacks atomic.Int64 // until when it is not asked: it has no such page

	mu   sync.Mutex    // protects done
	done chan struct{} // closed when the question under way has been answered; nil if there is none
}

// errNoPage is the error of a server without the page.
var errNoPage = errors.New("it has no " + gauges.LoadsPath)

// askable reports whether the replica can be asked now.
func (f *Feed) askable(replica int, now time.Duration) bool {
	return replica < len(f.options.Transports) && f.options.Transports[replica] != nil && int64(now) >= f.asks[replica].lacks.Load()
}

// ask asks the replica for its load, unless a question is under way, and returns what is closed
// when it has been answered.
func (f *Feed) ask(replica int, from signals.Source) <-chan struct{} {
	a := &f.asks[replica]
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.done != nil {
		return a.done
	}
	done := make(chan struct{})
	if f.ctx.Err() != nil { // it is closed
		close(done)
		return done
	}
	a.done = done
	f.ended.Go(func() {
		defer func() {
			a.mu.Lock()
			a.done = nil
			a.mu.Unlock()
			close(done)
		}()
		own := f.options.Own(replica)
		l, err := f.get(replica)
		now := f.options.Clock()
		switch {
		case err == nil:
			f.counts.probe(replica, answeredProbe)
			f.counts.report(replica, from)
			f.store.Hear(replica, l, from, own.Most(f.options.Own(replica)), now)
		case errors.Is(err, errNoPage):
			f.counts.probe(replica, failedProbe)
			if a.lacks.Swap(int64(now+lacksFor)) == 0 && f.options.Lacks != nil {
				f.options.Lacks(replica)
			}
		default:
			f.counts.probe(replica, failedProbe)
			f.store.Miss(replica, from, now)
		}
	})
	return done
}

// get asks the replica's server for the load of its model, on a connection that is kept.
func (f *Feed) get(replica int) (l signals.Load, err error) {
	ctx, cancel := context.WithTimeout(f.ctx, patience)
	defer cancel()
	r := (&http.Request{
		Method: http.MethodGet, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL: &url.URL{Scheme: "http", Host: "replica", Path: gauges.LoadsPath}, Host: "replica", Header: http.Header{"Accept": {"application/json"}},
	}).WithContext(ctx)
	response, err := f.options.Transports[replica].RoundTrip(r)
	if err != nil {
		return l, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, biggest+1))
	switch status := response.StatusCode; {
	case status == http.StatusNotFound || status == http.StatusMethodNotAllowed || status == http.StatusNotImplemented:
		return l, errNoPage
	case status != http.StatusOK:
		return l, fmt.Errorf("it answers %s with status %d", gauges.LoadsPath, status)
	case err != nil:
		return l, err
	}
	l, _, err = gauges.ParseLoads(text, f.model(replica))
	return l, err
}

// probes reports whether replicas may be asked for the sake of a choice.
func (f *Feed) probes() bool {
	source := f.config.Load().Source
	return f.balancer != nil && (source == All || source == Probe)
}

// allowance is how many questions may be asked: so many for each request on average, and some more
// at once.
type allowance struct {
	each float64

	mu   sync.Mutex // protects left
	left float64
}

// saved is how many questions may be asked at once beyond the average.
const saved = 8

// request allows the questions of one more request.
func (a *allowance) request() {
	a.mu.Lock()
	a.left = min(a.left+a.each, a.each+saved)
	a.mu.Unlock()
}

// take reports whether one more may be asked.
func (a *allowance) take() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left < 1-1e-9 {
		return false
	}
	a.left--
	return true
}

// Before asks the replicas that the balancer wants to hear before it chooses again for a request that
// has a place on a replica, of the same variant and tier. It returns at latest when the time for that is over, and reports whether the balancer is to choose
// now; the load of replicas that have not answered is taken to be the mean of the others.
func (f *Feed) Before(ctx context.Context, replica int, random uint64) bool {
	if !f.probes() {
		return false
	}
	f.allowed.request()
	if !f.balancer.rule.Polls {
		return false
	}
	now := f.options.Clock()
	rule := f.balancer.rules.Load().of(f.options.Table.Replicas[replica].Variant, random, now)
	var room [mostAsked]int
	asked, known := room[:0], 0
	var timer *time.Timer
	for len(asked) < mostAsked {
		asked = rule.Polled(replica, now, random, asked)
		if len(asked) == known {
			break
		}
		if timer == nil {
			timer = time.NewTimer(f.config.Load().ProbeTimeout)
			defer timer.Stop()
		}
		waits := f.askAll(asked[known:])
		inTime := f.await(ctx, asked[known:], waits, timer.C)
		now = f.options.Clock()
		for i, of := range asked[known:] {
			if k := f.store.Known(of, now); waits[i] != nil && k.Source != signals.Own {
				f.counted(of, &k)
				rule.Hear(of, k.Counters, balance.Polled, now) // also what stands in, as said for this choice
			}
		}
		if known = len(asked); !inTime {
			break
		}
	}
	return true
}

// askAll asks the replicas, as far as that is possible and allowed, and returns what is closed when
// each has answered; nil of those that are not asked.
func (f *Feed) askAll(replicas []int) []<-chan struct{} {
	now := f.options.Clock()
	waits := make([]<-chan struct{}, len(replicas))
	for i, replica := range replicas {
		if f.askable(replica, now) && f.allowed.take() {
			waits[i] = f.ask(replica, signals.Asked)
		}
	}
	return waits
}

// await waits for the replicas' answers. It reports false if the time was over before all had come.
func (f *Feed) await(ctx context.Context, replicas []int, waits []<-chan struct{}, over <-chan time.Time) (inTime bool) {
	for i, wait := range waits {
		if wait == nil {
			continue
		}
		select {
		case <-wait:
			continue
		case <-over:
		case <-ctx.Done():
		}
		f.late(replicas[i:], waits[i:])
		return false
	}
	return true
}

// late has the others of their models stand in for the replicas that have not answered.
func (f *Feed) late(replicas []int, waits []<-chan struct{}) {
	for i, replica := range replicas {
		if waits[i] == nil {
			continue
		}
		select {
		case <-waits[i]:
		default:
			f.counts.probe(replica, lateProbe)
			f.store.Miss(replica, signals.Asked, f.options.Clock())
		}
	}
}

// Beside asks the replicas that the balancer wants to hear for later requests, of the variant and tier
// of the replica that a request has a place on. It waits for none.
func (f *Feed) Beside(replica int, random uint64) {
	if !f.probes() {
		return
	}
	now := f.options.Clock()
	var room [mostAsked]int
	rule := f.balancer.rules.Load().of(f.options.Table.Replicas[replica].Variant, random, now)
	for _, of := range rule.Probed(replica, now, random, room[:0]) {
		if f.askable(of, now) && f.allowed.take() {
			f.ask(of, signals.Probed)
		}
	}
}

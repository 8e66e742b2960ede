package tier

import (
	"container/heap"
	"math"
	"time"

	"gearshift/router/control"
	"gearshift/router/signals"
)

// host shares its cores among the requests that it has. Each has got as much work done since
// it came as any other, so that one number, received, says how far all are: a request ends
// when received has risen by its work.
type host struct {
	cores    float64
	running  requests
	counts   []int // of requests, by model
	work     time.Duration
	received float64 // seconds of work that each request has got so far
	at       time.Duration
	busy     float64       // seconds of all cores
	until    time.Duration // they count no longer
	due      time.Duration
}

// request is one on a host.
type request struct {
	ends    float64 // when received is as much
	client  int32
	model   int32
	replica int32 // of the model
	arrived time.Duration
}

// requests is a heap, the first to end on top.
type requests []request

func (r requests) Len() int           { return len(r) }
func (r requests) Less(i, j int) bool { return r[i].ends < r[j].ends }
func (r requests) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// Push implements [heap.Interface].
func (r *requests) Push(x any) { *r = append(*r, x.(request)) }

// Pop implements [heap.Interface].
func (r *requests) Pop() any {
	last := len(*r) - 1
	x := (*r)[last]
	*r = (*r)[:last]
	return x
}

// speed is how fast each request gets on, relative to one alone on a core.
func (h *host) speed() float64 {
	return min(1, h.cores/float64(max(1, len(h.running))))
}

// advance has time pass.
func (h *host) advance(now time.Duration) {
	passed := (now - h.at).Seconds()
	h.received += passed * h.speed()
	h.busy += max(0, min(now, h.until)-h.at).Seconds() * min(h.cores, float64(len(h.running)))
	h.at = now
}

// add begins a request.
func (h *host) add(r request, work, estimate time.Duration) {
	r.ends = h.received + work.Seconds()
	heap.Push(&h.running, r)
	h.counts[r.model]++
	h.work += estimate
}

// done is the request that has ended; false if none has.
func (h *host) done(estimate []time.Duration) (request, bool) {
	if len(h.running) == 0 || h.running[0].ends > h.received+rounding {
		return request{}, false
	}
	r := heap.Pop(&h.running).(request)
	h.counts[r.model]--
	h.work -= estimate[r.model]
	return r, true
}

// rounding is how many seconds of work are lost as times are rounded to nanoseconds.
const rounding = 1e-8

// next is when a request ends, unless others come.
func (h *host) next() time.Duration {
	if len(h.running) == 0 {
		return control.Never
	}
	left := max(0, h.running[0].ends-h.received) / h.speed()
	return h.at + time.Duration(math.Ceil(left*1e9))
}

// counters is what the host says to a client of the model.
func (h *host) counters(model int) signals.Counters {
	return signals.Counters{Model: h.counts[model], Host: len(h.running), Work: h.work, Cores: h.cores}
}

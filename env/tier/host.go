package tier

import (
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
	loads    int   // of running, those that load a replica
	work     time.Duration
	received float64 // seconds of work that each request has got so far
	pace     float64 // how fast it rises
	at       time.Duration
	busy     float64       // seconds of all cores
	until    time.Duration // they count no longer
	answered int
	memory   memory
	measured measured
	reported reported
	turns    *turns // nil where all requests run at a time
}

// request is one on a host; the load of a replica is one too, of no client.
type request struct {
	ends    float64 // when received is as much
	client  int32
	model   int32
	replica int32 // by which the client knows it
	found   int32 // requests of the model when it came
	pair    int32 // its number among those of which there may be copies; zero for none
	parent  int32 // the number of the request of which it is a part; zero for none
	carries int32 // examples
	arrived time.Duration
	work    time.Duration
}

// nobody is the client of a load.
const nobody = -1

// requests is a heap, the first to end on top.
type requests []request

func (r *requests) push(x request) {
	list := append(*r, x)
	*r = list
	i := len(list) - 1
	for i > 0 {
		parent := (i - 1) / 2
		if !(x.ends < list[parent].ends) {
			break
		}
		list[i] = list[parent]
		i = parent
	}
	list[i] = x
}

func (r *requests) pop() request {
	list := *r
	top, last := list[0], len(list)-1
	list[0] = list[last]
	list = list[:last]
	*r = list
	list.sink(0)
	return top
}

func (r requests) sink(i int) {
	if i >= len(r) {
		return
	}
	x := r[i]
	for {
		child := 2*i + 1
		if child >= len(r) {
			break
		}
		if right := child + 1; right < len(r) && r[right].ends < r[child].ends {
			child = right
		}
		if !(r[child].ends < x.ends) {
			break
		}
		r[i] = r[child]
		i = child
	}
	r[i] = x
}

// revise works out how fast requests get on, relative to one alone on a core, from what the
// host has now.
func (h *host) revise() {
	share := min(1, h.cores/float64(max(1, len(h.running))))
	h.pace = share / h.memory.stretch(share)
}

// advance has time pass.
func (h *host) advance(now time.Duration) {
	passed := (now - h.at).Seconds()
	h.received += passed * h.pace
	h.busy += max(0, min(now, h.until)-h.at).Seconds() * min(h.cores, float64(len(h.running)))
	h.measured.advance(passed, h)
	h.reported.advance(passed, now, h)
	h.at = now
}

// polled has the host answer a poll before its requests. Where all cores are busy these get as much
// less.
func (h *host) polled(work time.Duration) {
	if n := float64(len(h.running)); n >= h.cores {
		h.received -= work.Seconds() / n
		return
	}
	if h.at < h.until {
		h.busy += work.Seconds()
	}
	h.measured.busy += work.Seconds()
	h.reported.worked += work.Seconds()
}

// add begins a request.
func (h *host) add(r request, m *Model) {
	r.found = int32(h.counts[r.model])
	if r.client == nobody {
		h.loads++
	} else {
		h.counts[r.model]++
		h.work += m.Mean * time.Duration(r.carries)
	}
	if !h.turns.waits(&r) {
		h.run(r, m)
	}
}

// run has a request share the cores from now on.
func (h *host) run(r request, m *Model) {
	r.ends = h.received + r.work.Seconds()
	h.running.push(r)
	h.memory.asked += m.Bandwidth
}

// done is the request that has ended; false if none has.
func (h *host) done(models []Model) (request, bool) {
	if len(h.running) == 0 || h.running[0].ends > h.received+rounding {
		return request{}, false
	}
	r := h.running.pop()
	h.stop(&r, models)
	h.forget(&r, models)
	if next, ok := h.turns.next(&r); ok {
		h.run(next, &models[next.model])
	}
	return r, true
}

// stop follows a request that runs no longer.
func (h *host) stop(r *request, models []Model) {
	if h.memory.asked -= models[r.model].Bandwidth; len(h.running) == 0 {
		h.memory.asked = 0 // what additions have rounded is over
	}
}

// forget counts a request no longer.
func (h *host) forget(r *request, models []Model) {
	if r.client == nobody {
		h.loads--
		return
	}
	h.counts[r.model]--
	h.work -= models[r.model].Mean * time.Duration(r.carries)
}

// remove ends all requests of the model, and returns them.
func (h *host) remove(model int, models []Model) (removed []request) {
	kept := h.running[:0]
	for _, x := range h.running {
		if x.client != nobody && int(x.model) == model {
			removed = append(removed, x)
		} else {
			kept = append(kept, x)
		}
	}
	h.running = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		h.running.sink(i)
	}
	for i := range removed {
		h.stop(&removed[i], models)
	}
	removed = append(removed, h.turns.clear(model)...)
	for i := range removed {
		h.forget(&removed[i], models)
	}
	return removed
}

// rounding is how many seconds of work are lost as times are rounded to nanoseconds.
const rounding = 1e-8

// next is when a request ends, unless others come.
func (h *host) next() time.Duration {
	if len(h.running) == 0 {
		return control.Never
	}
	left := max(0, h.running[0].ends-h.received) / h.pace
	return h.at + time.Duration(math.Ceil(left*1e9))
}

// counters is what the host says to a client of the model.
func (h *host) counters(model int) signals.Counters {
	return signals.Counters{
		Model: h.counts[model], Host: len(h.running) - h.loads + h.turns.length(), Work: h.work, Cores: h.cores,
		Took: h.reported.estimate(model, h.counts[model]), Use: h.reported.use, Rate: h.reported.rate,
	}
}

package tier

import (
	"math/rand/v2"
	"slices"
	"sort"
	"time"

	"gearshift/env/agenda"
	"gearshift/internal/splitmix"
)

// Result is what came of a run, of the requests that are counted.
type Result struct {
	Requests, Timeouts int
	// Polls and Probes count how often hosts were asked for their counters: before a choice,
	// and beside a request.
	Polls, Probes int
	// Times are those from arrival to answer, in order of their length.
	Times []time.Duration
	// Utilisation is the share of each host's cores that was busy after the warm-up.
	Utilisation []float64
}

// Mean is that of the response times.
func (r *Result) Mean() time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	sum := 0.0
	for _, t := range r.Times {
		sum += float64(t)
	}
	return time.Duration(sum / float64(len(r.Times)))
}

// Quantile is the response time within which a share q of the requests was answered.
func (r *Result) Quantile(q float64) time.Duration {
	if len(r.Times) == 0 {
		return 0
	}
	return r.Times[min(len(r.Times)-1, int(q*float64(len(r.Times))))]
}

// TimeoutShare is the share of requests that timed out.
func (r *Result) TimeoutShare() float64 { return float64(r.Timeouts) / float64(max(1, r.Requests)) }

// Tail is the mean utilisation of the busiest twentieth of the hosts, of one at least (META-1).
func (r *Result) Tail() float64 {
	hosts := slices.Clone(r.Utilisation)
	slices.Sort(hosts)
	hosts = hosts[len(hosts)-max(1, len(hosts)/20):]
	sum := 0.0
	for _, u := range hosts {
		sum += u
	}
	return sum / float64(len(hosts))
}

// The kinds of items of the agenda.
const (
	hostDue agenda.Kind = iota
	boardWritten
	requestArrives
	probeAnswered
)

// run is one under way.
type run struct {
	*Config
	agenda  agenda.Agenda
	hosts   []host
	means   []time.Duration
	shares  []float64 // cumulative
	views   views
	random  *rand.Rand
	result  Result
	counted time.Duration // busy time counts from then on
}

// Run simulates. The same configuration gives the same result.
func Run(c *Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := &run{Config: c, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 51))}
	for _, h := range c.Hosts {
		r.hosts = append(r.hosts, host{cores: h.Cores, until: c.Length, counts: make([]int, len(c.Models))})
	}
	sum := 0.0
	for i := range c.Models {
		sum += c.Models[i].Share
		r.shares, r.means = append(r.shares, sum), append(r.means, c.Models[i].Mean)
	}
	r.views = newViews(c)
	if c.Board > 0 {
		r.agenda.Add(agenda.Item{At: 0, Kind: boardWritten})
	}
	r.agenda.Add(agenda.Item{At: r.gap(), Kind: requestArrives})
	for {
		item, ok := r.agenda.First()
		if !ok {
			break
		}
		r.agenda.Take()
		r.warm(item.At)
		switch item.Kind {
		case hostDue:
			r.ended(item.Index, item.At)
		case boardWritten:
			r.write(item.At)
		case requestArrives:
			r.arrive(item.At)
		case probeAnswered:
			r.probed(item.Index, item.At)
		}
	}
	r.sum()
	return &r.result, nil
}

// gap draws the time to the next request.
func (r *run) gap() time.Duration { return time.Duration(r.random.ExpFloat64() / r.Rate * 1e9) }

// warm forgets how busy the hosts were as the warm-up ends.
func (r *run) warm(now time.Duration) {
	if r.counted == 0 && now >= r.Warmup {
		r.counted = max(1, r.Warmup)
		for i := range r.hosts {
			r.hosts[i].advance(max(r.hosts[i].at, r.Warmup))
			r.hosts[i].busy = 0
		}
	}
}

// arrive has a client send a request, and the next one arrive.
func (r *run) arrive(now time.Duration) {
	if next := now + r.gap(); next < r.Length {
		r.agenda.Add(agenda.Item{At: next, Kind: requestArrives})
	}
	model := sort.SearchFloat64s(r.shares, r.random.Float64()*r.shares[len(r.shares)-1])
	client := r.random.IntN(r.Clients)
	m := &r.Models[model]
	replica, waited := r.choose(client, model, now)
	arrived := now - waited
	on := m.Replicas[replica]
	h := &r.hosts[on]
	h.advance(now)
	h.add(request{client: int32(client), model: int32(model), replica: int32(replica), arrived: arrived}, m.Work(r.random), m.Mean)
	r.schedule(on)
}

// schedule puts the end of the host's next request on the agenda. An entry that was there
// before is out of date: its time is not the host's.
func (r *run) schedule(i int) {
	h := &r.hosts[i]
	next := h.next()
	if len(h.running) > 0 && next != h.due {
		r.agenda.Add(agenda.Item{At: next, Kind: hostDue, Index: i})
	}
	h.due = next
}

// ended follows requests that have ended on the host.
func (r *run) ended(i int, now time.Duration) {
	h := &r.hosts[i]
	if h.due != now {
		return
	}
	h.advance(now)
	h.due = 0
	for {
		x, ok := h.done(r.means)
		if !ok {
			break
		}
		r.answered(&x, now)
		if x.arrived >= r.Warmup {
			r.count(now - x.arrived)
		}
	}
	r.schedule(i)
}

// count enters an answer.
func (r *run) count(took time.Duration) {
	r.result.Requests++
	if r.Timeout > 0 && took > r.Timeout {
		r.result.Timeouts++
	}
	r.result.Times = append(r.result.Times, took)
}

// sum concludes the result. Hosts count until the last request has arrived.
func (r *run) sum() {
	slices.Sort(r.result.Times)
	for i := range r.hosts {
		h := &r.hosts[i]
		r.result.Utilisation = append(r.result.Utilisation, h.busy/(h.cores*(r.Length-r.Warmup).Seconds()))
	}
}

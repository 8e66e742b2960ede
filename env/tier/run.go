package tier

import (
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env/agenda"
	"gearshift/internal/splitmix"
	"gearshift/router/control"
	"gearshift/router/profile"
)

// The kinds of items of the agenda. The ends of requests, which are not on it, come first at
// equal times.
const (
	boardWritten agenda.Kind = iota
	requestArrives
	probeAnswered
	hedgeDue
	hogTurns
	actionProceeds
	periodEnds
	controllerWakes
)

// run is one under way.
type run struct {
	*Config
	agenda   agenda.Agenda
	dues     dues
	hosts    []host
	stalls   *stalls
	shares   []float64 // cumulative
	views    views
	hedges   hedges
	fans     fans
	deployed deployed
	random   *rand.Rand
	result   Result
	counted  time.Duration // busy time counts from then on
	rate     float64
	rated    time.Duration // until when it holds, if it changes
}

// Run simulates. The same configuration gives the same result.
func Run(c *Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r := newRun(c)
	for {
		host, due := r.dues.first()
		item, ok := r.agenda.First()
		switch {
		case r.Most > 0 && r.result.Timeouts+r.result.Failed > r.Most:
			return r.sum(), nil
		case due < control.Never && !(ok && item.At < due):
			r.warm(due)
			r.ended(host, due)
		case ok:
			r.agenda.Take()
			r.warm(item.At)
			r.handle(item)
		default:
			return r.sum(), nil
		}
	}
}

func newRun(c *Config) *run {
	r := &run{Config: c, rate: c.Rate, dues: newDues(len(c.Hosts)), random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 51))}
	law := c.Stall
	if law == (profile.Bandwidth{}) {
		law = profile.DefaultBandwidth
	}
	r.stalls = newStalls(law)
	for _, h := range c.Hosts {
		r.hosts = append(r.hosts, host{cores: h.Cores, until: c.Length, counts: make([]int, len(c.Models)), memory: memory{bandwidth: h.Bandwidth, stalls: r.stalls}, reported: reported{takes: make([][levels]float32, len(c.Models))}})
		if c.Turns {
			r.hosts[len(r.hosts)-1].turns = newTurns(len(c.Models))
		}
		r.hosts[len(r.hosts)-1].revise()
	}
	r.begin()
	r.views = newViews(r)
	if c.Board > 0 {
		r.agenda.Add(agenda.Item{At: 0, Kind: boardWritten})
	}
	for i, g := range c.Hogs {
		r.agenda.Add(agenda.Item{At: g.From, Kind: hogTurns, Index: i})
		r.agenda.Add(agenda.Item{At: g.To, Kind: hogTurns, Index: i})
	}
	if c.Period > 0 {
		r.agenda.Add(agenda.Item{At: c.Period, Kind: periodEnds})
	}
	r.agenda.Add(agenda.Item{At: r.gap(0), Kind: requestArrives})
	if c.Control != nil {
		r.deployed.controller = c.Control(&Tier{r})
		r.wake(0)
	}
	return r
}

// handle does what is due.
func (r *run) handle(item agenda.Item) {
	switch item.Kind {
	case boardWritten:
		r.write(item.At)
	case requestArrives:
		r.arrive(item.At)
	case probeAnswered:
		r.probed(item.Index, item.At)
	case hedgeDue:
		r.second(item.Index, item.At)
	case hogTurns:
		r.turn(&r.Hogs[item.Index], item.At)
	case actionProceeds:
		r.proceed(item.Index, item.At)
	case periodEnds:
		r.measure(item.At)
	case controllerWakes:
		if item.At == r.deployed.wakes {
			r.wake(item.At)
		}
	}
}

// gap draws the time to the next request. The rate is that of the last tenth of a second at
// most, since it is asked for with each request.
func (r *run) gap(now time.Duration) time.Duration {
	if r.RateAt != nil && now >= r.rated {
		r.rate, r.rated = r.RateAt(now), now+100*time.Millisecond
	}
	return time.Duration(r.random.ExpFloat64() / r.rate * 1e9)
}

// warm forgets how busy the hosts were as the warm-up ends.
func (r *run) warm(now time.Duration) {
	if r.counted == 0 && now >= r.Warmup {
		r.counted = max(1, r.Warmup)
		for i := range r.hosts {
			r.hosts[i].advance(max(r.hosts[i].at, r.Warmup))
			r.hosts[i].busy, r.hosts[i].answered = 0, 0
		}
	}
}

// arrive has a client send a request, and the next one arrive.
func (r *run) arrive(now time.Duration) {
	if next := now + r.gap(now); next < r.Length {
		r.agenda.Add(agenda.Item{At: next, Kind: requestArrives})
	}
	model := r.draw()
	client := r.random.IntN(r.Clients)
	if r.Fanout > 1 {
		r.fan(client, model, now)
		return
	}
	r.ask(client, model, 0, now)
}

// ask has the client ask one model, as a part of a request if there is a parent.
func (r *run) ask(client, model int, parent int32, now time.Duration) {
	m := &r.Models[model]
	if r.deployed.models[model].active == 0 {
		r.fail(model, parent, now)
		return
	}
	replica, waited := r.choose(client, model, now)
	x := request{client: int32(client), model: int32(model), replica: int32(replica), parent: parent, arrived: now - waited}
	r.carry(&x, m)
	r.hedge(&x, now)
	r.send(x, now)
}

// send has the replica's host begin the request.
func (r *run) send(x request, now time.Duration) {
	m, on := &r.Models[x.model], r.deployed.models[x.model].on[x.replica]
	r.slot(int(x.model), on).begin(&x, m)
	h := &r.hosts[on]
	h.advance(now)
	h.add(x, m)
	r.schedule(on)
}

// schedule works out when the host's next request ends.
func (r *run) schedule(i int) {
	r.hosts[i].revise()
	r.dues.set(i, r.hosts[i].next())
}

// ended follows requests that have ended on the host.
func (r *run) ended(i int, now time.Duration) {
	h := &r.hosts[i]
	h.advance(now)
	for {
		x, ok := h.done(r.Models)
		if !ok {
			break
		}
		if x.client == nobody {
			r.loaded(int(x.model), i, now)
			continue
		}
		h.answered++
		r.slot(int(x.model), i).end(&x)
		r.deployed.models[x.model].answered(now-x.arrived, r.Timeout)
		h.reported.answered(x.model, x.found, now-x.arrived)
		r.answered(&x, now)
		r.settle(&x, now)
		switch {
		case x.parent > 0:
			r.part(x.parent, now, true)
		case x.arrived >= r.Warmup:
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

// fail enters a request that is not answered, or a part of one.
func (r *run) fail(model int, parent int32, now time.Duration) {
	r.deployed.models[model].load.Failed++
	if parent > 0 {
		r.part(parent, now, false)
		return
	}
	if now >= r.Warmup {
		r.result.Requests++
		r.result.Failed++
	}
}

// sum concludes the result. Hosts count until the last request has arrived. It returns a copy,
// so that to keep the result is not to keep the run.
func (r *run) sum() *Result {
	slices.Sort(r.result.Times)
	for i := range r.hosts {
		h := &r.hosts[i]
		r.result.Utilisation = append(r.result.Utilisation, h.busy/(h.cores*(r.Length-r.Warmup).Seconds()))
		r.result.Answered = append(r.result.Answered, h.answered)
	}
	result := r.result
	return &result
}

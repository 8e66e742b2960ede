package clients

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/internal/splitmix"
	"gearshift/router/balance"
	"gearshift/router/control"
	"gearshift/router/fleet"
	"gearshift/router/profile"
)

// The kinds of what is scheduled, which comes after what the simulator does at equal times.
const (
	warmedUp env.ItemKind = iota
	boardWritten
	requestArrives
	probeAnswered
	hedgeDue
	hogTurns
)

// run is one under way. It is the follower of its simulator.
type run struct {
	*Config
	sim      *env.Simulator
	hosts    []*env.SharedHost
	measured []HostLoad    // by host, in the last period
	shares   []float64     // cumulative
	requests pool[request] // by ID
	pairs    pool[pair]    // that may have two copies
	fans     pool[fan]     // that ask several models
	asked    []int         // models, of the last of them
	views    views
	deployed deployed
	random   *rand.Rand
	result   Result
	rate     float64
	rated    time.Duration // until when it holds, if it changes
}

// request is one that a replica has.
type request struct {
	client   int32
	model    int32
	replica  int32 // by which the client knows it
	pair     int32 // its number among those of which there may be copies; zero for none
	parent   int32 // the number of the request of which it is a part; zero for none
	examples int32
	since    time.Duration
	work     time.Duration
}

// errEnough ends a run that has had more timeouts than were to be waited for.
var errEnough = errors.New("more requests have timed out than may")

// Run simulates. The same configuration gives the same result.
func Run(c *Config) (*Result, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	r, err := newRun(c)
	if err != nil {
		return nil, err
	}
	if err := r.play(); err != nil && !errors.Is(err, errEnough) {
		return nil, err
	}
	return r.sum(), nil
}

// play simulates until all requests have ended.
func (r *run) play() error {
	if err := r.close(); err != nil {
		return err
	}
	for at, ok := r.sim.Next(); ok; at, ok = r.sim.Next() {
		if _, err := r.sim.Advance(at, nil); err != nil {
			return err
		}
	}
	_, err := r.sim.Drain(nil)
	return err
}

// close plays the time in which requests arrive, and controllers act.
func (r *run) close() error {
	_, err := r.sim.Advance(r.Length-1, nil)
	r.sim.Dismiss()
	if err == nil {
		_, err = r.sim.Advance(r.Length, nil)
	}
	return err
}

func newRun(c *Config) (*run, error) {
	t, err := c.table()
	if err != nil {
		return nil, fmt.Errorf("cannot simulate the clients: %w", err)
	}
	r := &run{Config: c, rate: c.Rate, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 51)), measured: make([]HostLoad, len(c.Hosts))}
	law := c.Stall
	if law == (profile.Bandwidth{}) {
		law = profile.DefaultBandwidth
	}
	stalls := env.NewStalls(law)
	var laws []env.Law
	for i, x := range c.Hosts {
		o := env.SharedOptions{Cores: x.Compute, Bandwidth: x.Bandwidth, Stalls: stalls, Turns: c.Turns, Until: c.Length}
		for _, n := range t.ReplicasOn(i) {
			o.Uses = append(o.Uses, c.Models[t.Replicas[n].Variant].Bandwidth)
		}
		h := env.NewSharedHost(o)
		r.hosts, laws = append(r.hosts, h), append(laws, h)
	}
	r.deploy(t)
	r.views = newViews(r)
	if err := r.simulate(t, laws); err != nil {
		return nil, err
	}
	r.schedule()
	return r, nil
}

// schedule schedules what is known beforehand.
func (r *run) schedule() {
	r.sim.Schedule(env.Item{At: r.Warmup, Kind: warmedUp})
	if r.Board > 0 {
		r.sim.Schedule(env.Item{At: 0, Kind: boardWritten})
	}
	for i, g := range r.Hogs {
		r.sim.Schedule(env.Item{At: g.From, Kind: hogTurns, Index: i})
		r.sim.Schedule(env.Item{At: g.To, Kind: hogTurns, Index: i})
	}
	r.sim.Schedule(env.Item{At: r.gap(0), Kind: requestArrives})
}

// simulate makes the simulator.
func (r *run) simulate(t *fleet.Table, laws []env.Law) (err error) {
	c := &env.Config{Table: t, Laws: func() []env.Law { return laws }, Period: r.Period, Losses: r.Losses}
	for i := range t.Replicas {
		m := &r.Models[t.Replicas[i].Variant]
		c.LoadTimes, c.LoadWork = append(c.LoadTimes, m.Load), append(c.LoadWork, m.LoadWork)
	}
	if r.Control != nil {
		c.Controllers = func(a env.ControlAccess) []control.Controller {
			f := r.newFleet(a)
			return []control.Controller{f, r.Control(f)}
		}
	}
	if r.sim, err = env.NewSimulator(c); err == nil {
		r.sim.Follow(c, r.deployed.ledger, r.Seed, r)
	}
	return err
}

// Due implements [env.Scheduled].
func (r *run) Due(item env.Item) error {
	switch item.Kind {
	case warmedUp:
		r.warm(item.At)
	case boardWritten:
		r.write(item.At)
	case requestArrives:
		r.arrive(item.At)
	case probeAnswered:
		r.probed(item.Index, item.At)
	case hedgeDue:
		r.second(item.Index, item.At)
	case hogTurns:
		g := &r.Hogs[item.Index]
		more := g.Bandwidth
		if item.At == g.To {
			more = -more
		}
		r.hosts[g.Host].Hog(more, item.At)
		r.sim.Changed(g.Host)
	}
	if r.Most > 0 && r.result.Timeouts+r.result.Failed > r.Most {
		return errEnough
	}
	return nil
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
	r.result.Answered = make([]int, len(r.hosts))
	for _, h := range r.hosts {
		h.Advance(now)
		h.Busy = 0
	}
}

// arrive has a client send a request, and the next one arrive.
func (r *run) arrive(now time.Duration) {
	if next := now + r.gap(now); next < r.Length {
		r.sim.Schedule(env.Item{At: next, Kind: requestArrives})
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
	if r.deployed.models[model].active == 0 {
		r.fail(model, parent, now)
		return
	}
	replica, waited := r.choose(client, model, now)
	x := request{client: int32(client), model: int32(model), replica: int32(replica), parent: parent, since: now - waited}
	r.carry(&x, &r.Models[model])
	r.hedge(&x, now)
	id := r.send(x, now)
	if x.pair > 0 {
		r.pairs.list[x.pair-1].ids[0] = id
	}
}

// send has the replica's host begin the request, and returns its ID.
func (r *run) send(x request, now time.Duration) (id uint64) {
	m, of := &r.Models[x.model], r.replica(int(x.model), int(x.replica))
	of.running++
	if of.cold > 0 {
		of.cold--
		x.work = time.Duration(float64(x.work) * m.Coldness)
	}
	id = uint64(r.requests.put(x))
	r.sim.Begin(r.deployed.models[x.model].from+int(x.replica), engine.Sequence{ID: id, Work: x.work, Expected: m.Mean * time.Duration(x.examples), Since: x.since}, now)
	return id
}

// take returns a request that its replica has no longer, the replica, and what the client knows.
func (r *run) take(id uint64) (x request, of *replica, k *balance.Knowledge) {
	x = r.requests.list[id]
	r.requests.drop(int(id))
	of, k = r.replica(int(x.model), int(x.replica)), r.knowledge(int(x.client), int(x.model))
	of.running--
	k.Own[x.replica]--
	return x, of, k
}

// Ended implements [env.Follower].
func (r *run) Ended(id uint64, now time.Duration) error {
	x, of, k := r.take(id)
	of.answered++
	of.served += x.work.Seconds()
	if r.result.Answered != nil {
		r.result.Answered[of.host]++
	}
	r.deployed.models[x.model].answered(now-x.since, r.Timeout)
	if r.Board == 0 {
		k.Hear(int(x.replica), r.hosts[of.host].Counters(of.slot), balance.WithAnswer, now)
	}
	k.Answered(int(x.replica), now-x.since, now)
	r.settle(&x, id, now)
	switch {
	case x.parent > 0:
		r.part(x.parent, now, true)
	case x.since >= r.Warmup:
		r.enter(now - x.since)
	}
	if r.Most > 0 && r.result.Timeouts+r.result.Failed > r.Most {
		return errEnough
	}
	return nil
}

// Broken implements [env.Follower].
func (r *run) Broken(id uint64, now time.Duration) {
	x, _, _ := r.take(id)
	r.fail(int(x.model), x.parent, now)
}

// enter enters an answer.
func (r *run) enter(took time.Duration) {
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
	for _, h := range r.hosts {
		r.result.Utilisation = append(r.result.Utilisation, h.Busy/(h.Cores*(r.Length-r.Warmup).Seconds()))
	}
	result := r.result
	return &result
}

package streams

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"gearshift/env"
	"gearshift/env/engine"
	"gearshift/internal/splitmix"
	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/router/profile"
)

// The kinds of what is scheduled, in the order of equal times.
const (
	clientLeaves env.ItemKind = iota
	clientCame
	resultHeard
	frameCaptured
	frameArrives
	batchDue
	planDue
)

// quiet sets how long no request may have waited for another batch until a client is added (ARISE-19).
const quiet = 400 * time.Millisecond

// run is one under way. It is the follower of its simulator.
type run struct {
	Config
	sim     *env.Simulator
	beside  *env.Beside // of requests that are routed; nil alone
	fleet   offload.Fleet
	servers []*server
	// schedule is that of the first host. Clients that send by themselves have no other.
	schedule *offload.Schedule
	now      time.Duration
	random   *rand.Rand
	clients  []*client // all that have come
	sent     []flight  // by number, frames and results on their way
	next     time.Duration

	res                  Result
	broken, late         int
	results              int
	sizes, intervals     Moments
	fluid                Moments
	servedTime, busyTime float64
	counted              time.Duration // until when served clients are counted
	serving              int
}

// flight is a frame with the host that it is for.
type flight struct {
	*offload.Frame
	to *server
}

// Run simulates a server for the clients alone. The same configuration gives the same result.
func Run(c Config) (*Result, error) {
	r, err := newRun(c)
	if err != nil {
		return nil, fmt.Errorf("cannot simulate streams: %w", err)
	}
	if _, err := r.sim.Advance(c.Length, nil); err != nil {
		return nil, fmt.Errorf("cannot simulate streams at %v: %w", r.now, err)
	}
	return r.Result(c.Length), nil
}

func newRun(c Config) (*run, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	config, err := c.simulated()
	if err != nil {
		return nil, err
	}
	sim, err := env.NewSimulator(config)
	if err != nil {
		return nil, err
	}
	h := HostSizes{Name: "server"}
	for i, s := range append([]Size{{Profile: c.Profile}}, c.Smaller...) {
		h.Sizes = append(h.Sizes, HostSize{Replica: i, Latency: c.latency(s.Profile), Gap: s.Gap})
	}
	c.Hosts = []HostSizes{h}
	r := c.start(sim)
	r.fleet.Newest = true
	sim.Follow(config, fleet.NewLedger(config.Table), c.Seed, r)
	return r, nil
}

// start has clients come to the hosts of a simulator.
func (c Config) start(sim *env.Simulator) *run {
	r := &run{Config: c, sim: sim, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 61)), counted: c.Warmup, next: c.Period}
	r.fleet = offload.Fleet{Driver: r, Period: c.Period.Seconds() * c.FPS, Rest: c.FPS}
	for i := range c.Hosts {
		x := r.newServer(i)
		r.servers, r.fleet.Hosts = append(r.servers, x), append(r.fleet.Hosts, x.plan)
	}
	r.schedule = &r.servers[0].plan.Schedule
	sim.Schedule(env.Item{Kind: clientCame})
	sim.Schedule(env.Item{At: c.Period, Kind: planDue})
	return r
}

// simulated is the simulator's server: a host with a replica of each model.
func (c *Config) simulated() (*env.Config, error) {
	x := &env.Config{Losses: c.Losses, Engine: engine.Config{Scheduler: engine.PrefillFirst, MaxBatchTokens: 1, MaxSequences: c.Largest, BlockTokens: 1}}
	task := fleet.Task{Name: "frames", Deadline: time.Second, Weight: 1}
	var variants []fleet.Variant
	var replicas []fleet.Replica
	for i, s := range append([]Size{{Profile: c.Profile}}, c.Smaller...) {
		name := fmt.Sprint("model-", i)
		variants, replicas = append(variants, fleet.Variant{Name: name}), append(replicas, fleet.Replica{Name: name + "@server", Variant: i})
		task.Quality = append(task.Quality, 1-s.Gap)
		x.Profiles, x.KVTokens = append(x.Profiles, s.Profile), append(x.KVTokens, 0)
	}
	var err error
	x.Table, err = fleet.NewTable([]fleet.Task{task}, variants, []fleet.Host{{Name: "server"}}, replicas)
	return x, err
}

// latency lists the times of a model's batches in ms.
func (c *Config) latency(p *profile.Profile) (list []float64) {
	for n := 1; n <= min(c.Largest, p.Most(0)); n++ {
		ms, _ := p.Batch(0, n, 0)
		list = append(list, ms)
	}
	return list
}

// frames returns the present in frames of the server's clock, and moment the time of one in these.
func (r *run) frames() float64 { return r.now.Seconds() * r.FPS }
func (r *run) moment(frames float64) time.Duration {
	return time.Duration(math.Ceil(frames / r.FPS * 1e9))
}

// Due implements [env.Scheduled].
func (r *run) Due(x env.Item) error {
	r.now = x.At
	r.look()
	switch x.Kind {
	case clientCame:
		r.come()
	case clientLeaves:
		r.leave(x.Index)
	case frameCaptured:
		r.capture(x.Index)
	case frameArrives:
		r.arrive(r.sent[x.Index])
	case resultHeard:
		r.heard(r.sent[x.Index])
	case batchDue:
		r.dispatch(r.servers[x.Index])
	case planDue:
		r.next = r.now + r.Period
		r.plan()
		r.measure()
		r.sim.Schedule(env.Item{At: r.next, Kind: planDue})
	}
	return nil
}

// heard follows a result that its client has.
func (r *run) heard(f flight) {
	c := clientOf(f.Stream)
	if r.now >= r.Warmup {
		r.results++
	}
	if c.lost > 0 && c.Host == f.to.plan {
		r.res.Moved.Add((r.now - c.lost).Seconds())
		c.lost = 0
	}
	r.result(c, f.Number, r.frames(), f.to.plan.Gap(f.Model))
}

// come has a client come, and the next.
func (r *run) come() {
	id := len(r.clients)
	c := &client{id: id, random: rand.New(rand.NewPCG(splitmix.Mix(r.Seed), 1000+uint64(id))), tracked: -1, leaves: r.now + r.Session}
	c.Of = c
	c.link = Path{Link: &r.Link, Random: c.random}
	c.Phase = c.random.Float64()
	if l := r.Link.Recorded; l != nil {
		c.link.Recorded = time.Duration(c.random.Float64() * float64(l.Length()))
	}
	c.SLA = r.SLA[0] + (r.SLA[1]-r.SLA[0])*c.random.Float64()
	c.rate = rate{mean: r.Content.Rate * (1 + r.Content.Apart*(2*c.random.Float64()-1)), x: r.Content.Spread * c.random.NormFloat64(), step: int(r.now.Seconds() * rateSteps)}
	c.Network = r.uplink(c) + r.downlink(c)
	c.Rate = r.at(c, c.Newest(r.frames())) * max(0.5, 1+r.Content.Noise*c.random.NormFloat64()) // by the server that it was on
	if r.Present == 0 || len(r.fleet.Streams) < r.Present {
		r.clients = append(r.clients, c)
		r.fleet.Add(&c.Stream)
		if r.Session > 0 {
			r.sim.Schedule(env.Item{At: c.leaves, Kind: clientLeaves, Index: id})
		}
	}
	r.sim.Schedule(env.Item{At: r.now + time.Duration(r.random.ExpFloat64()/r.Arrivals*1e9), Kind: clientCame})
}

// leave has a client go. What it was asked for is answered yet.
func (r *run) leave(id int) {
	c := r.clients[id]
	r.serve(c, false)
	r.fleet.Streams = slices.DeleteFunc(r.fleet.Streams, func(s *offload.Stream) bool { return s == &c.Stream })
}

// serve begins or ends to serve a client.
func (r *run) serve(c *client, served bool) {
	if c.Served != served {
		c.Serve(served, r.frames())
		r.turned(c)
	}
}

// turned counts that a client is served from now on, or no longer.
func (r *run) turned(c *client) {
	r.countServed()
	c.second = window{}
	if c.Served {
		r.serving++
		c.tracked, c.before = -1, 0 // its results came from elsewhere
		return
	}
	r.serving--
}

// countServed counts the time of served clients.
func (r *run) countServed() {
	if r.now > r.counted {
		r.servedTime += float64(r.serving) * (r.now - r.counted).Seconds()
		r.counted = r.now
	}
}

// measure takes the part of a server that its clients take at the rates that they have.
func (r *run) measure() {
	if r.now < r.Warmup {
		return
	}
	sum := 0.0
	for _, s := range r.fleet.Streams {
		if c := clientOf(s); c.Served {
			share, _, _ := r.planOf(s).Share(&offload.Client{SLA: c.SLA, Rate: r.at(c, c.Newest(r.frames())), Network: c.Network})
			sum += share
		}
	}
	r.fluid.Add(sum / float64(len(r.servers)))
}

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
	sim      *env.Simulator
	schedule *offload.Schedule
	now      time.Duration
	random   *rand.Rand
	clients  []*client         // all that have come
	active   []int             // of those, the ones that are there, in the order in which they came
	listed   []*offload.Stream // scratch
	server   server
	sent     []*offload.Frame // by number, of frames and of results on their way

	res                  Result
	broken, late         int
	sizes, intervals     Moments
	fluid                Moments
	servedTime, busyTime float64
	counted              time.Duration // until when served clients are counted
	serving              int
}

// Run simulates. The same configuration gives the same result.
func Run(c Config) (*Result, error) {
	r, err := newRun(c)
	if err != nil {
		return nil, fmt.Errorf("cannot simulate streams: %w", err)
	}
	if _, err := r.sim.Advance(c.Length, nil); err != nil {
		return nil, fmt.Errorf("cannot simulate streams at %v: %w", r.now, err)
	}
	r.now = c.Length
	r.countServed()
	return r.sum(), nil
}

func newRun(c Config) (*run, error) {
	if err := c.validate(); err != nil {
		return nil, err
	}
	config, err := c.simulated()
	if err != nil {
		return nil, err
	}
	r := &run{Config: c, random: rand.New(rand.NewPCG(splitmix.Mix(c.Seed), 61)), counted: c.Warmup}
	r.schedule = &offload.Schedule{Margin: c.Margin, Weight: c.Weight, Horizon: c.Horizon.Seconds() * c.FPS, Fixed: c.Fixed}
	r.schedule.Policy, r.schedule.Server = c.Policy, offload.Server{Grace: c.Grace, Longest: int(c.FPS), Latency: c.latency(c.Profile)}
	if !c.planned() {
		r.schedule.Grace = 0
	}
	r.schedule.Verified, r.schedule.Places, r.schedule.Removed, r.schedule.Quiet = c.Verified, c.Clients, c.Removed, quiet.Seconds()*c.FPS
	for _, x := range c.Smaller {
		r.schedule.Smaller = append(r.schedule.Smaller, offload.Size{Latency: c.latency(x.Profile), Gap: x.Gap})
	}
	if r.sim, err = env.NewSimulator(config); err != nil {
		return nil, err
	}
	r.sim.Follow(config, fleet.NewLedger(config.Table), c.Seed, r)
	r.sim.Schedule(env.Item{Kind: clientCame})
	r.sim.Schedule(env.Item{At: c.Period, Kind: planDue})
	return r, nil
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

// latency lists the times of a model's batches in frames.
func (c *Config) latency(p *profile.Profile) (list []float64) {
	for n := 1; n <= min(c.Largest, p.Most(0)); n++ {
		ms, _ := p.Batch(0, n, 0)
		list = append(list, ms*c.FPS/1000)
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
	switch x.Kind {
	case clientCame:
		r.come()
	case clientLeaves:
		r.leave(x.Index)
	case frameCaptured:
		r.capture(x.Index)
	case frameArrives:
		r.arrive(x.Index)
	case resultHeard:
		f := r.sent[x.Index]
		r.result(clientOf(f.Stream), f.Number, r.frames(), r.schedule.Gap(f.Model))
	case batchDue:
		r.dispatch()
	case planDue:
		r.plan()
		r.measure()
		r.sim.Schedule(env.Item{At: r.now + r.Period, Kind: planDue})
	}
	return nil
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
	if r.Present == 0 || len(r.active) < r.Present {
		r.clients, r.active = append(r.clients, c), append(r.active, id)
		r.sim.Schedule(env.Item{At: c.leaves, Kind: clientLeaves, Index: id})
	}
	r.sim.Schedule(env.Item{At: r.now + time.Duration(r.random.ExpFloat64()/r.Arrivals*1e9), Kind: clientCame})
}

// leave has a client go.
func (r *run) leave(id int) {
	r.serve(r.clients[id], false)
	r.active = slices.DeleteFunc(r.active, func(x int) bool { return x == id })
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

// measure takes the part of the server that its clients take at the rates that they have.
func (r *run) measure() {
	if r.now < r.Warmup {
		return
	}
	sum := 0.0
	for _, id := range r.active {
		if c := r.clients[id]; c.Served {
			share, _, _ := r.schedule.Share(&offload.Client{SLA: c.SLA, Rate: r.at(c, c.Newest(r.frames())), Network: c.Network})
			sum += share
		}
	}
	r.fluid.Add(sum)
}

// Ended implements [env.Follower].
func (r *run) Ended(id uint64, at time.Duration) error {
	r.now = at
	f := r.server.running[id&0xff]
	c := clientOf(f.Stream)
	down := r.downlink(c)
	c.Network += (r.frames() + down - c.Captured(f.Number) - (r.frames() - f.Arrived) - c.Network) / 16
	r.sim.Schedule(env.Item{At: r.moment(r.frames() + down), Kind: resultHeard, Index: f.Of.(int)})
	if r.server.left--; r.server.left == 0 {
		r.dispatch()
	}
	return nil
}

// Broken implements [env.Follower]: the request is lost with the server.
func (r *run) Broken(uint64, time.Duration) { r.server.left = max(0, r.server.left-1) }

// Turned implements [env.Follower]. Without its server nobody is served; once it is back it serves again.
func (r *run) Turned(int) {
	r.now = r.sim.Now()
	if down, _ := r.sim.Down(0); down {
		for _, id := range r.active {
			r.serve(r.clients[id], false)
		}
		r.schedule.Forget()
	}
}

// Measure implements [env.Follower].
func (r *run) Measure(time.Duration) {}

package scenario

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"sort"
	"time"

	"gearshift/env/engine"
	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/router/profile"
	"gearshift/router/signals"
	"gearshift/serving/streams"
)

// Capacity is what one replica can do for requests of the workload's mean lengths by
// its profile, alone on its host.
type Capacity struct {
	// Alone is the time per output token of a single request, in ms, its prompt included.
	Alone float64
	// Batch is the most requests at once that all meet the deadline; 0 where not even
	// a single one does.
	Batch int
	// Pace is the time per output token at that batch, in ms.
	Pace float64
	// Rate is the requests per second that the replica answers at that batch.
	Rate float64
	// Most is the most requests at once that the KV cache and engine.max_sequences
	// admit, whatever the deadline, and MostPace the time per output token then, in ms.
	Most     int
	MostPace float64
	// KVTokens is what the KV cache holds.
	KVTokens int
}

// request is the mean request of a workload, in tokens.
type request struct{ prompt, output float64 }

// meanRequest returns the mean request of the workload, at least a token each way.
func (s *Scenario) meanRequest() request {
	prompt, output := s.Workload.Expected(s.tasks())
	return request{max(1, prompt), max(1, output)}
}

// Capacities returns the capacity of each replica under a deadline in ms per output token,
// by the replica's index.
func (s *Scenario) Capacities(deadlineMS float64) []Capacity {
	return s.expected().capacities(deadlineMS)
}

// expected holds what the capacities of the replicas follow from at any deadline.
type expected struct {
	s        *Scenario
	profiles []*profile.Profile // by replica
	tokens   []int              // likewise
	mean     request
	mix      []float64 // by task
}

func (s *Scenario) expected() *expected {
	return &expected{s, s.Profiles(), s.KVTokens(), s.meanRequest(), s.Workload.Mix.Shares(s.tasks())}
}

// capacities returns those of the replicas under a deadline.
func (x *expected) capacities(deadlineMS float64) []Capacity {
	list := make([]Capacity, len(x.profiles))
	for i, p := range x.profiles {
		if p.Batches != nil {
			list[i] = x.s.batchCapacity(p, x.mix, x.mean, deadlineMS)
			continue
		}
		list[i] = capacity(p, x.s.Engine, x.tokens[i], x.mean, deadlineMS)
	}
	return list
}

func capacity(p *profile.Profile, e engine.Config, kvTokens int, mean request, deadlineMS float64) Capacity {
	pace := func(n int) float64 { return paceOf(p, e, mean, n) }
	c := Capacity{Alone: pace(1), KVTokens: kvTokens}
	c.Most = max(0, min(e.MaxSequences, int(float64(kvTokens)/(mean.prompt+mean.output))))
	if c.Most > 0 {
		c.MostPace = pace(c.Most)
	}
	// A step never gets shorter as requests join, so that the batches that meet the
	// deadline are those below the first that does not.
	c.Batch = sort.Search(c.Most, func(i int) bool { return pace(i+1) > deadlineMS })
	if c.Batch > 0 {
		c.Pace = pace(c.Batch)
		c.Rate = rateOf(c.Batch, c.Pace, mean)
	}
	return c
}

// rateOf returns the requests per second of a batch that is kept full.
func rateOf(batch int, paceMS float64, mean request) float64 {
	return float64(batch) * 1000 / (mean.output * paceMS)
}

// paceOf returns the time per output token, in ms, where n requests run all the time: a
// step for each token, and the prompts of those that come meanwhile, one for each
// that goes.
func paceOf(p *profile.Profile, e engine.Config, mean request, n int) float64 {
	context := int(float64(n) * (mean.prompt + mean.output/2))
	prefill := p.Prefill(int(mean.prompt), 0) / mean.output
	if e.Scheduler == engine.ChunkedPrefill && n > 1 {
		// The others' prompts are computed together with the tokens, not in between.
		tokens := float64(n) + float64(n-1)*mean.prompt/mean.output
		ms, _ := p.Time(int(math.Ceil(tokens)), n, context, 0)
		return ms + prefill + float64(n-1)*p.Prompt/mean.output
	}
	ms, _ := p.Time(n, n, context, 0)
	return ms + float64(n)*prefill
}

// meanDeadline returns what the tasks allow in ms per output token, weighted by their shares of
// the requests. Tasks that allow any time do not count where others have a deadline.
func (s *Scenario) meanDeadline() (ms float64) {
	unpaced := 0.
	for i, share := range s.Workload.Mix.Shares(s.tasks()) {
		if t := &s.Tasks[i]; t.Unpaced() {
			unpaced += share
		} else {
			ms += share * s.PaceMS(t)
		}
	}
	if ms == 0 {
		return longestDeadline
	}
	if unpaced > 0 {
		ms /= 1 - unpaced
	}
	return ms
}

// AnyInTime reports whether any replica answers a request within the mean deadline, on which
// [Scenario.FleetRate] goes.
func (s *Scenario) AnyInTime() bool {
	return slices.ContainsFunc(s.Capacities(s.meanDeadline()), func(c Capacity) bool { return c.Batch > 0 })
}

// FleetRate returns the requests per second that all hosts together answer in time, each
// with the variant that answers most there, of those that are up at the start if any is.
func (s *Scenario) FleetRate() float64 {
	best := make([]float64, len(s.Hosts))
	caps, mean := s.Capacities(s.meanDeadline()), s.meanRequest()
	places := s.placedReplicas()
	all := !slices.ContainsFunc(places, func(p placedReplica) bool { return p.state == fleet.Up })
	for i, p := range places {
		if !all && p.state != fleet.Up {
			continue
		}
		rate := caps[i].Rate
		if rate == 0 { // late, but that is what it does
			rate = rateOf(1, caps[i].Alone, mean)
		}
		best[p.host] = max(best[p.host], rate)
	}
	var sum float64
	for _, rate := range best {
		sum += rate
	}
	return sum
}

// HostTime returns how long an answer with so many tokens takes of a replica's host at its best: in
// the largest batch whose requests are in time, or alone where none is. A host whose answers take
// all of its time has no room left.
func (s *Scenario) HostTime() func(replica, tokens int) time.Duration {
	mean := s.meanRequest()
	seconds := make([]float64, 0, len(s.Replicas))
	for _, c := range s.Capacities(s.meanDeadline()) {
		rate := c.Rate
		if rate == 0 {
			rate = rateOf(1, c.Alone, mean)
		}
		seconds = append(seconds, 1/rate)
	}
	return func(replica, tokens int) time.Duration {
		part := 1.0
		if tokens > 0 {
			part = float64(tokens) / mean.output
		}
		return time.Duration(seconds[replica] * part * float64(time.Second))
	}
}

// Combination is a variant of a model with modalities, as a replica of it runs on a host.
type Combination struct {
	Variant    string
	Modalities []string
	Memory     Bytes              // that a subset needs; 0 is unknown
	Quality    map[string]float64 // by task; those that it does not answer are left out
	Latency    []float64          // of a batch of 1, 2, … in ms
}

// Combinations lists what the model's variants do on the host, those of fewer modalities
// first; none if the model has no modalities, or does not run there.
func (s *Scenario) Combinations(model, host string) []Combination {
	m := indexOf(s.modelNames(), model)
	if m < 0 || len(s.Weights[m].Modalities) == 0 {
		return nil
	}
	var list []Combination
	for i := range s.Variants {
		v := &s.Variants[i]
		profiles := s.modelsFor(v.Name, host)
		placed := slices.ContainsFunc(s.Replicas, func(p Placement) bool { return slices.Contains(p.Hosts, host) && s.runsVariant(&p, v.Name) })
		if v.Model != model || len(profiles) == 0 || !placed || !s.Models[profiles[0]].tabled() {
			continue
		}
		p := &s.Models[profiles[0]]
		c := Combination{Variant: v.Name, Modalities: s.Weights[m].subset(s.Weights[m].mask(v.Modalities)), Memory: p.Memory, Quality: map[string]float64{}}
		for _, t := range s.Tasks {
			if q, ok := t.Quality[v.Name]; ok {
				c.Quality[t.Name] = q
			}
		}
		for n := range min(p.Most(0), s.Engine.MaxSequences) {
			c.Latency = append(c.Latency, p.Batches.Time(0, n+1))
		}
		list = append(list, c)
	}
	slices.SortStableFunc(list, func(a, b Combination) int {
		x, y := s.Weights[m].mask(a.Modalities), s.Weights[m].mask(b.Modalities)
		if n := bits.OnesCount(x) - bits.OnesCount(y); n != 0 {
			return n
		}
		return int(x) - int(y)
	})
	return list
}

// Streams are the clients that stream frames, and what answers them. docs/offload.md describes what the keys do.
type Streams struct {
	// Task is that of the frames; its variants with times by batch answer them, or those of Variants alone.
	Task     string   `yaml:"task"`
	Variants []string `yaml:"variants,flow,omitempty"`
	// FPS is how many frames clients have in a second.
	FPS    float64        `yaml:"fps"`
	Policy offload.Policy `yaml:"policy"`
	// Grace is the part of a batch's time that is left free, and Margin by how much more than they say clients are
	// taken to lose.
	Grace  Part `yaml:"grace"`
	Margin Part `yaml:"margin"`
	// Period is how often frames are planned, and Horizon how far.
	Period  time.Duration `yaml:"period"`
	Horizon time.Duration `yaml:"horizon"`
	// DropRate is the accuracy that clients lose with each frame which do not say it.
	DropRate float64 `yaml:"drop_rate"`
	// Clients bounds the connections, MaxFrame what a frame has, and Idle how long a client may say nothing.
	Clients  int           `yaml:"clients"`
	MaxFrame Bytes         `yaml:"max_frame"`
	Idle     time.Duration `yaml:"idle"`
	// Input is the tensor that engines take frames as.
	Input StreamInput `yaml:"input"`
}

// StreamInput is a tensor of frames.
type StreamInput struct {
	Tensor   string           `yaml:"tensor"`
	Encoding streams.Encoding `yaml:"encoding"`
	Width    int              `yaml:"width"`
	Height   int              `yaml:"height"`
}

func streamsSection() registered {
	return section[Streams]{
		key: "serving.streams",
		initial: func() Streams {
			return Streams{
				FPS: 60, Policy: offload.Gearshift, Grace: 2, Margin: 15, Period: 200 * time.Millisecond, Horizon: time.Second, DropRate: 0.006,
				Clients: 4096, MaxFrame: 256 << 10, Idle: 2 * time.Minute, Input: StreamInput{Tensor: "pixel_values", Encoding: streams.Encodings[0], Width: 320, Height: 180},
			}
		},
		check: (*checker).streams,
	}
}

func (c *checker) streams(x *Streams) {
	const key = "serving.streams"
	if _, given := c.lines[key]; !given {
		return
	}
	c.judgeIf(c.knownTasks() && c.sound(child(key, "task")) && !slices.Contains(c.s.taskNames(), x.Task), child(key, "task"), "unknown task %q; %s", x.Task, hint(x.Task, c.s.taskNames()))
	c.judgeIf(!(x.FPS >= 1 && x.FPS <= 240), child(key, "fps"), "want a number from 1 to 240, not %v", x.FPS)
	c.judgeIf(x.Policy != offload.Gearshift && x.Policy != offload.Arise, child(key, "policy"), "unknown policy %q; %s", x.Policy, hint(string(x.Policy), []string{string(offload.Gearshift), string(offload.Arise)}))
	c.judgeIf(x.Period < 50*time.Millisecond || x.Period > 5*time.Second, child(key, "period"), "want a time from 50ms to 5s, not %v", x.Period)
	c.judgeIf(x.Horizon < x.Period || x.Horizon > 10*time.Second, child(key, "horizon"), "want a time from the period, %v, to 10s, not %v", x.Period, x.Horizon)
	c.judgeIf(!(x.DropRate > 0 && x.DropRate <= 1), child(key, "drop_rate"), "want a number above 0 and at most 1, not %v", x.DropRate)
	c.judgeIf(x.Clients < 1 || x.Clients > 1_000_000, child(key, "clients"), "want a number from 1 to 1000000, not %d", x.Clients)
	c.judgeIf(x.MaxFrame < 1<<10 || x.MaxFrame > 16<<20, child(key, "max_frame"), "want a size from 1KiB to 16MiB, not %d bytes", x.MaxFrame)
	c.judgeIf(x.Idle < time.Second || x.Idle > time.Hour, child(key, "idle"), "want a time from 1s to 1h, not %v", x.Idle)
	in := child(key, "input")
	c.judgeIf(x.Input.Tensor == "", child(in, "tensor"), "want the name of a tensor of the engines, such as pixel_values")
	c.judgeIf(!slices.Contains(streams.Encodings, x.Input.Encoding), child(in, "encoding"), "unknown encoding %q; want one of %v", x.Input.Encoding, streams.Encodings)
	for name, size := range sorted(map[string]int{"width": x.Input.Width, "height": x.Input.Height}) {
		c.judgeIf(size < 8 || size > 4096, child(in, name), "want 8 to 4096 pixels, not %d", size)
	}
	names := c.s.variantNames()
	for i, name := range x.Variants {
		c.judgeIf(c.knownVariants() && !slices.Contains(names, name), item(child(key, "variants"), i), "unknown variant %q; %s", name, hint(name, names))
	}
	if c.sound(key) && c.sound("replicas") && c.sound("profiles") && c.sound("hosts") && c.knownTasks() && c.knownVariants() {
		names := append(c.s.streamVariants(x), "")
		c.judgeIf(len(names) > 1 && len(c.s.streamHosts(x)) == 0, child(key, "task"), "no host has %s, the best for %s, with times by batch; want a replica of it, and batch_ms in its profile", names[0], x.Task)
	}
}

// streamVariants names the variants that answer frames, the best first.
func (s *Scenario) streamVariants(x *Streams) (names []string) {
	t := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == x.Task })
	for _, v := range s.Variants {
		if t >= 0 && s.Tasks[t].answers(v.Name) && (len(x.Variants) == 0 || slices.Contains(x.Variants, v.Name)) {
			names = append(names, v.Name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(s.Tasks[t].Quality[b], s.Tasks[t].Quality[a]) })
	return names
}

// streamHosts lists the hosts that answer frames: those that have the best of the variants, and of the others which
// they have as well. Replicas are numbered as those of a table.
func (s *Scenario) streamHosts(x *Streams) (list []streams.Host) {
	variants := s.streamVariants(x)
	t := slices.IndexFunc(s.Tasks, func(t Task) bool { return t.Name == x.Task })
	for _, h := range s.Hosts {
		host := streams.Host{Name: h.Name}
		for _, name := range variants {
			for replica, p := range s.placedReplicas() {
				if p.variant < 0 || p.host < 0 || s.Variants[p.variant].Name != name || s.Hosts[p.host].Name != h.Name {
					continue
				}
				size := streams.Size{Replica: replica, Gap: s.Tasks[t].Quality[variants[0]] - s.Tasks[t].Quality[name]}
				if found := s.modelsFor(name, h.Name); len(found) > 0 && s.Models[found[0]].tabled() {
					m := &s.Models[found[0]]
					kind := max(0, m.Batches.Kind(s.Tasks[t].Kind))
					for n := range min(m.Most(kind), s.Engine.MaxSequences) {
						size.Latency = append(size.Latency, m.Batches.Time(kind, n+1))
					}
				}
				if len(size.Latency) > 0 {
					host.Sizes = append(host.Sizes, size)
				}
				break
			}
			if len(host.Sizes) == 0 { // SLAs relate to the best
				break
			}
		}
		if len(host.Sizes) > 0 {
			list = append(list, host)
		}
	}
	return list
}

// Streams returns how a router serves streaming clients, and whether it does.
func (s *Scenario) Streams() (c streams.Config, on bool) {
	x := Of[Streams](s)
	if x.Task == "" {
		return c, false
	}
	return streams.Config{
		Task: indexOf(s.taskNames(), x.Task), FPS: x.FPS, Policy: x.Policy, Grace: x.Grace.Share(), Margin: x.Margin.Share(),
		Period: x.Period, Horizon: x.Horizon, DropRate: x.DropRate, Clients: x.Clients, MaxFrame: int(x.MaxFrame), Idle: x.Idle,
		Input: streams.Input{Tensor: x.Input.Tensor, Encoding: x.Input.Encoding, Width: x.Input.Width, Height: x.Input.Height},
		Hosts: s.streamHosts(x),
	}, true
}

// Busy returns a measurement of how busy the ledger's hosts are.
func (s *Scenario) Busy(l *fleet.Ledger) *signals.Busy {
	o := signals.BusyOptions{Takes: s.HostTime()}
	for _, r := range l.Table().Replicas {
		slots := s.Engine.MaxSequences
		if r.Limit > 0 {
			slots = min(slots, r.Limit)
		}
		o.AtOnce = append(o.AtOnce, slots)
	}
	return signals.NewBusy(l, o)
}

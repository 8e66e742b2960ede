package scenario

import (
	"cmp"
	"errors"
	"net"
	"slices"
	"time"

	"gearshift/env"
	simulated "gearshift/env/streams"
	"gearshift/router/fleet"
	"gearshift/router/offload"
	"gearshift/serving/picker"
	"gearshift/serving/streams"
	"gearshift/workloads"
)

// Streams describes how clients that stream frames are served. docs/offload.md describes what the keys do.
type Streams struct {
	// Task is that of the frames; its variants with times by batch answer them, or those of Variants alone.
	Task     string   `yaml:"task"`
	Variants []string `yaml:"variants,flow,omitempty"`
	// FPS counts the frames that clients have in a second.
	FPS    float64        `yaml:"fps"`
	Policy offload.Policy `yaml:"policy"`
	// Admission is how arise-alpha decides who is served.
	Admission string `yaml:"admission"`
	// Grace is the part of a batch's time that is left free, and Margin by how much more than they say clients are
	// taken to lose.
	Grace  Part `yaml:"grace"`
	Margin Part `yaml:"margin"`
	// Period sets how often frames are planned, and Horizon how far.
	Period  time.Duration `yaml:"period"`
	Horizon time.Duration `yaml:"horizon"`
	// DropRate is the accuracy that clients lose with each frame which do not say it.
	DropRate float64 `yaml:"drop_rate"`
	// Clients bounds the connections, MaxFrame what a frame has, and Idle how long a client may say nothing.
	Clients  int           `yaml:"clients"`
	MaxFrame Bytes         `yaml:"max_frame"`
	Idle     time.Duration `yaml:"idle"`
	// HTTP3 is the UDP address at which WebTransports are opened; empty: there are none.
	HTTP3 string `yaml:"http3,omitempty"`
	// Input is the tensor that engines take frames as.
	Input StreamInput `yaml:"input"`
}

// StreamInput is a tensor of frames.
type StreamInput struct {
	Tensor   string           `yaml:"tensor"`
	Encoding streams.Encoding `yaml:"encoding"`
	Width    int              `yaml:"width"`
	Height   int              `yaml:"height"`
	// Range has the numbers of black and of full colour as floats.
	Range []float64 `yaml:"range,flow"`
}

// admissions are by the accuracy that a plan expects, or by frames that had to wait for another batch (ARISE-18, 19).
var admissions = []string{"verified", "waiting"}

func streamsSection() registered {
	return section[Streams]{
		key: "serving.streams",
		initial: func() Streams {
			return Streams{
				FPS: 60, Policy: offload.Gearshift, Admission: admissions[0], Grace: 2, Margin: 15, Period: 200 * time.Millisecond, Horizon: time.Second, DropRate: 0.006,
				Clients: 4096, MaxFrame: 256 << 10, Idle: 2 * time.Minute, Input: StreamInput{Tensor: "pixel_values", Encoding: streams.Encodings[0], Width: 320, Height: 180, Range: []float64{0, 1}},
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
	c.judgeIf(!slices.Contains(offload.Policies, x.Policy), child(key, "policy"), "unknown policy %q; want one of %v", x.Policy, offload.Policies)
	c.judgeIf(!slices.Contains(admissions, x.Admission), child(key, "admission"), "unknown admission %q; %s", x.Admission, hint(x.Admission, admissions))
	c.judgeIf(x.Period < 50*time.Millisecond || x.Period > 5*time.Second, child(key, "period"), "want a time from 50ms to 5s, not %v", x.Period)
	c.judgeIf(x.Horizon < x.Period || x.Horizon > 10*time.Second, child(key, "horizon"), "want a time from the period, %v, to 10s, not %v", x.Period, x.Horizon)
	c.judgeIf(!(x.DropRate > 0 && x.DropRate <= 1), child(key, "drop_rate"), "want a number above 0 and at most 1, not %v", x.DropRate)
	c.judgeIf(x.Clients < 1 || x.Clients > 1_000_000, child(key, "clients"), "want a number from 1 to 1000000, not %d", x.Clients)
	c.judgeIf(x.MaxFrame < 1<<10 || x.MaxFrame > 16<<20, child(key, "max_frame"), "want a size from 1KiB to 16MiB, not %d bytes", x.MaxFrame)
	c.judgeIf(x.Idle < time.Second || x.Idle > time.Hour, child(key, "idle"), "want a time from 1s to 1h, not %v", x.Idle)
	_, port, bad := net.SplitHostPort(x.HTTP3)
	if bad == nil {
		_, bad = net.LookupPort("udp", port)
	}
	c.judgeIf(x.HTTP3 != "" && bad != nil, child(key, "http3"), "%q is not a UDP address; want HOST:PORT or :PORT, such as 127.0.0.1:8443", x.HTTP3)
	in := child(key, "input")
	c.judgeIf(x.Input.Tensor == "", child(in, "tensor"), "want the name of a tensor of the engines, such as pixel_values")
	c.judgeIf(!slices.Contains(streams.Encodings, x.Input.Encoding), child(in, "encoding"), "unknown encoding %q; want one of %v", x.Input.Encoding, streams.Encodings)
	for name, size := range sorted(map[string]int{"width": x.Input.Width, "height": x.Input.Height}) {
		c.judgeIf(size < 8 || size > 4096, child(in, name), "want 8 to 4096 pixels, not %d", size)
	}
	c.judgeIf(len(x.Input.Range) != 2 || !(x.Input.Range[0] >= -1e6 && x.Input.Range[0] < x.Input.Range[1] && x.Input.Range[1] <= 1e6), child(in, "range"), "want the numbers of black and of full colour, the lower first, such as [0, 1] or [-1, 1], not %v", x.Input.Range)
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
				if found := s.modelsFor(name, h.Name); len(found) > 0 && s.Models[found[0]].Batches != nil {
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
		Task: indexOf(s.taskNames(), x.Task), FPS: x.FPS, Policy: x.Policy, Verified: x.Admission == admissions[0], Grace: x.Grace.Share(), Margin: x.Margin.Share(),
		Period: x.Period, Horizon: x.Horizon, DropRate: x.DropRate, Clients: x.Clients, MaxFrame: int(x.MaxFrame), Idle: x.Idle, HTTP3: x.HTTP3,
		Input: streams.Input{Tensor: x.Input.Tensor, Encoding: x.Input.Encoding, Width: x.Input.Width, Height: x.Input.Height, Range: [2]float64(x.Input.Range)},
		Hosts: s.streamHosts(x),
	}, true
}

// stream has clients stream to a simulated fleet, as serving.streams has them served. Of a fleet that has none of the
// replicas that answer frames, where one variant stands alone, there are none.
func (s *Scenario) stream(c *env.Config, w workloads.Streams) error {
	served, on := s.Streams()
	if !on {
		return errors.New("+streams wants serving.streams in the scenario, which says what answers frames")
	}
	x := simulated.Default()
	x.System = simulated.System{Name: string(served.Policy), Policy: served.Policy}
	if served.Policy == offload.Gearshift {
		x.Weight = offload.Learning
	}
	x.FPS, x.Grace, x.Margin, x.Period, x.Horizon, x.Task = served.FPS, served.Grace, served.Margin, served.Period, served.Horizon, served.Task
	x.Content.Rate, x.SLA, x.Warmup = served.DropRate, [2]float64{w.SLA, w.SLA}, 0
	x.Present, x.Arrivals, x.Session = w.Clients, max(10, float64(w.Clients)), w.Session
	x.Link = map[string]simulated.Link{"5g": simulated.FiveG, "lte": simulated.LTE}[w.Link]
	for _, h := range served.Hosts {
		host := simulated.HostSizes{Name: h.Name}
		for _, size := range h.Sizes {
			name := s.Table().Replicas[size.Replica].Name
			if i := slices.IndexFunc(c.Table.Replicas, func(r fleet.Replica) bool { return r.Name == name }); i >= 0 {
				kind := max(0, c.Profiles[i].Batches.Kind(s.Tasks[served.Task].Kind))
				host.Sizes = append(host.Sizes, simulated.HostSize{Replica: i, Kind: kind, Latency: size.Latency, Gap: size.Gap})
			} else if len(host.Sizes) == 0 {
				break
			}
		}
		if len(host.Sizes) > 0 {
			x.Hosts = append(x.Hosts, host)
		}
	}
	if len(x.Hosts) > 0 {
		c.Beside = x.Beside
	}
	return nil
}

// pickerSection registers the section of the endpoint picker.
func pickerSection() registered {
	const key = "serving.picker"
	return section[picker.Config]{
		key: key,
		check: func(c *checker, v *picker.Config) {
			c.own(key, v.Validate())
			c.judgeIf(v.On() && c.s.Serving.Backend != Upstream, child(key, "addr"), "a gateway cannot reach engines of backend: %s, which are within the router; want backend: %s", c.s.Serving.Backend, Upstream)
			c.judgeIf(v.TLS == picker.TLSServer && !c.s.Serving.Server.TLS.On(), child(key, "tls"), "%s needs the certificate of serving.tls", picker.TLSServer)
		},
	}
}

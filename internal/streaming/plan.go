package streaming

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"gearshift/internal/scenario"
	"gearshift/router/offload"
	"gearshift/router/profile"
)

// offloadFile holds a server and its clients as a file has them. Times are in frame intervals where they do not say ms.
type offloadFile struct {
	FPS       float64            `yaml:"fps,omitempty"`
	Grace     float64            `yaml:"grace,omitempty"`
	LatencyMS map[string]float64 `yaml:"latency_ms"`
	T0        float64            `yaml:"t0,omitempty"`
	Horizon   float64            `yaml:"horizon,omitempty"`
	Policy    offload.Policy     `yaml:"policy,omitempty"`
	Clients   []offloadClient    `yaml:"clients"`
}

type offloadClient struct {
	ID          int      `yaml:"id"`
	SLA         float64  `yaml:"sla,omitempty"`
	DropRate    float64  `yaml:"drop_rate,omitempty"`
	NetworkMS   float64  `yaml:"network_ms,omitempty"`
	LastFrame   *int     `yaml:"last_frame,omitempty"`
	LastArrival *float64 `yaml:"last_arrival,omitempty"`
	Interval    int      `yaml:"interval,omitempty"`
	Batch       int      `yaml:"batch,omitempty"`
	Waiting     bool     `yaml:"waiting,omitempty"`
}

// plannedOffload is the output of a plan.
type plannedOffload struct {
	Settings []offloadSetting `json:"settings"`
	Batches  []offloadBatch   `json:"batches"`
	Kept     []int            `json:"kept"`
	Dropped  []offloadDropped `json:"dropped,omitempty"`
	MS       float64          `json:"ms"` // that planning took
}

type offloadSetting struct {
	ID       int     `json:"id"`
	Interval int     `json:"interval"`
	Batch    int     `json:"batch"`
	Capacity float64 `json:"capacity"` // clients of this kind that the server carries
}

type offloadBatch struct {
	Start    float64          `json:"start"`
	Requests []offloadRequest `json:"requests"`
}

type offloadRequest struct {
	Client int `json:"client"`
	Frame  int `json:"frame"`
}

type offloadDropped struct {
	ID  int    `json:"id"`
	Why string `json:"why"`
}

// What a plan may be of at most.
const (
	mostClients = 1000
	mostFrames  = 1000 // of the horizon
)

// Plan plans for the clients of a JSON file.
func Plan(name string, text []byte) (any, error) {
	f := offloadFile{FPS: 60, Policy: offload.Policies[0]}
	if err := scenario.Decode(name, text, &f); err != nil {
		return nil, err
	}
	planner, err := f.planner()
	if err == nil {
		err = f.check(planner)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f.plan(planner), nil
}

// planner returns that of the server.
func (f *offloadFile) planner() (*offload.Planner, error) {
	number := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
	switch {
	case !(f.FPS > 0 && f.FPS <= 1000):
		return nil, fmt.Errorf("fps: %v; want frames per second above 0, at most 1000", f.FPS)
	case !(f.Grace >= 0 && f.Grace <= 1):
		return nil, fmt.Errorf("grace: %v; want a part from 0 to 1, such as 0.1", f.Grace)
	case !number(f.T0) || !(f.Horizon >= 0 && f.Horizon <= mostFrames):
		return nil, fmt.Errorf("t0 and horizon: %v and %v; want frames, at most %d for the horizon", f.T0, f.Horizon, mostFrames)
	case !slices.Contains(offload.Policies, f.Policy):
		return nil, fmt.Errorf("policy: %q; want one of %v", f.Policy, offload.Policies)
	}
	times := map[int]float64{}
	for key, ms := range f.LatencyMS {
		n, err := strconv.Atoi(key)
		if err != nil {
			return nil, fmt.Errorf("latency_ms: %q is not the size of a batch", key)
		}
		times[n] = ms
	}
	table, err := profile.NewBatches(map[string]map[int]float64{"": times})
	if err != nil {
		return nil, fmt.Errorf("latency_ms: %w", err)
	}
	if f.Horizon == 0 {
		f.Horizon = f.FPS
	}
	p := &offload.Planner{Server: offload.Server{Grace: f.Grace, Longest: int(math.Ceil(f.FPS))}, Policy: f.Policy}
	for n := range table.Most(0) {
		p.Latency = append(p.Latency, f.frames(table.Time(0, n+1)))
	}
	return p, nil
}

// frames returns so many milliseconds in frame intervals.
func (f *offloadFile) frames(ms float64) float64 { return ms * f.FPS / 1000 }

// check names the first fault of the clients.
func (f *offloadFile) check(p *offload.Planner) error {
	if len(f.Clients) > mostClients {
		return fmt.Errorf("clients: %d; at most %d", len(f.Clients), mostClients)
	}
	seen := map[int]bool{}
	for i := range f.Clients {
		c := &f.Clients[i]
		number := func(x float64) bool { return x >= 0 && !math.IsInf(x, 1) }
		var fault string
		switch {
		case seen[c.ID]:
			fault = fmt.Sprintf("the id %d is there twice", c.ID)
		case !number(c.SLA) || !number(c.DropRate):
			fault = fmt.Sprintf("sla %v and drop_rate %v; want accuracies from 0 on", c.SLA, c.DropRate)
		case c.DropRate == 0 && (c.Interval == 0 || c.Batch == 0):
			fault = "drop_rate is missing; want the accuracy that is lost with each frame, above 0, or interval and batch"
		case !(c.NetworkMS >= 0 && c.NetworkMS <= 60_000):
			fault = fmt.Sprintf("network_ms: %v; want milliseconds from 0 to 60000", c.NetworkMS)
		case (c.LastFrame == nil) != (c.LastArrival == nil):
			fault = "last_frame and last_arrival belong together; want both, or neither"
		case c.LastArrival != nil && !(math.Abs(*c.LastArrival) <= 1e12):
			fault = fmt.Sprintf("last_arrival: %v; want a time in frames", *c.LastArrival)
		case c.LastFrame != nil && *c.LastArrival < f.T0-1e6:
			fault = fmt.Sprintf("last_arrival: %v is long before t0, %v", *c.LastArrival, f.T0)
		case c.Interval < 0 || c.Interval > p.Longest:
			fault = fmt.Sprintf("interval: %d; want frames from 1 to %d, a second", c.Interval, p.Longest)
		case c.Batch < 0 || c.Batch > len(p.Latency):
			fault = fmt.Sprintf("batch: %d; want a size from 1 to %d, the largest of latency_ms", c.Batch, len(p.Latency))
		}
		if fault != "" {
			return fmt.Errorf("clients[%d]: %s", i, fault)
		}
		seen[c.ID] = true
	}
	return nil
}

// plan plans what is written.
func (f *offloadFile) plan(p *offload.Planner) *plannedOffload {
	x := &plannedOffload{Settings: []offloadSetting{}, Batches: []offloadBatch{}, Kept: []int{}}
	var all, sending []offload.Client
	var ids []int // of those that send
	for i := range f.Clients {
		c := &f.Clients[i]
		y := offload.Client{SLA: c.SLA, Rate: c.DropRate, Network: f.frames(c.NetworkMS), Waiting: c.Waiting, Given: offload.Setting{Interval: c.Interval, Batch: c.Batch}}
		if c.LastFrame != nil {
			y.Last, y.Arrival = *c.LastFrame, *c.LastArrival
			sending, ids = append(sending, y), append(ids, c.ID)
		}
		all = append(all, y)
	}
	for i, s := range p.Settings(all) {
		x.Settings = append(x.Settings, offloadSetting{f.Clients[i].ID, s.Interval, s.Batch, rounded(p.Capacity(s), 100)})
	}
	began := time.Now()
	batches, kept := p.Plan(sending, f.T0, f.Horizon)
	x.MS = float64(time.Since(began).Microseconds()) / 1e3
	for _, b := range batches {
		y := offloadBatch{Start: rounded(b.Start, 1e6)}
		for _, r := range b.Requests {
			y.Requests = append(y.Requests, offloadRequest{ids[r.Client], r.Frame})
		}
		x.Batches = append(x.Batches, y)
	}
	for i, id := range ids {
		switch {
		case slices.Contains(kept, i):
			x.Kept = append(x.Kept, id)
		case p.Best(&sending[i]).Interval == 0:
			x.Dropped = append(x.Dropped, offloadDropped{id, "no interval keeps its SLA, even in batches of one"})
		default:
			x.Dropped = append(x.Dropped, offloadDropped{id, "the server has no room for it: with it a client would lose more than its SLA"})
		}
	}
	return x
}

// rounded returns x to a part of 1/parts.
func rounded(x, parts float64) float64 { return math.Round(x*parts) / parts }

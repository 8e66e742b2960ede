package streaming

import (
	"fmt"
	"math"
	"time"

	simulated "gearshift/env/streams"
	"gearshift/internal/scenario"
	"gearshift/internal/splitmix"
	"gearshift/router/offload"
	"gearshift/router/profile"
	"gearshift/serving/streams"
)

// prediction is what the simulator predicts of a run.
type prediction struct {
	Served float64 `json:"served"`
	Rate   float64 `json:"results_per_second"`
	Batch  float64 `json:"mean_batch"`
	Late   float64 `json:"late"`
	Drop   float64 `json:"drop"`
	Above  float64 `json:"above_sla"`

	served streams.Config
}

// newPrediction reads the scenario of the router.
func newPrediction(path string) (*prediction, error) {
	s, err := scenario.Load(path)
	if err != nil {
		return nil, err
	}
	c, on := s.Streams()
	if !on {
		return nil, fmt.Errorf("--simulate %s: the scenario has no serving.streams", path)
	}
	return &prediction{served: c}, nil
}

// simulations counts the seeds of a prediction, which is their mean: clients that are drawn differ.
const simulations = 5

// run simulates each of the hosts with its part of the clients. What was measured is given: how long batches take beside the
// profile and the network beside the link, and the drop rates that clients estimate.
func (s *prediction) run(o *Options, live *Report, link *simulated.Link) (*prediction, error) {
	batches := 0
	for i, h := range s.served.Hosts {
		present := o.Clients / len(s.served.Hosts)
		if i < o.Clients%len(s.served.Hosts) {
			present++
		}
		c, err := s.config(o, live, link, h.Sizes)
		if err != nil || present == 0 {
			return s, err
		}
		for seed := range uint64(simulations) {
			c.Present, c.Seed = present, splitmix.Mix(o.Seed+seed)+uint64(i)
			r, err := simulated.Run(*c)
			if err != nil {
				return nil, err
			}
			s.Served += r.Clients / simulations
			s.Rate += float64(r.Batches) * r.Batch / (c.Length - c.Warmup).Seconds() / simulations
			s.Batch, s.Late = s.Batch+r.Batch*float64(r.Batches), s.Late+r.Late*float64(r.Batches)
			s.Drop, s.Above = s.Drop+r.Drop*r.Clients/simulations, s.Above+r.Broken*r.Clients/simulations
			batches += r.Batches
		}
	}
	s.Batch, s.Late = s.Batch/float64(max(1, batches)), s.Late/float64(max(1, batches))
	s.Drop, s.Above = s.Drop/max(s.Served, 1e-9), s.Above/max(s.Served, 1e-9)
	if d := live.Drop; d != nil && live.Estimated > 0 {
		s.Drop *= d.Rate / live.Estimated
	}
	return s, nil
}

// The sizes of what scenes send and get, about. They say what varies with the link's rates: the mean is the measured one.
const frameBytes, resultBytes = 5_000.0, 15_000.0

// config returns what is simulated of a host.
func (s *prediction) config(o *Options, live *Report, link *simulated.Link, sizes []streams.Size) (*simulated.Config, error) {
	c, x := simulated.Default(), &s.served
	c.System = simulated.System{Policy: x.Policy, Verified: x.Verified}
	if x.Policy == offload.Gearshift {
		c.Weight = offload.Learning
	}
	c.FPS, c.Margin, c.Grace, c.Period, c.Horizon = x.FPS, x.Margin, x.Grace, x.Period, x.Horizon
	c.SLA, c.Arrivals, c.Session = [2]float64{o.SLA, o.SLA}, 20, time.Hour
	c.Length, c.Warmup = o.Duration, o.Warmup
	c.Content.Rate, c.Content.Apart = live.Estimated, min(1, math.Sqrt(3)*live.EstimatedSpread/live.Estimated)
	slow := live.slow(sizes[0].Latency)
	for i, size := range sizes {
		times := map[int]float64{}
		for n, ms := range size.Latency {
			times[n+1] = ms * slow
		}
		b, err := profile.NewBatches(map[string]map[int]float64{"": times})
		if err != nil {
			return nil, err
		}
		if p := (&profile.Profile{Batches: b}); i == 0 {
			c.Profile, c.Largest = p, len(times)
		} else {
			c.Smaller = append(c.Smaller, simulated.Size{Profile: p, Gap: size.Gap})
		}
	}
	c.Link = simulated.Link{Up: math.MaxFloat32, Down: math.MaxFloat32, Memory: time.Second}
	if link != nil {
		c.Link = *link
	}
	c.FrameBytes, c.ResultBytes = frameBytes, resultBytes
	if l := &c.Link; l.Recorded == nil {
		carries := 8 * (frameBytes/l.Up + resultBytes/l.Down) / 1000
		l.RoundTrip = max(0, time.Duration((live.Network-carries)*float64(time.Millisecond)))
	}
	return &c, nil
}

// slow returns how many times as long as by the profile the batches of results took.
func (r *Report) slow(latency []float64) float64 {
	took, want := 0.0, 0.0
	for size, x := range r.Ran {
		if size <= len(latency) {
			took, want = took+x.MS, want+float64(x.N)*latency[size-1]
		}
	}
	if want == 0 {
		return 1
	}
	return took / want
}

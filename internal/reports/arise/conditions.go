package arise

import (
	"fmt"
	"time"

	"gearshift/env/streams"
	"gearshift/router/offload"
	"gearshift/router/profile"
)

// conditions describe clients and their server.
type conditions struct {
	name        string
	server      server
	fps         float64
	link        streams.Link
	rate, apart float64 // see [streams.Content]
	sla         [2]float64
	still       bool    // nothing varies but the clients' phases, and no batch has grace
	known       bool    // drop rates do not vary in time, and each result says what they are
	margin      float64 // by how much more than estimated clients are taken to lose
	present     int     // clients that there may be at a time; 0 is any
	gap         float64 // accuracy that a smaller model loses, which takes a third of the time; 0 is none
	paper       paper
}

// server takes fixed + each·n ms for a batch of n.
type server struct{ fixed, each float64 }

func (s server) String() string {
	return fmt.Sprintf("%.4g + %.4g·n ms for a batch of n", s.fixed, s.each)
}

// paper holds what the paper gives its baselines and states of ARISE; 0 is nothing.
type paper struct {
	static   offload.Setting
	interval int // of the Clipper-like
	// How many times the clients of Static and the Chameleon-like, of ARISE-α and of the Clipper-like it serves.
	ratios, alpha, clipper span
	states                 figures
}

// figures hold what a row of a table may have from the paper.
type figures struct{ clients, interval, batch, idle, late, estimate float64 }

// testbedServer takes the 28.5 ms for a batch of 3.1 that follow from 32 batches a second. It runs at 1200 MHz, the
// emulation's at 1740.
var testbedServer = server{13, 5}

var emulation = conditions{
	name: "5G", server: server{testbedServer.fixed * 1200 / 1740, testbedServer.each * 1200 / 1740}, fps: 60,
	link: streams.FiveG, rate: 0.006, apart: 0.3, sla: [2]float64{0.02, 0.02},
	paper: paper{static: offload.Setting{Interval: 3, Batch: 5}, interval: 3, ratios: span{1.7, 6.9}, alpha: span{1.7, 3.9}, clipper: span{1.7, 5.2}},
}

// with returns the conditions with another SLA or a range of them, and what the paper states there.
func (w conditions) with(low, high float64, states figures) conditions {
	w.sla, w.paper.states = [2]float64{low, high}, states
	if w.name += fmt.Sprintf(", SLA %v", low); low < high {
		w.name += fmt.Sprintf(" to %v", high)
	}
	return w
}

// at returns the conditions with another drop rate.
func (w conditions) at(rate, apart float64) conditions {
	w.rate, w.apart = rate, apart
	return w
}

// like returns the conditions with what the paper gives Static and the Clipper-like there, and has as ratios of all.
func (w conditions) like(name string, static offload.Setting, interval int, ratios span) conditions {
	w.name, w.paper = name, paper{static: static, interval: interval, ratios: ratios, alpha: ratios, clipper: ratios}
	return w
}

var (
	strict = emulation.with(0.02, 0.02, figures{idle: 8.8, estimate: 0.004})
	loose  = emulation.with(0.06, 0.06, figures{late: 1.6, estimate: 0.008})
	varied = emulation.with(0.02, 0.06, figures{})
	fiveG  = []conditions{strict, emulation.with(0.04, 0.04, figures{}), loose}
)

func lte() conditions {
	w := emulation.like("LTE", offload.Setting{Interval: 3, Batch: 3}, 3, span{2.5, 5.6})
	w.link = streams.LTE
	return w.with(0.02, 0.02, figures{})
}

func onTestbed(rate float64) conditions {
	w := emulation.like("testbed", offload.Setting{Interval: 3, Batch: 3}, 3, span{2.6, 3.8})
	w.server = testbedServer
	w.present = 10 // phones
	return w.with(0.02, 0.02, figures{clients: 7.6, interval: 4.6, batch: 3.1}).at(rate, w.apart)
}

// detecting returns the conditions of object detection. A batch of 1.2 takes 24.6 ms if the paper's videos have 60 frames a
// second, twice that if 30; how it grows, and the rate, are fitted to the paper's interval and batch on training seeds.
func detecting(fps, rate float64) conditions {
	w := emulation.like(fmt.Sprintf("%v frames a second", fps), offload.Setting{Interval: 5, Batch: 5}, 9, span{1.9, 2.1})
	w.fps, w.server = fps, server{4.8 * 60 / fps, 16.5 * 60 / fps}
	return w.with(0.2, 0.2, figures{clients: 9.6, interval: 13, batch: 1.2}).at(rate, w.apart)
}

func detections() []conditions { return []conditions{detecting(60, 0.029), detecting(30, 0.0255)} }

// config returns the conditions for a run.
func (w conditions) config(length time.Duration) (streams.Config, error) {
	c := streams.Default()
	if w.still {
		c.Grace, c.Content = 0, streams.Content{Memory: time.Second}
		w.link = steady(w.link)
	}
	c.FPS, c.Link, c.SLA, c.Content.Rate, c.Content.Apart, c.Length, c.Warmup = w.fps, w.link, w.sla, w.rate, w.apart, length, warmUp
	c.Present, c.Margin = w.present, w.margin
	if w.known {
		c.Content.Spread, c.Content.Noise = 0, 0
	}
	var err error
	c.Profile, err = w.server.profile(c.Largest)
	if w.gap > 0 && err == nil {
		third := server{w.server.fixed / 3, w.server.each / 3}
		c.Smaller = []streams.Size{{Gap: w.gap}}
		c.Smaller[0].Profile, err = third.profile(c.Largest)
	}
	return c, err
}

// profile returns the times of batches of up to so many.
func (s server) profile(largest int) (*profile.Profile, error) {
	times := map[int]float64{}
	for n := 1; n <= largest; n++ {
		times[n] = s.fixed + s.each*float64(n)
	}
	batches, err := profile.NewBatches(map[string]map[int]float64{"": times})
	return &profile.Profile{Batches: batches}, err
}

// steady returns the link without what varies.
func steady(l streams.Link) streams.Link {
	l.UpSpread, l.DownSpread, l.Varying, l.Jitter = 0, 0, 0, 0
	return l
}

// planner returns the server, without grace, and a client in the mean as [offload] knows them.
func (w conditions) planner() (*offload.Server, *offload.Client) {
	c := streams.Default()
	s := &offload.Server{Longest: int(w.fps)}
	for n := 1; n <= c.Largest; n++ {
		s.Latency = append(s.Latency, (w.server.fixed+w.server.each*float64(n))*w.fps/1000)
	}
	network := w.link.RoundTrip.Seconds() + 8e-6*(float64(c.FrameBytes)/w.link.Up+float64(c.ResultBytes)/w.link.Down)
	return s, &offload.Client{SLA: w.sla[0], Rate: w.rate, Network: network * w.fps}
}

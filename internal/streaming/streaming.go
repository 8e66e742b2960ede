// Package streaming emulates streaming clients of a live router, measures how they are served and what they lose, and has
// the simulator predict the same; and it plans the clients of a file.
package streaming

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"

	simulated "gearshift/env/streams"
	"gearshift/internal/splitmix"
	"gearshift/serving/streams"
)

// Options say which clients are emulated.
type Options struct {
	// URL is that of the router, Key an API key, if it wants one, and Task that of the frames; empty is the router's.
	URL, Key, Task string
	// WebTransport has clients connect so, and not by WebSockets.
	WebTransport bool
	Clients      int
	// SLA is the accuracy that each may lose, FPS its frames in a second, and DropRate the accuracy that a tracker loses with
	// each frame, in the mean.
	SLA, FPS, DropRate float64
	Duration           time.Duration
	// Apart is the time from one client's begin to the next, and Warmup that in which nothing is measured.
	Apart, Warmup time.Duration
	Seed          uint64
	// Scenes has clients stream scenes whose boxes are known, and track what is found in them. Without it, frames have
	// Width × Height pixels, and drop rates are made up. Arise has them estimate drop rates as ARISE does.
	Scenes, Arise bool
	Width, Height int
	// Link names that of each client: 5g, lte or a file of speed tests; empty is the network as it is. Simulate names the
	// router's scenario, if the simulator is to predict the same.
	Link, Simulate string
}

// Run emulates the clients, and simulates them if it is to: in this process, or each in one of its own, to which args are
// the arguments of this program. Without a result it says why, beside the report.
func (o *Options) Run(ctx context.Context, args []string) (*Report, error) {
	link, err := linkOf(o.Link)
	if err != nil {
		return nil, err
	}
	var predicted *prediction
	if o.Simulate != "" {
		if predicted, err = newPrediction(o.Simulate); err != nil {
			return nil, err
		}
	}
	var measured []*Measured
	if args != nil {
		measured, err = o.inProcesses(ctx, args)
	} else {
		measured, err = o.together(ctx, link)
	}
	if err != nil {
		return nil, err
	}
	r := o.sum(measured)
	if predicted != nil && r.Results > 0 {
		r.Simulated, err = predicted.run(o, r, link)
	}
	if r.Results == 0 {
		err = fmt.Errorf("no result in %v: %s", o.Duration, listed(r.Waiting, r.Errors))
	}
	return r, err
}

// Client emulates the one client of a process.
func (o *Options) Client(ctx context.Context, c Child) (*Measured, error) {
	link, err := linkOf(o.Link)
	if err != nil {
		return nil, err
	}
	return o.stream(ctx, c.index, time.UnixMilli(c.begin), link)
}

// linkOf returns the link of that name, or of a file; nil for none.
func linkOf(name string) (*simulated.Link, error) {
	switch name {
	case "":
		return nil, nil
	case "5g":
		return &simulated.FiveG, nil
	case "lte":
		return &simulated.LTE, nil
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, fmt.Errorf("--link %s: want 5g, lte, or a file of speed tests: %w", name, err)
	}
	defer f.Close()
	recorded, err := simulated.ReadSpeedTest(f)
	if err != nil {
		return nil, fmt.Errorf("--link %s: %w", name, err)
	}
	return &simulated.Link{Name: name, Recorded: recorded}, nil
}

// together has all clients emulated in this process.
func (o *Options) together(ctx context.Context, link *simulated.Link) ([]*Measured, error) {
	measured, failed := make([]*Measured, o.Clients), make([]error, o.Clients)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range o.Clients {
		all.Go(func() { measured[i], failed[i] = o.stream(ctx, i, begin, link) })
	}
	all.Wait()
	return measured, cmp.Or(failed...)
}

// stream emulates a client, of which the first begins then.
func (o *Options) stream(ctx context.Context, i int, begin time.Time, link *simulated.Link) (*Measured, error) {
	own := begin.Add(time.Duration(i) * o.Apart)
	m := &Measured{Ran: batchTimes{}}
	random := rand.New(rand.NewPCG(splitmix.Mix(o.Seed), uint64(i)))
	c := &streams.Client{
		URL: strings.TrimSuffix(o.URL, "/"), Key: o.Key, SLA: o.SLA, FPS: o.FPS, Task: o.Task, DropRate: o.DropRate, WebTransport: o.WebTransport,
		Warmup: max(0, begin.Add(o.Warmup).Sub(own)),
		Heard: func(d *streams.Down) {
			if d.Type == streams.KindResult {
				m.Ran.add(d.Batch, 1, d.InferenceMS)
				m.Queued += d.QueueMS
			}
		},
	}
	if link != nil {
		path := &simulated.Path{Link: link, Random: rand.New(rand.NewPCG(splitmix.Mix(o.Seed)+1, uint64(i)))}
		if link.Recorded != nil {
			path.Recorded = time.Duration(random.Float64() * float64(link.Recorded.Length()))
		}
		c.Link = path
	}
	var drawn *scene
	if o.Scenes {
		drawn = newScene(splitmix.Mix(o.Seed), i, o.DropRate)
		drawn.Arise, drawn.From = o.Arise, int(c.Warmup.Seconds()*o.FPS)
		c.Scene = drawn
	} else {
		c.Scene = &square{pictures: squares(o.Width, o.Height), offset: i, rate: o.DropRate * (0.7 + 0.6*random.Float64()), random: random, estimate: o.DropRate}
	}
	running, stop := context.WithDeadline(ctx, begin.Add(o.Duration))
	defer stop()
	select {
	case <-time.After(time.Until(own)):
		if err := c.Run(running); err != nil {
			m.Failed = err.Error()
		}
	case <-running.Done():
	}
	m.Measured = c.Measured()
	if drawn != nil {
		m.Drops, m.Loss, m.Stride = drawn.Drops, drawn.Loss, drawn.Stride
		if drawn.err != nil {
			m.Failed = drawn.err.Error()
		}
	}
	return m, ctx.Err()
}

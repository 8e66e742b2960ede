package measure

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	simulated "gearshift/env/streams"
	"gearshift/internal/output"
	"gearshift/internal/splitmix"
	"gearshift/serving/streams"
)

// streamOptions are the flags of stream.
type streamOptions struct {
	url, keyEnv, task, format string
	clients, width, height    int
	sla, fps, rate            float64
	duration, apart           time.Duration
	warmup                    time.Duration
	seed                      uint64
	scenes, arise, processes  bool
	webTransport              bool
	link, simulate            string
	child                     child
}

// NewStreamCommand returns the command that emulates streaming clients.
func NewStreamCommand() *cobra.Command {
	var o streamOptions
	c := &cobra.Command{
		Use:   "stream --url URL",
		Short: "Emulate streaming clients of a live router, and report how they are served",
		Long: `Connects clients to the streams of a live router (serving.streams), each of which has
frames of its own, sends those that the router schedules, and loses accuracy by its drop
rate on those in between. It prints how many clients are served, results per second, how
many batches began later than planned by more than a frame, and times from the capture of
a frame to its result.

Frames show a square that moves, and drop rates are made up: each client has one between
.7 and 1.3 of --drop-rate, and measures it with noise. With --scenes, frames are of drawn
scenes whose boxes are known, scaled to 128×128 pixels, for engines that serve a model of
"gearshift models make --family boxes". Clients then track the boxes that come back,
estimate from them what they lose, and measure what they really lose in each whole second
beyond what a server of their own would:

  gearshift stream --url http://127.0.0.1:8080 --scenes --clients 16 --processes --link lte

--link delays frames and results by what a network takes, as the simulator draws it: 5g,
lte, or a CSV file of speed tests (time_s, up_mbps, down_mbps, ping_ms). With --simulate,
the report has what the simulator predicts for the router's scenario, from the drop
rates, the times of batches and of the network that the clients have measured.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			var given []string
			c.Flags().Visit(func(f *pflag.Flag) {
				if !slices.Contains([]string{"processes", "simulate", "format"}, f.Name) {
					given = append(given, "--"+f.Name+"="+f.Value.String())
				}
			})
			return o.run(c.Context(), given, c.OutOrStdout())
		},
	}
	o.flags(c)
	return c
}

// flags adds the flags of the command.
func (o *streamOptions) flags(c *cobra.Command) {
	f := c.Flags()
	f.StringVar(&o.url, "url", "", "`URL` of the router (required)")
	f.IntVar(&o.clients, "clients", 8, "how `MANY`")
	f.Float64Var(&o.sla, "sla", 0.06, "the accuracy that each may lose")
	f.Float64Var(&o.fps, "fps", 60, "frames of each in a second")
	f.Float64Var(&o.rate, "drop-rate", 0.006, "the accuracy that a tracker loses with each frame, in the mean")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "to stream for")
	f.DurationVar(&o.apart, "apart", 50*time.Millisecond, "from one client's begin to the next")
	f.IntVar(&o.width, "width", 320, "of frames, in pixels")
	f.IntVar(&o.height, "height", 180, "of frames, in pixels")
	f.StringVar(&o.task, "task", "", "of the frames (default: the router's)")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`VARIABLE` of the environment with the router's key (default: none)")
	f.BoolVar(&o.webTransport, "webtransport", false, "over WebTransport in place of WebSockets, where the router listens for it (serving.streams.http3)")
	f.Uint64Var(&o.seed, "seed", 0, "of drop rates")
	f.DurationVar(&o.warmup, "warmup", 0, "at the begin of which nothing is measured")
	f.BoolVar(&o.scenes, "scenes", false, "stream scenes whose boxes are known, and measure the true drop")
	f.BoolVar(&o.arise, "arise-estimate", false, "estimate drop rates by the last result alone, as ARISE does")
	f.BoolVar(&o.processes, "processes", false, "emulate each client in a process of its own")
	f.StringVar(&o.link, "link", "", "`LINK` to the router: 5g, lte, or a CSV FILE (default: as it is)")
	f.StringVar(&o.simulate, "simulate", "", "`FILE` of the router's scenario, to simulate the same beside it")
	f.StringVar(&o.format, "format", "table", "table or json")
	f.Var(&o.child, "child", "which client to emulate, and when the first begins")
	_ = f.MarkHidden("child") // it is defined above
	if err := c.MarkFlagRequired("url"); err != nil {
		panic(err) // the flag is defined above
	}
}

func (o *streamOptions) validate() error {
	return cmp.Or(
		tableOrJSON(o.format),
		cli.FaultIf(o.clients < 1 || o.clients > 100_000, "--clients %d: want 1 to 100000", o.clients),
		cli.FaultIf(!(o.sla >= 0 && o.sla <= 1), "--sla %v: want a number from 0 to 1", o.sla),
		cli.FaultIf(!(o.fps >= 1 && o.fps <= 240), "--fps %v: want a number from 1 to 240", o.fps),
		cli.FaultIf(!(o.rate > 0 && o.rate <= 0.5), "--drop-rate %v: want a number above 0 and at most 0.5", o.rate),
		cli.FaultIf(o.duration <= 0 || o.apart < 0, "--duration %v --apart %v: want a time above 0, and one that is not negative", o.duration, o.apart),
		cli.FaultIf(o.warmup < 0 || o.warmup >= o.duration, "--warmup %v: want a time that is less than --duration %v", o.warmup, o.duration),
		cli.FaultIf(o.arise && !o.scenes, "--arise-estimate is for --scenes: without it drop rates are made up"),
		cli.FaultIf(min(o.width, o.height) < 8 || max(o.width, o.height) > 4096, "--width %d --height %d: want 8 to 4096", o.width, o.height),
	)
}

func (o *streamOptions) run(ctx context.Context, given []string, stdout io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	link, err := linkOf(o.link)
	if err != nil {
		return err
	}
	var simulated *streamedSim
	if o.simulate != "" {
		if simulated, err = newStreamedSim(o.simulate); err != nil {
			return err
		}
	}
	if o.child.begin > 0 {
		m, err := o.stream(ctx, o.child.index, time.UnixMilli(o.child.begin), link)
		if err != nil {
			return err
		}
		return output.JSON(stdout, m)
	}
	var measured []*clientMeasured
	if o.processes {
		measured, err = o.inProcesses(ctx, append([]string{"stream"}, given...))
	} else {
		measured, err = o.together(ctx, link)
	}
	if err != nil {
		return err
	}
	report := o.sum(measured)
	if simulated != nil && report.Results > 0 {
		if report.Simulated, err = simulated.run(o, report, link); err != nil {
			return err
		}
	}
	if o.format == "json" {
		err = output.JSON(stdout, report)
	} else {
		err = report.print(stdout)
	}
	if err == nil && report.Results == 0 {
		err = fmt.Errorf("no result in %v: %s", o.duration, listed(report.Waiting, report.Errors))
	}
	return err
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
func (o *streamOptions) together(ctx context.Context, link *simulated.Link) ([]*clientMeasured, error) {
	measured, failed := make([]*clientMeasured, o.clients), make([]error, o.clients)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range o.clients {
		all.Go(func() { measured[i], failed[i] = o.stream(ctx, i, begin, link) })
	}
	all.Wait()
	return measured, cmp.Or(failed...)
}

// stream emulates a client, of which the first begins then.
func (o *streamOptions) stream(ctx context.Context, i int, begin time.Time, link *simulated.Link) (*clientMeasured, error) {
	key, err := cli.KeyFrom(o.keyEnv)
	if err != nil {
		return nil, err
	}
	own := begin.Add(time.Duration(i) * o.apart)
	m := &clientMeasured{Ran: batchTimes{}}
	random := rand.New(rand.NewPCG(splitmix.Mix(o.seed), uint64(i)))
	c := &streams.Client{
		URL: strings.TrimSuffix(o.url, "/"), Key: key, SLA: o.sla, FPS: o.fps, Task: o.task, DropRate: o.rate, WebTransport: o.webTransport,
		Warmup: max(0, begin.Add(o.warmup).Sub(own)),
		Heard: func(d *streams.Down) {
			if d.Type == streams.KindResult {
				m.Ran.add(d.Batch, 1, d.InferenceMS)
				m.Queued += d.QueueMS
			}
		},
	}
	if link != nil {
		path := &simulated.Path{Link: link, Random: rand.New(rand.NewPCG(splitmix.Mix(o.seed)+1, uint64(i)))}
		if link.Recorded != nil {
			path.Recorded = time.Duration(random.Float64() * float64(link.Recorded.Length()))
		}
		c.Link = path
	}
	var drawn *scene
	if o.scenes {
		drawn = newScene(splitmix.Mix(o.seed), i, o.rate)
		drawn.Arise, drawn.From = o.arise, int(c.Warmup.Seconds()*o.fps)
		c.Scene = drawn
	} else {
		c.Scene = &square{pictures: squares(o.width, o.height), offset: i, rate: o.rate * (0.7 + 0.6*random.Float64()), random: random, estimate: o.rate}
	}
	running, stop := context.WithDeadline(ctx, begin.Add(o.duration))
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

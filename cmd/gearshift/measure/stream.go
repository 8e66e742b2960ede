package measure

import (
	"cmp"
	"context"
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"gearshift/cmd/gearshift/cli"
	"gearshift/internal/output"
	"gearshift/internal/streaming"
)

// streamOptions are the flags of stream.
type streamOptions struct {
	streaming.Options
	keyEnv, format string
	processes      bool
	child          streaming.Child
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
	f.StringVar(&o.URL, "url", "", "`URL` of the router (required)")
	f.IntVar(&o.Clients, "clients", 8, "how `MANY`")
	f.Float64Var(&o.SLA, "sla", 0.06, "the accuracy that each may lose")
	f.Float64Var(&o.FPS, "fps", 60, "frames of each in a second")
	f.Float64Var(&o.DropRate, "drop-rate", 0.006, "the accuracy that a tracker loses with each frame, in the mean")
	f.DurationVar(&o.Duration, "duration", 10*time.Second, "to stream for")
	f.DurationVar(&o.Apart, "apart", 50*time.Millisecond, "from one client's begin to the next")
	f.IntVar(&o.Width, "width", 320, "of frames, in pixels")
	f.IntVar(&o.Height, "height", 180, "of frames, in pixels")
	f.StringVar(&o.Task, "task", "", "of the frames (default: the router's)")
	f.StringVar(&o.keyEnv, "api-key-env", "", "`VARIABLE` of the environment with the router's key (default: none)")
	f.BoolVar(&o.WebTransport, "webtransport", false, "over WebTransport in place of WebSockets, where the router listens for it (serving.streams.http3)")
	f.Uint64Var(&o.Seed, "seed", 0, "of drop rates")
	f.DurationVar(&o.Warmup, "warmup", 0, "at the begin of which nothing is measured")
	f.BoolVar(&o.Scenes, "scenes", false, "stream scenes whose boxes are known, and measure the true drop")
	f.BoolVar(&o.Arise, "arise-estimate", false, "estimate drop rates by the last result alone, as ARISE does")
	f.BoolVar(&o.processes, "processes", false, "emulate each client in a process of its own")
	f.StringVar(&o.Link, "link", "", "`LINK` to the router: 5g, lte, or a CSV FILE (default: as it is)")
	f.StringVar(&o.Simulate, "simulate", "", "`FILE` of the router's scenario, to simulate the same beside it")
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
		cli.FaultIf(o.Clients < 1 || o.Clients > 100_000, "--clients %d: want 1 to 100000", o.Clients),
		cli.FaultIf(!(o.SLA >= 0 && o.SLA <= 1), "--sla %v: want a number from 0 to 1", o.SLA),
		cli.FaultIf(!(o.FPS >= 1 && o.FPS <= 240), "--fps %v: want a number from 1 to 240", o.FPS),
		cli.FaultIf(!(o.DropRate > 0 && o.DropRate <= 0.5), "--drop-rate %v: want a number above 0 and at most 0.5", o.DropRate),
		cli.FaultIf(o.Duration <= 0 || o.Apart < 0, "--duration %v --apart %v: want a time above 0, and one that is not negative", o.Duration, o.Apart),
		cli.FaultIf(o.Warmup < 0 || o.Warmup >= o.Duration, "--warmup %v: want a time that is less than --duration %v", o.Warmup, o.Duration),
		cli.FaultIf(o.Arise && !o.Scenes, "--arise-estimate is for --scenes: without it drop rates are made up"),
		cli.FaultIf(min(o.Width, o.Height) < 8 || max(o.Width, o.Height) > 4096, "--width %d --height %d: want 8 to 4096", o.Width, o.Height),
	)
}

func (o *streamOptions) run(ctx context.Context, given []string, stdout io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	var err error
	if o.Key, err = cli.KeyFrom(o.keyEnv); err != nil {
		return err
	}
	if o.child.Given() {
		m, err := o.Client(ctx, o.child)
		if err != nil {
			return err
		}
		return output.JSON(stdout, m)
	}
	var args []string
	if o.processes {
		args = append([]string{"stream"}, given...)
	}
	report, err := o.Run(ctx, args)
	switch {
	case report == nil:
		return err
	case o.format == "json":
		return cmp.Or(output.JSON(stdout, report), err)
	}
	return cmp.Or(report.Print(stdout), err)
}

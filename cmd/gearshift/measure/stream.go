package measure

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/jpeg"
	"io"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
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
	seed                      uint64
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

Frames are drawn, and drop rates are made up: each client has one between .7 and 1.3 of
--drop-rate, and measures it with noise.`,
		Args: cli.None,
		RunE: func(c *cobra.Command, _ []string) error {
			return o.run(c.Context(), c.OutOrStdout(), c.ErrOrStderr())
		},
	}
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
	f.Uint64Var(&o.seed, "seed", 0, "of drop rates")
	f.StringVar(&o.format, "format", "table", "table or json")
	if err := c.MarkFlagRequired("url"); err != nil {
		panic(err) // the flag is defined above
	}
	return c
}

func (o *streamOptions) validate() error {
	return cmp.Or(
		tableOrJSON(o.format),
		cli.FaultIf(o.clients < 1 || o.clients > 100_000, "--clients %d: want 1 to 100000", o.clients),
		cli.FaultIf(!(o.sla >= 0 && o.sla <= 1), "--sla %v: want a number from 0 to 1", o.sla),
		cli.FaultIf(!(o.fps >= 1 && o.fps <= 240), "--fps %v: want a number from 1 to 240", o.fps),
		cli.FaultIf(!(o.rate > 0 && o.rate <= 0.5), "--drop-rate %v: want a number above 0 and at most 0.5", o.rate),
		cli.FaultIf(o.duration <= 0 || o.apart < 0, "--duration %v --apart %v: want a time above 0, and one that is not negative", o.duration, o.apart),
		cli.FaultIf(min(o.width, o.height) < 8 || max(o.width, o.height) > 4096, "--width %d --height %d: want 8 to 4096", o.width, o.height),
	)
}

// streamed is the report on streaming clients.
type streamed struct {
	Clients int     `json:"clients"`
	Served  float64 `json:"served"` // in the mean
	Seconds float64 `json:"seconds"`
	Sent    int     `json:"frames_sent"`
	Results int     `json:"results"`
	Rate    float64 `json:"results_per_second"`
	// Late is the share of results from batches that began more than a frame interval later than planned.
	Late       float64 `json:"late"`
	MeanStride float64 `json:"mean_stride"`
	P50        float64 `json:"end_to_end_p50_ms"`
	P99        float64 `json:"end_to_end_p99_ms"`
	// Gap is the longest time between two results of a client, and Away without a place. Moves counts changes of hosts.
	Gap     float64        `json:"longest_gap_ms"`
	Away    float64        `json:"longest_away_ms"`
	Moves   int            `json:"moves"`
	Hosts   map[string]int `json:"hosts"`   // clients that each serves at the end
	Waiting map[string]int `json:"waiting"` // clients by why they are not served at the end
	Errors  map[string]int `json:"errors"`  // by code, also of connections
}

func (o *streamOptions) run(ctx context.Context, stdout, stderr io.Writer) error {
	if err := o.validate(); err != nil {
		return err
	}
	key, err := cli.KeyFrom(o.keyEnv)
	if err != nil {
		return err
	}
	pictures := drawn(o.width, o.height)
	running, stop := context.WithTimeout(ctx, o.duration)
	defer stop()
	clients, failed := make([]*streams.Client, o.clients), make([]error, o.clients)
	var all sync.WaitGroup
	for i := range clients {
		random := rand.New(rand.NewPCG(splitmix.Mix(o.seed), uint64(i)))
		scene := &drawing{pictures: pictures, offset: i, rate: o.rate * (0.7 + 0.6*random.Float64()), random: random}
		clients[i] = &streams.Client{URL: strings.TrimSuffix(o.url, "/"), Key: key, SLA: o.sla, FPS: o.fps, Task: o.task, DropRate: o.rate, Scene: scene}
		all.Go(func() {
			select {
			case <-time.After(time.Duration(i) * o.apart):
				failed[i] = clients[i].Run(running)
			case <-running.Done():
			}
		})
	}
	measured := make([]streams.Measured, len(clients))
	<-running.Done()
	for i, c := range clients {
		measured[i] = c.Measured()
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	report := o.sum(measured, failed)
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

// sum sums up what clients have measured.
func (o *streamOptions) sum(measured []streams.Measured, failed []error) *streamed {
	r := &streamed{Clients: len(measured), Seconds: o.duration.Seconds(), Hosts: map[string]int{}, Waiting: map[string]int{}, Errors: map[string]int{}}
	var times []time.Duration
	var strides, tracked, late int
	for i, m := range measured {
		r.Served += m.Served.Seconds() / r.Seconds
		r.Sent, r.Results, late = r.Sent+m.Sent, r.Results+m.Results, late+m.Late
		r.Gap, r.Away, r.Moves = max(r.Gap, m.Gap.Seconds()*1000), max(r.Away, m.Away.Seconds()*1000), r.Moves+m.Moves
		strides, tracked, times = strides+m.Strides, tracked+m.Tracked, append(times, m.EndToEnd...)
		if m.Host != "" {
			r.Hosts[m.Host]++
		} else if m.Why != "" {
			r.Waiting[m.Why]++
		}
		for code, n := range m.Errors {
			r.Errors[code] += n
		}
		if failed[i] != nil {
			r.Errors[failed[i].Error()]++
		}
	}
	r.Rate, r.Late, r.MeanStride = float64(r.Results)/r.Seconds, float64(late)/float64(max(1, r.Results)), float64(strides)/float64(max(1, tracked))
	slices.Sort(times)
	if n := len(times); n > 0 {
		r.P50, r.P99 = times[n/2].Seconds()*1000, times[n*99/100].Seconds()*1000
	}
	return r
}

func (r *streamed) print(w io.Writer) error {
	_, err := fmt.Fprintf(w, "clients %d, served %.1f in the mean of %.0f s\nresults %d of %d frames, %.1f/s, %.1f%% of batches begun later than planned\nmean stride %.1f frames, end to end p50 %.1f ms, p99 %.1f ms\nlongest time between two results of a client %.0f ms, without a place %.0f ms; %d moves to another host\nserved at the end: %s\nwaiting: %s\nerrors: %s\n",
		r.Clients, r.Served, r.Seconds, r.Results, r.Sent, r.Rate, 100*r.Late, r.MeanStride, r.P50, r.P99, r.Gap, r.Away, r.Moves, listed(r.Hosts), listed(r.Waiting), listed(r.Errors))
	return err
}

// listed writes counts on one line.
func listed(counts ...map[string]int) string {
	var list []string
	for _, m := range counts {
		for _, name := range slices.Sorted(maps.Keys(m)) {
			list = append(list, fmt.Sprintf("%s: %d", name, m[name]))
		}
	}
	return cmp.Or(strings.Join(list, "; "), "none")
}

// drawing is a scene that is drawn ahead, with a drop rate in place of a tracker.
type drawing struct {
	pictures [][]byte
	offset   int
	rate     float64
	random   *rand.Rand
}

// Frame implements [streams.Scene].
func (d *drawing) Frame(number int) []byte {
	return d.pictures[(number+d.offset)%len(d.pictures)]
}

// Track implements [streams.Scene].
func (d *drawing) Track(result *streams.Down, tracked int) float64 {
	if result.Frame == tracked {
		return -1
	}
	return d.rate * float64(result.Frame-tracked) * max(0, 1+0.1*d.random.NormFloat64())
}

// drawn are some frames with a square that moves.
func drawn(width, height int) (list [][]byte) {
	const frames = 16
	for k := range frames {
		picture := image.NewYCbCr(image.Rect(0, 0, width, height), image.YCbCrSubsampleRatio420)
		for y := range height {
			for x := range width {
				picture.Y[picture.YOffset(x, y)] = byte(40 + 120*x/width)
			}
		}
		for i := range picture.Cb {
			picture.Cb[i], picture.Cr[i] = 128, 128
		}
		side := height / 4
		left := (width - side) * k / frames
		for y := side; y < 2*side; y++ {
			for x := left; x < left+side; x++ {
				picture.Y[picture.YOffset(x, y)] = 230
			}
		}
		var b bytes.Buffer
		_ = jpeg.Encode(&b, picture, nil) // a buffer takes it
		list = append(list, b.Bytes())
	}
	return list
}

package operate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"gearshift/cmd/gearshift/cli"
	"gearshift/serving/streams"
)

func newOffloadStatus() *cobra.Command {
	return shown(&cobra.Command{
		Use: "status", Short: "Show the streaming clients of a running router, and their hosts",
		Example: "  gearshift offload status\n  gearshift offload status --format json --admin http://10.0.0.7:8081",
	}, streams.StatePath, func(s streams.State) any { return s }, writeStreams)
}

// writeStreams prints for people how streams are served.
func writeStreams(w io.Writer, s streams.State) error {
	var b strings.Builder
	c := &s.Counts
	fmt.Fprintf(&b, "%d clients served, %d waiting; so far %d batches, %s late, %d evictions; frames: %d answered, %d dropped, %d refused, %d failed\n\n",
		c.Served, c.Waiting, c.Batches, percent(c.Late, c.Batches), c.Evicted, c.Frames["answered"], c.Frames["dropped"], c.Frames["refused"], c.Frames["failed"])
	t := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "HOST\tTAKES FRAMES\tCLIENTS\tFREE\tBATCHES/S\tFRAMES EACH")
	for _, h := range s.Hosts {
		frames := 0
		for _, x := range h.Batches {
			frames += x.Frames
		}
		fmt.Fprintf(t, "%s\t%v\t%d\t%.0f %%\t%d\t%.1f\n", h.Name, map[bool]string{true: "yes", false: "no"}[h.Up], h.Clients, 100*h.Room, len(h.Batches), float64(frames)/float64(max(1, len(h.Batches))))
	}
	fmt.Fprintln(t, "\nCLIENT\tTENANT\tANSWERED BY\tSLA\tDROP\tDROP RATE\tINTERVAL\tNETWORK\tRESULTS/S\tLATE/S")
	for _, x := range s.Clients {
		by, drop := x.Why, "-"
		if x.Served {
			by = strings.TrimPrefix(x.Model+"@"+x.Host, "@")
		}
		if x.Drop != nil {
			drop = fmt.Sprintf("%.4f", *x.Drop)
		}
		fmt.Fprintf(t, "%d\t%s\t%s\t%.4g\t%s\t%.4f\t%.1f\t%.1f ms\t%d\t%d\n", x.ID, cmp.Or(x.Tenant, "-"), by, x.SLA, drop, x.DropRate, x.Interval, x.NetworkMS, x.Results, x.Late)
	}
	_ = t.Flush() // a builder takes all
	if n := s.Total - len(s.Clients); n > 0 {
		fmt.Fprintf(&b, "and %d more\n", n)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func percent(part, whole uint64) string {
	return fmt.Sprintf("%.1f %%", 100*float64(part)/float64(max(1, whole)))
}

func newOffloadWatch() *cobra.Command {
	var o operator
	r := recording{}
	c := &cobra.Command{
		Use: "watch", Short: "Follow how a running router serves streaming clients, and draw it",
		Long: `Follow how a running router serves streaming clients: who is served where, as that changes, and
in the end how many were in the mean, how many batches were late and what part of their SLAs
clients lost. With --out, a report has figures of all of it, and DIR/clients.svg and DIR/loss.svg are
pictures. It is an error if no client was served.`,
		Example: "  gearshift offload watch --for 20s --out watched",
		Args:    cli.None,
	}
	var length, every time.Duration
	var dir string
	c.RunE = func(c *cobra.Command, _ []string) error {
		if every <= 0 || length < every || length/every > mostSamples {
			return fmt.Errorf("--for %v --every %v: want times above 0, of which the first has 1 to %d of the second", length, every, mostSamples)
		}
		if err := r.follow(c.Context(), &o, length, every, c.OutOrStdout()); err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), strings.Join(r.verdict(), " "))
		if r.mean(func(s *sample) float64 { return float64(s.served) }) == 0 {
			return fmt.Errorf("no client was served in %v", length)
		}
		if dir == "" {
			return nil
		}
		return r.draw(dir)
	}
	f := c.Flags()
	f.DurationVar(&length, "for", 20*time.Second, "how `LONG`")
	f.DurationVar(&every, "every", 100*time.Millisecond, "from one look to the next")
	f.StringVar(&dir, "out", "", "write a report with figures into `DIR`")
	o.flags(c, localAdmin())
	return c
}

// A recording has so many looks at most, each of so many clients.
const mostSamples, mostWatched = 100_000, 1000

// recording holds how streams were served over time.
type recording struct {
	samples []sample
	first   streams.Counts
	last    streams.State
	said    string // the last line
	saidAt  float64
}

// sample is a moment of a recording.
type sample struct {
	at              float64 // s
	served, waiting int
	hosts           []int // clients of each
	mean, most      float64
}

// follow looks again and again, and prints what has changed.
func (r *recording) follow(ctx context.Context, o *operator, length, every time.Duration, w io.Writer) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for begun := time.Now(); ; {
		var s streams.State
		if err := o.ask(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d", streams.StatePath, mostWatched), nil, &s); err != nil {
			return errors.Join(ctx.Err(), err)
		}
		at := time.Since(begun)
		if line := r.add(at.Seconds(), s); line != "" {
			fmt.Fprintf(w, "%6.1f s  %s\n", at.Seconds(), line)
		}
		if at >= length {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add takes in a state, and returns what to say of it: what has changed, once in a second, or at once if a host has.
func (r *recording) add(at float64, s streams.State) (line string) {
	x := sample{at: at, served: s.Counts.Served, waiting: s.Counts.Waiting}
	x.mean, x.most = lost(s.Clients)
	var on []string
	turned := false
	for i, h := range s.Hosts {
		x.hosts = append(x.hosts, h.Clients)
		if h.Up {
			on = append(on, fmt.Sprintf("%d on %s", h.Clients, h.Name))
		} else {
			on = append(on, h.Name+" takes no frames")
		}
		turned = turned || len(r.samples) > 0 && h.Up != r.last.Hosts[i].Up
	}
	if len(r.samples) == 0 {
		r.first, r.saidAt = s.Counts, math.Inf(-1)
	}
	r.samples, r.last = append(r.samples, x), s
	line = fmt.Sprintf("%d clients served, %d waiting: %s", x.served, x.waiting, strings.Join(on, ", "))
	if line == r.said || at < r.saidAt+1 && !turned {
		return ""
	}
	r.said, r.saidAt = line, at
	return line
}

// lost returns what part of their SLAs clients lose, in the mean and at most; NaN if that is not known of any.
func lost(clients []streams.ClientState) (mean, most float64) {
	n := 0
	for _, c := range clients {
		if c.Drop != nil && c.SLA > 0 {
			n, mean, most = n+1, mean+*c.Drop/c.SLA, max(most, *c.Drop/c.SLA)
		}
	}
	if n == 0 {
		return math.NaN(), math.NaN()
	}
	return mean / float64(n), most
}

// mean returns a mean over the samples for which it is known.
func (r *recording) mean(of func(*sample) float64) float64 {
	sum, n := 0.0, 0
	for i := range r.samples {
		if x := of(&r.samples[i]); !math.IsNaN(x) {
			sum, n = sum+x, n+1
		}
	}
	return sum / float64(max(1, n))
}

// verdict says what came of it.
func (r *recording) verdict() []string {
	over := func(of func(c streams.Counts) uint64) uint64 { return of(r.last.Counts) - of(r.first) }
	batches := over(func(c streams.Counts) uint64 { return c.Batches })
	list := []string{
		fmt.Sprintf("%.1f clients were served in the mean of %.0f s, %d at most.", r.mean(func(s *sample) float64 { return float64(s.served) }), r.samples[len(r.samples)-1].at,
			slices.MaxFunc(r.samples, func(a, b sample) int { return cmp.Compare(a.served, b.served) }).served),
		fmt.Sprintf("%d frames were answered in %d batches, %s of which began more than a frame late; %d evictions.", over(func(c streams.Counts) uint64 { return c.Frames["answered"] }),
			batches, percent(over(func(c streams.Counts) uint64 { return c.Late }), batches), over(func(c streams.Counts) uint64 { return c.Evicted })),
	}
	if x := r.mean(func(s *sample) float64 { return s.mean }); x > 0 {
		list = append(list, fmt.Sprintf("By what they report, clients lost %.0f %% of their SLAs in the mean.", 100*x))
	}
	return list
}
